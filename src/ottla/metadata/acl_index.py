"""ACLs by what they speak of, so that a decision looks at few of them, however many there are.

The ACLs that apply to a resource lie under its name, under ``*``, and under those of its beginnings
that are as long as some prefix is. Under each pattern they lie by principal: of those that concern
other clients a decision sees nothing.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from ottla.common.authorization import WILDCARD, PatternType
from ottla.metadata.acl_filter import AclFilter
from ottla.metadata.acls import AclImage

Entries = dict[bytes, AclImage]
"""ACLs by their ids: two that say the same are two, and one is left when the other goes."""
ByPrincipal = dict[str, Entries]


class _OfType:
    """The ACLs on resources of one type."""

    __slots__ = ("lengths", "literals", "of_length", "prefixes", "principals")

    def __init__(self) -> None:
        self.literals: dict[str, ByPrincipal] = {}
        self.prefixes: dict[str, ByPrincipal] = {}
        self.of_length: Counter[int] = Counter()
        """How many prefixes have each length."""
        self.lengths: tuple[int, ...] = ()
        self.principals: ByPrincipal = {}
        """All of them once more, whatever their pattern."""


class AclIndex:
    def __init__(self) -> None:
        self._types: dict[int, _OfType] = {}
        self._acls: Entries = {}

    def __len__(self) -> int:
        return len(self._acls)

    def apply(self, changed: Mapping[bytes, AclImage | None]) -> None:
        """Take in ACLs by their ids; None for one that has gone."""
        for acl_id, acl in changed.items():
            before = self._acls.pop(acl_id, None)
            if before is not None:
                self._remove(acl_id, before)
            if acl is not None:
                self._acls[acl_id] = acl
                self._add(acl_id, acl)

    def applying_to(self, resource_type: int, name: str) -> Iterator[ByPrincipal]:
        """The ACLs on a resource, pattern by pattern."""
        found = self._types.get(resource_type)
        if found is None:
            return
        literals, prefixes = found.literals, found.prefixes
        if name in literals:
            yield literals[name]
        if WILDCARD in literals and name != WILDCARD:
            yield literals[WILDCARD]
        size = len(name)
        for length in found.lengths:
            if length > size:
                break
            prefixed = prefixes.get(name[:length])
            if prefixed is not None:
                yield prefixed

    def contains(self, acl: AclImage) -> bool:
        """Whether an ACL says exactly this."""
        found = self._types.get(acl.resource_type)
        if found is None:
            return False
        is_prefix = acl.pattern_type == PatternType.PREFIXED
        patterns = found.prefixes if is_prefix else found.literals
        by_principal = patterns.get(acl.resource_name, {})
        return acl in by_principal.get(acl.principal, {}).values()

    def matching(self, wanted: AclFilter) -> Iterator[tuple[bytes, AclImage]]:
        """The ACLs that a filter means; all are looked at if it names nothing and nobody."""
        for entries in self._candidates(wanted.resource_name, wanted.principal):
            for acl_id, acl in entries.items():
                if wanted.matches(acl):
                    yield acl_id, acl

    def _candidates(self, name: str | None, principal: str | None) -> Iterator[Entries]:
        if name is None and principal is None:
            yield self._acls
            return
        for resource_type, found in self._types.items():
            if name is None:
                yield found.principals.get(principal or "", {})
                continue
            for by_principal in self.applying_to(resource_type, name):
                if principal is None:
                    yield from by_principal.values()
                else:
                    yield by_principal.get(principal, {})

    def of_principals(self, resource_type: int, principals: Iterable[str]) -> Iterator[AclImage]:
        """What concerns these principals on any resource of a type."""
        found = self._types.get(resource_type)
        if found is not None:
            for principal in principals:
                yield from found.principals.get(principal, {}).values()

    def _add(self, acl_id: bytes, acl: AclImage) -> None:
        of_type = self._types.setdefault(acl.resource_type, _OfType())
        if acl.pattern_type == PatternType.PREFIXED:
            if acl.resource_name not in of_type.prefixes:
                self._count_length(of_type, len(acl.resource_name), 1)
            by_principal = of_type.prefixes.setdefault(acl.resource_name, {})
        else:
            by_principal = of_type.literals.setdefault(acl.resource_name, {})
        by_principal.setdefault(acl.principal, {})[acl_id] = acl
        of_type.principals.setdefault(acl.principal, {})[acl_id] = acl

    def _remove(self, acl_id: bytes, acl: AclImage) -> None:
        of_type = self._types[acl.resource_type]
        is_prefix = acl.pattern_type == PatternType.PREFIXED
        patterns = of_type.prefixes if is_prefix else of_type.literals
        by_principal = patterns[acl.resource_name]
        _take_out(by_principal, acl_id, acl)
        _take_out(of_type.principals, acl_id, acl)
        if not by_principal:
            del patterns[acl.resource_name]
            if is_prefix:
                self._count_length(of_type, len(acl.resource_name), -1)

    def _count_length(self, of_type: _OfType, length: int, change: int) -> None:
        of_type.of_length[length] += change
        if not of_type.of_length[length]:
            del of_type.of_length[length]
        if len(of_type.of_length) != len(of_type.lengths):
            of_type.lengths = tuple(sorted(of_type.of_length))


def _take_out(by_principal: ByPrincipal, acl_id: bytes, acl: AclImage) -> None:
    """Remove an ACL, and its principal with the last one."""
    entries = by_principal[acl.principal]
    del entries[acl_id]
    if not entries:
        del by_principal[acl.principal]

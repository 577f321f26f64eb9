"""The authorizer's log, with the words of Kafka's ``kafka.authorizer.logger``.

Refusals are told at INFO, and what is allowed at DEBUG. What is only left out of an answer is told
at DEBUG too: a client that lists topics is not up to anything.

One request may be refused for 200,000 names. In a minute the first refusals of a kind are told one
by one, and all others by one line at its end, that says how many. A principal has a bound over all
kinds: who makes noise hides nothing of another's. At DEBUG each refusal is told.
"""

from collections.abc import Callable
from enum import IntEnum
from typing import Final

from ottla.common.authorization import (
    AclOperation,
    Client,
    PatternType,
    Permission,
    Principal,
    ResourceType,
    is_known,
)
from ottla.metadata.acls import AclImage
from ottla.observability.logging import logger
from ottla.observability.metrics import Counter

LOGGER: Final = "ottla.authorizer.logger"
log = logger(LOGGER)

KIND_LINES_MAX: Final = 10
"""Refusals of a kind that are told one by one in a minute."""
PRINCIPAL_LINES_MAX: Final = 30
"""And of all kinds that a principal has."""
PRINCIPALS_MAX: Final = 1_000
"""Those whose refusals are counted apart; the others have one bound together."""
MINUTE_SECONDS: Final = 60.0
_OTHERS: Final = Principal("User", "(others)")

_Kind = tuple[AclOperation, ResourceType, str]
"""An operation on resources of a type, and the request that asked for it."""


class Default:
    """A rule that is no ACL."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return self.name


SUPER_USER: Final = Default("SuperUser")
DEFAULT_ALLOW: Final = Default("DefaultAllow")
DEFAULT_DENY: Final = Default("DefaultDeny")
Rule = AclImage | Default
"""What a decision is based on."""


class _Refusals:
    """Of one principal since the minute began."""

    __slots__ = ("_lines", "_lines_of", "left_out")

    def __init__(self) -> None:
        self.left_out: dict[_Kind, int] = {}
        """Those that were not told, by their kind."""
        self._lines = 0
        self._lines_of: dict[_Kind, int] = {}

    def is_told(self, kind: _Kind) -> bool:
        """Count one; whether it gets a line of its own."""
        lines = self._lines_of.get(kind, 0)
        if lines >= KIND_LINES_MAX or self._lines >= PRINCIPAL_LINES_MAX:
            self.left_out[kind] = self.left_out.get(kind, 0) + 1
            return False
        self._lines_of[kind] = lines + 1
        self._lines += 1
        return True


class Audit:
    """Tells of decisions, and counts them. ``call_later`` is the scheduler's."""

    def __init__(self, call_later: Callable[[float, Callable[[], None]], object]) -> None:
        self.allowed = Counter()
        self.denied = Counter()
        self._call_later = call_later
        self._refusals: dict[Principal, _Refusals] = {}

    def tell(
        self,
        client: Client,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
        rule: Rule,
        *,
        allowed: bool,
        quiet: bool,
    ) -> None:
        if allowed:
            self.allowed.value += 1
        else:
            self.denied.value += 1
        if allowed or quiet or not self._has_line(client, operation, resource_type):
            if not log.enabled_for_debug():
                return
            tell = log.debug
        else:
            tell = log.info_bounded
        tell(
            "Allowed" if allowed else "Denied",
            principal=client.principal,
            operation=operation.name,
            host=client.peer_host,
            resource=f"{_type_name(resource_type)}:LITERAL:{name}",
            request=client.request_name,
            rule=rule if isinstance(rule, Default) else f"MatchingAcl({described(rule)})",
        )

    def _has_line(
        self, client: Client, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        if not log.enabled_for_info():
            return False
        refusals = self._refusals.get(client.principal)
        if refusals is None:
            refusals = self._begin(client.principal)
        return refusals.is_told((operation, resource_type, client.request_name))

    def _begin(self, principal: Principal) -> _Refusals:
        if not self._refusals:
            self._call_later(MINUTE_SECONDS, self._tell_others)
        if len(self._refusals) >= PRINCIPALS_MAX:
            principal = _OTHERS
        return self._refusals.setdefault(principal, _Refusals())

    def _tell_others(self) -> None:
        """The minute is over: tell how many refusals had no line of their own."""
        refusals, self._refusals = self._refusals, {}
        for principal, of_principal in refusals.items():
            for (operation, resource_type, request), left_out in of_principal.left_out.items():
                log.info_bounded(
                    "Denied",
                    principal=principal,
                    operation=operation.name,
                    resource=_type_name(resource_type),
                    request=request,
                    left_out=left_out,
                )


def described(acl: AclImage) -> str:
    """An ACL by the names of what it says."""
    return (
        f"resourceType={_name(ResourceType, acl.resource_type)}, "
        f"resourceName={acl.resource_name}, "
        f"patternType={_name(PatternType, acl.pattern_type)}, "
        f"principal={acl.principal}, "
        f"host={acl.host}, "
        f"operation={_name(AclOperation, acl.operation)}, "
        f"permissionType={_name(Permission, acl.permission_type)}"
    )


def _name(kind: type[IntEnum], number: int) -> str:
    """Also for a number that only a later version of Kafka knows."""
    return kind(number).name if is_known(kind, number) else "UNKNOWN"


def _type_name(resource_type: ResourceType) -> str:
    """As Kafka shows it: TransactionalId."""
    return "".join(word.capitalize() for word in resource_type.name.split("_"))

"""Who may do what by the ACLs of the metadata log: Kafka's StandardAuthorizer.

1. A super user may do everything.
2. An ACL speaks of a resource when its pattern is the name, ``*``, or a prefix of the name.
3. It matches when it is of the client's principal or of ``User:*``, of the client's host or of
   ``*``, and of the operation or of ALL. One that allows also matches what follows: who may read,
   write, delete or alter may describe; who may alter configs may describe them.
4. What any ACL denies is denied; else what any allows is allowed; else it is denied.
5. A resource of which no ACL speaks is everybody's with ``allow.everyone.if.no.acl.found``.
"""

from functools import lru_cache
from ipaddress import IPv6Address
from typing import Final

from ottla.common.authorization import (
    EVERYBODY,
    WILDCARD,
    AclOperation,
    Client,
    PatternType,
    Permission,
    ResourceType,
)
from ottla.common.errors import ApiError
from ottla.config.authorizer import AuthorizerSettings
from ottla.metadata.acl_index import AclIndex
from ottla.metadata.acls import AclImage
from ottla.metadata.audit import DEFAULT_ALLOW, DEFAULT_DENY, SUPER_USER, Audit, Rule
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.observability.metrics import Gauge, Registry
from ottla.observability.names import MetricName

_BEAN: Final = MetricName("kafka.server", "plugins").tagged(
    config="authorizer.class.name", **{"class": "StandardAuthorizer"}
)
_IMPLIED_BY: Final = {
    AclOperation.DESCRIBE: frozenset(
        {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER}
    ),
    AclOperation.DESCRIBE_CONFIGS: frozenset({AclOperation.ALTER_CONFIGS}),
}
_GRANTED_BY: Final[dict[int, frozenset[int]]] = {
    operation: frozenset({operation, AclOperation.ALL}) | _IMPLIED_BY.get(operation, frozenset())
    for operation in AclOperation
}
_SOME_NAME: Final = "hardcode"
"""Kafka's own name for a resource that stands for those of which no ACL speaks."""
_HOSTS_KNOWN: Final = 10_000


class StandardAuthorizer:
    enforces: Final = True

    def __init__(self, settings: AuthorizerSettings, audit: Audit) -> None:
        self._settings = settings
        self._audit = audit
        self._index = AclIndex()
        self._is_loaded = False
        self.epoch = 0
        """Counts the changes of ACLs."""

    def register(self, registry: Registry) -> None:
        """Let ``registry`` know the figures, by Kafka's names."""
        for name, instrument in (
            ("acls-total-count", Gauge(lambda: len(self._index))),
            ("authorization-allowed", self._audit.allowed),
            ("authorization-denied", self._audit.denied),
        ):
            registry.register(_BEAN._replace(attribute=name), instrument)

    def changed(self, _image: MetadataImage, delta: MetadataDelta) -> None:
        """To be called for each image before anything is decided by it."""
        if delta.acls:
            self._index.apply(delta.acls.changed)
            self.epoch += 1

    def loaded(self) -> None:
        """It is known what is committed: before this only super users may do anything."""
        self._is_loaded = True

    def allows(
        self,
        client: Client,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
        *,
        log_if_denied: bool = True,
    ) -> bool:
        rule = self._rule(client, operation, resource_type, name)
        if isinstance(rule, AclImage):
            allowed = rule.permission_type == Permission.ALLOW
        else:
            allowed = rule is not DEFAULT_DENY
        self._audit.tell(
            client, operation, resource_type, name, rule, allowed=allowed, quiet=not log_if_denied
        )
        return allowed

    def allows_any(
        self, client: Client, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        """Whether something is allowed that nothing denies as a whole: by its name or a prefix."""
        if self.allows(client, operation, resource_type, _SOME_NAME, log_if_denied=False):
            return True
        host = _as_java(client.peer_host)
        denied: set[tuple[int, str]] = set()
        allowed: set[tuple[int, str]] = set()
        for acl in self._index.of_principals(resource_type, {str(client.principal), EVERYBODY}):
            if acl.host in (host, WILDCARD) and acl.operation in (operation, AclOperation.ALL):
                is_allow = acl.permission_type == Permission.ALLOW
                pattern = (acl.pattern_type, acl.resource_name)
                (allowed if is_allow else denied).add(pattern)
        everything = (PatternType.LITERAL, WILDCARD)
        if everything in denied:
            return False
        return everything in allowed or any(not _is_covered(pattern, denied) for pattern in allowed)

    def _rule(
        self, client: Client, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> Rule:
        """What decides."""
        principal = str(client.principal)
        if principal in self._settings.super_users:
            return SUPER_USER
        if not self._is_loaded:
            raise ApiError("The authorizer has not yet loaded the ACLs.")
        hosts = (WILDCARD, _as_java(client.peer_host))
        denied_by = (operation, AclOperation.ALL)
        granted_by = _GRANTED_BY[operation]
        is_spoken_of = False
        allow: AclImage | None = None
        for by_principal in self._index.applying_to(resource_type, name):
            is_spoken_of = True
            for concerned in (principal, EVERYBODY):
                for acl in by_principal.get(concerned, _NOTHING).values():
                    if acl.host not in hosts:
                        continue
                    if acl.permission_type != Permission.ALLOW:
                        if acl.operation in denied_by:
                            return acl
                    elif allow is None and acl.operation in granted_by:
                        allow = acl
        if allow is not None:
            return allow
        everybodys = not is_spoken_of and self._settings.allow_everyone
        return DEFAULT_ALLOW if everybodys else DEFAULT_DENY


_NOTHING: Final[dict[bytes, AclImage]] = {}


def _is_covered(pattern: tuple[int, str], denied: set[tuple[int, str]]) -> bool:
    """Whether all that a pattern stands for is denied."""
    pattern_type, name = pattern
    if pattern_type == PatternType.LITERAL and pattern in denied:
        return True
    return any((PatternType.PREFIXED, name[:size]) in denied for size in range(1, len(name) + 1))


@lru_cache(_HOSTS_KNOWN)
def _as_java(host: str) -> str:
    """An address as ACLs have it: Java writes out all parts of one of IPv6."""
    if ":" not in host:
        return host
    plain, percent, scope = host.partition("%")
    try:
        address = IPv6Address(plain)
    except ValueError:
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    parts = (f"{int(part, 16):x}" for part in address.exploded.split(":"))
    return ":".join(parts) + percent + scope

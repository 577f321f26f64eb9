"""The authorizer's log, with the words of Kafka's ``kafka.authorizer.logger``.

Refusals are told at INFO, so that each kind has its bound in a minute, and what is allowed at
DEBUG. What is only left out of an answer is told at DEBUG too: a client that lists topics is not
up to anything.
"""

from enum import IntEnum
from typing import Final

from ottla.common.authorization import (
    AclOperation,
    Client,
    PatternType,
    Permission,
    ResourceType,
    is_known,
)
from ottla.metadata.acls import AclImage
from ottla.observability.logging import logger
from ottla.observability.metrics import Counter

LOGGER: Final = "ottla.authorizer.logger"
log = logger(LOGGER)


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


class Audit:
    """Tells of decisions, and counts them."""

    def __init__(self) -> None:
        self.allowed = Counter()
        self.denied = Counter()

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
        if allowed or quiet:
            if not log.enabled_for_debug():
                return
            tell = log.debug
        else:
            tell = log.info
        tell(
            "Allowed" if allowed else "Denied",
            principal=client.principal,
            operation=operation.name,
            host=client.peer_host,
            resource=f"{_type_name(resource_type)}:LITERAL:{name}",
            request=client.request_name,
            rule=rule if isinstance(rule, Default) else f"MatchingAcl({described(rule)})",
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

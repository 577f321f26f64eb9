"""Which ACLs a filter means, as Kafka's AclBindingFilter has it.

A name, principal or host that is None stands for all. The kind of pattern may be ANY, both kinds
with that very name, or MATCH, all that would apply to a resource of that name. An operation or a
permission is meant exactly, ALL too, unless it is ANY.
"""

from typing import NamedTuple

from ottla.common.authorization import (
    WILDCARD,
    AclOperation,
    PatternType,
    Permission,
    ResourceType,
    is_known,
)
from ottla.metadata.acls import AclImage


class AclFilter(NamedTuple):
    resource_type: int = ResourceType.ANY
    resource_name: str | None = None
    pattern_type: int = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: int = AclOperation.ANY
    permission_type: int = Permission.ANY

    def matches(self, acl: AclImage) -> bool:
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self._matches_pattern(acl)
            and (self.principal is None or self.principal == acl.principal)
            and (self.host is None or self.host == acl.host)
            and self.operation in (AclOperation.ANY, acl.operation)
            and self.permission_type in (Permission.ANY, acl.permission_type)
        )

    def _matches_pattern(self, acl: AclImage) -> bool:
        name, pattern_type = self.resource_name, self.pattern_type
        if pattern_type == PatternType.MATCH:
            if name is None:
                return True
            if acl.pattern_type == PatternType.PREFIXED:
                return name.startswith(acl.resource_name)
            return acl.resource_name in (name, WILDCARD)
        if pattern_type not in (PatternType.ANY, acl.pattern_type):
            return False
        return name is None or name == acl.resource_name

    @property
    def is_unknown(self) -> bool:
        """Whether it has a word that there is not."""
        return not (
            is_known(ResourceType, self.resource_type)
            and is_known(PatternType, self.pattern_type)
            and is_known(AclOperation, self.operation)
            and is_known(Permission, self.permission_type)
        )

"""DescribeAcls (key 29): the ACLs that a filter means, as this node knows them, by resource.

There may be very many: they are looked through in turns, all as they were when the request came.

v1 is the first that is served: prefixed patterns (KIP-290); v2 is flexible; v3 users (KIP-373).
"""

from collections.abc import Iterable
from typing import Final

from ottla.common.authorization import NO_AUTHORIZER, AclOperation, ResourceType
from ottla.common.errors import InvalidRequest, SecurityDisabled
from ottla.metadata.acl_filter import AclFilter
from ottla.metadata.acls import AclImage
from ottla.protocol.generated.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from ottla.requests.context import NodeServices, RequestContext
from ottla.requests.contract import Handler, by_code
from ottla.requests.needs import Whole
from ottla.requests.turns import in_turns

_AT_ONCE: Final = 2_000
"""ACLs that are looked at in one turn: a few milliseconds."""


async def handle(
    request: DescribeAclsRequest, _context: RequestContext, services: NodeServices
) -> DescribeAclsResponse:
    if not services.authorizer.enforces:
        raise SecurityDisabled(NO_AUTHORIZER)
    wanted = AclFilter(
        request.resource_type_filter,
        request.resource_name_filter,
        request.pattern_type_filter,
        request.principal_filter,
        request.host_filter,
        request.operation,
        request.permission_type,
    )
    if wanted.is_unknown:
        raise InvalidRequest("Unknown patternFilter or entryFilter.")
    acls = list(services.metadata.image.acls.values())
    slices = [acls[at : at + _AT_ONCE] for at in range(0, len(acls), _AT_ONCE)]
    shown = _Shown(wanted)
    await in_turns(services.scheduler, shown.add, slices, at_once=1)
    return DescribeAclsResponse(error_message=None, resources=list(shown.resources.values()))


class _Shown:
    """What a filter means, resource by resource."""

    def __init__(self, wanted: AclFilter) -> None:
        self._wanted = wanted
        self.resources: dict[tuple[int, str, int], DescribeAclsResource] = {}

    def add(self, acls: Iterable[AclImage]) -> None:
        for acl in acls:
            if not self._wanted.matches(acl):
                continue
            key = acl.resource_type, acl.resource_name, acl.pattern_type
            resource = self.resources.get(key)
            if resource is None:
                resource = self.resources[key] = DescribeAclsResource(
                    resource_type=acl.resource_type,
                    resource_name=acl.resource_name,
                    pattern_type=acl.pattern_type,
                )
            resource.acls.append(
                AclDescription(
                    principal=acl.principal,
                    host=acl.host,
                    operation=acl.operation,
                    permission_type=acl.permission_type,
                )
            )


HANDLER: Final = Handler(
    DescribeAclsRequest,
    handle,
    refuse=by_code(DescribeAclsResponse),
    needs=[Whole(AclOperation.DESCRIBE, ResourceType.CLUSTER)],
)

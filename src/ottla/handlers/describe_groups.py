"""DescribeGroups (key 15): the state and the members of classic groups.

v1 adds the throttle time; v3 the authorized operations; v4 the group instance ids of members; v5 is
flexible; v6 calls a group that is not there GROUP_ID_NOT_FOUND instead of Dead (KIP-1043). v2 is as
v1.
"""

from typing import Final

from ottla.common.errors import ErrorCode
from ottla.handlers.authorized_operations import Operation, bits
from ottla.handlers.context import RequestContext, Services
from ottla.protocol.api import ApiKey
from ottla.protocol.generated.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

KEY: Final = ApiKey.DESCRIBE_GROUPS
VERSIONS: Final = (0, 6)

ON_GROUP: Final = bits(
    Operation.READ,
    Operation.DELETE,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)


async def handle(
    request: DescribeGroupsRequest, context: RequestContext, services: Services
) -> DescribeGroupsResponse:
    groups = services.groups.describe(request.groups, context.version)
    if request.include_authorized_operations:
        for group in groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = ON_GROUP
    return DescribeGroupsResponse(groups=groups)


def refuse(
    request: DescribeGroupsRequest, code: ErrorCode, _message: str
) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(
        groups=[DescribedGroup(group_id=group_id, error_code=code) for group_id in request.groups]
    )

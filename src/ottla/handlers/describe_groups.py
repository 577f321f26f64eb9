"""DescribeGroups (key 15): the state and the members of classic groups.

v1 adds the throttle time; v3 the authorized operations; v4 the group instance ids of members; v5 is
flexible; v6 calls a group that is not there GROUP_ID_NOT_FOUND instead of Dead (KIP-1043). v2 is as
v1.
"""

from typing import Final

from ottla.common.authorization import AclOperation, ResourceType
from ottla.common.errors import ApiError, ErrorCode
from ottla.protocol.generated.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ottla.requests.authorized_operations import OPERATIONS_MAX, authorized_operations
from ottla.requests.context import RequestContext, Services
from ottla.requests.contract import Handler
from ottla.requests.needs import Each, itself
from ottla.requests.turns import of_names


async def handle(
    request: DescribeGroupsRequest, context: RequestContext, services: Services
) -> DescribeGroupsResponse:
    groups = services.groups.describe(request.groups, context.version)

    def add_operations(group: DescribedGroup) -> None:
        if group.error_code == ErrorCode.NONE:
            group.authorized_operations = authorized_operations(
                ResourceType.GROUP, group.group_id, context, services
            )

    if request.include_authorized_operations:
        await of_names(context, services, add_operations, groups, weight=lambda _: OPERATIONS_MAX)
    return DescribeGroupsResponse(groups=groups)


def refuse(
    request: DescribeGroupsRequest, error: ApiError, _version: int
) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(
        groups=[
            DescribedGroup(group_id=group_id, error_code=error.code) for group_id in request.groups
        ]
    )


HANDLER: Final = Handler(
    DescribeGroupsRequest,
    handle,
    refuse=refuse,
    needs=[
        Each(
            AclOperation.DESCRIBE,
            ResourceType.GROUP,
            lambda request: request.groups,
            itself,
            lambda response: response.groups,
        )
    ],
)

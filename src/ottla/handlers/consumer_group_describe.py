"""ConsumerGroupDescribe (key 69): the epochs, the members and the assignments of consumer groups.

v1 adds what protocol each member speaks, since a group may have classic ones while it is upgraded.
In v0 nothing says so.
"""

from typing import Final

from ottla.common.authorization import AclOperation, ResourceType
from ottla.common.errors import ApiError, ErrorCode
from ottla.handlers.describe_groups import ON_GROUP
from ottla.protocol.generated.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from ottla.requests.context import RequestContext, Services
from ottla.requests.contract import Handler
from ottla.requests.needs import ByHandler, Each, Effect, itself


async def handle(
    request: ConsumerGroupDescribeRequest, _context: RequestContext, services: Services
) -> ConsumerGroupDescribeResponse:
    groups = services.groups.describe_consumers(request.group_ids)
    if request.include_authorized_operations:
        for group in groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = ON_GROUP
    return ConsumerGroupDescribeResponse(groups=groups)


def refuse(
    request: ConsumerGroupDescribeRequest, error: ApiError, _version: int
) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(
        groups=[
            DescribedGroup(group_id=group_id, error_code=error.code)
            for group_id in request.group_ids
        ]
    )


HANDLER: Final = Handler(
    ConsumerGroupDescribeRequest,
    handle,
    refuse=refuse,
    needs=[
        Each(
            AclOperation.DESCRIBE,
            ResourceType.GROUP,
            lambda request: request.group_ids,
            itself,
            lambda response: response.groups,
        ),
        ByHandler(AclOperation.DESCRIBE, ResourceType.TOPIC, Effect.EACH),
    ],
)

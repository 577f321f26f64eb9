"""ConsumerGroupDescribe (key 69): the epochs, the members and the assignments of consumer groups.

v1 adds what protocol each member speaks, since a group may have classic ones while it is upgraded.
In v0 nothing says so.
"""

from typing import Final

from ottla.common.authorization import AclOperation, ResourceType
from ottla.common.errors import ApiError, ErrorCode
from ottla.protocol.generated.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from ottla.requests.authorized_operations import OPERATIONS_MAX, authorized_operations
from ottla.requests.context import RequestContext, Services
from ottla.requests.contract import Handler
from ottla.requests.needs import ByHandler, Each, Effect, itself
from ottla.requests.turns import of_names

_HIDDEN_TOPICS: Final = (
    "The group has described topic(s) that the client is not authorized to describe."
)


async def handle(
    request: ConsumerGroupDescribeRequest, context: RequestContext, services: Services
) -> ConsumerGroupDescribeResponse:
    found = services.groups.describe_consumers(request.group_ids)
    if not services.authorizer.enforces and not request.include_authorized_operations:
        return ConsumerGroupDescribeResponse(groups=found)

    def show(group: DescribedGroup) -> DescribedGroup:
        shown = _shown(group, context, services)
        if request.include_authorized_operations and shown.error_code == ErrorCode.NONE:
            shown.authorized_operations = authorized_operations(
                ResourceType.GROUP, group.group_id, context, services
            )
        return shown

    groups = await of_names(
        context, services, show, found, weight=lambda group: OPERATIONS_MAX + len(group.members)
    )
    return ConsumerGroupDescribeResponse(groups=groups)


def _shown(group: DescribedGroup, context: RequestContext, services: Services) -> DescribedGroup:
    """The group, unless a member has a topic that the client may not hear of."""
    if not services.authorizer.enforces:
        return group
    topics = {
        topic.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for topic in assignment.topic_partitions
    }
    may = services.authorizer.allows
    if all(may(context, AclOperation.DESCRIBE, ResourceType.TOPIC, name) for name in topics):
        return group
    return DescribedGroup(
        group_id=group.group_id,
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        error_message=_HIDDEN_TOPICS,
    )


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

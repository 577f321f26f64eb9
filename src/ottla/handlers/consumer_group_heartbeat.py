"""ConsumerGroupHeartbeat (key 68): a member of a consumer group joins, lives and leaves (KIP-848).

The member epoch says what it wants: 0 to join, -1 to leave, -2 to leave as a static member that
will be back. What the member may read comes back when it has changed.

v1 adds the subscription by a regular expression, and has members choose their own ids; in v0 a
member that has none is given one.
"""

from typing import Final

from ottla.common.authorization import AclOperation, ResourceType
from ottla.protocol.generated.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from ottla.requests.callers import caller_of
from ottla.requests.context import RequestContext, Services
from ottla.requests.contract import Handler, by_code
from ottla.requests.needs import Whole, group_id


async def handle(
    request: ConsumerGroupHeartbeatRequest, context: RequestContext, services: Services
) -> ConsumerGroupHeartbeatResponse:
    caller = caller_of(context, services)
    return await services.groups.consumer_heartbeat(request, caller)


HANDLER: Final = Handler(
    ConsumerGroupHeartbeatRequest,
    handle,
    refuse=by_code(ConsumerGroupHeartbeatResponse),
    needs=[
        Whole(AclOperation.READ, ResourceType.GROUP, group_id),
        Whole(
            AclOperation.DESCRIBE,
            ResourceType.TOPIC,
            lambda request: request.subscribed_topic_names or (),
        ),
    ],
)

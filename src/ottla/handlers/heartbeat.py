"""Heartbeat (key 12): a member of a classic group says that it is alive.

The answer is how a member learns that its group rebalances: REBALANCE_IN_PROGRESS means "join
again", so it is an error code without being a failure.

v1 adds the throttle time; v3 the group instance id (static members, KIP-345); v4 is flexible. v2 is
as v1.
"""

from typing import Final

from ottla.common.authorization import AclOperation, ResourceType
from ottla.protocol.generated.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.requests.context import RequestContext, Services
from ottla.requests.contract import Handler, by_code
from ottla.requests.needs import Whole, group_id


async def handle(
    request: HeartbeatRequest, _context: RequestContext, services: Services
) -> HeartbeatResponse:
    return await services.groups.heartbeat(request)


HANDLER: Final = Handler(
    HeartbeatRequest,
    handle,
    refuse=by_code(HeartbeatResponse),
    needs=[Whole(AclOperation.READ, ResourceType.GROUP, group_id)],
)

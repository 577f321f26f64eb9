"""ConsumerGroupHeartbeat (key 68): a member of a consumer group joins, lives and leaves (KIP-848).

The member epoch says what it wants: 0 to join, -1 to leave, -2 to leave as a static member that
will be back. What the member may read comes back when it has changed.

v1 adds the subscription by a regular expression, and has members choose their own ids; in v0 a
member that has none is given one.
"""

from typing import Final

from ottla.coordinator.group.group import Caller
from ottla.handlers.context import RequestContext, Services
from ottla.protocol.api import ApiKey
from ottla.protocol.generated.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

KEY: Final = ApiKey.CONSUMER_GROUP_HEARTBEAT
VERSIONS: Final = (0, 1)


async def handle(
    request: ConsumerGroupHeartbeatRequest, context: RequestContext, services: Services
) -> ConsumerGroupHeartbeatResponse:
    caller = Caller(context.version, context.client_id or "", context.client_host)
    return await services.groups.consumer_heartbeat(request, caller)

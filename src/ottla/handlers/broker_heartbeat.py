"""BrokerHeartbeat (key 63): a broker lives, wants to serve, or wants to stop (KIP-631).

v1 log directories that have failed (KIP-858); v2 those that take no new replicas (KIP-1066).
"""

from typing import Final

from ottla.handlers.context import ControllerServices, RequestContext
from ottla.protocol.api import ApiKey
from ottla.protocol.generated.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)

KEY: Final = ApiKey.BROKER_HEARTBEAT
VERSIONS: Final = (0, 2)


async def handle(
    request: BrokerHeartbeatRequest, _context: RequestContext, services: ControllerServices
) -> BrokerHeartbeatResponse:
    return await services.controller.submit(request)

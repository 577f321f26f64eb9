"""BrokerRegistration (key 62): a broker begins a life in the cluster (KIP-631).

v1 whether it comes from ZooKeeper; v2 its log directories (KIP-858); v3 as v2; v4 the epoch of its
last life (KIP-966).
"""

from typing import Final

from ottla.handlers.context import ControllerServices, RequestContext
from ottla.protocol.api import ApiKey
from ottla.protocol.generated.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)

KEY: Final = ApiKey.BROKER_REGISTRATION
VERSIONS: Final = (0, 4)


async def handle(
    request: BrokerRegistrationRequest, _context: RequestContext, services: ControllerServices
) -> BrokerRegistrationResponse:
    return await services.controller.submit(request)

"""UnregisterBroker (key 64): forget a broker that is gone for good (KIP-631).

v0 flexible from the start, and without a time limit of its own.
"""

from typing import Final

from ottla.handlers.context import ControllerServices, RequestContext
from ottla.protocol.api import ApiKey
from ottla.protocol.generated.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)

KEY: Final = ApiKey.UNREGISTER_BROKER
VERSIONS: Final = (0, 0)


async def handle(
    request: UnregisterBrokerRequest, _context: RequestContext, services: ControllerServices
) -> UnregisterBrokerResponse:
    return await services.controller.submit(request)

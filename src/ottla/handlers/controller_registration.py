"""ControllerRegistration (key 70): a controller says where it is and what it supports (KIP-919).

There is v0 only.
"""

from typing import Final

from ottla.handlers.context import ControllerServices, RequestContext
from ottla.protocol.api import ApiKey
from ottla.protocol.generated.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)

KEY: Final = ApiKey.CONTROLLER_REGISTRATION
VERSIONS: Final = (0, 0)


async def handle(
    request: ControllerRegistrationRequest, _context: RequestContext, services: ControllerServices
) -> ControllerRegistrationResponse:
    return await services.controller.submit(request)

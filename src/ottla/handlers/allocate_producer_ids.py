"""AllocateProducerIds (key 67): a block of producer ids for a broker (KIP-730).

There is v0 only.
"""

from typing import Final

from ottla.handlers.context import ControllerServices, RequestContext
from ottla.protocol.api import ApiKey
from ottla.protocol.generated.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)

KEY: Final = ApiKey.ALLOCATE_PRODUCER_IDS
VERSIONS: Final = (0, 0)


async def handle(
    request: AllocateProducerIdsRequest, _context: RequestContext, services: ControllerServices
) -> AllocateProducerIdsResponse:
    return await services.controller.submit(request)

"""DescribeQuorum (key 55): the voters and observers of the metadata log, and how far each is.

v1 when each was last heard of and last caught up (KIP-836); v2 directory ids, error messages and
the voters' addresses (KIP-853).
"""

from typing import Final

from ottla.handlers.context import RequestContext, Services
from ottla.protocol.api import ApiKey
from ottla.protocol.generated.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
)

KEY: Final = ApiKey.DESCRIBE_QUORUM
VERSIONS: Final = (0, 2)


async def handle(
    request: DescribeQuorumRequest, _context: RequestContext, services: Services
) -> DescribeQuorumResponse:
    return await services.controller.describe_quorum(request)

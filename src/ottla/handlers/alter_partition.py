"""AlterPartition (key 56): the leader of partitions proposes who is in sync (KIP-497).

v2 topic ids (KIP-841); v3 the epochs of the brokers that are in sync (KIP-903).
"""

from typing import Final

from ottla.handlers.context import ControllerServices, RequestContext
from ottla.protocol.api import ApiKey
from ottla.protocol.generated.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
)

KEY: Final = ApiKey.ALTER_PARTITION
VERSIONS: Final = (2, 3)


async def handle(
    request: AlterPartitionRequest, _context: RequestContext, services: ControllerServices
) -> AlterPartitionResponse:
    return await services.controller.submit(request)

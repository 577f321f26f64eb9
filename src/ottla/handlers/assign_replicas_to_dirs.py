"""AssignReplicasToDirs (key 73): a broker says in which directories its replicas lie (KIP-858).

There is v0 only.
"""

from typing import Final

from ottla.handlers.context import ControllerServices, RequestContext
from ottla.protocol.api import ApiKey
from ottla.protocol.generated.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)

KEY: Final = ApiKey.ASSIGN_REPLICAS_TO_DIRS
VERSIONS: Final = (0, 0)


async def handle(
    request: AssignReplicasToDirsRequest, _context: RequestContext, services: ControllerServices
) -> AssignReplicasToDirsResponse:
    return await services.controller.submit(request)

"""BeginQuorumEpoch (key 53): a controller says that it leads the quorum.

v1 whom it is meant for, and the leader's addresses (KIP-853).
"""

from typing import Final

from ottla.handlers.context import ControllerServices, RequestContext
from ottla.protocol.api import ApiKey
from ottla.protocol.generated.begin_quorum_epoch import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
)
from ottla.raft.replies import Asker

KEY: Final = ApiKey.BEGIN_QUORUM_EPOCH
VERSIONS: Final = (0, 1)


async def handle(
    request: BeginQuorumEpochRequest, context: RequestContext, services: ControllerServices
) -> BeginQuorumEpochResponse:
    asker = Asker(context.version, context.listener_name)
    return services.controller.quorum.begin_quorum_epoch(request, asker)

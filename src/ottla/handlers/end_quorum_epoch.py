"""EndQuorumEpoch (key 54): the leader of the quorum gives up, and says who is to succeed it.

v1 the successors with their directories, and the leader's addresses (KIP-853).
"""

from typing import Final

from ottla.handlers.context import ControllerServices, RequestContext
from ottla.protocol.api import ApiKey
from ottla.protocol.generated.end_quorum_epoch import (
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
)
from ottla.raft.replies import Asker

KEY: Final = ApiKey.END_QUORUM_EPOCH
VERSIONS: Final = (0, 1)


async def handle(
    request: EndQuorumEpochRequest, context: RequestContext, services: ControllerServices
) -> EndQuorumEpochResponse:
    asker = Asker(context.version, context.listener_name)
    return services.controller.quorum.end_quorum_epoch(request, asker)

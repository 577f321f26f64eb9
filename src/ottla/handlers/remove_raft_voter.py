"""RemoveRaftVoter (key 81): a controller is no voter of the quorum any more (KIP-853).

v0 is the only version.
"""

from typing import Final

from ottla.handlers.context import ControllerServices, RequestContext
from ottla.protocol.api import ApiKey
from ottla.protocol.generated.remove_raft_voter import (
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)

KEY: Final = ApiKey.REMOVE_RAFT_VOTER
VERSIONS: Final = (0, 0)


async def handle(
    request: RemoveRaftVoterRequest, _: RequestContext, services: ControllerServices
) -> RemoveRaftVoterResponse:
    return await services.controller.voter_changes.remove(request)

"""AddRaftVoter (key 80): a controller becomes a voter of the quorum (KIP-853).

v1 may be answered as soon as the record is written, for a node that asks on its own behalf.
"""

from typing import Final

from ottla.handlers.context import ControllerServices, RequestContext
from ottla.protocol.api import ApiKey
from ottla.protocol.generated.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse

KEY: Final = ApiKey.ADD_RAFT_VOTER
VERSIONS: Final = (0, 1)


async def handle(
    request: AddRaftVoterRequest, _: RequestContext, services: ControllerServices
) -> AddRaftVoterResponse:
    return await services.controller.voter_changes.add(request)

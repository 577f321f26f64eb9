"""UpdateRaftVoter (key 82): a voter has other addresses or versions than before (KIP-853).

v0 is the only version.
"""

from typing import Final

from ottla.handlers.context import ControllerServices, RequestContext
from ottla.protocol.api import ApiKey
from ottla.protocol.generated.update_raft_voter import (
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)

KEY: Final = ApiKey.UPDATE_RAFT_VOTER
VERSIONS: Final = (0, 0)


async def handle(
    request: UpdateRaftVoterRequest, context: RequestContext, services: ControllerServices
) -> UpdateRaftVoterResponse:
    return services.controller.voter_changes.update(request, context.listener_name)

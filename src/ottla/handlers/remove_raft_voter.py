"""RemoveRaftVoter (key 81): a controller is no voter of the quorum any more (KIP-853).

v0 is the only version.
"""

from typing import Final

from ottla.common.authorization import AclOperation, ResourceType
from ottla.protocol.generated.remove_raft_voter import (
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)
from ottla.requests.context import ControllerServices, RequestContext
from ottla.requests.contract import Handler, by_code
from ottla.requests.needs import Whole


async def handle(
    request: RemoveRaftVoterRequest, _: RequestContext, services: ControllerServices
) -> RemoveRaftVoterResponse:
    return await services.controller.voter_changes.remove(request)


HANDLER: Final = Handler(
    RemoveRaftVoterRequest,
    handle,
    refuse=by_code(RemoveRaftVoterResponse),
    needs=[Whole(AclOperation.ALTER, ResourceType.CLUSTER)],
)

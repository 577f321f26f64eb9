"""AddRaftVoter (key 80): a controller becomes a voter of the quorum (KIP-853).

v1 may be answered as soon as the record is written, for a node that asks on its own behalf.
"""

from typing import Final

from ottla.common.authorization import AclOperation, ResourceType
from ottla.protocol.generated.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from ottla.requests.context import ControllerServices, RequestContext
from ottla.requests.contract import Handler, by_code
from ottla.requests.needs import Whole


async def handle(
    request: AddRaftVoterRequest, _: RequestContext, services: ControllerServices
) -> AddRaftVoterResponse:
    return await services.controller.voter_changes.add(request)


HANDLER: Final = Handler(
    AddRaftVoterRequest,
    handle,
    refuse=by_code(AddRaftVoterResponse),
    needs=[Whole(AclOperation.ALTER, ResourceType.CLUSTER)],
)

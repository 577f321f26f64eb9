"""UpdateRaftVoter (key 82): a voter has other addresses or versions than before (KIP-853).

v0 is the only version.
"""

from typing import Final

from ottla.common.authorization import AclOperation, ResourceType
from ottla.protocol.generated.update_raft_voter import (
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)
from ottla.requests.context import ControllerServices, RequestContext
from ottla.requests.contract import Handler, Quota, by_code
from ottla.requests.needs import Whole


def handle(
    request: UpdateRaftVoterRequest, context: RequestContext, services: ControllerServices
) -> UpdateRaftVoterResponse:
    return services.controller.voter_changes.update(request, context.listener_name)


HANDLER: Final = Handler(
    UpdateRaftVoterRequest,
    handle,
    refuse=by_code(UpdateRaftVoterResponse),
    needs=[Whole(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER)],
    quota=Quota.EXEMPT,
)

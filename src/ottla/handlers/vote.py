"""Vote (key 52): another controller wants to lead the quorum, or asks whether it could.

v1 the directories of both sides and the leader's address (KIP-853); v2 the pre-vote (KIP-996).
"""

from typing import Final

from ottla.common.authorization import AclOperation, ResourceType
from ottla.protocol.generated.vote import VoteRequest, VoteResponse
from ottla.raft.responses import Asker
from ottla.requests.context import ControllerServices, RequestContext
from ottla.requests.contract import Handler, Quota, by_code
from ottla.requests.needs import Whole


def handle(
    request: VoteRequest, context: RequestContext, services: ControllerServices
) -> VoteResponse:
    asker = Asker(context.version, context.listener_name)
    return services.controller.quorum.vote(request, asker)


HANDLER: Final = Handler(
    VoteRequest,
    handle,
    refuse=by_code(VoteResponse),
    needs=[Whole(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER)],
    quota=Quota.EXEMPT,
)

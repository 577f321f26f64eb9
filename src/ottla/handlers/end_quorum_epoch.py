"""EndQuorumEpoch (key 54): the leader of the quorum gives up, and says who is to succeed it.

v1 the successors with their directories, and the leader's addresses (KIP-853).
"""

from typing import Final

from ottla.common.authorization import AclOperation, ResourceType
from ottla.protocol.generated.end_quorum_epoch import (
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
)
from ottla.raft.responses import Asker
from ottla.requests.context import ControllerServices, RequestContext
from ottla.requests.contract import Handler, Quota, by_code
from ottla.requests.needs import Whole


def handle(
    request: EndQuorumEpochRequest, context: RequestContext, services: ControllerServices
) -> EndQuorumEpochResponse:
    asker = Asker(context.version, context.listener_name)
    return services.controller.quorum.end_quorum_epoch(request, asker)


HANDLER: Final = Handler(
    EndQuorumEpochRequest,
    handle,
    refuse=by_code(EndQuorumEpochResponse),
    needs=[Whole(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER)],
    quota=Quota.EXEMPT,
)

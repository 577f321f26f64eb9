"""BeginQuorumEpoch (key 53): a controller says that it leads the quorum.

v1 whom it is meant for, and the leader's addresses (KIP-853).
"""

from typing import Final

from ottla.common.authorization import AclOperation, ResourceType
from ottla.protocol.generated.begin_quorum_epoch import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
)
from ottla.raft.responses import Asker
from ottla.requests.context import ControllerServices, RequestContext
from ottla.requests.contract import Handler, Quota, by_code
from ottla.requests.needs import Whole


def handle(
    request: BeginQuorumEpochRequest, context: RequestContext, services: ControllerServices
) -> BeginQuorumEpochResponse:
    asker = Asker(context.version, context.listener_name)
    return services.controller.quorum.begin_quorum_epoch(request, asker)


HANDLER: Final = Handler(
    BeginQuorumEpochRequest,
    handle,
    refuse=by_code(BeginQuorumEpochResponse),
    needs=[Whole(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER)],
    quota=Quota.EXEMPT,
)

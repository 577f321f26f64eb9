"""FetchSnapshot (key 59): a part of a snapshot of the metadata log.

v1 the replica's directory and the leader's address (KIP-853).
"""

from typing import Final

from ottla.common.authorization import AclOperation, ResourceType
from ottla.protocol.generated.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from ottla.raft.responses import Asker
from ottla.requests.context import ControllerServices, RequestContext
from ottla.requests.contract import Handler, Quota, by_code
from ottla.requests.needs import Whole


def handle(
    request: FetchSnapshotRequest, context: RequestContext, services: ControllerServices
) -> FetchSnapshotResponse:
    asker = Asker(context.version, context.listener_name)
    return services.controller.quorum.fetch_snapshot(request, asker)


HANDLER: Final = Handler(
    FetchSnapshotRequest,
    handle,
    refuse=by_code(FetchSnapshotResponse),
    needs=[Whole(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER)],
    quota=Quota.EXEMPT,
)

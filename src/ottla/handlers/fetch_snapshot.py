"""FetchSnapshot (key 59): a part of a snapshot of the metadata log.

v1 the replica's directory and the leader's address (KIP-853).
"""

from typing import Final

from ottla.handlers.context import ControllerServices, RequestContext
from ottla.protocol.api import ApiKey
from ottla.protocol.generated.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from ottla.raft.replies import Asker

KEY: Final = ApiKey.FETCH_SNAPSHOT
VERSIONS: Final = (0, 1)


async def handle(
    request: FetchSnapshotRequest, context: RequestContext, services: ControllerServices
) -> FetchSnapshotResponse:
    asker = Asker(context.version, context.listener_name)
    return services.controller.quorum.fetch_snapshot(request, asker)

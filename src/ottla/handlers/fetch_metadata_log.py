"""Fetch (key 1) at a controller: the metadata log, for voters and observers of the quorum.

Nothing else can be fetched there. A replica says with v12 of which epoch its last record is, with
v13 the id of the topic, with v17 its directory (KIP-853), with v18 which high watermark it knows,
so that it hears of a commit at once (KIP-1166).
"""

from typing import Final

from ottla.common.authorization import AclOperation, ResourceType
from ottla.protocol.api import CONTROLLER
from ottla.protocol.generated.fetch import FetchRequest, FetchResponse
from ottla.raft.responses import Asker
from ottla.requests.context import ControllerServices, RequestContext
from ottla.requests.contract import Handler, Quota, by_code
from ottla.requests.needs import Whole


async def handle(
    request: FetchRequest, context: RequestContext, services: ControllerServices
) -> FetchResponse:
    asker = Asker(context.version, context.listener_name)
    return await services.controller.quorum.fetch(request, asker)


HANDLER: Final = Handler(
    FetchRequest,
    handle,
    refuse=by_code(FetchResponse),
    needs=[Whole(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER)],
    quota=Quota.EXEMPT,
    listeners=frozenset({CONTROLLER}),
)

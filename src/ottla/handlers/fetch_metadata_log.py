"""Fetch (key 1) at a controller: the metadata log, for voters and observers of the quorum.

Nothing else can be fetched there. A replica says with v12 of which epoch its last record is, with
v13 the id of the topic, with v17 its directory (KIP-853), with v18 which high watermark it knows,
so that it hears of a commit at once (KIP-1166).
"""

from typing import Final

from ottla.common.authorization import AclOperation, ResourceType
from ottla.common.errors import ApiError
from ottla.protocol.api import CONTROLLER
from ottla.protocol.generated.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from ottla.raft.responses import Asker
from ottla.requests.context import ControllerServices, RequestContext
from ottla.requests.contract import Handler, Quota
from ottla.requests.needs import Whole

_TOPIC_IDS_FROM: Final = 13


async def handle(
    request: FetchRequest, context: RequestContext, services: ControllerServices
) -> FetchResponse:
    asker = Asker(context.version, context.listener_name)
    return await services.controller.quorum.fetch(request, asker)


def refuse(request: FetchRequest, error: ApiError, version: int) -> FetchResponse:
    """Before v13 each partition hears it too."""
    refused = FetchResponse(error_code=error.code)
    if version < _TOPIC_IDS_FROM:
        refused.responses = [
            FetchableTopicResponse(
                topic=topic.topic,
                partitions=[_refused(each.partition, error) for each in topic.partitions],
            )
            for topic in request.topics
        ]
    return refused


def _refused(index: int, error: ApiError) -> PartitionData:
    return PartitionData(
        partition_index=index, error_code=error.code, high_watermark=-1, records=b""
    )


HANDLER: Final = Handler(
    FetchRequest,
    handle,
    refuse=refuse,
    needs=[Whole(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER)],
    quota=Quota.EXEMPT,
    listeners=frozenset({CONTROLLER}),
)

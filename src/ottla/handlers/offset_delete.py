"""OffsetDelete (key 47): a group forgets its offsets in some partitions (KIP-496).

Topics that the group is subscribed to are refused, and so are partitions that do not exist; there
is only v0.
"""

from typing import Final

from ottla.common.authorization import AclOperation, ResourceType
from ottla.common.errors import ApiError, ErrorCode
from ottla.metadata.topics import TopicsImage
from ottla.protocol.generated.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from ottla.requests.context import RequestContext, Services
from ottla.requests.contract import Handler, by_code
from ottla.requests.needs import Each, Whole, group_id, its_name


async def handle(
    request: OffsetDeleteRequest, _context: RequestContext, services: Services
) -> OffsetDeleteResponse:
    refused = _take_unknown(request, services.metadata.image.topics)
    response = await services.groups.delete_offsets(request)
    by_name = {topic.name: topic for topic in refused}
    for topic in response.topics:
        if topic.name in by_name:
            by_name[topic.name].partitions += topic.partitions
        else:
            refused.append(topic)
    response.topics = refused
    return response


def _take_unknown(
    request: OffsetDeleteRequest, topics: TopicsImage
) -> list[OffsetDeleteResponseTopic]:
    """Take out of ``request`` what does not exist, and refuse it."""
    refused = []
    known = []
    for topic in request.topics:
        image = topics.by_name.get(topic.name)
        partitions = {} if image is None else image.partitions
        missing = [each for each in topic.partitions if each.partition_index not in partitions]
        topic.partitions = [each for each in topic.partitions if each.partition_index in partitions]
        if missing or image is None:
            refused.append(
                OffsetDeleteResponseTopic(
                    name=topic.name,
                    partitions=[
                        OffsetDeleteResponsePartition(
                            partition_index=each.partition_index,
                            error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                        )
                        for each in missing
                    ],
                )
            )
        if topic.partitions:
            known.append(topic)
    request.topics = known
    return refused


def _refuse_partitions(
    request: OffsetDeleteRequest, error: ApiError, _version: int
) -> OffsetDeleteResponse:
    """Each partition that was named gets the error."""
    return OffsetDeleteResponse(
        topics=[
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetDeleteResponsePartition(
                        partition_index=each.partition_index, error_code=error.code
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


HANDLER: Final = Handler(
    OffsetDeleteRequest,
    handle,
    refuse=by_code(OffsetDeleteResponse),
    needs=[
        Whole(AclOperation.DELETE, ResourceType.GROUP, group_id),
        Each(
            AclOperation.READ,
            ResourceType.TOPIC,
            lambda request: request.topics,
            its_name,
            lambda response: response.topics,
            refuse=_refuse_partitions,
        ),
    ],
)

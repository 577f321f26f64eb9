"""DescribeTopicPartitions (key 75): topics and their partitions a page at a time (KIP-966).

Topics come in the order of their names. The answer ends after so many partitions, and a cursor says
where the next page begins. It may name a topic that is not there, if that was asked for.

v0 is the only version.
"""

from collections.abc import Coroutine, Generator
from typing import Final

from ottla.common.authorization import AclOperation, ResourceType
from ottla.common.errors import ApiError, InvalidRequest
from ottla.metadata.image import MetadataImage
from ottla.metadata.topics import TopicImage
from ottla.protocol.generated.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseCursor,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from ottla.requests.authorized_operations import OPERATIONS_MAX, authorized_operations
from ottla.requests.context import RequestContext, Services
from ottla.requests.contract import Handler
from ottla.requests.needs import ByHandler, Each, Effect, its_name
from ottla.requests.topics import INTERNAL_TOPICS, reason_unknown, show_partition
from ottla.requests.turns import NAMES_AT_ONCE, in_this_turn, name_by_name

_OPERATIONS: Final = (None,) * OPERATIONS_MAX


def handle(
    request: DescribeTopicPartitionsRequest, context: RequestContext, services: Services
) -> DescribeTopicPartitionsResponse | Coroutine[object, None, DescribeTopicPartitionsResponse]:
    page = _page(request, context, services)
    if len(request.topics or services.metadata.image.topics) > NAMES_AT_ONCE // OPERATIONS_MAX:
        return name_by_name(context, services, page)
    return in_this_turn(page)


def _page(
    request: DescribeTopicPartitionsRequest, context: RequestContext, services: Services
) -> Generator[None, None, DescribeTopicPartitionsResponse]:
    """Yields for each time that the authorizer is asked."""
    image = services.metadata.image
    names = yield from _names(request, image, context, services)
    limit = services.config.max_request_partition_size_limit
    left = max(1, min(limit, request.response_partition_limit))
    first = 0 if request.cursor is None else request.cursor.partition_index
    response = DescribeTopicPartitionsResponse()
    for name in names:
        start = first if request.cursor is not None and name == request.cursor.topic_name else 0
        if left == 0:
            response.next_cursor = _cursor(name, 0)
            break
        topic = image.topics.by_name.get(name)
        if topic is None:
            unknown = _unknown(name)
            unknown.topic_authorized_operations = _operations(name, context, services)
            response.topics.append(unknown)
            yield from _OPERATIONS
            continue
        shown = _shown(topic, start, left, image, context)
        shown.topic_authorized_operations = _operations(name, context, services)
        response.topics.append(shown)
        yield from _OPERATIONS
        left -= len(shown.partitions)
        end = start + len(shown.partitions)
        if end < len(topic.partitions):
            response.next_cursor = _cursor(name, end)
            break
    return response


def _operations(name: str, context: RequestContext, services: Services) -> int:
    return authorized_operations(ResourceType.TOPIC, name, context, services)


def _names(
    request: DescribeTopicPartitionsRequest,
    image: MetadataImage,
    context: RequestContext,
    services: Services,
) -> Generator[None, None, list[str]]:
    """The topics of this page and the following ones, in order."""
    cursor = request.cursor
    asked = {topic.name for topic in request.topics}
    if not asked:
        # No page may end at a topic that the client may not hear of.
        describe, may = AclOperation.DESCRIBE, services.authorizer.allows
        for name in image.topics.by_name:
            if may(context, describe, ResourceType.TOPIC, name, log_if_denied=False):
                asked.add(name)
            yield
    if "" in asked:
        raise ApiError("a topic without a name")
    if cursor is None:
        return sorted(asked)
    if request.topics and cursor.topic_name not in asked:
        raise InvalidRequest(
            "DescribeTopicPartitionsRequest topic list should contain the cursor topic: "
            f"{cursor.topic_name}"
        )
    if cursor.partition_index < 0:
        raise InvalidRequest(
            f"DescribeTopicPartitionsRequest cursor partition must be valid: {cursor}"
        )
    return sorted(name for name in asked if name >= cursor.topic_name)


def _cursor(topic: str, partition: int) -> DescribeTopicPartitionsResponseCursor:
    return DescribeTopicPartitionsResponseCursor(topic_name=topic, partition_index=partition)


def _unknown(name: str) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=reason_unknown(name),
        name=name,
        is_internal=name in INTERNAL_TOPICS,
    )


def _shown(
    topic: TopicImage, start: int, limit: int, image: MetadataImage, context: RequestContext
) -> DescribeTopicPartitionsResponseTopic:
    partitions = []
    for index in range(start, min(len(topic.partitions), start + limit)):
        partition = topic.partitions[index]
        shown = show_partition(image.brokers, partition, context.listener_name)
        partitions.append(
            DescribeTopicPartitionsResponsePartition(
                partition_index=index,
                leader_id=shown.leader,
                leader_epoch=partition.leader_epoch,
                replica_nodes=shown.replicas,
                isr_nodes=shown.isr,
                eligible_leader_replicas=list(partition.elr),
                last_known_elr=list(partition.last_known_elr),
                offline_replicas=shown.offline,
            )
        )
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=partitions,
    )


def refuse(
    request: DescribeTopicPartitionsRequest, error: ApiError, _version: int
) -> DescribeTopicPartitionsResponse:
    """Each topic that was asked for gets the error."""
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(error_code=error.code, name=topic.name)
            for topic in request.topics
        ]
    )


HANDLER: Final = Handler(
    DescribeTopicPartitionsRequest,
    handle,
    refuse=refuse,
    needs=[
        Each(
            AclOperation.DESCRIBE,
            ResourceType.TOPIC,
            lambda request: request.topics,
            its_name,
            lambda response: response.topics,
        ),
        ByHandler(AclOperation.DESCRIBE, ResourceType.TOPIC, Effect.HIDDEN),
    ],
)

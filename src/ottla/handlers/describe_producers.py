"""DescribeProducers (key 61): who writes to a partition, by idempotence or transaction (KIP-664).

v0 is the only version.
"""

from typing import Final

from ottla.common.authorization import AclOperation, ResourceType
from ottla.common.errors import ApiError, UnknownTopicOrPartition
from ottla.controller.topic_names import check_topic_name
from ottla.protocol.generated.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from ottla.requests.context import RequestContext, Services
from ottla.requests.contract import Handler
from ottla.requests.needs import Each, its_name
from ottla.requests.partitions import led_partition


def handle(
    request: DescribeProducersRequest, _context: RequestContext, services: Services
) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[
                    _partition(services, topic.name, index) for index in topic.partition_indexes
                ],
            )
            for topic in request.topics
        ]
    )


def _partition(services: Services, topic: str, index: int) -> PartitionResponse:
    try:
        check_topic_name(topic)
        if topic not in services.metadata.image.topics.by_name:
            raise UnknownTopicOrPartition("This server does not host this topic-partition.")
        log = led_partition(services, topic, index).log
    except ApiError as error:
        return PartitionResponse(
            partition_index=index, error_code=error.code, error_message=error.message or None
        )
    return PartitionResponse(
        partition_index=index,
        active_producers=[
            ProducerState(
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                last_sequence=producer.last_sequence,
                last_timestamp=producer.last_timestamp,
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_start_offset=producer.transaction_first_offset,
            )
            for producer in log.producers.producers.values()
        ],
    )


def refuse(
    request: DescribeProducersRequest, error: ApiError, _version: int
) -> DescribeProducersResponse:
    """Each partition that was named gets the error."""
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[
                    PartitionResponse(
                        partition_index=index,
                        error_code=error.code,
                        error_message=error.message or None,
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.topics
        ]
    )


HANDLER: Final = Handler(
    DescribeProducersRequest,
    handle,
    refuse=refuse,
    needs=[
        Each(
            AclOperation.READ,
            ResourceType.TOPIC,
            lambda request: request.topics,
            its_name,
            lambda response: response.topics,
        )
    ],
)

"""OffsetForLeaderEpoch (key 23): where a leader epoch ended in this log (KIP-101, KIP-320).

A consumer, or a follower, compares that with its own position: if it has read beyond, what it has
read was never committed. An epoch that is not known is answered with -1 and no error.

v2 is the first that is served; it has the epoch that the client believes in; v3 the replica id, v4
is flexible.
"""

from typing import Final

from ottla.common.authorization import AclOperation, ResourceType
from ottla.common.errors import ApiError
from ottla.protocol.generated.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from ottla.requests.context import RequestContext, Services
from ottla.requests.contract import Handler
from ottla.requests.needs import Each, its_topic
from ottla.requests.partitions import led_partition


def handle(
    request: OffsetForLeaderEpochRequest, _context: RequestContext, services: Services
) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[_end(services, topic.topic, asked) for asked in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _end(services: Services, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        partition = led_partition(services, topic, asked.partition, asked.current_leader_epoch)
    except ApiError as error:
        return EpochEndOffset(error_code=error.code, partition=asked.partition)
    end = partition.log.end_offset_for_epoch(asked.leader_epoch)
    return EpochEndOffset(
        partition=asked.partition, leader_epoch=end.epoch, end_offset=end.end_offset
    )


def refuse(
    request: OffsetForLeaderEpochRequest, error: ApiError, _version: int
) -> OffsetForLeaderEpochResponse:
    """Each partition that was asked for gets the error."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[
                    EpochEndOffset(error_code=error.code, partition=asked.partition)
                    for asked in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


HANDLER: Final = Handler(
    OffsetForLeaderEpochRequest,
    handle,
    refuse=refuse,
    needs=[
        Each(
            AclOperation.DESCRIBE,
            ResourceType.TOPIC,
            lambda request: request.topics,
            its_topic,
            lambda response: response.topics,
            otherwise=((AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER),),
        )
    ],
)

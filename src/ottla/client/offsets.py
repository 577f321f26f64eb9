"""Where partitions begin and end, and which offset stands at a time."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from ottla.client.cluster import Cluster
from ottla.client.leaders import ask_leaders, by_topic
from ottla.client.system_time import Deadline
from ottla.common.errors import ApiError
from ottla.common.topic_partition import TopicPartition
from ottla.protocol.generated.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6

READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1


class ListedOffset(NamedTuple):
    """``offset`` is -1 when no record is that late; ``timestamp`` -1 when none was asked for."""

    offset: int
    timestamp: int
    leader_epoch: int


def list_offsets(
    cluster: Cluster,
    wanted: Mapping[TopicPartition, int],
    *,
    isolation_level: int = READ_UNCOMMITTED,
    deadline: Deadline | None = None,
) -> tuple[dict[TopicPartition, ListedOffset], dict[TopicPartition, ApiError]]:
    """For each partition the first offset at or after a timestamp, or one of the special ones."""
    deadline = deadline or cluster.deadline()

    def request(partitions: list[TopicPartition]) -> ListOffsetsRequest:
        return ListOffsetsRequest(
            replica_id=-1,
            isolation_level=isolation_level,
            timeout_ms=deadline.milliseconds,
            topics=[
                ListOffsetsTopic(
                    name=topic,
                    partitions=[
                        ListOffsetsPartition(
                            partition_index=index, timestamp=wanted[TopicPartition(topic, index)]
                        )
                        for index in indexes
                    ],
                )
                for topic, indexes in by_topic(partitions).items()
            ],
        )

    return ask_leaders(cluster, wanted, request, ListOffsetsResponse, _read, deadline=deadline)


def _read(response: ListOffsetsResponse) -> Iterable[tuple[TopicPartition, int, ListedOffset]]:
    for topic in response.topics:
        for item in topic.partitions:
            partition = TopicPartition(topic.name, item.partition_index)
            listed = ListedOffset(item.offset, item.timestamp, item.leader_epoch)
            yield partition, item.error_code, listed

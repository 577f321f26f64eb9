"""The leader epochs of a log, as its leader tells them: which history its offsets belong to.

OffsetForLeaderEpoch answers where an epoch, or the last known one before it, ends; asked from the
newest epoch downwards that gives all of them. A holder of copies of a log compares theirs.
"""

from collections.abc import Iterable

from ottla.client.cluster import Cluster
from ottla.client.leaders import ask_leaders
from ottla.common.topic_partition import TopicPartition
from ottla.protocol.generated.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.storage.leader_epochs import UNDEFINED_EPOCH, EpochEnd, EpochEntry

CONSUMER = -1


def leader_epochs(
    cluster: Cluster, partition: TopicPartition, start_offset: int
) -> list[EpochEntry]:
    """The epochs of the records from ``start_offset`` on, the first beginning there; rising.

    None at all when the leader knows none. ApiError when there is no leader that answers.
    """
    cluster.know([partition.topic], cluster.deadline())
    topic = cluster.metadata.topics[partition.topic]
    asked = topic.partitions[partition.partition].leader_epoch
    found: list[EpochEntry] = []
    end = _end(cluster, partition, asked)
    while end.epoch != UNDEFINED_EPOCH:
        below = _end(cluster, partition, end.epoch - 1) if end.epoch else None
        begins = start_offset
        if below is not None and below.epoch != UNDEFINED_EPOCH:
            begins = max(below.end_offset, start_offset)
        if found and begins >= found[-1].start_offset:
            break  # an epoch before the first that is known is said to end where that begins
        found.append(EpochEntry(end.epoch, begins))
        if below is None or begins == start_offset:
            break
        end = below
    return found[::-1]


def _end(cluster: Cluster, partition: TopicPartition, epoch: int) -> EpochEnd:
    def request(_: list[TopicPartition]) -> OffsetForLeaderEpochRequest:
        asked = OffsetForLeaderPartition(
            partition=partition.partition, current_leader_epoch=-1, leader_epoch=epoch
        )
        topic = OffsetForLeaderTopic(topic=partition.topic, partitions=[asked])
        return OffsetForLeaderEpochRequest(replica_id=CONSUMER, topics=[topic])

    done, refused = ask_leaders(cluster, [partition], request, OffsetForLeaderEpochResponse, _read)
    for error in refused.values():
        raise error
    return done[partition]


def _read(
    response: OffsetForLeaderEpochResponse,
) -> Iterable[tuple[TopicPartition, int, EpochEnd]]:
    for topic in response.topics:
        for item in topic.partitions:
            partition = TopicPartition(topic.topic, item.partition)
            yield partition, item.error_code, EpochEnd(item.leader_epoch, item.end_offset)

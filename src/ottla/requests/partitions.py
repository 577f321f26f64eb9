"""The partition that a request is about, or why this broker cannot speak for it."""

from ottla.common.errors import (
    ApiError,
    KafkaStorageError,
    NotLeaderOrFollower,
    UnknownTopicOrPartition,
)
from ottla.replication.partition import NO_EPOCH, Partition
from ottla.requests.context import Services


def led_partition(
    services: Services, topic: str, index: int, current_leader_epoch: int = NO_EPOCH
) -> Partition:
    """The partition, if this broker leads it; otherwise the refusal that Kafka gives.

    A client that tells which epoch it believes in hears of another one first.
    """
    partition = services.replicas.partition(topic, index)
    if partition is not None:
        partition.check_epoch(current_leader_epoch)
        if partition.is_leader:
            return partition
    if services.replicas.is_offline(topic, index):
        raise KafkaStorageError
    if partition is not None or exists(services, topic, index):
        raise NotLeaderOrFollower
    raise UnknownTopicOrPartition


def exists(services: Services, topic: str, index: int) -> bool:
    """Whether the cluster has this partition, wherever it may be."""
    found = services.metadata.image.topics.by_name.get(topic)
    return found is not None and index in found.partitions


def missing(services: Services, topic: str | bytes, index: int) -> ApiError:
    """Why a partition that was asked for is not here: it may be elsewhere."""
    reason = services.replicas.missing(topic, index)
    if not isinstance(reason, KafkaStorageError):
        topics = services.metadata.image.topics
        found = topics.by_id.get(topic) if isinstance(topic, bytes) else topics.by_name.get(topic)
        if found is not None:
            here = index in found.partitions
            return NotLeaderOrFollower() if here else UnknownTopicOrPartition()
    return reason

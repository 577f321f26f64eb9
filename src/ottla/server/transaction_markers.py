"""Markers on the partitions that this broker leads; with one broker, those are all.

What ends on a partition of ``__consumer_offsets`` ends in the group coordinator, which then lets
the offsets of the transaction count.
"""

from ottla.common.environment import Scheduler
from ottla.common.errors import ApiError, ErrorCode, NotLeaderOrFollower, UnknownTopicOrPartition
from ottla.common.promise import Promise, fulfilled
from ottla.common.topic_partition import TopicPartition
from ottla.coordinator.group.service import GROUP_METADATA_TOPIC, GroupService
from ottla.coordinator.outside import EndTransactionMarker
from ottla.coordinator.transaction.markers import Codes
from ottla.handlers.context import MetadataSource
from ottla.records.control import transaction_marker_batch
from ottla.replication.replicas import Replicas


class LedMarkers:
    """The MarkerSender of a cluster of one broker."""

    def __init__(
        self,
        replicas: Replicas,
        metadata: MetadataSource,
        groups: GroupService,
        scheduler: Scheduler,
    ) -> None:
        self._replicas = replicas
        self._metadata = metadata
        self._groups = groups
        self._scheduler = scheduler

    def send(
        self, marker: EndTransactionMarker, partitions: tuple[TopicPartition, ...]
    ) -> Promise[Codes]:
        codes: dict[TopicPartition, ErrorCode] = {}
        answer: Promise[Codes] = Promise()

        def note(topic_partition: TopicPartition, written: Promise[None]) -> None:
            try:
                written.result()
                codes[topic_partition] = ErrorCode.NONE
            except ApiError as error:
                codes[topic_partition] = error.code
            if len(codes) == len(partitions):
                answer.fulfil(codes)

        if not partitions:
            return fulfilled({})
        for each in partitions:
            self._write(marker, each).when_done(lambda done, each=each: note(each, done))  # type: ignore[misc]
        return answer

    def _write(self, marker: EndTransactionMarker, each: TopicPartition) -> Promise[None]:
        if not self._exists(each):
            return _refused(UnknownTopicOrPartition())
        if each.topic == GROUP_METADATA_TOPIC:
            return self._groups.complete_transaction(each.partition, marker)
        partition = self._replicas.partition(each.topic, each.partition)
        if partition is None or not partition.is_leader:
            return _refused(NotLeaderOrFollower())
        now_ms = self._scheduler.wall_ms()
        batch = transaction_marker_batch(
            commit=marker.committed,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch,
            timestamp=now_ms,
        )
        try:
            partition.append_marker(bytes(batch), now_ms, marker.transaction_version)
        except ApiError as error:
            return _refused(error)
        # With one replica, what is written is committed.
        return fulfilled(None)

    def _exists(self, each: TopicPartition) -> bool:
        topic = self._metadata.image.topics.by_name.get(each.topic)
        return topic is not None and each.partition in topic.partitions


def _refused(error: ApiError) -> Promise[None]:
    promise: Promise[None] = Promise()
    promise.fail(error)
    return promise

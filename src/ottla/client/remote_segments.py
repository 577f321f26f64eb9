"""What ``__remote_log_metadata`` tells of the remote segments of partitions, read as a consumer.

The topic is Kafka's own, so this works with any broker that keeps it. Only the partitions of it
that tell of what was asked for are read, from their beginning to where they end now; asked again,
from where they ended.
"""

from collections.abc import Callable, Iterable
from typing import Final

from ottla.client.consumer import Consumer
from ottla.client.offsets import EARLIEST
from ottla.common.errors import ProtocolViolation, UnknownTopicOrPartition
from ottla.common.topic_partition import TopicPartition
from ottla.config.metadata_topic import REMOTE_LOG_METADATA
from ottla.tiered.machine import RemotePartition
from ottla.tiered.records import decode, metadata_partition
from ottla.tiered.segments import TopicIdPartition

POLL_MS: Final = 500


def _unseen(_size: int) -> None:
    pass


class RemoteSegments:
    """``progress`` is told of the bytes that were read."""

    def __init__(
        self,
        consumer: Consumer,
        *,
        timeout_ms: float,
        progress: Callable[[int], None] = _unseen,
    ) -> None:
        self._consumer = consumer
        self._timeout_ms = timeout_ms
        self._progress = progress
        self._known: dict[TopicIdPartition, RemotePartition] = {}
        self._positions: dict[TopicPartition, int] = {}

    def read(self, wanted: Iterable[TopicIdPartition]) -> dict[TopicIdPartition, RemotePartition]:
        """What each partition has in the remote store; nothing when there is no such topic yet."""
        asked = list(wanted)
        try:
            count = len(self._consumer.partitions(REMOTE_LOG_METADATA)) if asked else 0
        except UnknownTopicOrPartition:
            count = 0
        if count:
            numbers = sorted({metadata_partition(each, count) for each in asked})
            self._replay([TopicPartition(REMOTE_LOG_METADATA, number) for number in numbers])
        return {each: self._known.get(each) or RemotePartition(each) for each in asked}

    def _replay(self, partitions: list[TopicPartition]) -> None:
        consumer = self._consumer
        ends = consumer.end_offsets(partitions)
        consumer.assign({each: self._positions.get(each, EARLIEST) for each in partitions})
        idle = 0
        while any(consumer.position(each) < end for each, end in ends.items()):
            polled = consumer.poll(POLL_MS)
            idle = 0 if polled else idle + POLL_MS
            if idle > self._timeout_ms:
                raise TimeoutError(f"{REMOTE_LOG_METADATA} could not be read to its end in time")
            for records in polled.values():
                for record in records:
                    self._progress(len(record.value or b""))
                    self._take(record.value)
            self._positions.update({each: consumer.position(each) for each in partitions})

    def _take(self, value: bytes | None) -> None:
        try:
            record = decode(value or b"")
        except (ProtocolViolation, ValueError, IndexError):
            return  # of a kind that later versions may have added
        known = self._known.get(record.partition)
        if known is None:
            known = self._known[record.partition] = RemotePartition(record.partition)
        known.replay(record)

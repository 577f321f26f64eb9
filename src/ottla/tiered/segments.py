"""What is known of a segment in the remote store, and which states it goes through.

Copying begins with ``COPY_SEGMENT_STARTED`` and counts from ``COPY_SEGMENT_FINISHED`` on; removal
likewise has two ends, so that whatever a crash leaves behind is known by its state. All of it is
told by records: the segment itself, which begins a copy, and updates of its state.
"""

from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias


class SegmentState(IntEnum):
    """With Kafka's numbers."""

    COPY_SEGMENT_STARTED = 0
    COPY_SEGMENT_FINISHED = 1
    DELETE_SEGMENT_STARTED = 2
    DELETE_SEGMENT_FINISHED = 3


NEXT_STATES: Final = {
    None: {SegmentState.COPY_SEGMENT_STARTED},
    SegmentState.COPY_SEGMENT_STARTED: {
        SegmentState.COPY_SEGMENT_FINISHED,
        SegmentState.DELETE_SEGMENT_STARTED,
    },
    SegmentState.COPY_SEGMENT_FINISHED: {SegmentState.DELETE_SEGMENT_STARTED},
    SegmentState.DELETE_SEGMENT_STARTED: {SegmentState.DELETE_SEGMENT_FINISHED},
    SegmentState.DELETE_SEGMENT_FINISHED: set[SegmentState](),
}
"""Which state may follow; a state may also be told again."""


IF_UNFINISHED: Final = b"if-unfinished"
IF_UNUSED: Final = b"if-unused"
"""What a removal takes for granted, told as custom metadata of its ``DELETE_SEGMENT_STARTED``.

Records of two leaders may cross on their way into the log: where a copy was finished before, or has
offsets that nobody else has, such a removal has no effect, for all readers alike.
"""
_LEADER_EPOCH: Final = b"leader-epoch="
_IF_LED_UNTIL: Final = b"if-leader-epoch-until="


def of_leader_epoch(epoch: int) -> bytes:
    """Custom metadata of a copy: in which epoch its broker led the partition."""
    return _LEADER_EPOCH + b"%d" % epoch


def if_led_until(epoch: int) -> bytes:
    """A third condition of removals: what a later leader has copied stays.

    The leader of ``epoch`` may have been replaced without knowing it, and have old settings.
    """
    return _IF_LED_UNTIL + b"%d" % epoch


class DeleteState(IntEnum):
    """How far the removal of a whole partition is; with Kafka's numbers."""

    DELETE_PARTITION_MARKED = 0
    DELETE_PARTITION_STARTED = 1
    DELETE_PARTITION_FINISHED = 2


class TopicIdPartition(NamedTuple):
    topic_id: bytes
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class EpochStart(NamedTuple):
    """A leader epoch and the first offset of it that the segment has."""

    epoch: int
    start_offset: int


class RemoteLogSegment(NamedTuple):
    """A copy of a closed segment; both offsets are inclusive."""

    partition: TopicIdPartition
    segment_id: bytes
    start_offset: int
    end_offset: int
    max_timestamp_ms: int
    broker_id: int
    event_timestamp_ms: int
    size_in_bytes: int
    leader_epochs: tuple[EpochStart, ...]
    """Rising, never empty."""
    state: SegmentState = SegmentState.COPY_SEGMENT_STARTED
    custom_metadata: bytes | None = None
    transaction_index_empty: bool = False

    @property
    def copied_in_epoch(self) -> int:
        """The leader epoch in which it was copied; -1 when that is not told."""
        return _number_behind(_LEADER_EPOCH, self.custom_metadata, -1)

    def epoch_end(self, epoch: int) -> int:
        """The last offset of ``epoch``, which it has."""
        for later, start_offset in self.leader_epochs:
            if later > epoch:
                return start_offset - 1
        return self.end_offset


class SegmentUpdate(NamedTuple):
    """A segment goes into another state."""

    partition: TopicIdPartition
    segment_id: bytes
    state: SegmentState
    event_timestamp_ms: int
    broker_id: int
    custom_metadata: bytes | None = None

    def spares(self, segment: RemoteLogSegment) -> bool:
        """Whether this is a removal by a leader that was replaced before the copy began."""
        copied = segment.copied_in_epoch
        return _number_behind(_IF_LED_UNTIL, self.custom_metadata, copied) < copied


def _number_behind(prefix: bytes, metadata: bytes | None, otherwise: int) -> int:
    if metadata is None or not metadata.startswith(prefix):
        return otherwise
    number = metadata.removeprefix(prefix)
    return int(number) if number.isdigit() else otherwise


class PartitionDeletion(NamedTuple):
    """Everything of a partition goes."""

    partition: TopicIdPartition
    state: DeleteState
    event_timestamp_ms: int
    broker_id: int


RemoteLogMetadata: TypeAlias = RemoteLogSegment | SegmentUpdate | PartitionDeletion

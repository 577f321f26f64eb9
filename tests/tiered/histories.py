"""Segments and updates of them, made short for tests."""

from ottla.tiered.segments import (
    EpochStart,
    RemoteLogSegment,
    SegmentState,
    SegmentUpdate,
    TopicIdPartition,
)

PARTITION = TopicIdPartition(bytes(range(16)), "orders", 3)
STARTED, FINISHED, DELETING, DELETED = SegmentState


def segment_id(number: int) -> bytes:
    return bytes(15) + bytes([number + 200]) if number < 50 else number.to_bytes(16, "big")


def segment(
    number: int,
    start: int,
    end: int,
    epochs: dict[int, int] | None = None,
    *,
    size: int = 100,
    timestamp: int = 1_000,
) -> RemoteLogSegment:
    """The segment of that number; of epoch 0 unless told otherwise."""
    return RemoteLogSegment(
        partition=PARTITION,
        segment_id=segment_id(number),
        start_offset=start,
        end_offset=end,
        max_timestamp_ms=timestamp,
        broker_id=1,
        event_timestamp_ms=5_000,
        size_in_bytes=size,
        leader_epochs=tuple(
            EpochStart(epoch, offset) for epoch, offset in (epochs or {0: start}).items()
        ),
    )


def update(number: int, state: SegmentState) -> SegmentUpdate:
    return SegmentUpdate(PARTITION, segment_id(number), state, 6_000, 1)

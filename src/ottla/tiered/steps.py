"""What is done to a segment, step by step; a crash may come between any two.

Each step is finished before the next begins: a record is written and replayed, objects are written
or removed. So whatever is in the store belongs to a segment that the metadata topic knows.
"""

from typing import NamedTuple, TypeAlias

from ottla.tiered.segments import RemoteLogSegment, SegmentState


class Tell(NamedTuple):
    """Write that a segment is in this state from now on, and replay it."""

    segment: RemoteLogSegment
    state: SegmentState
    condition: bytes | None = None
    """Of a removal: it has no effect where that does not hold."""


class Upload(NamedTuple):
    """Write all objects of a segment."""

    segment: RemoteLogSegment


class Remove(NamedTuple):
    """Remove all objects of a segment."""

    segment: RemoteLogSegment


Step: TypeAlias = Tell | Upload | Remove


def copy_steps(segment: RemoteLogSegment) -> tuple[Step, ...]:
    return (
        Tell(segment, SegmentState.COPY_SEGMENT_STARTED),
        Upload(segment),
        Tell(segment, SegmentState.COPY_SEGMENT_FINISHED),
    )


def removal_steps(segment: RemoteLogSegment, condition: bytes | None = None) -> tuple[Step, ...]:
    """Also for one whose removal was begun before: to tell it again does no harm."""
    return (
        Tell(segment, SegmentState.DELETE_SEGMENT_STARTED, condition),
        Remove(segment),
        Tell(segment, SegmentState.DELETE_SEGMENT_FINISHED),
    )

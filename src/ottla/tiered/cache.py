"""All remote segments of a partition, as the records of the metadata topic tell of them.

Rules:
1. State changes only by :meth:`replay`; a transition that is none is dropped, as Kafka drops it,
   and so is a removal whose condition does not hold.
2. A segment counts from ``COPY_SEGMENT_FINISHED`` to ``DELETE_SEGMENT_STARTED``. Before and after
   it is known, so that its objects can be removed, and nobody reads it.
3. What is found depends on a lineage: an epoch and an offset name one record, see ``lineage``.
"""

from collections.abc import Iterator
from typing import NamedTuple

from ottla.tiered.epoch_state import EpochState, Reference
from ottla.tiered.lineage import Lineage
from ottla.tiered.segments import (
    IF_UNFINISHED,
    IF_UNUSED,
    NEXT_STATES,
    RemoteLogSegment,
    SegmentState,
    SegmentUpdate,
)

STARTED = SegmentState.COPY_SEGMENT_STARTED
FINISHED = SegmentState.COPY_SEGMENT_FINISHED


class Extent(NamedTuple):
    """Offsets, both inclusive, that a log finds in a segment."""

    segment: RemoteLogSegment
    start_offset: int
    end_offset: int


class SegmentCache:
    """Counterpart of Kafka's ``RemoteLogMetadataCache``."""

    def __init__(self) -> None:
        self._segments: dict[bytes, RemoteLogSegment] = {}
        self._epochs: dict[int, EpochState] = {}

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[RemoteLogSegment]:
        """All that have not reached the end, in the order in which their copies began."""
        return iter(list(self._segments.values()))

    def get(self, segment_id: bytes) -> RemoteLogSegment | None:
        return self._segments.get(segment_id)

    def replay(self, record: RemoteLogSegment | SegmentUpdate) -> bool:
        """Take a record; False when it says what cannot be."""
        known = self._segments.get(record.segment_id)
        state = None if known is None else known.state
        if record.state is state:
            return True  # told again
        if record.state not in NEXT_STATES[state]:
            return False
        if isinstance(record, RemoteLogSegment):
            if record.state is not STARTED:
                return False
            self._segments[record.segment_id] = record
            return True
        if known is None or record.state is STARTED or self._is_needed(known, record):
            return False
        self._enter(
            known._replace(
                state=record.state,
                event_timestamp_ms=record.event_timestamp_ms,
                broker_id=record.broker_id,
                custom_metadata=record.custom_metadata or known.custom_metadata,
            )
        )
        return True

    def _is_needed(self, known: RemoteLogSegment, update: SegmentUpdate) -> bool:
        """Whether a removal was told by a broker that did not know how it stands."""
        if update.spares(known):
            return True
        if known.state is not FINISHED:
            return False
        return update.custom_metadata == IF_UNFINISHED or (
            update.custom_metadata == IF_UNUSED and self.is_referenced(known)
        )

    def _enter(self, segment: RemoteLogSegment) -> None:
        for epoch, part in _parts(segment):
            state = self._epochs.get(epoch)
            if state is None:
                state = self._epochs[epoch] = EpochState()
            if segment.state is FINISHED:
                state.finished(part)
            else:
                state.deleting(part)
        if segment.state is SegmentState.DELETE_SEGMENT_FINISHED:
            del self._segments[segment.segment_id]
        else:
            self._segments[segment.segment_id] = segment

    # Finding

    def is_referenced(self, segment: RemoteLogSegment) -> bool:
        """Whether some lineage finds an offset in it."""
        return any(
            epoch in self._epochs and self._epochs[epoch].refers_to(part)
            for epoch, part in _parts(segment)
        )

    def highest_offset_for_epoch(self, epoch: int) -> int | None:
        state = self._epochs.get(epoch)
        return None if state is None else state.highest_offset

    def find(self, epoch: int, offset: int) -> RemoteLogSegment | None:
        """The segment that has the record of that epoch and offset."""
        state = self._epochs.get(epoch)
        found = None if state is None else state.find(offset)
        return None if found is None else self._segments[found.segment_id]

    def extent(self, lineage: Lineage, offset: int) -> Extent | None:
        """The segment that has ``offset`` for a log of that lineage, and how far it is its."""
        epoch = lineage.epoch_at(offset)
        state = None if epoch is None else self._epochs.get(epoch)
        found = None if state is None else state.find(offset)
        if epoch is None or found is None:
            return None
        last = min(found.end_offset, lineage.last_offset(epoch))
        return Extent(self._segments[found.segment_id], offset, last)

    def extents(self, lineage: Lineage, start: int = 0) -> Iterator[Extent]:
        """What a log of that lineage finds from ``start`` on, in order; there may be gaps."""
        offset: int | None = start
        while offset is not None:
            found = self.extent(lineage, offset)
            if found is None:
                offset = self._next_start(lineage, offset)
            else:
                yield found
                offset = found.end_offset + 1

    def last_removed(self, lineage: Lineage, start: int, end: int) -> int | None:
        """The last offset from ``start`` to ``end`` of which a finished copy was removed."""
        for epoch, epoch_start in reversed(lineage.epochs):
            first, last = max(start, epoch_start), min(end, lineage.last_offset(epoch))
            state = self._epochs.get(epoch)
            found = None if state is None or first > last else state.last_removed(first, last)
            if found is not None:
                return found
        return None

    def _next_start(self, lineage: Lineage, offset: int) -> int | None:
        """The first offset behind ``offset`` that the lineage finds."""
        for epoch, epoch_start in lineage.epochs:
            last = lineage.last_offset(epoch)
            state = self._epochs.get(epoch)
            if state is None or last <= offset:
                continue
            below = max(offset, epoch_start - 1)
            if below < epoch_start and state.find(epoch_start) is not None:
                return epoch_start
            found = state.next_start(below)
            if found is not None and found <= last:
                return found
        return None


def _parts(segment: RemoteLogSegment) -> Iterator[tuple[int, Reference]]:
    """What a segment holds of each epoch; an epoch without records is of no use to anybody."""
    for epoch, start_offset in segment.leader_epochs:
        end_offset = segment.epoch_end(epoch)
        if start_offset <= end_offset:
            yield epoch, Reference(start_offset, end_offset, segment.segment_id)

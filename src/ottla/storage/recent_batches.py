"""The last batches of each producer, found again in the log.

A snapshot has only the last batch of a producer. A producer with several requests in flight may
send any of its last five again, when the broker was killed before it answered: a broker that knows
only the last one takes the others for a gap, which is fatal to the producer. So the end of the log
is read backwards, by entries of the offset index and twice as far each time, until all five are
known of each producer whose last batch lies near enough. Only headers are read.

How far back is limited by entries of the index, of which there is at most one for each batch and
at most one for each ``index.interval.bytes``: a start stays cheap however large the log is.

Counterpart: none; Kafka's broker knows one batch of each producer after a start.
"""

from typing import Final, NamedTuple

from ottla.common.errors import CorruptMessage
from ottla.storage.file_records import headers, place_at
from ottla.storage.producer_state import (
    BATCHES_KEPT,
    SEQUENCE_MAX,
    BatchMetadata,
    ProducerEntry,
    ProducerState,
)
from ottla.storage.segment import Segment
from ottla.storage.segments import Segments

ENTRIES_MAX: Final = 256
"""How far to look back, in entries of the offset index."""

Batches = dict[int, list[BatchMetadata]]


class _Start(NamedTuple):
    """A position of a segment, and the offset that the index tells of it."""

    segment: Segment
    offset: int
    position: int

    def holds(self) -> bool:
        """Whether a batch is there, and the one that the index means."""
        if self.position == 0:
            return True
        place = place_at(self.segment.file, self.position, self.segment.size)
        return place is not None and place.last_offset == self.offset


def recall_batches(state: ProducerState, segments: Segments) -> None:
    """Add to each producer of ``state`` the batches before those that it has.

    ``segments`` are read up to the end offset of the state, at which a segment ends.
    """
    wanted = {each.producer_id: each for each in state.producers.values() if _wants(each)}
    if not wanted:
        return
    starts = _starts(segments.touching(0, state.end_offset))
    lowest = starts[-1].offset if starts else state.end_offset
    read, end = None, 0
    for start in starts:
        wanted = {
            key: each
            for key, each in wanted.items()
            if _wants(each) and each.batches[0].first_offset > lowest
        }
        if not wanted or not start.holds():
            return
        if start.segment is not read:
            read, end = start.segment, start.segment.size
        try:
            found = _find(read, start.position, end, wanted)
        except CorruptMessage:
            return
        for key, batches in found.items():
            if not _prepend(wanted[key], batches):
                del wanted[key]
        end = start.position


def _wants(entry: ProducerEntry) -> bool:
    """Whether there may be batches before those that are known."""
    batches = entry.batches
    return 0 < len(batches) < BATCHES_KEPT and batches[0].first_sequence != 0


def _starts(segments: list[Segment]) -> list[_Start]:
    """Where to begin to read, the last one first; the limit is that of the module."""
    starts = []
    left = ENTRIES_MAX
    for segment in reversed(segments):
        entries = segment.offset_index.latest(left)
        distance = 1
        while distance <= len(entries):
            starts.append(_Start(segment, *entries[-distance]))
            distance *= 2
        left -= len(entries) + 1
        if left < 0:
            break
        starts.append(_Start(segment, segment.base_offset, 0))
    return starts


def _find(segment: Segment, position: int, end: int, wanted: dict[int, ProducerEntry]) -> Batches:
    """The batches between two positions of producers that are wanted, in their present epoch."""
    found: Batches = {}
    if position < end:
        for _, header in headers(segment.file, position, end):
            entry = wanted.get(header.producer_id)
            if (
                entry is not None
                and entry.epoch == header.producer_epoch
                and not header.is_control
                and header.last_offset < entry.batches[0].first_offset
            ):
                found.setdefault(header.producer_id, []).append(BatchMetadata.of(header))
    return found


def _prepend(entry: ProducerEntry, batches: list[BatchMetadata]) -> bool:
    """Put before what is known what leads up to it without a gap; whether there was none."""
    known = entry.batches
    for batch in reversed(batches):
        if len(known) == BATCHES_KEPT:
            break
        if (batch.last_sequence + 1) & SEQUENCE_MAX != known[0].first_sequence:
            return False
        known.insert(0, batch)
    return True

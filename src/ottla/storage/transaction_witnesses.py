"""A segment's index of aborted transactions, compared with the markers in its batches.

The index has no checksum, and a reader of committed records believes it: an entry that names
another producer, or begins later, would let aborted records through. So an index that this
incarnation of the broker did not write is made again in memory, from the producers' snapshot at the
segment's beginning and its batches, before it is first used. What the segment itself cannot tell is
taken from the file: transactions that began before a segment without a snapshot, and those whose
marker is damaged. A segment without an abort has no such file and costs nothing; compaction leaves
less in the batches than in the index, so that of a compacted topic is believed.
"""

from ottla.storage.inspection import Damage, Inspection
from ottla.storage.producer_replay import replay
from ottla.storage.producer_snapshots import CorruptSnapshot
from ottla.storage.producer_state import ProducerState
from ottla.storage.segment import Segment
from ottla.storage.segments import Segments
from ottla.storage.transaction_index import AbortedTransaction

NEVER_EXPIRES = 1 << 62


class _Found:
    """Takes the entries that a replay would add to the index."""

    __slots__ = ("entries",)

    def __init__(self) -> None:
        self.entries: list[AbortedTransaction] = []

    def append(self, transaction: AbortedTransaction) -> None:
        self.entries.append(transaction)


def check_transaction_index(segment: Segment, segments: Segments) -> None:
    """Make the index of ``segment`` say what its batches say."""
    index = segment.transaction_index
    known = index.entries
    if known:
        entries = _from_batches(segment, segments, known)
        if entries != known:
            index.mend(entries)
    index.is_trusted = True


def _from_batches(
    segment: Segment,
    segments: Segments,
    known: list[AbortedTransaction],
) -> list[AbortedTransaction]:
    state = ProducerState(NEVER_EXPIRES)
    has_snapshot = _load(state, segment, segments)
    found, markers, damages = _Found(), dict[int, int](), list[tuple[int, int]]()
    damaged_from: int | None = None
    for each in Inspection(segment).walk(0, segment.base_offset):
        if isinstance(each, Damage):
            damaged_from = each.first_offset
            continue
        place, header = each
        if damaged_from is not None:
            damages.append((damaged_from, place.base_offset))
            damaged_from = None
        if header.producer_id >= 0:
            body = b""
            if header.is_control:
                body = segment.file.read_at(place.position, place.size)
                markers[header.base_offset] = header.producer_id
            replay(state, header, body, found)
    if damaged_from is not None:
        damages.append((damaged_from, NEVER_EXPIRES))
    by_marker = {entry.last_offset: entry for entry in found.entries}
    for entry in known:
        began_before = not has_snapshot and entry.first_offset < segment.base_offset
        if (began_before and markers.get(entry.last_offset) == entry.producer_id) or any(
            low <= entry.last_offset < high for low, high in damages
        ):
            by_marker[entry.last_offset] = entry
    return [by_marker[last_offset] for last_offset in sorted(by_marker)]


def _load(state: ProducerState, segment: Segment, segments: Segments) -> bool:
    """Begin with the producers as they were when the segment began; whether they are known."""
    before: list[Segment] = []
    is_known = False
    for earlier in [segment, *reversed(segments.touching(0, segment.base_offset))]:
        try:
            entries = segments.snapshots.read(earlier.base_offset)
        except (CorruptSnapshot, FileNotFoundError):
            state.clear(earlier.base_offset)
            is_known = earlier.base_offset == 0
            before.append(earlier)
        else:
            state.load(entries, earlier.base_offset, 0)
            is_known = True
            if earlier is not segment:
                before.append(earlier)
            break
    for earlier in reversed(before):
        if earlier is not segment:
            for place, header in earlier.sound_batches():
                body = (
                    earlier.file.read_at(place.position, place.size) if header.is_control else b""
                )
                replay(state, header, body, None)
    return is_known

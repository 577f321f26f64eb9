"""Which segment has which offsets of one leader epoch.

Each offset belongs to the segment that was finished last among those that hold it: a leader copies
again what its predecessor had copied in part, and a rewritten segment takes the place of those it
was made of. Kafka's own cache comes to the same at the end of an epoch, where leaders copy; here it
holds in the middle too, and what the newer segment leaves free stays with the older. When the newer
one is removed, what it had goes back to the older that are still there; what no other has is known
to be removed from then on.
"""

from bisect import bisect_left, bisect_right
from typing import NamedTuple

from ottla.tiered.offsets import Offsets, Range, without


class Reference(NamedTuple):
    """Offsets, both inclusive, that belong to a segment."""

    start_offset: int
    end_offset: int
    segment_id: bytes


class EpochState:
    __slots__ = ("_count", "_cut", "_references", "_removed", "_whole", "highest_offset")

    def __init__(self) -> None:
        self._references: list[Reference] = []
        """In order, and disjoint."""
        self._whole: dict[bytes, tuple[int, Reference]] = {}
        """All that the finished segments hold, in any one of them, and the order of their ends."""
        self._count = 0
        self._cut: set[bytes] = set()
        """Segments that have lost offsets to newer ones."""
        self._removed = Offsets()
        """What finished segments had and none has any more."""
        self.highest_offset: int | None = None
        """Of all segments that were ever finished; it does not go back when they are removed."""

    def finished(self, new: Reference) -> None:
        """Give the offsets of ``new`` to it, and take them from others."""
        first, last = self._touching(new.start_offset, new.end_offset)
        kept = []
        for old in self._references[first:last]:
            self._cut.add(old.segment_id)
            if old.start_offset < new.start_offset:
                kept.append(old._replace(end_offset=new.start_offset - 1))
            if old.end_offset > new.end_offset:
                kept.append(old._replace(start_offset=new.end_offset + 1))
        self._references[first:last] = sorted([*kept, new])
        if self.highest_offset is None or new.end_offset > self.highest_offset:
            self.highest_offset = new.end_offset
        self._count += 1
        self._whole[new.segment_id] = self._count, new
        self._removed.discard(Range(new.start_offset, new.end_offset))

    def deleting(self, gone: Reference) -> None:
        """Take from a segment what is still its own, and give it to the newest of the others."""
        self._whole.pop(gone.segment_id, None)
        self._cut.discard(gone.segment_id)
        first, last = self._touching(gone.start_offset, gone.end_offset)
        kept, free = [], []
        for each in self._references[first:last]:
            if each.segment_id == gone.segment_id:
                free.append(Range(each.start_offset, each.end_offset))
            else:
                kept.append(each)
        if free:
            others = sorted((self._whole[each] for each in self._cut), reverse=True)
            for _, other in others:
                kept += _common(free, other)
                free = without(free, Range(other.start_offset, other.end_offset))
            self._references[first:last] = sorted(kept)
        for span in free:
            self._removed.add(span)

    def last_removed(self, start: int, end: int) -> int | None:
        """The last offset from ``start`` to ``end`` that was here and is not any more."""
        return self._removed.last_within(Range(start, end))

    def refers_to(self, segment: Reference) -> bool:
        """Whether something is left of what a segment had."""
        first, last = self._touching(segment.start_offset, segment.end_offset)
        return any(each.segment_id == segment.segment_id for each in self._references[first:last])

    def _touching(self, start: int, end: int) -> tuple[int, int]:
        """The range of references that have offsets from ``start`` to ``end``."""
        references = self._references
        return (
            bisect_left(references, start, key=lambda each: each.end_offset),
            bisect_right(references, end, key=lambda each: each.start_offset),
        )

    def find(self, offset: int) -> Reference | None:
        """The reference that has ``offset``."""
        number = bisect_left(self._references, offset, key=lambda each: each.end_offset)
        if number < len(self._references) and self._references[number].start_offset <= offset:
            return self._references[number]
        return None

    def next_start(self, offset: int) -> int | None:
        """Where the first reference behind ``offset`` begins."""
        number = bisect_right(self._references, offset, key=lambda each: each.start_offset)
        return self._references[number].start_offset if number < len(self._references) else None


def _common(spans: list[Range], holder: Reference) -> list[Reference]:
    """What of ``spans`` a segment holds."""
    return [
        Reference(max(start, holder.start_offset), min(end, holder.end_offset), holder.segment_id)
        for start, end in spans
        if start <= holder.end_offset and end >= holder.start_offset
    ]

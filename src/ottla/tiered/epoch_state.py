"""Which segment has which offsets of one leader epoch.

Each offset belongs to the segment that was finished last among those that hold it: a leader copies
again what its predecessor had copied in part, and a rewritten segment takes the place of those it
was made of. Kafka's own cache comes to the same at the end of an epoch, where leaders copy; here it
holds in the middle too, and what the newer segment leaves free stays with the older.
"""

from bisect import bisect_left, bisect_right
from typing import NamedTuple


class Reference(NamedTuple):
    """Offsets, both inclusive, that belong to a segment."""

    start_offset: int
    end_offset: int
    segment_id: bytes


class EpochState:
    __slots__ = ("_references", "highest_offset")

    def __init__(self) -> None:
        self._references: list[Reference] = []
        """In order, and disjoint."""
        self.highest_offset: int | None = None
        """Of all segments that were ever finished; it does not go back when they are removed."""

    def finished(self, new: Reference) -> None:
        """Give the offsets of ``new`` to it, whoever had them."""
        first, last = self._touching(new.start_offset, new.end_offset)
        kept = []
        for old in self._references[first:last]:
            if old.start_offset < new.start_offset:
                kept.append(old._replace(end_offset=new.start_offset - 1))
            if old.end_offset > new.end_offset:
                kept.append(old._replace(start_offset=new.end_offset + 1))
        self._references[first:last] = sorted([*kept, new])
        if self.highest_offset is None or new.end_offset > self.highest_offset:
            self.highest_offset = new.end_offset

    def deleting(self, gone: Reference) -> None:
        """Take from a segment what is still its own."""
        first, last = self._touching(gone.start_offset, gone.end_offset)
        self._references[first:last] = [
            each for each in self._references[first:last] if each.segment_id != gone.segment_id
        ]

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

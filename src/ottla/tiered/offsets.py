"""A set of offsets, kept as ranges: what was removed goes from the front, so they are few."""

from bisect import bisect_left, bisect_right
from typing import NamedTuple


class Range(NamedTuple):
    """Offsets, both inclusive."""

    start: int
    end: int


def without(spans: list[Range], taken: Range) -> list[Range]:
    """What is left of ``spans``."""
    left: list[Range] = []
    for start, end in spans:
        if end < taken.start or start > taken.end:
            left.append(Range(start, end))
            continue
        if start < taken.start:
            left.append(Range(start, taken.start - 1))
        if end > taken.end:
            left.append(Range(taken.end + 1, end))
    return left


class Offsets:
    __slots__ = ("_ranges",)

    def __init__(self) -> None:
        self._ranges: list[Range] = []
        """In order, disjoint, and not next to each other."""

    def add(self, new: Range) -> None:
        first, last = self._touching(Range(new.start - 1, new.end + 1))
        near = self._ranges[first:last]
        start = min([new.start, *(each.start for each in near)])
        end = max([new.end, *(each.end for each in near)])
        self._ranges[first:last] = [Range(start, end)]

    def discard(self, gone: Range) -> None:
        first, last = self._touching(gone)
        self._ranges[first:last] = without(self._ranges[first:last], gone)

    def last_within(self, within: Range) -> int | None:
        """The last one of them that is also in ``within``."""
        first, last = self._touching(within)
        return min(self._ranges[last - 1].end, within.end) if first < last else None

    def _touching(self, other: Range) -> tuple[int, int]:
        return (
            bisect_left(self._ranges, other.start, key=lambda each: each.end),
            bisect_right(self._ranges, other.end, key=lambda each: each.start),
        )

"""Stretches of a file, and the offset that follows each.

What was found sound once need not be looked at again. Readers go forward, so stretches that touch
become one; readers that jump about leave many, and the shortest is forgotten when there are too
many.
"""

from bisect import bisect_right
from typing import Final, NamedTuple

STRETCHES_MAX: Final = 256


class Stretch(NamedTuple):
    start: int
    end: int
    next_offset: int


class Stretches:
    __slots__ = ("_stretches",)

    def __init__(self) -> None:
        self._stretches: list[Stretch] = []

    def __len__(self) -> int:
        return len(self._stretches)

    def reaching(self, position: int) -> Stretch | None:
        """The stretch that begins at or before ``position`` and does not end before it."""
        number = bisect_right(self._stretches, position, key=lambda stretch: stretch.start)
        if number == 0:
            return None
        found = self._stretches[number - 1]
        return found if found.end >= position else None

    def add(self, start: int, end: int, next_offset: int) -> Stretch:
        """Add one that overlaps no other; what it is a part of now."""
        stretches = self._stretches
        number = bisect_right(stretches, start, key=lambda stretch: stretch.start)
        if number < len(stretches) and stretches[number].start == end:
            following = stretches.pop(number)
            end, next_offset = following.end, following.next_offset
        if number and stretches[number - 1].end == start:
            number -= 1
            start = stretches.pop(number).start
        added = Stretch(start, end, next_offset)
        stretches.insert(number, added)
        if len(stretches) > STRETCHES_MAX:
            stretches.remove(min(stretches, key=lambda stretch: stretch.end - stretch.start))
        return added

    def remove(self, stretch: Stretch) -> None:
        self._stretches.remove(stretch)

    def cut(self, position: int) -> None:
        """Forget those that end behind ``position``."""
        self._stretches = [stretch for stretch in self._stretches if stretch.end <= position]

"""The segments of a log, in order of their base offsets; the last one is active."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from contextlib import suppress

from ottla.storage.segment import Segment


class Segments:
    __slots__ = ("_bases", "_segments")

    def __init__(self) -> None:
        self._bases: list[int] = []
        self._segments: list[Segment] = []

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __getitem__(self, number: int) -> Segment:
        return self._segments[number]

    @property
    def active(self) -> Segment:
        return self._segments[-1]

    @property
    def base_offsets(self) -> list[int]:
        return self._bases

    def size(self) -> int:
        return sum(segment.size for segment in self._segments)

    def add(self, segment: Segment) -> None:
        number = bisect_left(self._bases, segment.base_offset)
        assert number == len(self._bases) or self._bases[number] != segment.base_offset
        self._bases.insert(number, segment.base_offset)
        self._segments.insert(number, segment)

    def remove(self, segment: Segment) -> None:
        number = bisect_left(self._bases, segment.base_offset)
        assert self._segments[number] is segment
        del self._bases[number]
        del self._segments[number]

    def floor(self, offset: int) -> Segment | None:
        """The last segment that does not begin above ``offset``."""
        number = bisect_right(self._bases, offset)
        return self._segments[number - 1] if number else None

    def higher(self, offset: int) -> Segment | None:
        """The first segment that begins above ``offset``."""
        number = bisect_right(self._bases, offset)
        return self._segments[number] if number < len(self._segments) else None

    def touching(self, start: int, end: int | None = None) -> list[Segment]:
        """The segments that may have offsets from ``start`` on, up to below ``end``."""
        first = max(bisect_right(self._bases, start) - 1, 0)
        last = len(self._bases) if end is None else bisect_left(self._bases, end)
        return self._segments[first:last]


def activate(segment: Segment) -> None:
    """Open a segment for appends, or leave it closed."""
    try:
        segment.activate()
    except OSError:
        segment.abandon()
        raise


def begin(segment: Segment) -> None:
    """Make the files of a new segment and open them for appends; all of it, or nothing.

    An empty file left behind would end the log where later records go to the segment before.
    """
    try:
        segment.create_files()
        segment.activate()
    except OSError:
        segment.abandon()
        for path in segment.paths():
            with suppress(OSError):
                segment._filesystem.remove(path)
        raise

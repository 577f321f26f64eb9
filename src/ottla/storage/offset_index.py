"""``.index``: from offsets to positions in the segment.

An entry is the last offset of a batch, relative to the segment's base offset, and the position at
which that batch begins: two big-endian int32. The batches before the first entry have none.
"""

from struct import Struct
from typing import Final

from ottla.storage.files import Filesystem
from ottla.storage.index import Index

ENTRY: Final = Struct(">ii")
RELATIVE_OFFSET_MAX: Final = (1 << 31) - 1
POSITION_MAX: Final = (1 << 31) - 1
"""Batches behind it have no entries: Kafka makes no such segment, but may be given one."""


class OffsetIndex(Index):
    __slots__ = ()

    def __init__(self, filesystem: Filesystem, path: str, base_offset: int, size_max: int) -> None:
        super().__init__(filesystem, path, base_offset, size_max, ENTRY)

    def append(self, offset: int, position: int) -> None:
        if position <= POSITION_MAX:
            self.entries.extend(ENTRY.pack(offset - self.base_offset, position))

    def is_full(self) -> bool:
        return self.size >= self.size_max

    def lookup(self, offset: int) -> tuple[int, int] | None:
        """Last offset and position of the last batch with an entry that is not above ``offset``."""
        found = self.floor(offset - self.base_offset)
        return None if found is None else (self.base_offset + found[0], found[1])

    def lookup_position(self, position: int) -> tuple[int, int] | None:
        """Last offset and position of the last batch with an entry that begins at or before it."""
        found = self.floor(position, 1)
        return None if found is None else (self.base_offset + found[0], found[1])

    def last_entry(self) -> tuple[int, int] | None:
        found = self.last()
        return None if found is None else (self.base_offset + found[0], found[1])

    def latest(self, count: int) -> list[tuple[int, int]]:
        """At most ``count`` of the entries, the last ones."""
        return [(self.base_offset + relative, start) for relative, start in self.tail(count)]

    def behind(self, position: int, count: int) -> list[tuple[int, int]]:
        """At most ``count`` of the entries of batches that begin behind ``position``."""
        found = self.following(position, 1, count)
        return [(self.base_offset + relative, start) for relative, start in found]

    def truncate_to(self, offset: int) -> None:
        """Keep the entries below ``offset``."""
        relative = offset - self.base_offset
        entries = self.entries
        while entries and ENTRY.unpack_from(entries, len(entries) - ENTRY.size)[0] >= relative:
            del entries[-ENTRY.size :]

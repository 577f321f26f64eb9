"""``.timeindex``: from timestamps to offsets.

An entry is the largest timestamp of the segment up to some batch, an int64, and the last offset of
the batch that has it, relative to the base offset, an int32. Timestamps only grow. A closed segment
ends with an entry of its largest timestamp: retention reads that one.
"""

from struct import Struct
from typing import Final

from ottla.storage.files import Filesystem
from ottla.storage.index import Index

ENTRY: Final = Struct(">qi")
NO_TIMESTAMP: Final = -1


class TimeIndex(Index):
    __slots__ = ()

    def __init__(self, filesystem: Filesystem, path: str, base_offset: int, size_max: int) -> None:
        super().__init__(filesystem, path, base_offset, size_max, ENTRY)

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Add an entry if ``timestamp`` is larger than that of the last one."""
        entries = self.entries
        last: int = NO_TIMESTAMP
        if entries:
            last = ENTRY.unpack_from(entries, len(entries) - ENTRY.size)[0]
        if timestamp > last:
            entries.extend(ENTRY.pack(timestamp, offset - self.base_offset))

    def is_full(self) -> bool:
        """Room is kept for the entry that closes the segment."""
        return self.size >= self.size_max - ENTRY.size

    def lookup(self, timestamp: int) -> tuple[int, int] | None:
        """Timestamp and offset of the last entry that is not above ``timestamp``."""
        found = self.floor(timestamp)
        return None if found is None else (found[0], self.base_offset + found[1])

    def last_entry(self) -> tuple[int, int] | None:
        """The largest timestamp that the index knows, and the offset that has it."""
        found = self.last()
        return None if found is None else (found[0], self.base_offset + found[1])

    def truncate_to(self, offset: int) -> None:
        """Keep the entries of offsets below ``offset``."""
        relative = offset - self.base_offset
        entries = self.entries
        while entries and ENTRY.unpack_from(entries, len(entries) - ENTRY.size)[1] >= relative:
            del entries[-ENTRY.size :]

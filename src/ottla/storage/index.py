"""A sorted file of entries of one size that leads to places in a segment.

The index of the active segment lives in memory and is written when its segment is rolled or
closed: after a crash it is made anew from the segment anyway. The index of a closed segment stays
on disk; a look-up reads a dozen entries and keeps nothing.

An index is never believed: a reader that follows an entry compares it with the batch it leads to,
and has the index rebuilt when they disagree. Entries are compared while searching, so a damaged
entry that is not the answer costs time, not truth.
"""

from collections.abc import Callable
from struct import Struct
from typing import TypeVar

from ottla.storage.files import Filesystem

Entry = tuple[int, int]
T = TypeVar("T")


class Index:
    """Entries of two numbers in the file at ``path``, at most ``size_max`` bytes of them."""

    __slots__ = ("_entries", "_filesystem", "_struct", "base_offset", "path", "size_max")

    def __init__(
        self, filesystem: Filesystem, path: str, base_offset: int, size_max: int, struct: Struct
    ) -> None:
        self._filesystem = filesystem
        self._struct = struct
        self._entries: bytearray | None = None
        self.path = path
        self.base_offset = base_offset
        self.size_max = size_max - size_max % struct.size

    @property
    def entries(self) -> bytearray:
        """All entries, in memory from now on until they are saved or dropped."""
        if self._entries is None:
            self._entries = bytearray(self._filesystem.read(self.path))
        return self._entries

    @property
    def size(self) -> int:
        if self._entries is not None:
            return len(self._entries)
        try:
            return self._filesystem.size(self.path)
        except FileNotFoundError:
            return 0

    def room(self) -> int:
        """How many more entries it may have, but for the one that closes a segment."""
        return (self.size_max - self.size) // self._struct.size - 1

    def save(self, *, at_once: bool = False) -> None:
        """Write what is in memory, and let go of it.

        The segment's next flush syncs it; where none comes, it is to be on disk ``at_once``.
        """
        if self._entries is not None:
            write = self._filesystem.write_atomically if at_once else self._filesystem.write
            write(self.path, bytes(self._entries))
            self._entries = None

    def reset(self) -> None:
        """Begin anew, in memory."""
        self._entries = bytearray()

    def replace(self, entries: bytearray) -> None:
        """Have other entries, in memory."""
        self._entries = entries

    def drop(self) -> None:
        """Forget what is in memory without writing it."""
        self._entries = None

    def has_whole_entries(self) -> bool:
        """Whether the file can be an index at all; if not it is to be rebuilt."""
        try:
            return self._filesystem.size(self.path) % self._struct.size == 0
        except FileNotFoundError:
            return False

    def all(self) -> list[Entry]:
        data = self._entries if self._entries is not None else self._filesystem.read(self.path)
        whole = len(data) - len(data) % self._struct.size
        return [(first, second) for first, second in self._struct.iter_unpack(data[:whole])]

    def last(self) -> Entry | None:
        return self._search(lambda entry, count: entry(count - 1) if count else None)

    def floor(self, key: int, field: int = 0) -> Entry | None:
        """The last entry whose ``field`` is not above ``key``."""

        def search(entry: Callable[[int], Entry], count: int) -> Entry | None:
            number = _count_up_to(entry, count, key, field)
            return entry(number - 1) if number else None

        return self._search(search)

    def following(self, key: int, field: int, count_max: int) -> list[Entry]:
        """At most ``count_max`` of the entries whose ``field`` is above ``key``."""

        def search(entry: Callable[[int], Entry], count: int) -> list[Entry]:
            first = _count_up_to(entry, count, key, field)
            return [entry(number) for number in range(first, min(count, first + count_max))]

        return self._search(search) or []

    def tail(self, count_max: int) -> list[Entry]:
        """At most ``count_max`` of the entries, the last ones."""
        return (
            self._search(
                lambda entry, count: [entry(n) for n in range(max(count - count_max, 0), count)]
            )
            or []
        )

    def _search(self, search: Callable[[Callable[[int], Entry], int], T]) -> T | None:
        size = self._struct.size
        entries = self._entries
        if entries is not None:
            unpack_from = self._struct.unpack_from
            return search(lambda number: unpack_from(entries, number * size), len(entries) // size)
        unpack = self._struct.unpack
        try:
            file = self._filesystem.open(self.path)
        except FileNotFoundError:
            # Somebody has removed it: the batches are found without, or it is made anew.
            return None
        try:
            return search(
                lambda number: unpack(file.read_at(number * size, size)), file.size() // size
            )
        finally:
            file.close()


def _count_up_to(entry: Callable[[int], Entry], count: int, key: int, field: int) -> int:
    """How many entries there are up to the last one whose ``field`` is not above ``key``."""
    low, high = 0, count
    while low < high:
        middle = (low + high) >> 1
        if key < entry(middle)[field]:
            high = middle
        else:
            low = middle + 1
    return low

"""Whether the indexes of a segment agree with its batches, which pass by one after another.

Each check is told of the batches in order and reads its index along with them, so that neither is
in memory as a whole. What an index says of batches that are damaged is not held against it.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from ottla.inspection.read_only import FILES
from ottla.records.batch import BatchHeader
from ottla.storage.file_records import BatchPlace
from ottla.storage.offset_index import ENTRY as OFFSET_ENTRY
from ottla.storage.time_index import ENTRY as TIME_ENTRY
from ottla.storage.transaction_index import ENTRY as TRANSACTION_ENTRY
from ottla.storage.transaction_index import VERSION as TRANSACTION_VERSION

_CHUNK_ENTRIES: Final = 1 << 15


class Finding(NamedTuple):
    """Where in the file something should not be so, and what."""

    position: int | None
    problem: str


def read_entries(path: str, struct: Struct) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Position and numbers of each whole entry.

    Without the zeros at the end: room that a running broker has set aside.
    """
    size = struct.size
    number = zeros = 0
    file = FILES.open(path)
    try:
        while len(chunk := file.read_at(number * size, size * _CHUNK_ENTRIES)) >= size:
            chunk = chunk[: len(chunk) - len(chunk) % size]
            if chunk.count(0) == len(chunk):
                number, zeros = number + len(chunk) // size, zeros + len(chunk) // size
                continue
            for entry in struct.iter_unpack(chunk):
                if any(entry):
                    for before in range(zeros, 0, -1):
                        yield (number - before) * size, (0,) * len(entry)
                    zeros = 0
                    yield number * size, entry
                else:
                    zeros += 1
                number += 1
    finally:
        file.close()


class _Entries:
    """The entries of an index, of which the next one is known."""

    def __init__(self, path: str, struct: Struct) -> None:
        self._rest = read_entries(path, struct)
        self.count = 0
        self.has_whole = FILES.size(path) % struct.size == 0
        self.advance()

    def advance(self) -> None:
        self.next = next(self._rest, None)
        self.count += self.next is not None


class OffsetIndexCheck:
    """Each entry is the last offset and the position of a batch."""

    def __init__(self, path: str, base_offset: int) -> None:
        self._base_offset = base_offset
        self._entries = _Entries(path, OFFSET_ENTRY)
        self._before = -1

    @property
    def entries(self) -> int:
        return self._entries.count

    def batch(self, place: BatchPlace, _header: BatchHeader) -> Iterator[Finding]:
        while (found := self._entries.next) is not None and found[1][1] <= place.position:
            yield from self._growth()
            at, (relative, position) = found
            offset = self._base_offset + relative
            if position != place.position:
                yield Finding(at, f"no batch begins at position {position}")
            elif offset != place.last_offset:
                yield Finding(at, f"offset {offset} where {place.last_offset} stands")
            self._entries.advance()

    def _growth(self) -> Iterator[Finding]:
        assert self._entries.next is not None
        at, (relative, _) = self._entries.next
        if relative <= self._before:
            yield Finding(at, "the entries do not grow")
        self._before = relative

    def damaged(self, end: int) -> None:
        """The bytes before position ``end`` are no batches that can be read."""
        while (found := self._entries.next) is not None and found[1][1] < end:
            self._before = found[1][0]
            self._entries.advance()

    def finish(self, *, whole: bool) -> Iterator[Finding]:
        """There are no more batches; if not ``whole``, because they could not be read."""
        if not self._entries.has_whole:
            yield Finding(None, f"the size is no multiple of {OFFSET_ENTRY.size}")
        while (found := self._entries.next) is not None:
            yield from self._growth()
            at, (_, position) = found
            if whole:
                yield Finding(at, f"no batch begins at position {position}")
            self._entries.advance()


class TimeIndexCheck:
    """Each entry is the largest timestamp of a batch, and an offset of that batch."""

    def __init__(self, path: str, base_offset: int) -> None:
        self._base_offset = base_offset
        self._entries = _Entries(path, TIME_ENTRY)
        self._before = -1
        self._is_behind_damage = False
        self._last_offset = base_offset - 1

    @property
    def entries(self) -> int:
        return self._entries.count

    def batch(self, place: BatchPlace, header: BatchHeader) -> Iterator[Finding]:
        while (found := self._entries.next) is not None:
            at, (timestamp, relative) = found
            offset = self._base_offset + relative
            if offset > place.last_offset:
                break
            yield from self._growth()
            if offset < place.base_offset and not header.wraps:
                if not self._is_behind_damage or offset <= self._last_offset:
                    yield Finding(at, f"offset {offset} is not there")
            elif timestamp != header.max_timestamp:
                yield Finding(at, f"timestamp {timestamp} where {header.max_timestamp} stands")
            self._entries.advance()
        self._is_behind_damage = False
        self._last_offset = place.last_offset

    def damaged(self, _end: int) -> None:
        """What comes until the next batch are no batches that can be read."""
        self._is_behind_damage = True

    def _growth(self) -> Iterator[Finding]:
        assert self._entries.next is not None
        at, (timestamp, _) = self._entries.next
        if timestamp < self._before:
            yield Finding(at, "the timestamps do not grow")
        self._before = timestamp

    def finish(self, *, whole: bool) -> Iterator[Finding]:
        """There are no more batches; if not ``whole``, because they could not be read."""
        if not self._entries.has_whole:
            yield Finding(None, f"the size is no multiple of {TIME_ENTRY.size}")
        while (found := self._entries.next) is not None:
            yield from self._growth()
            at, (_, relative) = found
            offset = self._base_offset + relative
            # The index of an empty segment has the offset at which it will begin.
            is_empty = self._last_offset < self._base_offset and not relative
            if whole and not is_empty and not self._is_behind_damage:
                yield Finding(at, f"offset {offset} is not there")
            self._entries.advance()


class TransactionIndexCheck:
    """Each entry is an aborted transaction, whose marker stands in the segment.

    Markers are seen by :meth:`abort`, which is called only where batches are looked into.
    """

    def __init__(self, path: str, base_offset: int) -> None:
        self._has_whole = FILES.size(path) % TRANSACTION_ENTRY.size == 0
        self._by_marker: dict[int, tuple[int, int]] = {}
        self._is_sound = True
        self.entries = 0
        for at, (version, producer_id, first, last, _) in read_entries(path, TRANSACTION_ENTRY):
            self.entries += 1
            self._by_marker[last] = (at, producer_id)
            self._is_sound &= version == TRANSACTION_VERSION and base_offset <= last >= first

    def abort(self, offset: int, producer_id: int) -> None:
        """The transaction of a producer was aborted at ``offset``."""
        known = self._by_marker.get(offset)
        if known is not None and known[1] == producer_id:
            del self._by_marker[offset]

    def damaged(self) -> None:
        """A marker may be among what could not be read."""
        self._by_marker.clear()

    def finish(self, *, whole: bool) -> Iterator[Finding]:
        """``whole``: all markers have been seen."""
        if not self._has_whole or not self._is_sound:
            yield Finding(None, "not the aborted transactions of this segment")
        elif whole:
            for offset, (at, producer_id) in self._by_marker.items():
                yield Finding(at, f"no abort of producer {producer_id} at offset {offset}")

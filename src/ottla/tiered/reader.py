"""Reads what remote segments have: batches, aborted transactions, offsets by time.

A read begins where an earlier one ended, or where the offset index says, and takes whole batches.
Nothing is believed: bytes are compared with the manifest, batches with their own checksums and
with the offsets that they must have, index entries with the batches that they lead to. What is
damaged is CorruptMessage and never served; an index that is damaged, here or in the store itself,
is fetched again or made anew from the batches.

Everything here blocks and is called from threads that do nothing else. Trouble with the store is a
RemoteStoreError. A read holds ``max_bytes`` or one batch in memory, and some chunks.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from ottla.common.errors import CorruptMessage
from ottla.records.record import iterate
from ottla.storage.file_records import find_offset, headers, place_at
from ottla.storage.files import Mutex
from ottla.storage.remote import RemoteData
from ottla.storage.segment import (
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
)
from ottla.storage.time_search import TimestampAndOffset
from ottla.storage.transaction_index import ENTRY, AbortedTransaction
from ottla.tiered.batches import check_batches
from ottla.tiered.chunks import AHEAD, RemoteFile, Windows
from ottla.tiered.index_cache import IndexCache
from ottla.tiered.index_rebuild import rebuild_indexes
from ottla.tiered.layout import SegmentName
from ottla.tiered.manifests import Manifests
from ottla.tiered.segments import RemoteLogSegment

READ_MAX: Final = 16 << 20
"""Bytes that one read gives, however many were asked for: they lie in memory."""
PLACES_MAX: Final = 256
"""Readers whose places are remembered."""


class RemoteAbortedTransactions(NamedTuple):
    found: list[tuple[int, int]]
    """Producer id and first offset."""
    is_complete: bool
    """Whether later segments have none that matter; otherwise those of the local log may."""


class RemoteReader:
    """See the module. Several threads may use it."""

    __slots__ = ("_indexes", "_manifests", "_mutex", "_places", "_windows")

    def __init__(self, manifests: Manifests, indexes: IndexCache, windows: Windows) -> None:
        self._manifests = manifests
        self._indexes = indexes
        self._windows = windows
        self._mutex = Mutex()
        self._places: dict[tuple[bytes, int], int] = {}
        """By segment and offset, the position at which a reader of it will go on."""

    # Batches

    def read(
        self, segment: RemoteLogSegment, offset: int, max_bytes: int, *, upper_bound_offset: int
    ) -> RemoteData:
        """Whole batches from the one that has ``offset`` on, none at or above the upper bound.

        At most ``max_bytes`` and READ_MAX, or one batch if the first is larger. None at all when
        the segment has no record from ``offset`` on; ``next_offset`` is that of the next one then.
        """
        max_bytes = min(max_bytes, READ_MAX)
        if offset >= upper_bound_offset:
            return RemoteData(b"", offset, [])
        known = self._place(segment, offset)
        # As much as was asked for by one request, and more for a reader that goes on.
        wanted = max_bytes // self._manifests.get(segment).chunk_size
        file = self._file(segment, ahead=wanted if known is None else max(wanted, AHEAD))
        position = self._position(file, segment, offset) if known is None else known
        first = find_offset(file, position, file.size, offset)
        if first is None:
            return RemoteData(b"", segment.end_offset + 1, [])
        data = file.view_at(first.position, max(max_bytes, first.size))
        end, next_offset = check_batches(
            data, segment.start_offset, segment.end_offset, upper_bound_offset
        )
        if first.position + end == file.size:
            next_offset = segment.end_offset + 1
        elif end:
            file.leave_at(first.position + end)
            self._remember(segment, next_offset, first.position + end)
        else:
            next_offset = offset
        return RemoteData(bytes(data[:end]), next_offset, [])

    def _file(self, segment: RemoteLogSegment, *, ahead: int = 0) -> RemoteFile:
        return RemoteFile(self._windows, self._manifests.get(segment), ahead=ahead)

    def _place(self, segment: SegmentName, offset: int) -> int | None:
        with self._mutex:
            return self._places.pop((segment.segment_id, offset), None)

    def _remember(self, segment: SegmentName, offset: int, position: int) -> None:
        with self._mutex:
            self._places[segment.segment_id, offset] = position
            if len(self._places) > PLACES_MAX:
                del self._places[next(iter(self._places))]

    # Places

    def _position(self, file: RemoteFile, segment: RemoteLogSegment, offset: int) -> int:
        """Where to begin the search for ``offset``; an index that misleads is replaced."""
        try:
            for _ in range(2):
                entry = self._indexes.lookup(segment, offset)
                if entry is None:
                    return 0
                if _holds(file, entry):
                    return entry[1]
                self._indexes.forget(segment, OFFSET_INDEX_SUFFIX)
        except CorruptMessage:
            # The copy in the store is no better than ours.
            self._indexes.forget(segment, OFFSET_INDEX_SUFFIX)
        self._rebuild(segment)
        entry = self._indexes.lookup(segment, offset)
        return 0 if entry is None else entry[1]

    def _rebuild(self, segment: RemoteLogSegment) -> None:
        file = self._file(segment, ahead=AHEAD)
        offsets, times = rebuild_indexes(file, file.size, segment.start_offset)
        self._indexes.replace(segment, OFFSET_INDEX_SUFFIX, offsets)
        self._indexes.replace(segment, TIME_INDEX_SUFFIX, times)

    # Time

    def find_timestamp(
        self, segment: RemoteLogSegment, timestamp: int, start_offset: int
    ) -> TimestampAndOffset | None:
        """The first record from ``start_offset`` on that is not older than ``timestamp``."""
        file = self._file(segment, ahead=AHEAD)
        try:
            entry = self._indexes.lookup_timestamp(segment, timestamp)
        except CorruptMessage:
            self._rebuild(segment)
            entry = self._indexes.lookup_timestamp(segment, timestamp)
        offset = start_offset if entry is None else max(entry[1], start_offset)
        for position, header in headers(file, self._position(file, segment, offset), file.size):
            if header.max_timestamp >= timestamp and header.last_offset >= start_offset:
                # This compares its checksum too.
                for record in iterate(file.read_at(position, header.size)):
                    if record.timestamp >= timestamp and record.offset >= start_offset:
                        return TimestampAndOffset(
                            record.timestamp, record.offset, header.partition_leader_epoch
                        )
        return None

    # Transactions

    def aborted_transactions(
        self, segments: Iterable[RemoteLogSegment], offset: int, upper_bound_offset: int
    ) -> RemoteAbortedTransactions:
        """Those that have records between the offsets.

        ``segments`` are those from the one with ``offset`` on, in order; they are looked at only as
        far as it takes.
        """
        found: list[tuple[int, int]] = []
        for segment in segments:
            for entry in self._transactions(segment):
                if entry.last_offset >= offset and entry.first_offset < upper_bound_offset:
                    found.append((entry.producer_id, entry.first_offset))
                if entry.last_stable_offset >= upper_bound_offset:
                    return RemoteAbortedTransactions(found, is_complete=True)
        return RemoteAbortedTransactions(found, is_complete=False)

    def _transactions(self, segment: RemoteLogSegment) -> list[AbortedTransaction]:
        if segment.transaction_index_empty:
            return []
        if TRANSACTION_INDEX_SUFFIX not in self._manifests.get(segment).objects:
            return []
        data = self._indexes.read(segment, TRANSACTION_INDEX_SUFFIX)
        return [AbortedTransaction(*entry[1:]) for entry in ENTRY.iter_unpack(data)]

    def forget(self, segment: SegmentName) -> None:
        """The segment is gone, and so is all that is kept of it here."""
        with self._mutex:
            for key in [key for key in self._places if key[0] == segment.segment_id]:
                del self._places[key]
        self._windows.forget(segment)
        self._indexes.remove(segment)


def _holds(file: RemoteFile, entry: tuple[int, int]) -> bool:
    """Whether an entry of the offset index leads to the batch that it speaks of."""
    last_offset, position = entry
    if not 0 <= position < file.size:
        return False
    place = place_at(file, position, file.size)
    return place is not None and place.last_offset == last_offset

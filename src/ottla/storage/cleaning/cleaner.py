"""The copying: a cleaning's two passes over closed segments, wherever they run.

First the keys of the dirty part go into a map; then the segments, clean part and dirty part, are
copied group by group into ``.cleaned`` files, without the records that the map says are old. A
cleaner touches closed segments and the files that were made for it, nothing else, and knows of the
log only what a plan tells it: it runs in a process of its own, in a thread, or in a simulation.

Rules:

1. No batch is judged or written anew before its checksum was found right: damage stays visible.
2. Offsets never go back, within a segment and from one to the next.

Counterpart: ``Cleaner``.
"""

from collections.abc import Callable, Iterator
from typing import Final

from ottla.common.errors import CorruptMessage
from ottla.records.batch import (
    HEADER_SIZE,
    LEGACY_HEADER_SIZE,
    LEGACY_LENGTH_MIN,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_POSITION,
    BatchHeader,
    has_length,
    is_intact,
    read_header,
)
from ottla.storage.cleaning.batch_filter import BatchFilter, control_records, unpacked
from ottla.storage.cleaning.cleaned_segment import CleanedSegment
from ottla.storage.cleaning.cleaned_transactions import CleanedTransactions
from ottla.storage.cleaning.compaction import index_keys
from ottla.storage.cleaning.offset_map import OffsetMap
from ottla.storage.cleaning.plan import GroupCleaned, GroupPlan, MapBuilt, MapPlan, SegmentToMap
from ottla.storage.files import Filesystem
from ottla.storage.segment import LOG_SUFFIX, file_name

NO_OFFSET: Final = -1


def _nothing() -> None:
    pass


def _no_wait(_size: int) -> None:
    pass


class Cleaner:
    """Cleans one log after the other; between two plans of a cleaning it keeps the map."""

    def __init__(
        self,
        filesystem: Filesystem,
        *,
        buffer_size: int,
        check: Callable[[], None] = _nothing,
        throttle: Callable[[int], None] = _no_wait,
    ) -> None:
        self._filesystem = filesystem
        self._buffer_size = max(buffer_size, HEADER_SIZE)
        self._check = check
        """Raises CleaningAborted when it is time to stop."""
        self._throttle = throttle
        """Told how many bytes were read or written; returns when more may be."""
        self._offsets: OffsetMap | None = None
        self._transactions = CleanedTransactions()

    # The map

    def build_map(self, plan: MapPlan) -> MapBuilt:
        self._offsets = None  # before the next one takes its memory
        offsets = self._offsets = OffsetMap(plan.slots)
        self._transactions = CleanedTransactions()
        transactions = CleanedTransactions()
        transactions.add_aborted(plan.aborted)
        bytes_read = 0
        for segment in plan.segments:
            read, fits = self._map_segment(plan, segment, offsets, transactions)
            bytes_read += read
            if not fits:
                break
            offsets.latest_offset = max(offsets.latest_offset, segment.next_offset - 1)
        return MapBuilt(offsets.latest_offset + 1, bytes_read, offsets.utilization)

    def _map_segment(
        self,
        plan: MapPlan,
        segment: SegmentToMap,
        offsets: OffsetMap,
        transactions: CleanedTransactions,
    ) -> tuple[int, bool]:
        """Bytes read, and whether all keys fitted."""
        bytes_read = 0
        path = f"{plan.directory}/{file_name(segment.base_offset, LOG_SUFFIX)}"
        for chunk, batches in self._chunks(path, segment.position, segment.size):
            for at, header in batches:
                bytes_read += header.size
                if header.is_control:
                    transactions.is_of_nothing(header, control_records(chunk, at, header))
                elif not transactions.is_aborted(header):
                    batch = unpacked(chunk, at, header)
                    fits = index_keys(
                        batch.data,
                        batch.start,
                        batch.header.record_count,
                        batch.header.base_offset,
                        plan.start_offset,
                        offsets,
                        plan.size_max,
                    )
                    if not fits:
                        return bytes_read, False
                if header.last_offset >= plan.start_offset:
                    offsets.latest_offset = header.last_offset
        return bytes_read, True

    # The copy

    def clean(self, plan: GroupPlan) -> GroupCleaned:
        """Copy what stays of a group; the files are on disk when this returns."""
        assert self._offsets is not None
        self._transactions.kept = []
        cleaned = CleanedSegment(
            self._filesystem,
            plan.directory,
            plan.segments[0].base_offset,
            index_interval_bytes=plan.index_interval_bytes,
            index_size_max=plan.index_size_max,
        )
        copying = BatchFilter(plan, self._offsets, self._transactions)
        try:
            for segment in plan.segments:
                self._transactions.add_aborted(segment.aborted)
                path = f"{plan.directory}/{file_name(segment.base_offset, LOG_SUFFIX)}"
                for chunk, batches in self._chunks(path, 0, segment.size):
                    data, written = copying.filter(chunk, batches)
                    if written:
                        cleaned.append(data, written)
                        self._throttle(len(data))
            cleaned.finish(self._transactions.kept, plan.modified_ms)
        finally:
            cleaned.abandon()
        return GroupCleaned(
            cleaned.size,
            copying.bytes_read,
            copying.records_read,
            copying.records_written,
            copying.without_key,
        )

    # Reading

    def _chunks(
        self, path: str, position: int, end: int
    ) -> Iterator[tuple[bytes, list[tuple[int, BatchHeader]]]]:
        """The whole batches of a file, as many at once as the buffer holds, but at least one."""
        file = self._filesystem.open(path)
        try:
            last_offset = NO_OFFSET
            wanted = self._buffer_size
            while position < end:
                self._check()
                chunk = file.read_at(position, min(wanted, end - position))
                batches, used = _batches(chunk, last_offset)
                if not batches:
                    wanted = _size_of_first(chunk, end - position, path, position)
                    continue
                self._throttle(used)
                yield chunk, batches
                last_offset = batches[-1][1].last_offset
                position += used
                wanted = self._buffer_size
        finally:
            file.close()


def _batches(chunk: bytes, last_offset: int) -> tuple[list[tuple[int, BatchHeader]], int]:
    """Where the whole batches of a chunk begin, their headers, and where the last one ends."""
    found = []
    at, end = 0, len(chunk)
    while end - at >= LEGACY_HEADER_SIZE:
        if chunk[at + MAGIC_POSITION] == MAGIC and end - at < HEADER_SIZE:
            break
        header = read_header(chunk, at)
        if not has_length(header.length, header.magic):
            raise CorruptMessage(f"no batch of magic {header.magic} has length {header.length}")
        size = header.size
        if size > end - at:
            break
        if not is_intact(chunk, at, size):
            raise CorruptMessage(f"the batch at offset {header.base_offset} is damaged")
        if header.base_offset <= last_offset or header.last_offset_delta < 0:
            raise CorruptMessage(f"offset {header.base_offset} does not follow {last_offset}")
        last_offset = header.last_offset
        found.append((at, header))
        at += size
    return found, at


def _size_of_first(chunk: bytes, remaining: int, path: str, position: int) -> int:
    """How much to read for the batch that the buffer did not hold."""
    size = 0
    if len(chunk) >= LOG_OVERHEAD:
        size = LOG_OVERHEAD + int.from_bytes(chunk[8:LOG_OVERHEAD], "big", signed=True)
    if size < LOG_OVERHEAD + LEGACY_LENGTH_MIN or size > remaining or size <= len(chunk):
        raise CorruptMessage(f"no whole batch at position {position} of {path}")
    return size

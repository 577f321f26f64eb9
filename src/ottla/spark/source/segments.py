"""Ranges of closed segments, read by the executors straight from the files, past the brokers.

A range is cut where segments begin and end; what no file has, the tail above all, stays with the
broker. Rules:

1. Nothing at or above the end that the leader told (high watermark, or last stable offset for
   readers of what is committed) and nothing below its log start is read from a file.
2. A batch counts only if its leader epoch is that of the leader's own history at its offset. So
   what an unclean election has forgotten is not read, whichever replica still has it.
3. Offsets are read once: a reader goes on behind the last batch, in the file or at the broker.
4. Whatever is wrong with a file, the rest of its range is asked of the broker: it has the same
   records, knows what compaction left of them, or says that they are lost.
"""

import logging
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import pyarrow as pa

from ottla.common.errors import CorruptMessage
from ottla.records.batch import CODEC_MASK, LEADER_EPOCH_POSITION, LOG_OVERHEAD, MAGIC
from ottla.spark.codec import kernels as k
from ottla.spark.codec.decoding import TABLE_BYTES, AbortedTransaction, BatchDecoder, Scanned
from ottla.spark.codec.schema import Columns
from ottla.spark.source.ranges import OffsetRange
from ottla.spark.source.segment_files import (
    WINDOW,
    LocalSegment,
    RemoteSegment,
    SegmentBytes,
    SegmentGone,
    find_position,
)
from ottla.tiered.lineage import Lineage
from ottla.tiered.segments import EpochStart
from ottla.tiered.store import RemoteStoreError

_log = logging.getLogger(__name__)

ByFetch = Callable[[OffsetRange], Iterator[pa.RecordBatch]]
"""The records of a range from its leader."""
OPEN_END: Final = 1 << 63
_UNPACKED: Final = 4
"""How much larger batches are when they are unpacked, about."""


class Aborted(NamedTuple):
    """An aborted transaction, both offsets inclusive; the last is its marker."""

    producer_id: int
    first_offset: int
    last_offset: int


class Stretch(NamedTuple):
    """Offsets ``start <= offset < end`` that a file has."""

    start: int
    end: int
    place: LocalSegment | RemoteSegment
    size: int
    """Bytes of the file."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the records of one partition lie, besides the broker, when a query is planned."""

    lineage: Lineage
    """The leader's; it ends where the readable part does."""
    start_offset: int
    """Of the log."""
    stretches: tuple[Stretch, ...]
    """In order, and disjoint."""
    aborted: tuple[Aborted, ...] | None = None
    """None for a reader of everything."""


@dataclass(frozen=True, slots=True)
class SegmentRange(OffsetRange):
    """A range of one closed segment; still one that can be fetched instead."""

    place: LocalSegment | RemoteSegment | None = None
    epochs: tuple[EpochStart, ...] = ()
    """Of the records from ``start`` to ``end``, in the leader's history."""
    aborted: tuple[Aborted, ...] | None = None

    def epoch_at(self, offset: int) -> int | None:
        number = bisect_right(self.epochs, offset, key=lambda entry: entry.start_offset)
        return self.epochs[number - 1].epoch if number else None


def split_past_brokers(wanted: OffsetRange, placement: Placement) -> list[OffsetRange]:
    """``wanted`` in parts, in order: those that a file has, and those that only the broker has."""
    parts: list[OffsetRange] = []
    low = max(wanted.start, placement.start_offset)
    high = min(wanted.end, placement.lineage.end_offset)
    offset = wanted.start
    for stretch in placement.stretches:
        start, end = max(stretch.start, low), min(stretch.end, high)
        epochs = placement.lineage.between(start, end - 1) if start < end else ()
        if not epochs or epochs[0].start_offset != start:
            continue  # nothing that is wanted, or of a time that the leader does not know
        if offset < start:
            parts.append(_part(wanted, offset, start))
        parts.append(_of_segment(wanted, stretch, (start, end), epochs, placement.aborted))
        offset = end
    if offset < wanted.end:
        parts.append(_part(wanted, offset, wanted.end))
    return parts


def _part(wanted: OffsetRange, start: int, end: int) -> OffsetRange:
    return OffsetRange(
        wanted.topic, wanted.topic_id, wanted.partition, start, end, wanted.record_bytes
    )


def _of_segment(
    wanted: OffsetRange,
    stretch: Stretch,
    offsets: tuple[int, int],
    epochs: tuple[EpochStart, ...],
    aborted: tuple[Aborted, ...] | None,
) -> SegmentRange:
    start, end = offsets
    if aborted is not None:
        aborted = tuple(
            each for each in aborted if each.last_offset >= start and each.first_offset < end
        )
    return SegmentRange(
        topic=wanted.topic,
        topic_id=wanted.topic_id,
        partition=wanted.partition,
        start=start,
        end=end,
        record_bytes=stretch.size / (stretch.end - stretch.start),
        place=stretch.place,
        epochs=epochs,
        aborted=aborted,
    )


def read_segment_range(
    wanted: SegmentRange, columns: Columns, by_fetch: ByFetch, *, keep: bool = False
) -> Iterator[pa.RecordBatch]:
    """The records of a range. Each table is overwritten by the next, unless ``keep``."""
    reading = _SegmentRead(wanted, columns)
    try:
        yield from reading.tables(keep=keep)
    except (SegmentGone, CorruptMessage, RemoteStoreError, OSError) as error:
        _log.warning(
            "%s-%d: offsets %d to %d are asked of the broker: %s",
            wanted.topic,
            wanted.partition,
            reading.offset,
            wanted.end - 1,
            error,
        )
        yield from by_fetch(_part(wanted, reading.offset, wanted.end))


def _parts(scanned: Scanned) -> Iterator[Scanned]:
    """Some batches at a time, which make a table of about the size that is wanted."""
    some: list[list[int]] = []
    size = 0
    for row in scanned.batches:
        some.append(row)
        size += row[k.SIZE] * (_UNPACKED if row[k.ATTRIBUTES] & CODEC_MASK else 1)
        if size >= TABLE_BYTES:
            yield _of_batches(scanned, some)
            some, size = [], 0
    if some:
        yield _of_batches(scanned, some)


def _of_batches(scanned: Scanned, some: list[list[int]]) -> Scanned:
    last = some[-1]
    behind = last[k.BASE_OFFSET] + max(last[k.LAST_DELTA], 0) + 1
    return scanned._replace(batches=some, next_offset=behind)


class _SegmentRead:
    """``offset`` is behind what was returned."""

    def __init__(self, wanted: SegmentRange, columns: Columns) -> None:
        self._wanted = wanted
        self._decoder = BatchDecoder(columns, wanted.topic, wanted.partition)
        self._last_epoch: int | None = None
        self.offset = wanted.start

    def tables(self, *, keep: bool) -> Iterator[pa.RecordBatch]:
        wanted = self._wanted
        assert wanted.place is not None
        file = wanted.place.open(wanted.topic_id)
        try:
            position = find_position(file, wanted.place.base_offset, wanted.start)
            while position is not None and self.offset < wanted.end:
                scanned = self._window(file, position)
                if not scanned.consumed:
                    break
                self._check(scanned)
                for part in _parts(scanned):
                    low, self.offset = self.offset, max(self.offset, part.next_offset)
                    try:
                        tables = list(self._tables(part, low, keep))
                    except CorruptMessage:
                        self.offset = low  # none of it was returned
                        raise
                    yield from tables
                position += scanned.consumed
            if self.offset < wanted.end:
                if position not in {None, file.size}:
                    raise SegmentGone(f"no batch at position {position}")
                self._check_end(file)
                self.offset = wanted.end
        finally:
            file.close()

    def _tables(self, part: Scanned, low: int, keep: bool) -> Iterator[pa.RecordBatch]:
        """One at most: so either all records of these batches are returned, or none."""
        end, aborted = self._wanted.end, self._aborted(part)
        return self._decoder.tables(part, low, end, aborted=aborted, keep=keep, size_max=OPEN_END)

    def _window(self, file: SegmentBytes, position: int) -> Scanned:
        """Whole batches from ``position`` on, at least one if there is one."""
        size = WINDOW
        while True:
            data = file.view_at(position, size)
            scanned = self._decoder.scan(data)
            if scanned.consumed or len(data) < size:
                return scanned
            length = int.from_bytes(data[8:LOG_OVERHEAD], "big")
            size = LOG_OVERHEAD + length
            if size > file.size - position:
                return scanned

    def _check(self, scanned: Scanned) -> None:
        """Offsets rise, and each batch is of the leader's history."""
        wanted, before = self._wanted, -1
        for row in scanned.batches:
            base, position = row[k.BASE_OFFSET], row[k.POSITION]
            last = base + max(row[k.LAST_DELTA], 0)
            if base <= before:
                raise CorruptMessage(f"offset {base} stands behind {before}")
            before = last
            if row[k.MAGIC_BYTE] < MAGIC or last < wanted.start or base >= wanted.end:
                continue
            at = position + LEADER_EPOCH_POSITION
            epoch = int.from_bytes(scanned.data[at : at + 4], "big", signed=True)
            if epoch != wanted.epoch_at(max(base, wanted.start)):
                raise SegmentGone(f"offset {base} is of leader epoch {epoch}, not the leader's")
            self._last_epoch = epoch

    def _aborted(self, scanned: Scanned) -> list[AbortedTransaction] | None:
        """Those that are open in these batches; one that ended before may not hide the next."""
        if self._wanted.aborted is None:
            return None
        first = scanned.batches[0][k.BASE_OFFSET]
        return [
            AbortedTransaction(each.producer_id, each.first_offset)
            for each in self._wanted.aborted
            if each.last_offset >= first
        ]

    def _check_end(self, file: SegmentBytes) -> None:
        """The file ends before the range: compaction leaves gaps, and so does truncation."""
        wanted = self._wanted
        if isinstance(wanted.place, RemoteSegment):
            return  # it never changes, and was compared with its manifest
        if self._last_epoch != wanted.epoch_at(wanted.end - 1) or not file.is_complete():
            raise SegmentGone(f"the segment ends at {self.offset}")

"""Record batches to Arrow, a whole fetch at a time.

Each batch is checked by its CRC and unpacked; then one call of a compiled kernel lays all records
into columns. Only the columns that are asked for are made. A range may begin and end inside a
batch: compaction and transactions leave gaps, so readers go on by ``next_offset``, which counts
batches, and never by the records they got.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from ottla.common.checksum import crc32c
from ottla.common.errors import CorruptMessage
from ottla.records.batch import (
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    CONTROL_BIT,
    HEADER_SIZE,
    MAGIC,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    is_intact,
    read_header,
)
from ottla.records.builder import build_batch
from ottla.records.compression import ACCEPTED_MAX
from ottla.records.record import iterate
from ottla.spark.codec import kernels as k
from ottla.spark.codec.schema import HEADERS, TYPES, Columns
from ottla.spark.codec.unpacking import Unpacked

BATCHES_AT_ONCE: Final = 1_024
UNPACKED_MAX: Final = ACCEPTED_MAX
"""What one batch may unpack to: a broker has accepted it, and nobody gets past it otherwise."""
TABLE_BYTES: Final = 4 << 20
"""Of records in one table: what a processor keeps near, and enough for Spark at a time."""
_OFFSETS_MAX: Final = 1 << 31


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int


class Decoded(NamedTuple):
    table: pa.RecordBatch
    next_offset: int
    """Behind the last batch that was looked at."""
    consumed: int
    """Bytes of whole batches."""


class Scanned(NamedTuple):
    """The batches of one fetch, not yet looked into."""

    data: bytes | bytearray | memoryview
    array: k.Bytes
    batches: list[list[int]]
    next_offset: int
    """Behind the last batch; 0 when there is none."""
    consumed: int
    """Bytes of whole batches."""


def _behind(row: list[int]) -> int:
    """The offset behind a batch, where its last records may be missing."""
    return row[k.BASE_OFFSET] + max(row[k.LAST_DELTA], 0) + 1


class _Sections:
    """The records of several batches: in the fetched bytes themselves, or unpacked."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int, int, int, int, int]] = []
        self.size = 0

    def add(self, records: tuple[int, int], count: int, offset: int, stamp: int, at: int) -> None:
        size = records[1] - records[0]
        if not 0 <= count <= size // k.RECORD_BYTES_MIN:
            raise CorruptMessage(f"{count} records in {size} bytes")
        self.rows.append((*records, count, offset, stamp, at))
        self.size += size


class BatchDecoder:
    """Decodes the batches of one partition; its buffers are used again for the next fetch.

    So what :meth:`decode` gave is overwritten by the next call, unless ``keep`` is asked for.
    """

    def __init__(self, columns: Columns, topic: str, partition: int) -> None:
        self._columns = columns
        self._topic = topic
        self._partition = partition
        self._found = np.empty((BATCHES_AT_ONCE, k.SCANNED), np.int64)
        self._buffers = _Buffers()
        self._unpacked = Unpacked()
        self._constants: dict[tuple[str, str | int], pa.Array] = {}

    def decode(
        self,
        data: bytes | bytearray | memoryview,
        low: int,
        high: int,
        *,
        aborted: Sequence[AbortedTransaction] | None = None,
        keep: bool = False,
    ) -> Decoded:
        """The records of ``data`` with ``low <= offset < high``.

        ``aborted`` are the aborted transactions that reach into ``data``, for a reader of what is
        committed; None for one that reads everything.
        """
        scanned = self.scan(data)
        table = self.table(scanned, low, high, aborted=aborted, keep=keep)
        return Decoded(table, max(low, scanned.next_offset), scanned.consumed)

    def scan(self, data: bytes | bytearray | memoryview) -> Scanned:
        """Which batches there are: soon done, and enough to fetch on."""
        array = np.frombuffer(data, np.uint8)
        # A list grows with what is there; all of a fetch is told of in one or a few calls.
        found, consumed = self._scan(array)
        rows = found.tolist()
        next_offset = _behind(rows[-1]) if rows else 0
        return Scanned(data, array, rows, next_offset, consumed)

    def table(
        self,
        scanned: Scanned,
        low: int,
        high: int,
        *,
        aborted: Sequence[AbortedTransaction] | None = None,
        keep: bool = False,
    ) -> pa.RecordBatch:
        """All records of batches that :meth:`scan` found in one table, which may be empty."""
        whole = self.tables(scanned, low, high, aborted=aborted, keep=keep, size_max=_OFFSETS_MAX)
        for table in whole:
            return table
        return pa.RecordBatch.from_pylist([], schema=self._columns.schema)

    def tables(
        self,
        scanned: Scanned,
        low: int,
        high: int,
        *,
        aborted: Sequence[AbortedTransaction] | None = None,
        keep: bool = False,
        size_max: int = TABLE_BYTES,
    ) -> Iterator[pa.RecordBatch]:
        """The records of batches that :meth:`scan` found, as :meth:`decode` has them.

        In tables of about ``size_max`` bytes, so that what was unpacked is still near when it is
        laid into columns. None is empty.
        """
        data = scanned.data
        skipped = _Aborted(aborted)
        plain, unpacked = _Sections(), _Sections()
        self._unpacked.clear()
        for row in scanned.batches:
            if row[k.MAGIC_BYTE] < MAGIC:
                self._add_legacy(data, row, unpacked)
            else:
                self._check(data, row)
                if skipped.skips(row) or _behind(row) <= low or row[k.BASE_OFFSET] >= high:
                    continue
                self._add(data, row, plain, unpacked)
            if plain.size + unpacked.size >= size_max:
                yield from self._table(scanned.array, plain, unpacked, (low, high), keep)
                plain, unpacked = _Sections(), _Sections()
                self._unpacked.clear()
        yield from self._table(scanned.array, plain, unpacked, (low, high), keep)

    def _scan(self, array: k.Bytes) -> tuple[k.Longs, int]:
        parts: list[k.Longs] = []
        pos = 0
        while True:
            count, pos, fault = k.scan(array, pos, len(array), self._found)
            if fault != k.SOUND:
                raise self._corrupt(f"no batch at byte {pos}")
            if count < BATCHES_AT_ONCE:
                last = self._found[:count]
                return (np.concatenate([*parts, last]) if parts else last), pos
            parts.append(self._found.copy())

    def _check(self, data: bytes | bytearray | memoryview, row: list[int]) -> None:
        start, end = row[k.POSITION] + ATTRIBUTES_POSITION, row[k.POSITION] + row[k.SIZE]
        if crc32c(memoryview(data)[start:end]) != row[k.CRC]:
            raise self._corrupt(f"the batch at offset {row[k.BASE_OFFSET]} fails its checksum")

    def _add(
        self,
        data: bytes | bytearray | memoryview,
        row: list[int],
        plain: _Sections,
        unpacked: _Sections,
    ) -> None:
        attributes = row[k.ATTRIBUTES]
        records = (row[k.POSITION] + HEADER_SIZE, row[k.POSITION] + row[k.SIZE])
        into = plain
        if attributes & CODEC_MASK:
            payload = memoryview(data)[records[0] : records[1]]
            into = unpacked
            try:
                records = self._unpacked.unpack(attributes & CODEC_MASK, payload, UNPACKED_MAX)
            except CorruptMessage as error:
                text = f"the batch at offset {row[k.BASE_OFFSET]}: {error}"
                raise self._corrupt(text) from error
        append_time = k.NO_APPEND_TIME
        if attributes & TIMESTAMP_TYPE_BIT:
            append_time = row[k.MAX_TIMESTAMP]
        into.add(records, row[k.COUNT], row[k.BASE_OFFSET], row[k.BASE_TIMESTAMP], int(append_time))

    def _add_legacy(
        self, data: bytes | bytearray | memoryview, row: list[int], into: _Sections
    ) -> None:
        """A message of the formats before magic 2: told anew in this one. Rare, and slow."""
        message = bytes(memoryview(data)[row[k.POSITION] : row[k.POSITION] + row[k.SIZE]])
        if not is_intact(message, 0, len(message)):
            raise self._corrupt(f"the message at offset {row[k.BASE_OFFSET]} fails its checksum")
        for record in iterate(message, limit=UNPACKED_MAX, check_crc=False):
            batch = bytes(build_batch([record], base_offset=record.offset))
            header = read_header(batch)
            records = self._unpacked.add(batch[HEADER_SIZE:])
            into.add(records, 1, header.base_offset, header.base_timestamp, int(k.NO_APPEND_TIME))

    def _corrupt(self, what: str) -> CorruptMessage:
        return CorruptMessage(f"{self._topic}-{self._partition}: {what}")

    # Columns

    def _table(
        self,
        array: k.Bytes,
        plain: _Sections,
        unpacked: _Sections,
        bounds: tuple[int, int],
        keep: bool,
    ) -> Iterator[pa.RecordBatch]:
        """One table of both kinds of sections, in the order of their offsets; none if empty."""
        if keep:
            self._buffers = _Buffers()
        if unpacked.rows and plain.rows:
            # Kinds may change within a fetch; then all is copied together, to be decoded in order.
            for start, end, *rest in plain.rows:
                place = self._unpacked.add(array.data[start:end])
                unpacked.rows.append((*place, *rest))  # type: ignore[arg-type]
            unpacked.rows.sort(key=lambda row: row[k.FIRST_OFFSET])
        rows = unpacked.rows or plain.rows
        if unpacked.rows:
            array = self._unpacked.array
        found = np.array(rows, np.int64).reshape(len(rows), k.SECTION)
        count = int(found[:, k.RECORDS].sum())
        size = int((found[:, k.END] - found[:, k.START]).sum())
        if size >= _OFFSETS_MAX:
            raise self._corrupt(f"{size} bytes are more than a table of Arrow can hold")
        buffers = self._buffers
        buffers.reserve(count)
        rows_made, fault, section = k.locate(
            array, found, *bounds, buffers.offsets, buffers.timestamps, buffers.places
        )
        if fault != k.SOUND:
            where = int(found[section, k.FIRST_OFFSET])
            raise self._corrupt(f"the batch at offset {where} holds a record that is none")
        if rows_made:
            yield self._arrow(array, rows_made, self._timestamp_types(found, rows_made))

    def _timestamp_types(self, sections: k.Longs, rows: int) -> pa.Array:
        """One for all records of a fetch, nearly always."""
        of_broker = sections[:, k.APPEND_TIME] != k.NO_APPEND_TIME
        if not of_broker.any() or of_broker.all():
            return self._constant("timestampType", rows, int(of_broker.any()))
        firsts = sections[:, k.FIRST_OFFSET]
        owner = np.searchsorted(firsts, self._buffers.offsets[:rows], side="right") - 1
        return pa.array(of_broker[owner].astype(np.int32))

    def _arrow(self, array: k.Bytes, rows: int, types: pa.Array) -> pa.RecordBatch:
        buffers = self._buffers
        make: dict[str, Callable[[], pa.Array]] = {
            "key": lambda: buffers.binary("key", array, buffers.places, k.KEY_AT, rows),
            "value": lambda: buffers.binary("value", array, buffers.places, k.VALUE_AT, rows),
            "topic": lambda: self._constant("topic", rows, self._topic),
            "partition": lambda: self._constant("partition", rows, self._partition),
            "offset": lambda: _numbers(pa.int64(), buffers.offsets, rows),
            "timestamp": lambda: _numbers(TYPES["timestamp"], buffers.timestamps, rows),
            "timestampType": lambda: types,
            "headers": lambda: self._headers(array, rows),
        }
        arrays = [make[name]() for name in self._columns.names]
        return pa.RecordBatch.from_arrays(arrays, schema=self._columns.schema)

    def _constant(self, name: str, rows: int, value: str | int) -> pa.Array:
        """A column of one value; as long as the longest that was needed, and cut to size."""
        known = self._constants.get((name, value))
        if known is None or len(known) < rows:
            known = pa.repeat(pa.scalar(value, TYPES[name]), rows)
            self._constants[name, value] = known
        return known.slice(0, rows)

    def _headers(self, array: k.Bytes, rows: int) -> pa.Array:
        """Null where a record has none, as Spark's own connector says it."""
        buffers = self._buffers
        places = buffers.places[:rows]
        most = int((places[:, k.HEADERS_END] - places[:, k.HEADERS_AT]).sum()) // 2
        ends = np.empty(rows + 1, np.int32)
        found = np.empty((most, k.PLACES), np.int64)
        count, bad = k.locate_headers(array, places, rows, ends, found)
        if bad >= 0:
            offset = int(buffers.offsets[bad])
            raise self._corrupt(f"the record at offset {offset} has headers that are none")
        names = buffers.binary("name", array, found, k.KEY_AT, count, pa.string())
        contents = buffers.binary("content", array, found, k.VALUE_AT, count)
        entries = pa.StructArray.from_arrays([names, contents], fields=list(HEADERS.value_type))
        empty = ends[1:] == ends[:-1]
        bits = np.packbits(~empty, bitorder="little")
        return pa.Array.from_buffers(
            HEADERS,
            rows,
            [pa.py_buffer(bits), pa.py_buffer(ends)],
            null_count=int(empty.sum()),
            children=[entries],
        )


class _Aborted:
    """Which batches belong to transactions that were aborted; control batches are nobody's."""

    def __init__(self, aborted: Iterable[AbortedTransaction] | None) -> None:
        self._filters = aborted is not None
        self._waiting = sorted(aborted or (), key=lambda each: each.first_offset, reverse=True)
        self._open: set[int] = set()

    def skips(self, row: list[int]) -> bool:
        attributes, producer = row[k.ATTRIBUTES], row[k.PRODUCER_ID]
        if attributes & CONTROL_BIT:
            if self._filters and attributes & TRANSACTIONAL_BIT:
                # The marker ends what this producer had aborted; the next is another transaction.
                self._enter(row[k.BASE_OFFSET])
                self._open.discard(producer)
            return True
        if not self._filters or not attributes & TRANSACTIONAL_BIT:
            return False
        self._enter(row[k.BASE_OFFSET] + row[k.LAST_DELTA])
        return producer in self._open

    def _enter(self, last_offset: int) -> None:
        while self._waiting and self._waiting[-1].first_offset <= last_offset:
            self._open.add(self._waiting.pop().producer_id)


def _numbers(kind: pa.DataType, values: k.Longs | k.Ints, rows: int) -> pa.Array:
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(values[:rows])])


class _Buffers:
    """Room for the columns of one table, used again and again."""

    def __init__(self) -> None:
        self._rows = -1
        self._columns: dict[str, tuple[k.Ints, k.Bytes, k.Bytes]] = {}
        self.reserve(0)

    def reserve(self, rows: int) -> None:
        if rows > self._rows:
            self._rows = rows
            self.offsets = np.empty(rows, np.int64)
            self.timestamps = np.empty(rows, np.int64)
            self.places = np.empty((rows, k.PLACES), np.int64)

    def binary(
        self,
        name: str,
        data: k.Bytes,
        places: k.Longs,
        at: int,
        rows: int,
        kind: pa.DataType = TYPES["value"],
    ) -> pa.Array:
        """A column of bytes, copied out of ``data``."""
        size = k.total_size(places, at + 1, rows)
        known = self._columns.get(name)
        if known is None or len(known[0]) <= rows or len(known[1]) < size:
            ends = np.empty(rows + 1, np.int32)
            known = ends, np.empty(size, np.uint8), np.empty(rows // 8 + 1, np.uint8)
            self._columns[name] = known
        ends, content, bits = known
        bits[: rows // 8 + 1] = 0xFF
        nulls = k.gather(data, places, at, rows, ends, content, bits)
        validity = None if nulls == 0 else pa.py_buffer(bits)
        return pa.Array.from_buffers(
            kind, rows, [validity, pa.py_buffer(ends), pa.py_buffer(content)], null_count=nulls
        )

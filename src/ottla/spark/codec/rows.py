"""Rows that are to become records: the columns of a table of Arrow, checked and taken apart.

Columns are found by name, as the connector does: ``value`` must be there; ``key``, ``headers``,
``topic``, ``partition`` and ``timestamp`` may be; others are nobody's business. ``key`` and
``value`` are binary or string. Every array is checked before a kernel sees it.
"""

from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.common.errors import InvalidRecord, InvalidTopicException
from ottla.spark.codec import encoding_kernels as k
from ottla.spark.codec.kernels import Bytes, Ints, Longs

COLUMNS: Final = ("key", "value", "headers", "topic", "partition", "timestamp")
_NOTHING: Final = np.frombuffer(b"\0", np.uint8)


class UnwritableTable(ValueError):
    """The columns of a table cannot be written to a topic."""


class Content(NamedTuple):
    """A column of bytes: all of them, where each row's begin, and how many; below 0 for null."""

    data: Bytes
    starts: Longs
    sizes: Longs


class Rows:
    """One table, taken apart."""

    def __init__(self, table: pa.RecordBatch, topic: str | None) -> None:
        """``topic`` goes before the column of that name."""
        self.count = table.num_rows
        names = table.schema.names
        if "value" not in names:
            raise UnwritableTable(f"a table to be written needs a column value; it has {names}")
        self.value = _content("value", table.column("value"))
        self.key = _content("key", table.column("key")) if "key" in names else _nulls(self.count)
        headers = table.column("headers") if "headers" in names else None
        self.header_ends, self.names, self.contents = _headers(headers, self.count)
        self.topics, self.topic_of = _topics(table, topic)
        self.partitions = _partitions(table)
        self.stamps = _stamps(table)
        self.sizes = np.empty(self.count, np.int64)
        k.measure(
            self.key.sizes,
            self.value.sizes,
            self.header_ends,
            self.names.sizes,
            self.contents.sizes,
            self.sizes,
        )


def _content(name: str, array: pa.Array) -> Content:
    kind = array.type
    if not (
        pa.types.is_binary(kind)
        or pa.types.is_string(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_null(kind)
    ):
        raise UnwritableTable(f"column {name} is {kind}; it must be binary or string")
    array = array.cast(pa.large_binary())
    count = len(array)
    if count in (0, array.null_count):
        return _nulls(count)
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, np.int64)[array.offset : array.offset + count + 1]
    sizes = np.diff(ends)
    size = 0 if data is None else data.size
    if ends[0] < 0 or ends[-1] > size or (sizes < 0).any():
        raise InvalidRecord(f"column {name} reaches beyond its bytes")
    if array.null_count:
        sizes[np.asarray(array.is_null())] = -1
    starts = ends[:-1]
    content = np.frombuffer(data, np.uint8) if size else _NOTHING
    # Arrays that may be written to are another type to a kernel: it would be compiled for each mix.
    starts.flags.writeable = content.flags.writeable = False
    return Content(content, starts, sizes)


def _nulls(count: int) -> Content:
    starts = np.zeros(count, np.int64)
    starts.flags.writeable = False
    return Content(_NOTHING, starts, np.full(count, -1, np.int64))


def _headers(array: pa.Array | None, rows: int) -> tuple[Longs, Content, Content]:
    """Where the headers of each row end, their names, and their values."""
    if array is None or pa.types.is_null(array.type):
        return np.zeros(rows + 1, np.int64), _nulls(0), _nulls(0)
    kind = array.type
    if not pa.types.is_list(kind) or not pa.types.is_struct(kind.value_type):
        raise UnwritableTable(f"column headers is {kind}; it must be array<struct<key, value>>")
    fields = [field.name for field in kind.value_type]
    if fields != ["key", "value"]:
        raise UnwritableTable(f"headers are structs of {fields}; they must be of key and value")
    # Nulls take no room in the flattened list, so the ends are those of the lengths.
    lengths = np.asarray(pc.fill_null(pc.list_value_length(array), 0)).astype(np.int64)
    entries = array.flatten()
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    if ends[-1] != len(entries):
        raise InvalidRecord("column headers reaches beyond its entries")
    names = _content("headers.key", entries.field("key"))
    if entries.null_count or (names.sizes < 0).any():
        raise InvalidRecord("a header without a key: records cannot have one")
    return ends, names, _content("headers.value", entries.field("value"))


def _topics(table: pa.RecordBatch, topic: str | None) -> tuple[list[str], Ints]:
    """The topics of a table, and which of them each row goes to."""
    if topic is not None:
        return [topic], np.zeros(table.num_rows, np.int32)
    if "topic" not in table.schema.names:
        raise UnwritableTable(
            "where to? Give option topic, or a column topic with the topic of each row"
        )
    column = table.column("topic")
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        raise UnwritableTable(f"column topic is {column.type}; it must be string")
    if column.null_count:
        row = int(np.argmax(np.asarray(column.is_null())))
        raise InvalidTopicException(
            f"{column.null_count} rows have no topic, the first is row {row} of its table: "
            "column topic must not be null unless option topic is given"
        )
    encoded = column.dictionary_encode()
    return encoded.dictionary.to_pylist(), np.asarray(encoded.indices).astype(np.int32)


def _partitions(table: pa.RecordBatch) -> Ints:
    if "partition" not in table.schema.names or pa.types.is_null(table.column("partition").type):
        return np.full(table.num_rows, k.NO_PARTITION, np.int32)
    column = table.column("partition")
    if not pa.types.is_int32(column.type):
        raise UnwritableTable(f"column partition is {column.type}; it must be int")
    wanted = np.asarray(pc.fill_null(column, k.NO_PARTITION)).astype(np.int32)
    # A null is no wish; a number below 0 is one that no topic can fulfil.
    wanted[(wanted < 0) & np.asarray(column.is_valid())] = np.iinfo(np.int32).max
    return wanted


def _stamps(table: pa.RecordBatch) -> Longs | None:
    """Milliseconds of each row, below 0 for null; None without a column of timestamps."""
    if "timestamp" not in table.schema.names:
        return None
    column = table.column("timestamp")
    if pa.types.is_null(column.type):
        return None
    if not pa.types.is_timestamp(column.type):
        raise UnwritableTable(f"column timestamp is {column.type}; it must be a timestamp")
    millis = pc.cast(column, pa.timestamp("ms", column.type.tz), safe=False).cast(pa.int64())
    if millis.null_count < len(millis) and pc.min(millis).as_py() < 0:
        raise InvalidRecord("a timestamp before 1970: records cannot have one")
    return np.asarray(pc.fill_null(millis, -1)).astype(np.int64)

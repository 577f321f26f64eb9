"""The loops over batches and records, compiled by numba: no Python object for any record.

Everything here works on arrays of bytes and numbers that the caller has made large enough. Lengths
come from outside, so each is compared with the bytes that are there before it is used; a kernel
answers with a fault and its place where something does not fit, and never reads or writes beyond
its arrays.
"""

from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

import numba
import numpy as np
from numba.core import cgutils, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from ottla.records.batch import HEADER_SIZE, LEGACY_LENGTH_MIN, LOG_OVERHEAD, MAGIC

Bytes = NDArray[np.uint8]
Longs = NDArray[np.int64]
Ints = NDArray[np.int32]

F = TypeVar("F", bound=Callable[..., Any])

# Columns of what ``scan`` tells of a batch.
POSITION: Final = 0
SIZE: Final = 1
BASE_OFFSET: Final = 2
LAST_DELTA: Final = 3
ATTRIBUTES: Final = 4
BASE_TIMESTAMP: Final = 5
MAX_TIMESTAMP: Final = 6
PRODUCER_ID: Final = 7
COUNT: Final = 8
MAGIC_BYTE: Final = 9
CRC: Final = 10
SCANNED: Final = 11

# Columns of a section: the records of one batch, unpacked.
START: Final = 0
END: Final = 1
RECORDS: Final = 2
FIRST_OFFSET: Final = 3
FIRST_TIMESTAMP: Final = 4
APPEND_TIME: Final = 5
"""The timestamp of all its records, or NO_APPEND_TIME."""
SECTION: Final = 6
NO_APPEND_TIME: Final = np.iinfo(np.int64).min

# Columns of where a record's parts are; a header's name and value use the first four.
KEY_AT: Final = 0
KEY_SIZE: Final = 1
VALUE_AT: Final = 2
VALUE_SIZE: Final = 3
HEADERS_AT: Final = 4
HEADERS_END: Final = 5
PLACES: Final = 6

# Faults.
SOUND: Final = 0
BAD_LENGTH: Final = 1
BAD_MAGIC: Final = 2
BAD_RECORD: Final = 3
TRAILING: Final = 4

RECORD_BYTES_MIN: Final = 7
"""Length, attributes, two deltas, two lengths, the number of headers."""
_VARINT_BYTES: Final = 5
_VARLONG_BYTES: Final = 10
_MILLIS_MAX: Final = np.iinfo(np.int64).max // 1000


def compiled(function: F) -> F:
    """Compiled at its first call, and kept on disk for the next process."""
    return cast("F", numba.njit(cache=True, nogil=True)(function))


def inlined(function: F) -> F:
    """Inlined into its callers: a call would count references to every array, atomically."""
    return cast("F", numba.njit(inline="always")(function))


def _copy(_typing: Any, into: Any, at: Any, source: Any, start: Any, size: Any) -> Any:
    """``into[at:at+size] = source[start:start+size]`` by one memcpy; the caller checks bounds."""
    signature = types.void(into, at, source, start, size)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        into_value, at_value, source_value, start_value, size_value = arguments
        target = context.make_array(signature.args[0])(context, builder, into_value)
        origin = context.make_array(signature.args[2])(context, builder, source_value)
        raw_memcpy(
            builder,
            builder.gep(target.data, [at_value]),
            builder.gep(origin.data, [start_value]),
            size_value,
            1,
        )
        return context.get_dummy_value()

    return signature, generate


raw_memcpy: Any = cgutils.raw_memcpy
copy: Any = intrinsic(_copy)


@compiled
def _big_endian(data: Bytes, pos: int, size: int) -> Any:
    value = np.int64(np.int8(data[pos]))
    for i in range(1, size):
        value = (value << 8) | np.int64(data[pos + i])
    return value


@compiled
def scan(data: Bytes, start: int, end: int, found: Longs) -> tuple[int, int, int]:
    """Tell of each whole batch in ``data[start:end]``; the count, where it ended, a fault.

    Stops at the end, at a batch that is cut, or when ``found`` is full.
    """
    count = 0
    pos = start
    while count < found.shape[0] and end - pos >= LOG_OVERHEAD + LEGACY_LENGTH_MIN:
        length = _big_endian(data, pos + 8, 4)
        magic = _big_endian(data, pos + 16, 1)
        if length < LEGACY_LENGTH_MIN:
            return count, pos, BAD_LENGTH
        if magic < 0 or magic > MAGIC:
            return count, pos, BAD_MAGIC
        size = LOG_OVERHEAD + length
        if size > end - pos:
            break
        row = found[count]
        row[POSITION] = pos
        row[SIZE] = size
        row[BASE_OFFSET] = _big_endian(data, pos, 8)
        row[MAGIC_BYTE] = magic
        row[LAST_DELTA] = 0  # an old message stands alone, or tells the last offset of several
        if magic == MAGIC:
            if size < HEADER_SIZE:
                return count, pos, BAD_LENGTH
            row[CRC] = _big_endian(data, pos + 17, 4) & 0xFFFFFFFF
            row[ATTRIBUTES] = _big_endian(data, pos + 21, 2)
            row[LAST_DELTA] = _big_endian(data, pos + 23, 4)
            row[BASE_TIMESTAMP] = _big_endian(data, pos + 27, 8)
            row[MAX_TIMESTAMP] = _big_endian(data, pos + 35, 8)
            row[PRODUCER_ID] = _big_endian(data, pos + 43, 8)
            row[COUNT] = _big_endian(data, pos + 57, 4)
        count += 1
        pos += size
    return count, pos, SOUND


@inlined
def _varint(data: Bytes, pos: int, end: int, longest: int) -> tuple[Any, Any]:
    """A zigzag varint and the position behind it; position -1 when it is none."""
    if pos >= end:
        return np.int64(0), np.int64(-1)
    byte = data[np.uint64(pos)]
    value = np.uint64(byte & 0x7F)
    shift = np.uint64(7)
    size = 1
    while byte >= 0x80:
        if size == longest or pos + size >= end:
            return np.int64(0), np.int64(-1)
        byte = data[np.uint64(pos + size)]
        value |= np.uint64(byte & 0x7F) << shift
        shift += np.uint64(7)
        size += 1
    return np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1)), pos + size


@compiled
def locate(
    data: Bytes,
    sections: Longs,
    low: int,
    high: int,
    offsets: Longs,
    timestamps: Longs,
    places: Longs,
) -> tuple[int, int, int]:
    """Find the records of ``sections`` with ``low <= offset < high``: rows, fault, its section.

    ``places`` gets, for each, where its key begins and its size (below 0 for null), the same of its
    value, and where its headers begin and end. Timestamps are told in microseconds.
    """
    row = 0
    for number in range(sections.shape[0]):
        pos, end = sections[number, START], sections[number, END]
        first_offset, base = sections[number, FIRST_OFFSET], sections[number, FIRST_TIMESTAMP]
        append_time = sections[number, APPEND_TIME]
        for _ in range(sections[number, RECORDS]):
            size, pos = _varint(data, pos, end, _VARINT_BYTES)
            if pos < 0 or size < RECORD_BYTES_MIN - 1 or size > end - pos:
                return row, BAD_RECORD, number
            stop = pos + size
            delta, pos = _varint(data, pos + 1, stop, _VARLONG_BYTES)
            if pos < 0:
                return row, BAD_RECORD, number
            offset_delta, pos = _varint(data, pos, stop, _VARINT_BYTES)
            if pos < 0:
                return row, BAD_RECORD, number
            key_size, key_at = _varint(data, pos, stop, _VARINT_BYTES)
            if key_at < 0 or key_size > stop - key_at:
                return row, BAD_RECORD, number
            value_size, value_at = _varint(data, key_at + max(key_size, 0), stop, _VARINT_BYTES)
            if value_at < 0 or value_size > stop - value_at:
                return row, BAD_RECORD, number
            offset = first_offset + offset_delta
            if low <= offset < high:
                stamp = append_time if append_time != NO_APPEND_TIME else base + delta
                at = np.uint64(row)
                offsets[at] = offset
                timestamps[at] = min(max(stamp, -_MILLIS_MAX), _MILLIS_MAX) * 1000
                places[at, KEY_AT], places[at, KEY_SIZE] = key_at, key_size
                places[at, VALUE_AT], places[at, VALUE_SIZE] = value_at, value_size
                places[at, HEADERS_AT] = value_at + max(value_size, 0)
                places[at, HEADERS_END] = stop
                row += 1
            pos = stop
        if pos != end:
            return row, TRAILING, number
    return row, SOUND, 0


@compiled
def gather(
    data: Bytes, places: Longs, at: int, rows: int, ends: Ints, content: Bytes, bits: Bytes
) -> int:
    """Copy one column, whose places stand in columns ``at`` and ``at + 1``; answer its nulls.

    It becomes bytes as Arrow has them: where each value ends, all bytes, and a bit for each value
    that is there (all ones before).
    """
    total = nulls = 0
    ends[0] = 0
    for row in range(rows):
        size = places[row, at + 1]
        if size >= 0:
            copy(content, total, data, places[row, at], size)
            total += size
        else:
            bits[row >> 3] &= ~np.uint8(1 << (row & 7))
            nulls += 1
        ends[np.uint64(row + 1)] = total
    return nulls


@compiled
def total_size(places: Longs, at: int, rows: int) -> int:
    """The bytes of a column."""
    total = 0
    for row in range(rows):
        total += max(places[row, at], 0)
    return total


@compiled
def locate_headers(
    data: Bytes, places: Longs, rows: int, ends: Ints, headers: Longs
) -> tuple[int, int]:
    """Find the headers of all rows: their number, and the row of the first that is none, or -1.

    ``headers`` gets where a name begins and its size, and the same of its value.
    """
    count = 0
    ends[0] = 0
    for row in range(rows):
        pos, stop = places[row, HEADERS_AT], places[row, HEADERS_END]
        number, pos = _varint(data, pos, stop, _VARINT_BYTES)
        if pos < 0 or number < 0 or number > (stop - pos) // 2:
            return count, row
        for _ in range(number):
            name_size, name_at = _varint(data, pos, stop, _VARINT_BYTES)
            if name_at < 0 or name_size < 0 or name_size > stop - name_at:
                return count, row
            size, at = _varint(data, name_at + name_size, stop, _VARINT_BYTES)
            if at < 0 or size > stop - at:
                return count, row
            headers[count, KEY_AT], headers[count, KEY_SIZE] = name_at, name_size
            headers[count, VALUE_AT], headers[count, VALUE_SIZE] = at, size
            pos = at + max(size, 0)
            count += 1
        if pos != stop:
            return count, row
        ends[row + 1] = count
    return count, -1

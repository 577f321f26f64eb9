"""The walk over the records of a batch that decides whether they are what the header says.

No record is made: lengths are followed from one to the next, and what an append must know is
gathered on the way. Run once per produced record, so this module is compiled by mypyc, and the
short forms of each varint, which is what records have, stand inline.

:func:`walk` returns the largest timestamp delta, the index of the first record that has it, the
smallest delta, how many records have no key, and whether the offset deltas are 0, 1, 2 ... It
raises InvalidRecord for anything that is no record. Every advance is followed by a read, and
reading beyond the end raises IndexError: no length can lead outside the data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.common.errors import InvalidRecord
from ottla.records.varint import read_varint, read_varlong

if TYPE_CHECKING:  # machine integers once compiled, nothing at all while interpreted
    from mypy_extensions import i64

_LARGEST_DELTA: Final = (1 << 63) - 1
_SMALLEST_DELTA: Final = -(1 << 63)


def walk(data: bytes, start: int, count: int) -> tuple[int, int, int, int, bool]:
    """Follow ``count`` records from ``start`` to the end of ``data``, which they must fill."""
    pos: i64 = start
    largest: i64 = _SMALLEST_DELTA
    smallest: i64 = _LARGEST_DELTA
    last_delta: i64 = -1
    index_of_largest: i64 = 0
    without_key: i64 = 0
    in_sequence = True
    index: i64
    try:
        for index in range(count):
            size: i64 = data[pos]
            pos += 1
            if size >= 0x80:
                size += (data[pos] << 7) - 0x80
                pos += 1
                if size >= 0x4000:
                    size, pos = _read_long(data, pos - 2)
            end: i64 = (pos << 1) + size  # doubled as zigzag is, so odd if the size is negative

            delta: i64 = data[pos + 1]  # behind the attributes, of which none is defined
            pos += 2
            if delta != last_delta or delta >= 0x80:  # records of one moment come together
                last_delta = delta
                if delta < 0x80:
                    delta = (delta >> 1) ^ -(delta & 1)
                else:
                    delta, pos = _read_delta(data, pos, delta)
                if delta > largest:
                    largest, index_of_largest = delta, index
                if delta < smallest:  # noqa: PLR1730 - a call of min costs more than all of this
                    smallest = delta

            size = data[pos]
            pos += 1
            if size >= 0x80:
                size += (data[pos] << 7) - 0x80
                pos += 1
                if size >= 0x4000:
                    size, pos = _read_long(data, pos - 2)
            if size != index << 1:
                in_sequence = False

            size = data[pos]
            pos += 1
            if size >= 0x80:
                size, pos = _read_long(data, pos - 1)
            if size & 1:
                without_key += 1
            else:
                pos += size >> 1

            size = data[pos]
            pos += 1
            if size >= 0x80:
                size += (data[pos] << 7) - 0x80
                pos += 1
                if size >= 0x4000:
                    size, pos = _read_long(data, pos - 2)
            if not size & 1:
                pos += size >> 1
            pos = pos + 1 if data[pos] == 0 else _walk_headers(data, pos, end >> 1)
            if pos << 1 != end:
                raise InvalidRecord(f"record {index} is not as long as it says")
    except IndexError:
        raise InvalidRecord("a record reaches beyond the end of its batch") from None
    if pos != len(data):
        raise InvalidRecord(f"the records end at byte {pos} of {len(data)}")
    return largest, index_of_largest, smallest, without_key, in_sequence


def _read_long(data: bytes, pos: i64) -> tuple[i64, i64]:
    """A varint of any length; left zigzag, that is doubled."""
    value: i64
    value, pos = read_varint(data, pos)
    return (value << 1) ^ (value >> 31), pos


def _read_delta(data: bytes, pos: i64, first: i64) -> tuple[i64, i64]:
    """A timestamp delta of more than one byte, of which ``first`` is read."""
    byte: i64 = data[pos]
    if byte < 0x80:
        first += (byte << 7) - 0x80
        return (first >> 1) ^ -(first & 1), pos + 1
    return read_varlong(data, pos - 1)


def _walk_headers(data: bytes, start: int, record_end: int) -> int:
    """Follow the record headers from their count at ``start``; the position behind them."""
    pos: i64
    size: i64
    count, pos = read_varint(data, start)
    if count < 0 or count > record_end - pos:
        raise InvalidRecord(f"invalid number of record headers: {count}")
    for _ in range(count):
        size, pos = read_varint(data, pos)
        if size < 0:
            raise InvalidRecord(f"invalid size of a record header's key: {size}")
        pos += size
        size, pos = read_varint(data, pos)
        if size > 0:
            pos += size
    return pos

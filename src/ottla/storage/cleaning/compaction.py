"""Which records of a batch stay, and what the batch then looks like.

Pure functions over the records of one batch, unpacked. A record stays when no later record of its
key is known, or when it stands behind all that the map knows; one without a value, a tombstone,
goes nevertheless once its batch's delete horizon has passed. What stays keeps its offset, its
order and its bytes; only when the base timestamp of the batch changes are the timestamp deltas
written anew.

Compiled by mypyc, like ``records/walk.py``, whose way of reading records this is: every advance is
followed by a read, and what would lead outside the data raises InvalidRecord.

Counterpart: ``MemoryRecords.filterTo`` and ``Cleaner.shouldRetainRecord``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.common.errors import InvalidRecord
from ottla.records.varint import read_varint, read_varlong, varint_size, write_varint
from ottla.storage.cleaning.offset_map import OffsetMap

if TYPE_CHECKING:  # machine integers once compiled, nothing at all while interpreted
    from mypy_extensions import i64

_SMALLEST_DELTA: Final = -(1 << 63)


class Choice:
    """The records of a batch that stay."""

    __slots__ = ("count", "first_delta", "has_tombstones", "max_delta", "runs", "without_key")

    def __init__(self) -> None:
        self.count: i64 = 0
        self.without_key: i64 = 0
        self.runs: list[int] = []
        """Where records that stay begin and end, in pairs; neighbours are one run."""
        self.has_tombstones = False
        self.first_delta: i64 = 0
        """The timestamp delta of the first one."""
        self.max_delta: i64 = _SMALLEST_DELTA

    def add(self, start: i64, end: i64, time_delta: i64, has_value: bool) -> None:
        """A record that begins and ends there stays."""
        runs = self.runs
        if self.count == 0:
            self.first_delta = time_delta
        self.count += 1
        if not has_value:
            self.has_tombstones = True
        if time_delta > self.max_delta:  # noqa: PLR1730 - a call of max costs more than all of this
            self.max_delta = time_delta
        if runs and runs[-1] == start:
            runs[-1] = end
        else:
            runs.append(start)
            runs.append(end)


def index_keys(
    data: bytes,
    start: int,
    count: int,
    base_offset: int,
    start_offset: int,
    offsets: OffsetMap,
    size_max: int,
) -> bool:
    """Put the keys of a batch into the map; whether they all fitted.

    Records below ``start_offset`` are passed over: they belong to the clean part.
    """
    pos: i64 = start
    total: i64 = len(data)
    base: i64 = base_offset
    low: i64 = start_offset
    most: i64 = size_max
    size: i64
    delta: i64
    try:
        for _ in range(count):
            size, pos = _read(data, pos)
            end: i64 = pos + size
            if size < 0 or end > total:
                raise InvalidRecord("a record reaches beyond the end of its batch")
            pos += 1
            while data[pos] >= 0x80:  # the timestamp
                pos += 1
            delta, pos = _read(data, pos + 1)
            size, pos = _read(data, pos)
            if size >= 0 and base + delta >= low:
                if pos + size > end:
                    raise InvalidRecord("a key reaches beyond the end of its record")
                if offsets.size >= most:
                    return False
                offsets.put(data[pos : pos + size], base + delta)
            pos = end
    except IndexError:
        raise InvalidRecord("a record reaches beyond the end of its batch") from None
    return True


def choose(
    data: bytes,
    start: int,
    count: int,
    base_offset: int,
    offsets: OffsetMap,
    latest_offset: int,
    keep_tombstones: bool,
) -> Choice:
    """Decide about each record; all above ``latest_offset`` stay."""
    choice = Choice()
    pos: i64 = start
    total: i64 = len(data)
    base: i64 = base_offset
    latest: i64 = latest_offset
    size: i64
    delta: i64
    time_delta: i64
    try:
        for _ in range(count):
            record_start: i64 = pos
            size, pos = _read(data, pos)
            end: i64 = pos + size
            if size < 0 or end > total:
                raise InvalidRecord("a record reaches beyond the end of its batch")
            time_delta, pos = _read_time(data, pos + 1)
            delta, pos = _read(data, pos)
            size, pos = _read(data, pos)
            key_end: i64 = pos if size < 0 else pos + size
            if key_end >= end:
                raise InvalidRecord("a key reaches beyond the end of its record")
            has_value = data[key_end] & 1 == 0  # a size below zero is odd in zigzag
            if base + delta > latest:
                stays = True
            elif size < 0:
                stays = False
                choice.without_key += 1
            else:
                stays = (has_value or keep_tombstones) and (
                    base + delta >= offsets.get(data[pos:key_end])
                )
            if stays:
                choice.add(record_start, end, time_delta, has_value)
            pos = end
    except IndexError:
        raise InvalidRecord("a record reaches beyond the end of its batch") from None
    return choice


def _read(data: bytes, pos: i64) -> tuple[i64, i64]:
    """A varint, and the position behind it; most have one byte."""
    byte: i64 = data[pos]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), pos + 1
    return read_varint(data, pos)


def _read_time(data: bytes, pos: i64) -> tuple[i64, i64]:
    byte: i64 = data[pos]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), pos + 1
    return read_varlong(data, pos)


def copy_runs(data: bytes, runs: list[int]) -> bytes:
    """The records that stay, as they are."""
    if len(runs) == 2:
        return data[runs[0] : runs[1]]
    return b"".join([data[runs[at] : runs[at + 1]] for at in range(0, len(runs), 2)])


def copy_shifted(data: bytes, runs: list[int], shift: int, fixed: bool) -> bytes:
    """The records that stay, their timestamp deltas raised by ``shift``, or set to it if fixed."""
    out = bytearray()
    for at in range(0, len(runs), 2):
        pos = runs[at]
        run_end = runs[at + 1]
        while pos < run_end:
            size, pos = read_varint(data, pos)
            end = pos + size
            delta, behind = read_varlong(data, pos + 1)
            new_delta = shift if fixed else delta + shift
            write_varint(out, size - (behind - pos - 1) + varint_size(new_delta))
            out.append(data[pos])
            write_varint(out, new_delta)
            out += data[behind:end]
            pos = end
    return bytes(out)

"""Records as objects: for clients, coordinators and tools, never for the way through a broker."""

from collections.abc import Sequence
from typing import TypeAlias

from ottla.common.errors import CorruptMessage, InvalidRecord
from ottla.records.batch import (
    HEADER_SIZE,
    LOG_APPEND_TIME,
    MAGIC,
    NO_TIMESTAMP,
    Buffer,
    crc_is_valid,
    read_header,
)
from ottla.records.compression import DECOMPRESSED_MAX, decompress
from ottla.records.legacy import messages
from ottla.records.varint import read_varint, read_varlong, write_varint

Header: TypeAlias = tuple[str | bytes, bytes | None]
"""Key and value; a key that is not UTF-8 is kept as the bytes that it is."""


class Record:
    """One record with its offset and timestamp as they are in the log."""

    __slots__ = ("headers", "key", "offset", "timestamp", "value")

    def __init__(
        self,
        *,
        key: bytes | None = None,
        value: bytes | None = None,
        timestamp: int = NO_TIMESTAMP,
        offset: int = -1,
        headers: Sequence[Header] = (),
    ) -> None:
        self.offset = offset
        self.timestamp = timestamp
        self.key = key
        self.value = value
        self.headers: list[Header] = list(headers)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record):
            return NotImplemented
        return (
            self.offset == other.offset
            and self.timestamp == other.timestamp
            and self.key == other.key
            and self.value == other.value
            and self.headers == other.headers
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"Record(offset={self.offset}, timestamp={self.timestamp}, key={self.key!r}, "
            f"value={self.value!r}, headers={self.headers!r})"
        )


def iterate(
    batch: Buffer, pos: int = 0, *, limit: int = DECOMPRESSED_MAX, check_crc: bool = True
) -> list[Record]:
    """The records of the batch at ``pos``, of any magic.

    CorruptMessage when the batch is cut, damaged or unpacks to more than ``limit`` bytes;
    InvalidRecord when a record in it is none.
    """
    header = read_header(batch, pos)
    if header.magic < MAGIC:
        data = bytes(memoryview(batch)[pos : pos + header.size])
        return [
            Record(offset=offset, timestamp=timestamp, key=key, value=value)
            for offset, timestamp, key, value in messages(data, limit=limit, check_crc=check_crc)
        ]
    if header.magic > MAGIC:
        raise CorruptMessage(f"invalid magic {header.magic}")
    if not HEADER_SIZE <= header.size <= len(batch) - pos:
        raise CorruptMessage(f"a batch of {header.size} bytes where {len(batch) - pos} remain")
    if check_crc and not crc_is_valid(batch, pos, header.size):
        raise CorruptMessage("the checksum of the batch is not that of its bytes")
    if header.record_count < 0:
        raise InvalidRecord(f"a batch of {header.record_count} records")
    payload = bytes(memoryview(batch)[pos + HEADER_SIZE : pos + header.size])
    data = decompress(header.codec, payload, limit)
    append_time = header.max_timestamp if header.timestamp_type == LOG_APPEND_TIME else None
    return decode_records(
        data, header.record_count, header.base_offset, header.base_timestamp, append_time
    )


def decode_records(
    data: bytes,
    count: int,
    base_offset: int,
    base_timestamp: int,
    append_time: int | None = None,
) -> list[Record]:
    """``count`` records, which must fill ``data``; an append time takes the place of their own."""
    records: list[Record] = []
    pos = 0
    try:
        for _ in range(count):
            size, pos = read_varint(data, pos)
            end = pos + size
            if size < 0 or end > len(data):
                raise InvalidRecord(f"a record of {size} bytes where {len(data) - pos} remain")
            record, pos = _decode(data, pos, base_offset, base_timestamp)
            if pos != end:
                raise InvalidRecord(f"a record of {size} bytes ends at {pos} and not at {end}")
            if append_time is not None:
                record.timestamp = append_time
            records.append(record)
    except IndexError:
        raise InvalidRecord("a record reaches beyond the end of its batch") from None
    if pos != len(data):
        raise InvalidRecord(f"{len(data) - pos} bytes remain behind the last record")
    return records


def _decode(data: bytes, pos: int, base_offset: int, base_timestamp: int) -> tuple[Record, int]:
    """The record whose attributes are at ``pos``."""
    timestamp_delta, pos = read_varlong(data, pos + 1)
    offset_delta, pos = read_varint(data, pos)
    key, pos = _read_bytes(data, pos)
    value, pos = _read_bytes(data, pos)
    record = Record(
        key=key,
        value=value,
        timestamp=base_timestamp + timestamp_delta,
        offset=base_offset + offset_delta,
    )
    count, pos = read_varint(data, pos)
    if count < 0 or count > len(data) - pos:
        raise InvalidRecord(f"invalid number of record headers: {count}")
    for _ in range(count):
        name, pos = _read_bytes(data, pos)
        if name is None:
            raise InvalidRecord("a record header without a key")
        header_value, pos = _read_bytes(data, pos)
        record.headers.append((_text(name), header_value))
    return record, pos


def _read_bytes(data: bytes, pos: int) -> tuple[bytes | None, int]:
    size, pos = read_varint(data, pos)
    if size < 0:
        return None, pos
    end = pos + size
    if end > len(data):
        raise InvalidRecord(f"a field of {size} bytes where {len(data) - pos} remain")
    return data[pos:end], end


def _text(name: bytes) -> str | bytes:
    try:
        return name.decode()
    except UnicodeDecodeError:
        return name


def encode_record(
    out: bytearray,
    timestamp_delta: int,
    offset_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[Header] = (),
) -> None:
    """Append a record to ``out``."""
    body = bytearray(1)
    write_varint(body, timestamp_delta)
    write_varint(body, offset_delta)
    _write_bytes(body, key)
    _write_bytes(body, value)
    write_varint(body, len(headers))
    for name, header_value in headers:
        _write_bytes(body, name.encode() if isinstance(name, str) else name)
        _write_bytes(body, header_value)
    write_varint(out, len(body))
    out += body


def _write_bytes(out: bytearray, value: bytes | None) -> None:
    if value is None:
        out.append(1)
        return
    write_varint(out, len(value))
    out += value

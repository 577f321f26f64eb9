"""Message formats 0 and 1, which logs of old clusters may still hold.

Nothing writes them any more: a produce request of today must carry magic 2. Reading them is for
tools, and for consumers of a directory that was taken over.

    offset q   size i   crc I (CRC-32 of what follows)   magic b   attributes b
    [timestamp q, magic 1]   key: size i (-1 null), bytes   value: size i, bytes

A compressed message is a wrapper: its value holds messages. In format 1 their offsets are relative
and the wrapper carries the offset of the last; in format 0 they are absolute.
"""

import zlib
from struct import Struct
from typing import Final

from ottla.common.errors import CorruptMessage
from ottla.records.batch import (
    CODEC_MASK,
    LEGACY_LENGTH_MIN,
    LOG_OVERHEAD,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
)
from ottla.records.compression import DECOMPRESSED_MAX, LZ4, decompress
from ottla.records.record import Record

_PREFIX: Final = Struct(">qiIbb")
_TIMESTAMP: Final = Struct(">q")
_SIZE: Final = Struct(">i")
_CRC_END: Final = 16


class _Message:
    __slots__ = ("attributes", "key", "magic", "offset", "size", "timestamp", "value")

    def __init__(self, data: bytes, pos: int) -> None:
        if len(data) - pos < _PREFIX.size:
            raise CorruptMessage("a message is cut")
        self.offset, length, crc, self.magic, self.attributes = _PREFIX.unpack_from(data, pos)
        self.size = LOG_OVERHEAD + length
        if length < LEGACY_LENGTH_MIN or self.size > len(data) - pos:
            raise CorruptMessage(f"a message of {length} bytes")
        if self.magic not in (0, 1):
            raise CorruptMessage(f"magic {self.magic} where 0 or 1 is expected")
        end = pos + self.size
        if zlib.crc32(memoryview(data)[pos + _CRC_END : end]) != crc:
            raise CorruptMessage(f"the message at offset {self.offset} is damaged")
        pos += _PREFIX.size
        self.timestamp = NO_TIMESTAMP
        if self.magic == 1:
            if end - pos < _TIMESTAMP.size:
                raise CorruptMessage("a message without a timestamp")
            (self.timestamp,) = _TIMESTAMP.unpack_from(data, pos)
            pos += _TIMESTAMP.size
        self.key, pos = _read_bytes(data, pos, end)
        self.value, pos = _read_bytes(data, pos, end)
        if pos != end:
            raise CorruptMessage(f"{end - pos} bytes remain behind a message")

    def record(self) -> Record:
        return Record(offset=self.offset, timestamp=self.timestamp, key=self.key, value=self.value)


def _read_bytes(data: bytes, pos: int, end: int) -> tuple[bytes | None, int]:
    if end - pos < _SIZE.size:
        raise CorruptMessage("a message without its fields")
    (size,) = _SIZE.unpack_from(data, pos)
    pos += _SIZE.size
    if size < 0:
        return None, pos
    if size > end - pos:
        raise CorruptMessage(f"a field of {size} bytes where {end - pos} remain")
    return data[pos : pos + size], pos + size


def iterate(data: bytes, pos: int = 0, *, limit: int = DECOMPRESSED_MAX) -> list[Record]:
    """The records of the message at ``pos``: one, or all that a compressed one wraps."""
    wrapper = _Message(data, pos)
    codec = wrapper.attributes & CODEC_MASK
    if codec == 0:
        return [wrapper.record()]
    if codec > LZ4:
        raise CorruptMessage(f"codec {codec} in a message of magic {wrapper.magic}")
    if wrapper.value is None:
        raise CorruptMessage("a compressed message without a value")
    records = _unwrap(decompress(codec, wrapper.value, limit), wrapper.magic)
    if wrapper.magic == 1:
        base = wrapper.offset - records[-1].offset
        for record in records:
            record.offset += base
            if wrapper.attributes & TIMESTAMP_TYPE_BIT:
                record.timestamp = wrapper.timestamp
    return records


def _unwrap(data: bytes, magic: int) -> list[Record]:
    records: list[Record] = []
    pos = 0
    while pos < len(data):
        message = _Message(data, pos)
        if message.magic != magic or message.attributes & CODEC_MASK:
            raise CorruptMessage("a compressed message inside another, or one of another magic")
        records.append(message.record())
        pos += message.size
    if not records:
        raise CorruptMessage("a compressed message without messages")
    return records

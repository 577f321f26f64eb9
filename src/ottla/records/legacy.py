"""Message formats 0 and 1, which logs of old clusters may still hold.

Nothing writes them any more: a produce request of today must carry magic 2. Reading them is for
every reader of batches: ``record.iterate`` comes here.

    offset q   size i   crc I (CRC-32 of what follows)   magic b   attributes b
    [timestamp q, magic 1]   key: size i (-1 null), bytes   value: size i, bytes

A compressed message is a wrapper: its value holds messages, and it bears the offset of the last. In
format 1 their offsets are relative; in format 0 they are absolute. An append time of the wrapper is
that of all. As in Kafka the magic of a message may be another than that of its wrapper, which some
brokers wrote, and the checksum of the wrapper speaks for all.

Counterpart: ``AbstractLegacyRecordBatch``.
"""

from struct import Struct
from typing import Final, NamedTuple

from ottla.common.errors import CorruptMessage
from ottla.records import lz4_frame
from ottla.records.batch import (
    CODEC_MASK,
    LEGACY_LENGTH_MIN,
    LOG_OVERHEAD,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    is_intact,
)
from ottla.records.compression import DECOMPRESSED_MAX, LZ4, decompress

_PREFIX: Final = Struct(">qi4xbb")
_TIMESTAMP: Final = Struct(">q")
_SIZE: Final = Struct(">i")


class Message(NamedTuple):
    """One record of a wrapper, or one that stands alone, with its own offset and timestamp."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


class _Raw(NamedTuple):
    message: Message
    magic: int
    attributes: int
    size: int


def messages(
    data: bytes, pos: int = 0, *, limit: int = DECOMPRESSED_MAX, check_crc: bool = True
) -> list[Message]:
    """The message at ``pos``, or all that it wraps."""
    (message, magic, attributes, size) = _read(data, pos)
    if check_crc and not is_intact(data, pos, size):
        raise CorruptMessage(f"the message at offset {message.offset} is damaged")
    codec = attributes & CODEC_MASK
    if codec == 0:
        return [message]
    if codec > LZ4:
        raise CorruptMessage(f"codec {codec} in a message of magic {magic}")
    if message.value is None:
        raise CorruptMessage("a compressed message without a value")
    wrapped = _unwrap(_unpacked(codec, magic, message.value, limit))
    if magic == 0:
        return [raw.message for raw in wrapped]
    last = wrapped[-1].message.offset
    # Some producers leave 0 in the wrapper; a broker has put the last offset there.
    base = message.offset - last if message.offset else 0
    if base < 0:
        raise CorruptMessage(f"a wrapper at offset {message.offset} of messages up to {last}")
    append_time = message.timestamp if attributes & TIMESTAMP_TYPE_BIT else None
    return [_placed(raw, base, append_time) for raw in wrapped]


def _placed(raw: _Raw, base: int, append_time: int | None) -> Message:
    message = raw.message
    timestamp = message.timestamp if append_time is None or raw.magic == 0 else append_time
    return Message(base + message.offset, timestamp, message.key, message.value)


def _unpacked(codec: int, magic: int, value: bytes, limit: int) -> bytes:
    if codec == LZ4 and magic == 0:
        # Old clients took the checksum of the frame's head over too many bytes.
        try:
            value = lz4_frame.with_own_checksum(value)
        except ValueError as error:
            raise CorruptMessage(f"invalid lz4 payload: {error}") from None
    return decompress(codec, value, limit)


def _unwrap(data: bytes) -> list[_Raw]:
    found: list[_Raw] = []
    pos = 0
    while pos < len(data):
        raw = _read(data, pos)
        if raw.attributes & CODEC_MASK:
            raise CorruptMessage("a compressed message inside another")
        found.append(raw)
        pos += raw.size
    if not found:
        raise CorruptMessage("a compressed message without messages")
    return found


def _read(data: bytes, pos: int) -> _Raw:
    if len(data) - pos < _PREFIX.size:
        raise CorruptMessage("a message is cut")
    offset, length, magic, attributes = _PREFIX.unpack_from(data, pos)
    size = LOG_OVERHEAD + length
    if length < LEGACY_LENGTH_MIN or size > len(data) - pos:
        raise CorruptMessage(f"a message of {length} bytes")
    if magic not in (0, 1):
        raise CorruptMessage(f"magic {magic} where 0 or 1 is expected")
    end = pos + size
    pos += _PREFIX.size
    timestamp = NO_TIMESTAMP
    if magic == 1:
        if end - pos < _TIMESTAMP.size:
            raise CorruptMessage("a message without a timestamp")
        (timestamp,) = _TIMESTAMP.unpack_from(data, pos)
        pos += _TIMESTAMP.size
    key, pos = _read_bytes(data, pos, end)
    value, pos = _read_bytes(data, pos, end)
    if pos != end:
        raise CorruptMessage(f"{end - pos} bytes remain behind a message")
    return _Raw(Message(offset, timestamp, key, value), magic, attributes, size)


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

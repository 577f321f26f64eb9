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

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

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
_OFFSET_AND_LENGTH: Final = Struct(">qi")
_TIMESTAMP: Final = Struct(">q")
_SIZE: Final = Struct(">i")


class LegacyRecord(NamedTuple):
    """One record of a wrapper, or one that stands alone, with its own offset and timestamp."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


_Raw: TypeAlias = tuple[int, int, bytes | None, bytes | None, int, int, int]
"""Offset, timestamp, key, value, magic, attributes and size: a plain tuple, there are many."""


def messages(
    data: bytes, pos: int = 0, *, limit: int = DECOMPRESSED_MAX, check_crc: bool = True
) -> list[LegacyRecord]:
    """The message at ``pos``, or all that it wraps."""
    wrapper = _read(data, pos)
    offset, timestamp, key, value, magic, attributes, size = wrapper
    if check_crc and not is_intact(data, pos, size):
        raise CorruptMessage(f"the message at offset {offset} is damaged")
    if attributes & CODEC_MASK == 0:
        return [LegacyRecord(offset, timestamp, key, value)]
    inside = _unpacked(wrapper, limit)
    places = list(_places(inside))
    base = 0
    append_time: int | None = None
    if magic == 1:
        last = places[-1][1]
        # Some producers leave 0 in the wrapper; a broker has put the last offset there.
        base = offset - last if offset else 0
        if base < 0:
            raise CorruptMessage(f"a wrapper at offset {offset} of messages up to {last}")
        append_time = timestamp if attributes & TIMESTAMP_TYPE_BIT else None
    return [_placed(_read(inside, at), base, append_time) for at, _ in places]


def _placed(raw: _Raw, base: int, append_time: int | None) -> LegacyRecord:
    offset, timestamp, key, value, magic, attributes, _ = raw
    if attributes & CODEC_MASK:
        raise CorruptMessage("a compressed message inside another")
    if append_time is not None and magic:
        timestamp = append_time
    return LegacyRecord(base + offset, timestamp, key, value)


def wrapped_offsets(message: bytes, limit: int = DECOMPRESSED_MAX) -> tuple[int, int]:
    """The first and the last offset of the messages in a wrapper, as far as it knows them itself.

    Its own checksum speaks for the offsets of format 0; those of format 1 end at its own. Nothing
    but its lengths is looked at; CorruptMessage when it cannot be unpacked.
    """
    wrapper = _read(message, 0)
    offset, _, _, _, magic, _, _ = wrapper
    data = _unpacked(wrapper, limit)
    first = last = 0
    for pos, last in _places(data):
        if pos == 0:
            first = last
    return (first, last) if magic == 0 else (offset - last + first, offset)


def _unpacked(wrapper: _Raw, limit: int) -> bytes:
    _, _, _, value, magic, attributes, _ = wrapper
    codec = attributes & CODEC_MASK
    if codec > LZ4:
        raise CorruptMessage(f"codec {codec} in a message of magic {magic}")
    if value is None:
        raise CorruptMessage("a compressed message without a value")
    if codec == LZ4 and magic == 0:
        # Old clients took the checksum of the frame's head over too many bytes.
        try:
            value = lz4_frame.with_own_checksum(value)
        except ValueError as error:
            raise CorruptMessage(f"invalid lz4 payload: {error}") from None
    return decompress(codec, value, limit)


def _places(data: bytes) -> Iterator[tuple[int, int]]:
    """Where the messages of a wrapper begin, and their offsets; like Kafka, without a cut end."""
    pos = 0
    while len(data) - pos >= LOG_OVERHEAD:
        offset, length = _OFFSET_AND_LENGTH.unpack_from(data, pos)
        if length < LEGACY_LENGTH_MIN:
            raise CorruptMessage(f"a message of {length} bytes")
        end = pos + LOG_OVERHEAD + length
        if end > len(data):
            break
        yield pos, offset
        pos = end
    if pos == 0:
        raise CorruptMessage("a compressed message without messages")


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
    return offset, timestamp, key, value, magic, attributes, size


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

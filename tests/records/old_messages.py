"""Messages as Kafka 0.9 (magic 0) and 0.10 (magic 1) wrote them, field by field."""

import struct
import zlib
from collections.abc import Sequence
from typing import NamedTuple

from ottla.records.compression import LZ4, compress

APPEND_TIME = 0x08


class Old(NamedTuple):
    """One record of a log of old."""

    offset: int
    timestamp: int = -1
    key: bytes | None = b"k"
    value: bytes | None = b"v"


def _field(content: bytes | None) -> bytes:
    return struct.pack(">i", -1) if content is None else struct.pack(">i", len(content)) + content


def message(magic: int, record: Old, attributes: int = 0) -> bytes:
    timestamp = struct.pack(">q", record.timestamp) if magic else b""
    body = bytes([magic, attributes]) + timestamp + _field(record.key) + _field(record.value)
    return struct.pack(">qiI", record.offset, len(body) + 4, zlib.crc32(body)) + body


def with_old_head(frame: bytes) -> bytes:
    """An lz4 frame whose head has the wrong checksum that clients of format 0 gave it."""
    return frame[:6] + bytes([frame[6] ^ 0x5A]) + frame[7:]


def wrapper(
    magic: int, codec: int, records: Sequence[Old], *, append_time: int | None = None
) -> bytes:
    """A compressed message: relative offsets within it in format 1, absolute ones in format 0."""
    first = records[0].offset if magic else 0
    inside = b"".join(
        message(magic, record._replace(offset=record.offset - first)) for record in records
    )
    packed = compress(codec, inside)
    if codec == LZ4 and magic == 0:
        packed = with_old_head(packed)
    newest = max(record.timestamp for record in records)
    attributes = codec
    if append_time is not None:
        newest, attributes = append_time, codec | APPEND_TIME
    return message(magic, Old(records[-1].offset, newest, None, packed), attributes)

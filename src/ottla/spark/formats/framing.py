"""The frame that Confluent's serializers put before a value.

A byte 0, the schema's id in four bytes, big-endian, and with Protobuf the way to the message in its
file: how many steps and each of them as zigzag varints; a lone 0 stands for the first message.
"""

import struct
from typing import Final

MAGIC: Final = 0
HEADER: Final = struct.Struct(">bI")
INDEXES_MAX: Final = 64
"""Steps into nested messages; the depth that Protobuf itself allows is not much more."""


class BadFrame(ValueError):
    """Bytes that begin with no frame."""


def read_frame(value: bytes) -> tuple[int, int]:
    """The schema's id, and where the value begins."""
    if len(value) < HEADER.size:
        raise BadFrame(f"{len(value)} bytes are too few for a schema id")
    magic, schema_id = HEADER.unpack_from(value)
    if magic != MAGIC:
        raise BadFrame(f"magic byte {value[0]}, not {MAGIC}: written without the registry")
    return schema_id, HEADER.size


def read_indexes(value: bytes, at: int) -> tuple[tuple[int, ...], int]:
    """The way to a Protobuf message in its file, and where the message begins."""
    count, at = _read_varint(value, at)
    if count == 0:
        return (0,), at
    if not 0 < count <= INDEXES_MAX:
        raise BadFrame(f"{count} message indexes")
    indexes = []
    for _ in range(count):
        index, at = _read_varint(value, at)
        indexes.append(index)
    return tuple(indexes), at


def frame(schema_id: int) -> bytes:
    return HEADER.pack(MAGIC, schema_id)


def write_indexes(indexes: tuple[int, ...]) -> bytes:
    if indexes == (0,):
        return b"\0"
    return b"".join(_varint(each) for each in (len(indexes), *indexes))


def _read_varint(value: bytes, at: int) -> tuple[int, int]:
    result = shift = 0
    while shift < 35:
        if at >= len(value):
            raise BadFrame("the message indexes are cut")
        byte = value[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (result >> 1) ^ -(result & 1), at
        shift += 7
    raise BadFrame("a message index of more than 32 bits")


def _varint(number: int) -> bytes:
    left = number << 1 if number >= 0 else (-number << 1) - 1
    out = bytearray()
    while left >= 0x80:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)

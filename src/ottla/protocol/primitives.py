"""The protocol's own types, both ways: numbers, varints, strings, bytes, counts, tagged fields.

A reader takes ``(data, pos)`` and returns ``(value, next pos)``; an encoder returns bytes. The rule
that every reader keeps: a length is compared with the bytes that remain before anything is made
of it. What is too short shows as IndexError or struct.error, what is wrong as ProtocolViolation;
``message.from_bytes`` turns all of them into ProtocolViolation.
"""

from collections.abc import Sized
from struct import Struct, unpack_from
from struct import pack as pack_format
from typing import Final

from ottla.common.errors import ProtocolViolation
from ottla.protocol.bounded import BoundedBytes

ZERO_UUID: Final = bytes(16)
STRING_SIZE_MAX: Final = 0x7FFF
"""Kafka refuses longer strings, whatever the width of the length in front of them."""

ITEMS_MAX: Final = 300_000
"""What the arrays of one request may have in all: a thousand bytes make hundreds of objects, which
take a hundred times as long to read as to send."""
UNBOUNDED: Final = (1 << 62) - 1

UnknownTags = list[tuple[int, bytes]]

_read_int16 = Struct(">h").unpack_from
_read_int32 = Struct(">i").unpack_from
_pack_int16 = Struct(">h").pack
_pack_int32 = Struct(">i").pack
_ONE_BYTE: Final = [bytes([value]) for value in range(128)]


class Writer:
    """Collects the pieces of a message; they are joined once."""

    __slots__ = ("parts",)

    def __init__(self) -> None:
        self.parts: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.parts.append(data)

    def getvalue(self) -> bytes:
        return b"".join(self.parts)


# Readers


def read_uvarint(data: bytes, pos: int) -> tuple[int, int]:
    """An unsigned varint of at most 32 bits."""
    byte = data[pos]
    pos += 1
    if byte < 0x80:
        return byte, pos
    value = byte & 0x7F
    shift = 7
    while shift < 28:
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, pos
        shift += 7
    byte = data[pos]
    if byte > 0x0F:
        raise ProtocolViolation("varint of more than 32 bits")
    return value | byte << 28, pos + 1


def _text(data: bytes, pos: int, size: int) -> tuple[str, int]:
    end = pos + size
    if end > len(data):
        raise ProtocolViolation(f"string of {size} bytes where {len(data) - pos} remain")
    if size > STRING_SIZE_MAX:
        raise ProtocolViolation(f"string of {size} bytes")
    return data[pos:end].decode(), end


def _raw(data: bytes, pos: int, size: int) -> tuple[bytes, int]:
    end = pos + size
    if end > len(data):
        raise ProtocolViolation(f"{size} bytes where {len(data) - pos} remain")
    return data[pos:end], end


def read_string(data: bytes, pos: int) -> tuple[str, int]:
    size: int = _read_int16(data, pos)[0]
    if size < 0:
        raise ProtocolViolation(f"string of {size} bytes")
    pos += 2
    end = pos + size
    if end > len(data):
        raise ProtocolViolation(f"string of {size} bytes where {len(data) - pos} remain")
    return data[pos:end].decode(), end


def read_nullable_string(data: bytes, pos: int) -> tuple[str | None, int]:
    size: int = _read_int16(data, pos)[0]
    if size < 0:
        if size == -1:
            return None, pos + 2
        raise ProtocolViolation(f"string of {size} bytes")
    return _text(data, pos + 2, size)


def read_compact_string(data: bytes, pos: int) -> tuple[str, int]:
    size = data[pos]
    if size < 0x80:
        pos += 1
    else:
        size, pos = read_uvarint(data, pos)
    if size <= 1:
        if size == 1:
            return "", pos
        raise ProtocolViolation("null for a string that must not be null")
    end = pos + size - 1
    if end > len(data) or size > STRING_SIZE_MAX + 1:
        raise ProtocolViolation(f"string of {size - 1} bytes where {len(data) - pos} remain")
    return data[pos:end].decode(), end


def read_compact_nullable_string(data: bytes, pos: int) -> tuple[str | None, int]:
    size, pos = read_uvarint(data, pos)
    if size == 0:
        return None, pos
    return _text(data, pos, size - 1)


def read_bytes(data: bytes, pos: int) -> tuple[bytes, int]:
    size: int = _read_int32(data, pos)[0]
    if size < 0:
        raise ProtocolViolation(f"bytes of length {size}")
    return _raw(data, pos + 4, size)


def read_nullable_bytes(data: bytes, pos: int) -> tuple[bytes | None, int]:
    size: int = _read_int32(data, pos)[0]
    if size < 0:
        if size == -1:
            return None, pos + 4
        raise ProtocolViolation(f"bytes of length {size}")
    return _raw(data, pos + 4, size)


def read_compact_bytes(data: bytes, pos: int) -> tuple[bytes, int]:
    size, pos = read_uvarint(data, pos)
    if size == 0:
        raise ProtocolViolation("null for bytes that must not be null")
    return _raw(data, pos, size - 1)


def read_compact_nullable_bytes(data: bytes, pos: int) -> tuple[bytes | None, int]:
    size, pos = read_uvarint(data, pos)
    if size == 0:
        return None, pos
    return _raw(data, pos, size - 1)


def _refused(count: int, remaining: int) -> ProtocolViolation:
    return ProtocolViolation(f"array of {count} where {remaining} bytes remain")


def read_count(data: bytes, pos: int, item_size_min: int) -> tuple[int, int]:
    """How many items an array has, each of at least so many bytes."""
    count: int = _read_int32(data, pos)[0]
    pos += 4
    if count:
        if count < 0 or count * item_size_min > len(data) - pos:
            raise _refused(count, len(data) - pos)
        if isinstance(data, BoundedBytes):
            data.take(count)
    return count, pos


def read_nullable_count(data: bytes, pos: int, item_size_min: int) -> tuple[int, int]:
    """As ``read_count``; -1 is null."""
    count: int = _read_int32(data, pos)[0]
    pos += 4
    if count > 0:
        if count * item_size_min > len(data) - pos:
            raise _refused(count, len(data) - pos)
        if isinstance(data, BoundedBytes):
            data.take(count)
    elif count < -1:
        raise _refused(count, len(data) - pos)
    return count, pos


def read_compact_count(data: bytes, pos: int, item_size_min: int) -> tuple[int, int]:
    count = data[pos]
    if count < 0x80:
        pos += 1
    else:
        count, pos = read_uvarint(data, pos)
    count -= 1
    if count:
        if count < 0 or count * item_size_min > len(data) - pos:
            raise _refused(count, len(data) - pos)
        if isinstance(data, BoundedBytes):
            data.take(count)
    return count, pos


def read_compact_nullable_count(data: bytes, pos: int, item_size_min: int) -> tuple[int, int]:
    count, pos = read_uvarint(data, pos)
    count -= 1
    if count > 0:
        if count * item_size_min > len(data) - pos:
            raise _refused(count, len(data) - pos)
        if isinstance(data, BoundedBytes):
            data.take(count)
    return count, pos


def read_numbers(
    data: bytes, pos: int, count: int, code: str, item_size: int
) -> tuple[list[int], int]:
    """``count`` numbers of one kind, which ``read_count`` has found to fit."""
    return list(unpack_from(f">{count}{code}", data, pos)), pos + count * item_size


def read_uuids(data: bytes, pos: int, count: int) -> tuple[list[bytes], int]:
    end = pos + 16 * count
    if end > len(data):
        raise ProtocolViolation(f"{count} UUIDs where {len(data) - pos} bytes remain")
    return [data[at : at + 16] for at in range(pos, end, 16)], end


def read_strings(data: bytes, pos: int, count: int) -> tuple[list[str], int]:
    values: list[str] = []
    for _ in range(count):
        value, pos = read_string(data, pos)
        values.append(value)
    return values, pos


def read_compact_strings(data: bytes, pos: int, count: int) -> tuple[list[str], int]:
    values: list[str] = []
    for _ in range(count):
        value, pos = read_compact_string(data, pos)
        values.append(value)
    return values, pos


def read_presence(data: bytes, pos: int) -> tuple[bool, int]:
    """Whether a struct that may be null follows."""
    mark = data[pos]
    if 0x80 <= mark < 0xFF:
        raise ProtocolViolation(f"a struct is marked by {mark - 256}")
    return mark != 0xFF, pos + 1


def read_tag_count(data: bytes, pos: int) -> tuple[int, int]:
    count, pos = read_uvarint(data, pos)
    if count:
        if 2 * count > len(data) - pos:
            raise ProtocolViolation(f"{count} tagged fields where {len(data) - pos} bytes remain")
        if isinstance(data, BoundedBytes):
            data.take(count)
    return count, pos


def read_tag(data: bytes, pos: int) -> tuple[int, int, int]:
    """A tag, where its value begins and where it ends."""
    tag, pos = read_uvarint(data, pos)
    size, pos = read_uvarint(data, pos)
    if size > len(data) - pos:
        raise ProtocolViolation(f"tagged field of {size} bytes where {len(data) - pos} remain")
    return tag, pos, pos + size


def read_unknown_tags(data: bytes, pos: int) -> tuple[UnknownTags | None, int]:
    """The tagged fields of a struct that has none of its own: they are kept as they came."""
    count, pos = read_tag_count(data, pos)
    if count == 0:
        return None, pos
    unknown: UnknownTags = []
    for _ in range(count):
        tag, start, pos = read_tag(data, pos)
        unknown.append((tag, data[start:pos]))
    return unknown, pos


# Encoders


def uvarint(value: int) -> bytes:
    if 0 <= value < 0x80:
        return _ONE_BYTE[value]
    if not 0 <= value < 1 << 32:
        raise ValueError(f"{value} is no unsigned 32-bit number")
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _utf8(value: str) -> bytes:
    data = value.encode()
    if len(data) > STRING_SIZE_MAX:
        raise ValueError(f"string of {len(data)} bytes is too long")
    return data


def string(value: str) -> bytes:
    data = _utf8(value)
    return _pack_int16(len(data)) + data


def nullable_string(value: str | None) -> bytes:
    return b"\xff\xff" if value is None else string(value)


def compact_string(value: str) -> bytes:
    data = _utf8(value)
    return uvarint(len(data) + 1) + data


def compact_nullable_string(value: str | None) -> bytes:
    return b"\x00" if value is None else compact_string(value)


def sized_bytes(value: bytes) -> bytes:
    return _pack_int32(len(value)) + value


def nullable_bytes(value: bytes | None) -> bytes:
    return b"\xff\xff\xff\xff" if value is None else sized_bytes(value)


def compact_bytes(value: bytes) -> bytes:
    return uvarint(len(value) + 1) + value


def compact_nullable_bytes(value: bytes | None) -> bytes:
    return b"\x00" if value is None else compact_bytes(value)


def count(items: Sized) -> bytes:
    return _pack_int32(len(items))


def nullable_count(items: Sized | None) -> bytes:
    return b"\xff\xff\xff\xff" if items is None else _pack_int32(len(items))


def compact_count(items: Sized) -> bytes:
    size = len(items)
    return _ONE_BYTE[size + 1] if size < 0x7F else uvarint(size + 1)


def compact_nullable_count(items: Sized | None) -> bytes:
    return b"\x00" if items is None else uvarint(len(items) + 1)


def numbers(values: list[int], code: str) -> bytes:
    return pack_format(f">{len(values)}{code}", *values)


def uuids(values: list[bytes]) -> bytes:
    if any(len(value) != 16 for value in values):
        raise ValueError("a UUID has 16 bytes")
    return b"".join(values)


def strings(values: list[str]) -> bytes:
    return b"".join([string(value) for value in values])


def compact_strings(values: list[str]) -> bytes:
    return b"".join([compact_string(value) for value in values])


def write_tags(out: Writer, known: UnknownTags, unknown: UnknownTags | None) -> None:
    """Tagged fields in ascending order of their tags, the known among the unknown."""
    fields = known
    if unknown:
        _check_unknown(known, unknown)
        fields = sorted(known + unknown)
    out.parts.append(uvarint(len(fields)))
    for tag, value in fields:
        out.parts.append(uvarint(tag) + uvarint(len(value)) + value)


def _check_unknown(known: UnknownTags, unknown: UnknownTags) -> None:
    taken = {tag for tag, _ in known}
    last = -1
    for tag, _ in unknown:
        if tag <= last:
            raise ValueError(f"tag {tag} comes after tag {last}, but is not higher")
        if tag in taken:
            raise ValueError(f"tag {tag} is not unknown")
        last = tag


def unsupported(struct: str, field: str, version: int) -> ValueError:
    """What is raised for a value that the version has no place for."""
    return ValueError(f"{struct}.{field} must be left at its default in version {version}")

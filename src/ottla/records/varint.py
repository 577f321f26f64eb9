"""Zigzag varints as record batches use them: at most 5 bytes for an int, 10 for a long.

Reading beyond the end raises IndexError, which callers that own the bounds turn into their own
refusal; a varint that does not end in time raises InvalidRecord. Values wrap as Java's do, so that
compiled, interpreted and Apache's readers agree on every input.

Compiled by mypyc: plain functions over ``bytes`` and ints.
"""

from ottla.common.errors import InvalidRecord


def read_varint(data: bytes, pos: int) -> tuple[int, int]:
    """The int32 at ``pos`` and the position behind it."""
    byte = data[pos]
    pos += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), pos
    value = byte & 0x7F
    shift = 7
    while shift < 35:
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            value &= 0xFFFFFFFF
            return (value >> 1) ^ -(value & 1), pos
        shift += 7
    raise InvalidRecord("a varint is longer than 5 bytes")


def read_varlong(data: bytes, pos: int) -> tuple[int, int]:
    """The int64 at ``pos`` and the position behind it."""
    byte = data[pos]
    pos += 1
    value = byte & 0x7F
    shift = 7
    while byte >= 0x80:
        if shift > 63:
            raise InvalidRecord("a varlong is longer than 10 bytes")
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        shift += 7
    value &= 0xFFFFFFFFFFFFFFFF
    return (value >> 1) ^ -(value & 1), pos


def write_varint(out: bytearray, value: int) -> None:
    """Append an int32 or int64."""
    value = (value << 1) ^ (value >> 63)
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def varint_size(value: int) -> int:
    """How many bytes :func:`write_varint` takes for it."""
    value = (value << 1) ^ (value >> 63)
    size = 1
    while value > 0x7F:
        value >>= 7
        size += 1
    return size

"""Produce requests on the hot path: topics and partitions as positions in the frame.

The generated codec would copy the records out of the frame. Here they stay where the socket put
them: a partition is ``(index, start, end)``, and the log patches and writes that part of the frame.
A test holds this to the generated codec on random messages.

Rule: every length is compared with the frame's end before anything is read or made of it. Whatever
is wrong with a request shows as ProtocolViolation.
"""

from struct import Struct
from struct import error as StructError  # noqa: N812 - it is one
from typing import NamedTuple, TypeAlias

from ottla.common.errors import ProtocolViolation
from ottla.protocol.primitives import ITEMS_MAX

PartitionRecords: TypeAlias = tuple[int, int, int]
"""Partition index, and where its records begin and end; (-1, -1) for null."""

_ACKS_AND_TIMEOUT = Struct(">hi")
_INT32 = Struct(">i")
_INT32_PAIR = Struct(">ii")
_INT16 = Struct(">h")
_FLEXIBLE = 9
_TOPIC_IDS = 13
_TAGS_MAX = 100
"""Of one struct: clients of today send none."""


class ProduceView(NamedTuple):
    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[tuple[str | bytes, list[PartitionRecords]]]
    """By name up to version 12, by topic id from 13 on."""


def read_produce_request(frame: memoryview, pos: int, version: int) -> ProduceView:
    try:
        if version >= _FLEXIBLE:
            return _read_flexible(frame, pos, version)
        return _read_plain(frame, pos)
    except (IndexError, StructError):
        raise ProtocolViolation("a produce request that ends too soon") from None
    except UnicodeDecodeError:
        raise ProtocolViolation("a topic name that is no text") from None


def read_unsigned_varint(frame: memoryview, pos: int) -> tuple[int, int]:
    """The number at ``pos``, of at most 32 bits, and where it ends."""
    value = frame[pos]
    pos += 1
    if value < 0x80:
        return value, pos
    value &= 0x7F
    for shift in (7, 14, 21, 28):
        byte = frame[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                break
            return value, pos
    raise ProtocolViolation("a variable-length integer of more than 32 bits")


def skip_tagged_fields(frame: memoryview, pos: int) -> int:
    """The position behind the tagged fields at ``pos``; clients of today send none."""
    if pos < len(frame) and frame[pos] == 0:
        return pos + 1
    try:
        return _skip_tagged_fields(frame, pos)
    except IndexError:
        raise ProtocolViolation("tagged fields that end too soon") from None


def _skip_tagged_fields(frame: memoryview, pos: int) -> int:
    count, pos = read_unsigned_varint(frame, pos)
    if count > _TAGS_MAX:
        raise ProtocolViolation(f"{count} tagged fields")
    for _ in range(count):
        _, pos = read_unsigned_varint(frame, pos)
        size, pos = read_unsigned_varint(frame, pos)
        pos += size
        if pos > len(frame):
            raise ProtocolViolation("a tagged field reaches past the end of the frame")
    return pos


def _read_flexible(frame: memoryview, pos: int, version: int) -> ProduceView:
    limit = len(frame)
    transactional_id = None
    size, pos = read_unsigned_varint(frame, pos)
    if size:
        transactional_id, pos = _text(frame, pos, size - 1, limit)
    acks, timeout_ms = _ACKS_AND_TIMEOUT.unpack_from(frame, pos)
    count, pos = read_unsigned_varint(frame, pos + 6)
    left = _taken(count - 1, limit - pos, ITEMS_MAX)
    topics: list[tuple[str | bytes, list[PartitionRecords]]] = []
    topic: str | bytes
    for _ in range(count - 1):
        if version >= _TOPIC_IDS:
            topic = bytes(frame[pos : pos + 16])
            pos += 16
        else:
            size, pos = read_unsigned_varint(frame, pos)
            topic, pos = _text(frame, pos, size - 1, limit)
        inner, pos = read_unsigned_varint(frame, pos)
        left = _taken(inner - 1, limit - pos, left)
        partitions: list[PartitionRecords] = []
        for _ in range(inner - 1):
            (index,) = _INT32.unpack_from(frame, pos)
            size, pos = read_unsigned_varint(frame, pos + 4)
            if size == 0:
                partitions.append((index, -1, -1))
            else:
                end = pos + size - 1
                if end > limit:
                    raise ProtocolViolation("records reach past the end of the frame")
                partitions.append((index, pos, end))
                pos = end
            pos = skip_tagged_fields(frame, pos)
        topics.append((topic, partitions))
        pos = skip_tagged_fields(frame, pos)
    skip_tagged_fields(frame, pos)
    return ProduceView(transactional_id, acks, timeout_ms, topics)


def _read_plain(frame: memoryview, pos: int) -> ProduceView:
    limit = len(frame)
    transactional_id = None
    (size,) = _INT16.unpack_from(frame, pos)
    pos += 2
    if size != -1:
        transactional_id, pos = _text(frame, pos, size, limit)
    acks, timeout_ms = _ACKS_AND_TIMEOUT.unpack_from(frame, pos)
    (count,) = _INT32.unpack_from(frame, pos + 6)
    pos += 10
    left = _taken(count, limit - pos, ITEMS_MAX)
    topics: list[tuple[str | bytes, list[PartitionRecords]]] = []
    for _ in range(count):
        (size,) = _INT16.unpack_from(frame, pos)
        topic, pos = _text(frame, pos + 2, size, limit)
        (inner,) = _INT32.unpack_from(frame, pos)
        pos += 4
        left = _taken(inner, limit - pos, left)
        partitions: list[PartitionRecords] = []
        for _ in range(inner):
            index, size = _INT32_PAIR.unpack_from(frame, pos)
            pos += 8
            if size == -1:
                partitions.append((index, -1, -1))
                continue
            end = pos + size
            if size < 0 or end > limit:
                raise ProtocolViolation("records reach past the end of the frame")
            partitions.append((index, pos, end))
            pos = end
        topics.append((topic, partitions))
    return ProduceView(transactional_id, acks, timeout_ms, topics)


def _text(frame: memoryview, pos: int, size: int, limit: int) -> tuple[str, int]:
    end = pos + size
    if size < 0 or end > limit:
        raise ProtocolViolation("a string reaches past the end of the frame")
    return str(frame[pos:end], "utf-8"), end


def _taken(count: int, remaining: int, left: int) -> int:
    """How many items may yet come behind an array of ``count`` in so many bytes."""
    if count < 0 or count > remaining or count > left:
        raise ProtocolViolation(f"an array of {count} elements in {remaining} bytes")
    return left - count

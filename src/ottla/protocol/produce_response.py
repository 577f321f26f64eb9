"""Produce answers on the hot path: every partition appended, nothing to explain.

An answer with an error in it takes the generated codec; a test holds this one to it.
"""

from collections.abc import Sequence
from struct import Struct
from typing import TypeAlias

Appended: TypeAlias = tuple[int, int, int, int]
"""Partition index, base offset, log append time (-1 for CreateTime), log start offset."""

_INT32 = Struct(">i")
_INT16 = Struct(">h")
_FLEXIBLE = 9
_TOPIC_IDS = 13

# index, error code, base offset, log append time, log start offset; then what each version adds.
_PARTITION_V5 = Struct(">ihqqq")
_PARTITION_V3 = Struct(">ihqq")
_NO_ERRORS_V8 = b"\x00\x00\x00\x00\xff\xff"
_NO_ERRORS_V9 = b"\x01\x00\x00"
_SINGLE_V13 = Struct(">iiBB16sBihqqqBBBBiB")


def encode_appended(
    correlation_id: int, version: int, topics: Sequence[tuple[str | bytes, Sequence[Appended]]]
) -> bytes:
    """The whole answer, length prefix and header included."""
    if version >= _TOPIC_IDS and len(topics) == 1 and len(topics[0][1]) == 1:
        topic, ((index, base, time, start),) = topics[0]
        # length, correlation id, no tags | 1 topic, id | 1 partition ... | tags, throttle, tags
        return _SINGLE_V13.pack(
            _SINGLE_V13.size - 4,
            correlation_id,
            0,
            2,
            topic,
            2,
            index,
            0,
            base,
            time,
            start,
            1,
            0,
            0,
            0,
            0,
            0,
        )
    out = bytearray(8)
    if version >= _FLEXIBLE:
        _encode_flexible(out, topics)
    else:
        _encode_plain(out, version, topics)
    _INT32.pack_into(out, 0, len(out) - 4)
    _INT32.pack_into(out, 4, correlation_id)
    return bytes(out)


def _unsigned_varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _encode_flexible(
    out: bytearray, topics: Sequence[tuple[str | bytes, Sequence[Appended]]]
) -> None:
    out.append(0)
    out += _unsigned_varint(len(topics) + 1)
    for topic, partitions in topics:
        if isinstance(topic, bytes):
            out += topic
        else:
            name = topic.encode()
            out += _unsigned_varint(len(name) + 1)
            out += name
        out += _unsigned_varint(len(partitions) + 1)
        for index, base, time, start in partitions:
            out += _PARTITION_V5.pack(index, 0, base, time, start)
            out += _NO_ERRORS_V9
        out.append(0)
    out += b"\x00\x00\x00\x00\x00"


def _encode_plain(
    out: bytearray, version: int, topics: Sequence[tuple[str | bytes, Sequence[Appended]]]
) -> None:
    out += _INT32.pack(len(topics))
    for topic, partitions in topics:
        assert isinstance(topic, str)
        name = topic.encode()
        out += _INT16.pack(len(name))
        out += name
        out += _INT32.pack(len(partitions))
        for index, base, time, start in partitions:
            if version >= 5:
                out += _PARTITION_V5.pack(index, 0, base, time, start)
            else:
                out += _PARTITION_V3.pack(index, 0, base, time)
            if version >= 8:
                out += _NO_ERRORS_V8
    out += b"\x00\x00\x00\x00"

"""Produce requests of a client that has its batches ready: in pieces, the batches as they are.

The generated codec copies records into their field, the fields together, and the whole behind its
length; of a request that is nearly all records each copy shows. A sender of pieces one after
another needs none. A test holds this to the generated codec.
"""

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from ottla.protocol.primitives import (
    compact_count,
    compact_nullable_string,
    compact_string,
    count,
    nullable_string,
    string,
    uvarint,
)

Piece: TypeAlias = bytes | bytearray

FLEXIBLE: Final = 9
TOPIC_IDS: Final = 13
_ACKS_AND_TIMEOUT: Final = Struct(">hi")
_INT32: Final = Struct(">i")
_NO_TAGS: Final = b"\x00"


class TopicBatches(NamedTuple):
    """``topic`` is a name up to version 12, an id from 13 on."""

    topic: str | bytes
    batches: Sequence[tuple[int, Piece]]
    """One at most for each partition, by its index."""


def produce_request_parts(
    version: int,
    transactional_id: str | None,
    acks: int,
    timeout_ms: int,
    topics: Sequence[TopicBatches],
) -> list[Piece]:
    """The body of a request; every second piece is a batch."""
    if version >= FLEXIBLE:
        begin = compact_nullable_string(transactional_id)
        begin += _ACKS_AND_TIMEOUT.pack(acks, timeout_ms) + compact_count(topics)
    else:
        begin = nullable_string(transactional_id)
        begin += _ACKS_AND_TIMEOUT.pack(acks, timeout_ms) + count(topics)
    parts: list[Piece] = []
    for each in topics:
        begin = _add(parts, begin + _topic(version, each), version, each.batches)
    parts.append(begin + _tags(version))
    return parts


def _topic(version: int, each: TopicBatches) -> bytes:
    topic = each.topic
    if isinstance(topic, bytes):
        assert version >= TOPIC_IDS, "topics have no ids before"
        return topic + compact_count(each.batches)
    assert version < TOPIC_IDS, "topics have no names any more"
    if version >= FLEXIBLE:
        return compact_string(topic) + compact_count(each.batches)
    return string(topic) + count(each.batches)


def _add(
    parts: list[Piece], begin: bytes, version: int, batches: Iterable[tuple[int, Piece]]
) -> bytes:
    """Add batches; answer what stands behind the last."""
    for index, records in batches:
        size = len(records)
        length = uvarint(size + 1) if version >= FLEXIBLE else _INT32.pack(size)
        parts += (begin + _INT32.pack(index) + length, records)
        begin = _tags(version)
    return begin + _tags(version)


def _tags(version: int) -> bytes:
    return _NO_TAGS if version >= FLEXIBLE else b""

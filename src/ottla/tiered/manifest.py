"""The manifest of a remote segment: what it is, and the size and checksums of each of its objects.

JSON, so that anybody can read it. The last field is the CRC-32C of everything before it, and each
other object has the CRC-32C of each of its chunks: a bit that flips anywhere is found before a
record is served. Batches have checksums of their own, which leave out their offsets and epochs.
"""

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from ottla.common.checksum import crc32c
from ottla.common.errors import CorruptMessage
from ottla.common.identifiers import uuid_from_text, uuid_text
from ottla.tiered.layout import DATA_SUFFIXES
from ottla.tiered.segments import EpochStart, RemoteLogSegment, SegmentState, TopicIdPartition

VERSION: Final = 1
CHUNK_SIZE: Final = 1 << 20
"""Bytes that have a checksum together, and so are read together."""
SIZE_MAX: Final = 4 << 20
"""Of a manifest: enough for the checksums of any segment."""

_CHUNK_SIZES: Final = range(1 << 12, (1 << 26) + 1)


class ObjectSum(NamedTuple):
    """Size of an object, and the CRC-32C of each chunk of it."""

    size: int
    crc32c: tuple[int, ...]


class Manifest(NamedTuple):
    segment: RemoteLogSegment
    chunk_size: int
    objects: Mapping[str, ObjectSum]
    """By suffix."""

    def verify(self, suffix: str, data: bytes) -> bool:
        """Whether ``data`` is the whole object, as it was when it was put."""
        known = self.objects.get(suffix)
        if known is None or len(data) != known.size:
            return False
        return checksums(data, self.chunk_size) == known.crc32c

    def verify_chunk(self, suffix: str, number: int, data: bytes | memoryview) -> bool:
        known = self.objects[suffix]
        size = min(self.chunk_size, known.size - number * self.chunk_size)
        return len(data) == size and crc32c(data) == known.crc32c[number]


def checksums(data: bytes, chunk_size: int = CHUNK_SIZE) -> tuple[int, ...]:
    view = memoryview(data)
    return tuple(
        crc32c(view[start : start + chunk_size]) for start in range(0, len(data), chunk_size)
    )


def encode_manifest(manifest: Manifest) -> bytes:
    segment = manifest.segment
    fields = {
        "version": VERSION,
        "topic": segment.partition.topic,
        "topic_id": uuid_text(segment.partition.topic_id),
        "partition": segment.partition.partition,
        "segment_id": uuid_text(segment.segment_id),
        "start_offset": segment.start_offset,
        "end_offset": segment.end_offset,
        "max_timestamp_ms": segment.max_timestamp_ms,
        "leader_epochs": [list(entry) for entry in segment.leader_epochs],
        "broker_id": segment.broker_id,
        "event_timestamp_ms": segment.event_timestamp_ms,
        "chunk_size": manifest.chunk_size,
        "objects": {
            suffix: {"size": each.size, "crc32c": list(each.crc32c)}
            for suffix, each in manifest.objects.items()
        },
    }
    body = ",\n".join(f" {json.dumps(key)}: {json.dumps(value)}" for key, value in fields.items())
    data = _sealed(f"{{\n{body}".encode())
    if len(data) > SIZE_MAX:
        raise CorruptMessage(f"a manifest of {len(data)} bytes: no reader would take it")
    return data


def _sealed(body: bytes) -> bytes:
    return body + b',\n "crc32c": %d\n}\n' % crc32c(body)


def decode_manifest(data: bytes) -> Manifest:
    """CorruptMessage when it is not, to the last bit, what :func:`encode_manifest` made."""
    body, separator, _ = data.rpartition(b',\n "crc32c": ')
    if not separator or _sealed(body) != data:
        raise CorruptMessage("the checksum of a manifest is not that of its bytes")
    try:
        return _decode(json.loads(data))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptMessage(f"no manifest of a remote segment: {error!r}") from error


def _decode(fields: dict[str, Any]) -> Manifest:
    if fields["version"] != VERSION:
        raise ValueError(f"unknown version {fields['version']}")
    where = TopicIdPartition(
        uuid_from_text(fields["topic_id"]), fields["topic"], fields["partition"]
    )
    chunk_size = fields["chunk_size"]
    objects = {
        suffix: ObjectSum(each["size"], tuple(each["crc32c"]))
        for suffix, each in fields["objects"].items()
    }
    if chunk_size not in _CHUNK_SIZES or not objects.keys() <= set(DATA_SUFFIXES):
        raise ValueError("a chunk size or an object that cannot be")
    if any(-(-each.size // chunk_size) != len(each.crc32c) for each in objects.values()):
        raise ValueError("a size that its checksums do not cover")
    segment = RemoteLogSegment(
        partition=where,
        segment_id=uuid_from_text(fields["segment_id"]),
        start_offset=fields["start_offset"],
        end_offset=fields["end_offset"],
        max_timestamp_ms=fields["max_timestamp_ms"],
        broker_id=fields["broker_id"],
        event_timestamp_ms=fields["event_timestamp_ms"],
        size_in_bytes=objects[".log"].size,
        leader_epochs=tuple(EpochStart(*entry) for entry in fields["leader_epochs"]),
        state=SegmentState.COPY_SEGMENT_FINISHED,
        transaction_index_empty=".txnindex" not in objects,
    )
    return Manifest(segment, chunk_size, objects)

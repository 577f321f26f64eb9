"""Keys and manifests say all there is to know of a segment, and are never mistaken."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiered.histories import PARTITION, segment

from ottla.common.errors import CorruptMessage
from ottla.common.identifiers import uuid_text
from ottla.tiered.layout import (
    SUFFIXES,
    TOPIC_MAX,
    object_key,
    parse_key,
    partition_prefix,
)
from ottla.tiered.manifest import Manifest, ObjectSum, decode_manifest, encode_manifest
from ottla.tiered.segments import EpochStart, RemoteLogSegment, SegmentState, TopicIdPartition

TOPIC_CHARACTERS = "abcXYZ019._-"
IDS = st.binary(min_size=16, max_size=16)
SEGMENTS = st.builds(
    RemoteLogSegment,
    partition=st.builds(
        TopicIdPartition,
        topic_id=IDS,
        topic=st.text(TOPIC_CHARACTERS, min_size=1, max_size=249),
        partition=st.integers(0, (1 << 31) - 1),
    ),
    segment_id=IDS,
    start_offset=st.integers(0, (1 << 63) - 1),
    end_offset=st.integers(0, (1 << 63) - 1),
    max_timestamp_ms=st.integers(-1, 1 << 50),
    broker_id=st.integers(0, 1 << 30),
    event_timestamp_ms=st.integers(0, 1 << 50),
    size_in_bytes=st.just(10_000),
    leader_epochs=st.lists(
        st.builds(EpochStart, st.integers(0, 99), st.integers(0, 1 << 62)), max_size=3
    ).map(tuple),
    state=st.just(SegmentState.COPY_SEGMENT_FINISHED),
    custom_metadata=st.none(),
    transaction_index_empty=st.just(True),
)


def manifest_of(found: RemoteLogSegment) -> Manifest:
    objects = {".log": ObjectSum(10_000, (1, 2, 3)), ".index": ObjectSum(0, ())}
    return Manifest(found, 4096, objects)


def test_a_key_is_what_the_documents_say() -> None:
    found = segment(1, 42, 99)
    assert object_key(found, ".log") == (
        f"orders-AAECAwQFBgcICQoLDA0ODw/3/00000000000000000042-{uuid_text(found.segment_id)}.log"
    )
    assert partition_prefix(PARTITION) == "orders-AAECAwQFBgcICQoLDA0ODw/3/"


@settings(deadline=None)
@given(SEGMENTS, st.sampled_from(SUFFIXES))
def test_a_key_is_taken_apart_into_what_it_was_made_of(
    found: RemoteLogSegment, suffix: str
) -> None:
    key = object_key(found, suffix)
    parsed = parse_key(key)
    assert parsed is not None
    assert parsed.partition == found.partition._replace(topic=found.partition.topic[:TOPIC_MAX])
    assert (parsed.start_offset, parsed.segment_id) == (found.start_offset, found.segment_id)
    assert parsed.suffix == suffix
    assert all(len(part) <= 255 for part in key.split("/"))


@pytest.mark.parametrize(
    "key",
    [
        "",
        "orders",
        "orders-AAECAwQFBgcICQoLDA0ODw/3/",
        "orders-AAECAwQFBgcICQoLDA0ODw/03/00000000000000000042-AAECAwQFBgcICQoLDA0ODw.log",
        "orders-AAECAwQFBgcICQoLDA0ODw/9999999999/00000000000000000042-AAECAwQFBgcICQoLDA0ODw.log",
        "orders-AAECAwQFBgcICQoLDA0ODw/3/99999999999999999999-AAECAwQFBgcICQoLDA0ODw.log",
        "orders-AAECAwQFBgcICQoLDA0ODw/3/0000000000000000042-AAECAwQFBgcICQoLDA0ODw.log",
        "orders-AAECAwQFBgcICQoLDA0ODx/3/00000000000000000042-AAECAwQFBgcICQoLDA0ODw.log",
        "orders-AAECAwQFBgcICQoLDA0ODw/3/00000000000000000042-AAECAwQFBgcICQoLDA0ODw.exe",
        "a/orders-AAECAwQFBgcICQoLDA0ODw/3/00000000000000000042-AAECAwQFBgcICQoLDA0ODw.log",
        "../x-AAECAwQFBgcICQoLDA0ODw/3/00000000000000000042-AAECAwQFBgcICQoLDA0ODw.log",
    ],
)
def test_a_key_of_other_people_is_none(key: str) -> None:
    assert parse_key(key) is None


@settings(deadline=None)
@given(SEGMENTS)
def test_a_manifest_is_read_as_it_was_written(found: RemoteLogSegment) -> None:
    manifest = manifest_of(found)
    data = encode_manifest(manifest)
    assert decode_manifest(data) == manifest
    assert json.loads(data)["topic"] == found.partition.topic


@settings(deadline=None)
@given(SEGMENTS, st.data())
def test_any_bit_of_a_manifest_that_flips_is_found(
    found: RemoteLogSegment, data: st.DataObject
) -> None:
    encoded = bytearray(encode_manifest(manifest_of(found)))
    bit = data.draw(st.integers(0, 8 * len(encoded) - 1))
    encoded[bit // 8] ^= 1 << bit % 8
    with pytest.raises(CorruptMessage):
        decode_manifest(bytes(encoded))


@pytest.mark.parametrize(
    ("objects", "chunk_size"),
    [
        ({".log": ObjectSum(10_000, (1, 2))}, 4096),
        ({".log": ObjectSum(10_000, (1, 2, 3)), ".exe": ObjectSum(0, ())}, 4096),
        ({".log": ObjectSum(10_000, (1,) * 10_000)}, 1),
        ({".index": ObjectSum(0, ())}, 4096),
    ],
)
def test_a_manifest_that_cannot_be_is_refused(
    objects: dict[str, ObjectSum], chunk_size: int
) -> None:
    encoded = encode_manifest(Manifest(segment(1, 0, 9), chunk_size, objects))
    with pytest.raises(CorruptMessage):
        decode_manifest(encoded)

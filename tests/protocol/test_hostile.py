"""Input that lies, is cut or is damaged: always ProtocolViolation, never much memory."""

import struct
import tracemalloc
from collections.abc import Iterator
from random import Random

import pytest
from tests.protocol import reference
from tests.protocol.reference import Piece, varint
from tests.protocol.samples import full_message
from tests.protocol.vectors import names_and_versions, vectors

from ottla.common.errors import ProtocolViolation
from ottla.protocol.generated.describe_topic_partitions import DescribeTopicPartitionsRequest
from ottla.protocol.generated.fetch_snapshot import FetchSnapshotResponse
from ottla.protocol.generated.heartbeat import HeartbeatRequest
from ottla.protocol.generated.metadata import MetadataRequest
from ottla.protocol.generated.produce import ProduceRequest
from ottla.protocol.generated.voters_record import VotersRecord
from ottla.protocol.message import Message, from_buffer, from_bytes, to_bytes
from ottla.protocol.schemas import message_class, schema_of

MEMORY_MAX = 256 * 1024
VARINTS_TOO_LONG = [b"\xff" * 9 + b"\x01", b"\x80" * 5 + b"\x01", b"\xff\xff\xff\xff\x1f"]


def lies(piece: Piece, remaining: int) -> Iterator[bytes]:
    """Lengths that cannot be true where ``remaining`` bytes follow."""
    if piece.length in ("varint", "tag"):
        one_more = piece.length == "varint"
        for size in (remaining + 1, (1 << 31) - 1, (1 << 32) - 2):
            yield varint(size + one_more)
        yield from VARINTS_TOO_LONG
        if not piece.nullable:
            yield b"\x00"
    else:
        limit = 0x7FFF if piece.length == ">h" else 0x7FFFFFFF
        for size in (-2, -limit - 1, limit, min(limit, remaining + 1)):
            yield struct.pack(piece.length, size)
        if not piece.nullable:
            yield struct.pack(piece.length, -1)


def hostile_inputs(name: str, version: int) -> Iterator[bytes]:
    pieces = reference.encode(schema_of(name), full_message(name, version), version)
    for at, piece in enumerate(pieces):
        if piece.length:
            before, after = reference.join(pieces[:at]), reference.join(pieces[at + 1 :])
            for lie in lies(piece, len(after)):
                yield before + lie + after


def test_a_lie_in_the_place_of_any_length_is_a_violation() -> None:
    count = 0
    for name, version in names_and_versions():
        cls = message_class(name)
        for data in hostile_inputs(name, version):
            with pytest.raises(ProtocolViolation):
                from_bytes(cls, data, version)
            count += 1
    assert count > 30_000


def test_no_lie_costs_memory() -> None:
    newest = dict(names_and_versions())
    for name, version in newest.items():
        cls, inputs = message_class(name), list(hostile_inputs(name, version))
        tracemalloc.start()
        try:
            for data in inputs:
                with pytest.raises(ProtocolViolation):
                    from_bytes(cls, data, version)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < MEMORY_MAX, name


def test_an_array_that_fits_by_its_count_but_not_by_its_items_costs_no_memory() -> None:
    data = b"\xff\xff\x3f" + bytes(1 << 20)  # 1,048,574 topics of one byte each: one needs more
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolViolation):
            from_bytes(MetadataRequest, data, 13)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MEMORY_MAX


def test_every_cut_of_every_vector_is_a_violation_or_a_shorter_message() -> None:
    for vector in vectors():
        cls, data = message_class(vector.name), vector.data
        for size in range(len(data)):
            try:
                _, pos = from_buffer(cls, data[:size], 0, vector.version)
            except ProtocolViolation:
                continue
            assert pos <= size


def test_every_cut_of_a_message_with_something_everywhere_is_a_violation() -> None:
    for name, version in names_and_versions():
        data = to_bytes(full_message(name, version), version)
        for size in range(len(data)):
            with pytest.raises(ProtocolViolation):
                from_bytes(message_class(name), data[:size], version)


def test_damage_is_a_violation_or_another_message() -> None:
    chance = Random(20_260_801)
    for vector in vectors():
        if not vector.data:
            continue
        cls = message_class(vector.name)
        for _ in range(40):
            data = bytearray(vector.data)
            for _ in range(chance.randrange(1, 4)):
                data[chance.randrange(len(data))] = chance.choice([0, 1, 127, 128, 254, 255])
            try:
                message = from_bytes(cls, bytes(data), vector.version)
            except ProtocolViolation:
                continue
            assert isinstance(message, cls)


@pytest.mark.parametrize(
    ("cls", "version", "data"),
    [
        (ProduceRequest, 11, "00ffff00007530ffffffff0f"),
        (HeartbeatRequest, 0, "0002c328000000000000"),  # no UTF-8
        (HeartbeatRequest, 4, "03c328000000000100" + "00"),  # the same, compact
        (MetadataRequest, 0, "ffffffff"),  # null topics came with version 1
        (FetchSnapshotResponse, 0, "000000000000020261020000000000000000000000000000000000000000"),
        (VotersRecord, 0, "0001" + "00" + "ff"),  # bytes after the end
        (HeartbeatRequest, 5, "00"),  # no such version
        (HeartbeatRequest, -1, "00"),
    ],
)
def test_known_bad_bodies_are_violations(cls: type[Message], version: int, data: str) -> None:
    with pytest.raises(ProtocolViolation, match=cls.__name__):
        from_bytes(cls, bytes.fromhex(data), version)


def test_a_struct_that_may_be_null_is_marked_by_minus_one_and_nothing_else_below_zero() -> None:
    request = DescribeTopicPartitionsRequest(cursor=None)
    data = to_bytes(request, 0)
    assert data.hex() == "01" + "000007d0" + "ff" + "00"
    assert from_bytes(DescribeTopicPartitionsRequest, data, 0).cursor is None
    with pytest.raises(ProtocolViolation, match="-2"):
        from_bytes(DescribeTopicPartitionsRequest, data.replace(b"\xff", b"\xfe"), 0)


def test_a_string_longer_than_kafka_allows_is_a_violation() -> None:
    text = b"x" * 0x8000
    with pytest.raises(ProtocolViolation, match="32768"):
        from_bytes(HeartbeatRequest, varint(0x8001) + text + bytes(4) + b"\x01\x00\x00", 4)

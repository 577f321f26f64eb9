"""Formats 0 and 1 as another library writes them: we write none."""

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from ottla.common.errors import CorruptMessage
from ottla.records.legacy import iterate
from ottla.records.record import Record

FIELDS = st.lists(
    st.tuples(
        st.none() | st.binary(max_size=40),
        st.none() | st.binary(max_size=400),
        st.integers(0, 1 << 41),
    ),
    min_size=1,
    max_size=20,
)


def built(magic: int, codec: int, fields: list[tuple[bytes | None, bytes | None, int]]) -> bytes:
    builder = LegacyRecordBatchBuilder(magic, codec, 1 << 20)
    for index, (key, value, timestamp) in enumerate(fields):
        builder.append(index, timestamp=timestamp, key=key, value=value)
    data = builder.build()
    if codec:  # a wrapper has the offset of the last, which is the broker's to give
        struct.pack_into(">q", data, 0, len(fields) - 1)
    return bytes(data)


@given(st.sampled_from([0, 1]), st.sampled_from([0, 1, 2]), FIELDS)
def test_what_another_library_wrote_is_read(
    magic: int, codec: int, fields: list[tuple[bytes | None, bytes | None, int]]
) -> None:
    data = built(magic, codec, fields)
    read: list[Record] = []
    pos = 0
    while pos < len(data):
        read += iterate(data, pos)
        pos += 12 + struct.unpack_from(">i", data, pos + 8)[0]
    assert [(record.key, record.value) for record in read] == [(k, v) for k, v, _ in fields]
    assert [record.offset for record in read] == list(range(len(fields)))
    wanted = [timestamp if magic else -1 for *_, timestamp in fields]
    assert [record.timestamp for record in read] == wanted


def test_relative_offsets_end_at_that_of_the_wrapper() -> None:
    data = bytearray(built(1, 1, [(None, b"a", 1), (None, b"b", 2)]))
    struct.pack_into(">q", data, 0, 500)
    assert [record.offset for record in iterate(bytes(data))] == [499, 500]


def test_an_append_time_of_the_wrapper_is_that_of_all() -> None:
    data = bytearray(built(1, 1, [(None, b"a", 1), (None, b"b", 2)]))
    data[17] |= 8
    struct.pack_into(">q", data, 18, 4444)
    struct.pack_into(">I", data, 12, zlib.crc32(data[16:]))
    assert [record.timestamp for record in iterate(bytes(data))] == [4444, 4444]


@given(st.sampled_from([0, 1]), st.sampled_from([0, 1, 2]), FIELDS, st.data())
def test_damage_and_truncation_are_refused(
    magic: int,
    codec: int,
    fields: list[tuple[bytes | None, bytes | None, int]],
    data: st.DataObject,
) -> None:
    message = bytearray(built(magic, codec, fields[:1]))
    position = data.draw(st.integers(12, len(message) - 1))
    message[position] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(CorruptMessage):
        iterate(bytes(message))
    with pytest.raises(CorruptMessage):
        iterate(built(magic, codec, fields[:1])[:position])


def sealed(body: bytes) -> bytes:
    return struct.pack(">qiI", 0, len(body) + 4, zlib.crc32(body)) + body


@pytest.mark.parametrize(
    "body",
    [
        b"\x00\x00" + struct.pack(">ii", -1, 5) + b"ab",
        b"\x00\x00" + struct.pack(">ii", -1, 1) + b"ab",
        b"\x00\x00" + struct.pack(">i", -1) + bytes(6),
        b"\x01\x00" + bytes(8),
        b"\x00\x01" + struct.pack(">ii", -1, -1),
        b"\x00\x04" + struct.pack(">ii", -1, 1) + b"a",
        b"\x00\x01" + struct.pack(">ii", -1, 20) + zlib.compress(b"", wbits=31),
        b"\x02\x00" + struct.pack(">ii", -1, -1),
    ],
)
def test_what_is_no_message_is_refused(body: bytes) -> None:
    with pytest.raises(CorruptMessage):
        iterate(sealed(body))


def test_a_wrapper_in_a_wrapper_is_refused() -> None:
    inner = sealed(b"\x01\x01" + bytes(8) + struct.pack(">ii", -1, 0))
    packed = zlib.compress(inner, wbits=31)
    outer = sealed(b"\x01\x01" + bytes(8) + struct.pack(">ii", -1, len(packed)) + packed)
    with pytest.raises(CorruptMessage):
        iterate(outer)

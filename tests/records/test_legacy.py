"""Formats 0 and 1 as another library writes them: we write none."""

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.legacy_records import LegacyRecordBatchBuilder
from tests.records.old_messages import Old, message, with_old_head, wrapper

from ottla.common.errors import CorruptMessage
from ottla.records.batch import BatchHeader, batches, has_length, is_intact, read_header
from ottla.records.compression import GZIP, LZ4, compress
from ottla.records.legacy import wrapped_offsets
from ottla.records.record import Record, iterate
from ottla.records.validation import numbered_batches

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


@given(st.sampled_from([(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (1, 3)]), FIELDS)
def test_what_another_library_wrote_is_read(
    kind: tuple[int, int], fields: list[tuple[bytes | None, bytes | None, int]]
) -> None:
    magic, codec = kind
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


@given(FIELDS)
def test_an_lz4_frame_with_the_wrong_head_of_format_0_is_read(
    fields: list[tuple[bytes | None, bytes | None, int]],
) -> None:
    records = [Old(5 + at, -1, key, value) for at, (key, value, _) in enumerate(fields)]
    assert [tuple(each) for each in records] == [
        (each.offset, each.timestamp, each.key, each.value)
        for each in iterate(wrapper(0, LZ4, records))
    ]
    strict = message(1, Old(1, 1, None, with_old_head(compress(LZ4, message(1, Old(0))))), LZ4)
    with pytest.raises(CorruptMessage):
        iterate(strict)


def test_a_wrapper_may_hold_messages_of_the_other_magic() -> None:
    """Some brokers wrote that (KAFKA-4298); an append time is not that of a message without one."""
    inside = message(0, Old(0)) + message(1, Old(1, 9))
    for attributes, times in ((GZIP, [-1, 9]), (GZIP | 8, [-1, 77])):
        outside = message(1, Old(41, 77, None, compress(GZIP, inside)), attributes)
        found = iterate(outside)
        assert [(each.offset, each.timestamp) for each in found] == [(40, times[0]), (41, times[1])]
    with pytest.raises(CorruptMessage, match="a wrapper at offset 2 of messages up to 7"):
        iterate(message(1, Old(2, 1, None, compress(GZIP, message(1, Old(7)))), GZIP))
    assert iterate(message(1, Old(0, 1, None, compress(GZIP, inside)), GZIP))[1].offset == 1


@given(st.sampled_from([0, 1]), st.integers(0, 1 << 62), st.integers(-1, 1 << 41), st.booleans())
def test_a_message_has_a_header_in_the_words_of_a_batch(
    magic: int, offset: int, timestamp: int, append_time: bool
) -> None:
    attributes = 0xF0 | (8 if append_time else 0)
    data = message(magic, Old(offset, timestamp), attributes)
    expected = BatchHeader(
        base_offset=offset,
        length=len(data) - 12,
        partition_leader_epoch=-1,
        magic=magic,
        crc=zlib.crc32(data[16:]),
        attributes=8 if append_time and magic else 0,
        last_offset_delta=0,
        base_timestamp=timestamp if magic else -1,
        max_timestamp=timestamp if magic else -1,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=1,
    )
    for behind in (b"", bytes(100)):
        assert read_header(b"x" + data + behind, 1) == expected
    assert is_intact(b"x" + data, 1, len(data))
    assert not is_intact(data[:-1] + b"?", 0, len(data))
    with pytest.raises(CorruptMessage, match="25 bytes are fewer"):
        read_header(data[:25])


def test_lengths_that_no_batch_of_a_magic_has() -> None:
    shortest = {0: 14, 1: 22, 2: 49}
    for magic, length in shortest.items():
        assert has_length(length, magic)
        assert not has_length(length - 1, magic)
    assert not has_length(1000, 3)
    assert not has_length(1000, -1)


@given(st.sampled_from([0, 1, 2]), st.integers(10, 60))
def test_batches_have_the_lengths_that_their_readers_take(magic: int, length: int) -> None:
    body = bytes([magic]) + bytes(length - 5)
    data = struct.pack(">qiI", 7, length, zlib.crc32(body)) + body
    if has_length(length, magic):
        assert list(batches(data)) == [(0, len(data))]
        return
    with pytest.raises(CorruptMessage):
        list(batches(data))
    with pytest.raises(CorruptMessage):
        numbered_batches(memoryview(data), 0, len(data))


@given(FIELDS, st.sampled_from([0, 1]), st.data())
def test_a_wrapper_that_ends_within_a_message_has_those_before_it(
    fields: list[tuple[bytes | None, bytes | None, int]], magic: int, data: st.DataObject
) -> None:
    """As in Kafka; one without any whole message is none."""
    inside = [
        message(magic, Old(at, time if magic else -1, key, value))
        for at, (key, value, time) in enumerate(fields)
    ]
    cut = b"".join(inside)[: data.draw(st.integers(0, sum(map(len, inside))))]
    whole = 0
    while sum(map(len, inside[: whole + 1])) <= len(cut) and whole < len(inside):
        whole += 1
    outer = message(magic, Old(100 + whole, 0, None, compress(GZIP, cut)), GZIP)
    if whole == 0:
        with pytest.raises(CorruptMessage):
            iterate(outer)
        return
    read = iterate(outer)
    assert [record.value for record in read] == [value for _, value, _ in fields[:whole]]
    base = 101 if magic else 0
    assert [record.offset for record in read] == list(range(base, base + whole))
    last = 100 + whole if magic else whole - 1
    assert wrapped_offsets(outer) == (base, last)

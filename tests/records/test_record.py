import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.records.raw_batches import GOOD, NOW, changed, raw_batch, raw_record, records
from tests.records.strategies import CODEC, RECORDS

from ottla.common.errors import ApiError, CorruptMessage, InvalidRecord
from ottla.records.batch import LOG_APPEND_TIME, read_header
from ottla.records.builder import BatchBuilder, build_batch
from ottla.records.compression import compress
from ottla.records.record import Record, iterate


def placed(records: list[Record], base_offset: int) -> list[Record]:
    """The records with the offsets that a batch gives them."""
    for index, record in enumerate(records):
        record.offset = base_offset + index
    return records


@given(RECORDS, CODEC, st.integers(0, 1 << 50))
def test_what_was_built_is_read(of: list[Record], codec: int, base_offset: int) -> None:
    batch = build_batch(of, codec=codec, base_offset=base_offset)
    assert iterate(b"??" + batch, 2) == placed(of, base_offset)
    header = read_header(batch)
    assert header.size == len(batch)
    assert header.record_count == len(of) == header.last_offset_delta + 1
    assert header.max_timestamp == max(record.timestamp for record in of)
    assert header.codec == codec


@given(RECORDS, CODEC, st.data())
def test_no_truncation_is_read(of: list[Record], codec: int, data: st.DataObject) -> None:
    batch = build_batch(of, codec=codec)
    cut = batch[: data.draw(st.integers(0, len(batch) - 1))]
    with pytest.raises(CorruptMessage):
        iterate(cut)


@given(RECORDS, CODEC, st.data())
def test_a_flipped_bit_is_found_or_changes_only_what_a_leader_sets(
    of: list[Record], codec: int, data: st.DataObject
) -> None:
    batch = bytearray(build_batch(of, codec=codec))
    position = data.draw(st.integers(0, len(batch) - 1))
    batch[position] ^= 1 << data.draw(st.integers(0, 7))
    if position < 8 or 12 <= position < 16:
        assert len(iterate(batch)) == len(of)
    else:
        with pytest.raises(CorruptMessage):
            iterate(batch)


@given(RECORDS, st.data())
def test_damage_behind_a_right_checksum_raises_nothing_but_refusals(
    of: list[Record], data: st.DataObject
) -> None:
    batch = bytearray(build_batch(of, codec=data.draw(CODEC)))
    for _ in range(data.draw(st.integers(1, 4))):
        batch[data.draw(st.integers(61, len(batch) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ApiError):
        assert len(iterate(changed(bytes(batch)), limit=1 << 20)) == len(of)


def test_an_append_time_takes_the_place_of_each_timestamp() -> None:
    of = [Record(value=b"a", timestamp=5), Record(value=b"b", timestamp=9)]
    batch = build_batch(of, timestamp_type=LOG_APPEND_TIME, append_time=77)
    assert [record.timestamp for record in iterate(batch)] == [77, 77]


def test_offsets_may_have_gaps_as_compaction_leaves_them() -> None:
    of = [Record(value=b"a", timestamp=5, offset=12), Record(value=b"b", timestamp=9, offset=17)]
    batch = build_batch(of, base_offset=10, keep_offsets=True)
    assert iterate(batch) == of
    builder = BatchBuilder()
    builder.append(5, None, b"a", offset_delta=2)
    assert read_header(builder.build(base_offset=10, last_offset_delta=9)).last_offset == 19


def test_a_header_key_that_is_no_text_stays_bytes() -> None:
    batch = build_batch([Record(value=b"a", headers=[(b"\xff\xfe", b"1"), ("é", None)])])
    assert iterate(batch)[0].headers == [(b"\xff\xfe", b"1"), ("é", None)]


def test_producer_fields_and_flags_are_kept() -> None:
    header = read_header(
        build_batch(
            [Record(value=b"a")],
            producer_id=7,
            producer_epoch=3,
            base_sequence=11,
            leader_epoch=5,
            transactional=True,
            control=True,
        )
    )
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, 11)
    assert header.partition_leader_epoch == 5
    assert header.is_transactional
    assert header.is_control


def test_the_size_of_a_builder_is_that_of_a_plain_batch() -> None:
    builder = BatchBuilder()
    builder.append(NOW, b"key", b"value", [("h", b"x")])
    builder.append(NOW + 1000, None, None)
    assert builder.size == len(builder.build())


@pytest.mark.parametrize(
    "batch",
    [
        raw_batch(records(2), 3),
        raw_batch(records(2), 1),
        raw_batch(raw_record(key_size=b"\x90\x4e"), 1),
        raw_batch(raw_record(headers=b"\x02\x01\x01"), 1),
        raw_batch(raw_record(headers=b"\x01"), 1),
        changed(GOOD, record_count=-1),
    ],
)
def test_what_is_no_record_is_refused(batch: bytes) -> None:
    with pytest.raises(InvalidRecord):
        iterate(batch)


def test_a_bomb_is_refused_at_the_limit() -> None:
    payload = compress(4, raw_record(value=bytes(1 << 20)))
    batch = raw_batch(payload, 1, attributes=4)
    with pytest.raises(CorruptMessage):
        iterate(batch, limit=1 << 20)
    assert len(iterate(batch, limit=(1 << 20) + 100)) == 1


def test_other_magic_is_not_read() -> None:
    with pytest.raises(CorruptMessage):
        iterate(changed(GOOD, magic=1))


def test_records_are_compared_by_value_and_shown() -> None:
    assert Record(value=b"a") == Record(value=b"a")
    assert Record(value=b"a") != Record(value=b"b")
    assert Record(value=b"a") != b"a"
    assert "value=b'a'" in repr(Record(value=b"a"))

"""What an append becomes when it is accepted; what is refused stands in the table of cases."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.records.old_messages import Old, message
from tests.records.raw_batches import GOOD, NOW, changed, raw_batch, raw_record, records
from tests.records.strategies import CODEC, RECORDS

from ottla.common.errors import (
    ApiError,
    CorruptMessage,
    InvalidRecord,
    InvalidTimestamp,
    MessageTooLarge,
    UnsupportedCompressionType,
    UnsupportedForMessageFormat,
)
from ottla.records.batch import (
    LOG_APPEND_TIME,
    NO_TIMESTAMP,
    BatchHeader,
    crc_is_valid,
    read_header,
)
from ottla.records.builder import build_batch
from ottla.records.compression import CODECS, compress
from ottla.records.control import transaction_marker_batch
from ottla.records.record import Record, iterate
from ottla.records.rules import AppendOrigin, AppendRules
from ottla.records.validation import ValidatedAppend, refuse_zstd, validate

PLAIN = AppendRules()
COMPRESSION_TYPES = ["producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"]


def check(batch: bytes | bytearray, rules: AppendRules = PLAIN) -> ValidatedAppend:
    return validate(bytearray(batch), 0, len(batch), rules, NOW)


def written(result: ValidatedAppend) -> bytes:
    return bytes(result.buffer[result.start : result.end])


@given(RECORDS, CODEC)
def test_a_sound_batch_is_not_touched(of: list[Record], codec: int) -> None:
    batch = build_batch(of, codec=codec)
    buffer = bytearray(b"??" + batch + b"!")
    rules = AppendRules(timestamp_after_max_ms=1 << 62, max_message_bytes=1 << 24)
    result = validate(buffer, 2, 2 + len(batch), rules, NOW)
    assert bytes(buffer) == b"??" + batch + b"!"
    assert written(result) == batch
    assert result.batch_count == 1
    assert result.record_count == len(of) == result.last_offset_delta + 1
    timestamps = [record.timestamp for record in of]
    assert result.max_timestamp == max(timestamps)
    assert result.offset_of_max_timestamp == timestamps.index(max(timestamps))
    assert result.append_time == NO_TIMESTAMP


@given(RECORDS, CODEC, st.sampled_from(COMPRESSION_TYPES))
def test_a_topic_of_another_codec_gets_the_same_records_in_it(
    of: list[Record], codec: int, compression_type: str
) -> None:
    batch = build_batch(
        of, codec=codec, producer_id=9, producer_epoch=2, base_sequence=40, transactional=True
    )
    rules = AppendRules(
        compression_type=compression_type,
        timestamp_after_max_ms=1 << 62,
        max_message_bytes=1 << 24,
    )
    result = check(batch, rules)
    stored = read_header(written(result))
    wanted = {"producer": codec, "uncompressed": 0}.get(compression_type)
    assert stored.codec == (CODECS[compression_type] if wanted is None else wanted)
    assert crc_is_valid(result.buffer, result.start, result.end - result.start)
    assert iterate(written(result)) == iterate(batch)
    assert (stored.producer_id, stored.producer_epoch, stored.base_sequence) == (9, 2, 40)
    assert stored.is_transactional
    assert (result.producer_id, result.producer_epoch, result.base_sequence) == (9, 2, 40)
    assert result.last_sequence == 39 + len(of)
    assert result.is_transactional
    assert not result.is_control
    assert stored.base_timestamp == of[0].timestamp
    assert stored.max_timestamp == max(record.timestamp for record in of)


@given(RECORDS, CODEC, st.sampled_from(COMPRESSION_TYPES))
def test_append_time_is_that_of_the_broker_whatever_the_records_say(
    of: list[Record], codec: int, compression_type: str
) -> None:
    rules = AppendRules(
        timestamp_type=LOG_APPEND_TIME, compression_type=compression_type, max_message_bytes=1 << 24
    )
    result = check(build_batch(of, codec=codec), rules)
    stored = read_header(written(result))
    assert stored.timestamp_type == LOG_APPEND_TIME
    assert stored.base_timestamp == of[0].timestamp
    assert stored.max_timestamp == result.max_timestamp == result.append_time == NOW
    assert {record.timestamp for record in iterate(written(result))} == {NOW}
    assert [record.value for record in iterate(written(result))] == [r.value for r in of]


@given(RECORDS, CODEC, st.data())
def test_a_flipped_bit_is_refused_or_lies_outside_the_checksum(
    of: list[Record], codec: int, data: st.DataObject
) -> None:
    batch = bytearray(build_batch(of, codec=codec))
    position = data.draw(st.integers(0, len(batch) - 1))
    batch[position] ^= 1 << data.draw(st.integers(0, 7))
    rules = AppendRules(timestamp_after_max_ms=1 << 62, max_message_bytes=1 << 24)
    if 12 <= position < 16:
        assert check(batch, rules).record_count == len(of)
    else:
        with pytest.raises((CorruptMessage, InvalidRecord)):
            check(batch, rules)


@given(RECORDS, CODEC, st.data())
def test_a_truncated_batch_is_refused(of: list[Record], codec: int, data: st.DataObject) -> None:
    batch = build_batch(of, codec=codec)
    with pytest.raises(InvalidRecord):
        check(batch[: data.draw(st.integers(0, len(batch) - 1))])


@given(st.binary(max_size=300), st.booleans())
def test_any_bytes_raise_nothing_but_refusals(data: bytes, with_header: bool) -> None:
    with pytest.raises(ApiError):
        check(raw_batch(data, 3, attributes=len(data) % 8) if with_header else data)


def test_a_wrong_largest_timestamp_is_corrected_in_place() -> None:
    buffer = bytearray(raw_batch(raw_record(timestamp_delta=-40), 1))
    result = validate(buffer, 0, len(buffer), PLAIN, NOW)
    assert result.buffer.obj is buffer
    assert read_header(buffer).max_timestamp == result.max_timestamp == NOW - 40
    assert crc_is_valid(buffer, 0, len(buffer))


def test_append_time_claimed_by_a_producer_becomes_create_time() -> None:
    buffer = bytearray(changed(GOOD, attributes=8, max_timestamp=NOW - 3))
    result = validate(buffer, 0, len(buffer), PLAIN, NOW)
    assert read_header(buffer).timestamp_type == 0
    assert result.max_timestamp == NOW - 3


@pytest.mark.parametrize("compression_type", COMPRESSION_TYPES)
def test_wrong_offset_deltas_of_a_plain_batch_are_mended(compression_type: str) -> None:
    batch = raw_batch(
        raw_record(offset_delta=7) + raw_record(value=b"w"), 2, producer_id=5, base_sequence=3
    )
    result = check(batch, AppendRules(compression_type=compression_type))
    stored = iterate(written(result))
    assert [(record.offset, record.value) for record in stored] == [(0, b"v"), (1, b"w")]
    assert result.producer_id == 5


def test_a_bomb_is_too_large_a_message() -> None:
    rules = AppendRules(max_message_bytes=1 << 20)
    batch = raw_batch(compress(4, raw_record(value=bytes(rules.decompressed_max))), 1, attributes=4)
    assert len(batch) < rules.max_message_bytes
    with pytest.raises(MessageTooLarge):
        check(batch, rules)


def test_the_room_to_unpack_grows_with_the_messages_that_a_topic_allows() -> None:
    assert AppendRules(max_message_bytes=1 << 20).decompressed_max == 32 << 20
    assert AppendRules(max_message_bytes=100 << 20).decompressed_max == 1600 << 20


def test_every_ill_timed_or_keyless_record_is_named() -> None:
    rules = AppendRules(timestamp_after_max_ms=10, compacted=True)
    batch = raw_batch(
        raw_record(timestamp_delta=50)
        + raw_record(offset_delta=1)
        + raw_record(offset_delta=2, key=None, timestamp_delta=50),
        3,
    )
    with pytest.raises(InvalidTimestamp) as refusal:
        check(batch, rules)
    assert [index for index, _ in refusal.value.record_errors] == [0, 2]
    assert str(NOW + 50) in refusal.value.record_errors[0][1]
    assert "key" in refusal.value.record_errors[1][1]


def test_sequences_wrap() -> None:
    batch = raw_batch(records(3), 3, producer_id=1, producer_epoch=0, base_sequence=2**31 - 2)
    assert check(batch).last_sequence == 0


@pytest.mark.parametrize(("version", "refused"), [(3, True), (6, True), (7, False), (13, False)])
def test_old_produce_requests_must_not_use_zstd(version: int, refused: bool) -> None:
    batch = bytearray(b"?" + raw_batch(compress(4, records(1)), 1, attributes=0x14))
    if refused:
        with pytest.raises(UnsupportedCompressionType):
            refuse_zstd(batch, 1, len(batch), version)
    else:
        refuse_zstd(batch, 1, len(batch), version)
    refuse_zstd(bytearray(raw_batch(compress(3, records(1)), 1, attributes=3)), 0, 99, version)
    refuse_zstd(bytearray(10), 0, 10, version)


def test_a_coordinator_may_append_markers_and_they_stay_plain() -> None:
    marker = transaction_marker_batch(
        commit=True, producer_id=4, producer_epoch=1, coordinator_epoch=3, timestamp=NOW
    )
    rules = AppendRules(compression_type="gzip")
    result = validate(marker, 0, len(marker), rules, NOW, AppendOrigin.COORDINATOR)
    assert result.is_control
    assert read_header(written(result)).codec == 0
    with pytest.raises(InvalidRecord):
        validate(marker, 0, len(marker), rules, NOW, AppendOrigin.CLIENT)


def three_with_offsets() -> list[bytes]:
    return [
        changed(raw_batch(records(2), 2), base_offset=100, max_timestamp=NOW + 9),
        changed(raw_batch(records(3), 3), base_offset=102, max_timestamp=NOW + 50),
        changed(GOOD, base_offset=200, attributes=0x20),
    ]


@pytest.mark.parametrize("origin", [AppendOrigin.REPLICATION, AppendOrigin.RAFT_LEADER])
def test_batches_with_offsets_keep_them(origin: AppendOrigin) -> None:
    parts = three_with_offsets()
    buffer = bytearray(b"".join(parts) + GOOD[:-1])
    result = validate(buffer, 0, len(buffer), PLAIN, NOW, origin)
    assert written(result) == b"".join(parts)
    assert (result.batch_count, result.record_count) == (3, 6)
    assert result.last_offset_delta == 100
    assert (result.max_timestamp, result.offset_of_max_timestamp) == (NOW + 50, 4)


@pytest.mark.parametrize(
    ("batches", "refusal"),
    [
        ([], InvalidRecord),
        ([GOOD[:-1]], InvalidRecord),
        ([GOOD, GOOD], InvalidRecord),
        ([changed(GOOD, last_offset_delta=-1)], InvalidRecord),
        ([changed(GOOD, crc=4)], CorruptMessage),
        ([message(1, Old(0))], UnsupportedForMessageFormat),
        ([changed(GOOD, magic=1)], CorruptMessage),
    ],
)
def test_batches_that_no_leader_can_have_are_refused(
    batches: list[bytes], refusal: type[ApiError]
) -> None:
    buffer = bytearray(b"".join(batches))
    with pytest.raises(refusal):
        validate(buffer, 0, len(buffer), PLAIN, NOW, AppendOrigin.REPLICATION)


def test_a_header_is_what_the_append_says() -> None:
    header: BatchHeader = read_header(written(check(GOOD)))
    assert header == read_header(GOOD)

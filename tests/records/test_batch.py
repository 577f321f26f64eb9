import pytest
from tests.records.raw_batches import GOOD, changed, raw_batch, records

from ottla.common.errors import CorruptMessage
from ottla.records.batch import (
    HEADER_SIZE,
    LOG_APPEND_TIME,
    batches,
    crc_is_valid,
    last_sequence,
    read_header,
    set_base_offset_and_epoch,
    set_max_timestamp,
)

THREE = raw_batch(records(3), 3)


def test_a_header_tells_all_that_a_log_needs() -> None:
    header = read_header(changed(THREE, base_offset=10, attributes=0x3A, producer_id=7))
    assert header.size == len(THREE)
    assert (header.base_offset, header.last_offset, header.record_count) == (10, 12, 3)
    assert header.codec == 2
    assert header.timestamp_type == LOG_APPEND_TIME
    assert header.is_transactional
    assert header.is_control
    assert header.delete_horizon_ms is None
    assert header.producer_id == 7


def test_a_delete_horizon_stands_in_place_of_the_base_timestamp() -> None:
    header = read_header(changed(GOOD, attributes=0x40, base_timestamp=99))
    assert header.delete_horizon_ms == 99


def test_a_header_is_read_at_its_position() -> None:
    assert read_header(b"???" + THREE, 3) == read_header(THREE)


def test_fewer_bytes_than_a_header_are_refused() -> None:
    with pytest.raises(CorruptMessage):
        read_header(GOOD[: HEADER_SIZE - 1])


def test_batches_are_found_one_behind_the_other_and_a_cut_one_is_left_out() -> None:
    buffer = b"x" + GOOD + THREE + GOOD[:-1]
    assert list(batches(buffer, 1)) == [(1, len(GOOD)), (1 + len(GOOD), len(THREE))]
    assert list(batches(buffer, 1, 1 + len(GOOD))) == [(1, len(GOOD))]
    assert list(batches(GOOD[:16])) == []


@pytest.mark.parametrize(
    "fields", [{"length": 13}, {"length": -1}, {"length": 48}, {"magic": 3}, {"magic": -1}]
)
def test_what_no_batch_can_be_is_corrupt(fields: dict[str, int]) -> None:
    with pytest.raises(CorruptMessage):
        list(batches(changed(GOOD, **fields)))


def test_offset_and_epoch_are_patched_without_touching_the_checksum() -> None:
    buffer = bytearray(b"x" + THREE)
    set_base_offset_and_epoch(buffer, 1, 1 << 40, 77)
    header = read_header(buffer, 1)
    assert (header.base_offset, header.partition_leader_epoch) == (1 << 40, 77)
    assert crc_is_valid(buffer, 1, len(THREE))


def test_an_append_time_is_set_in_place_with_a_new_checksum() -> None:
    buffer = bytearray(b"x" + changed(THREE, attributes=0x11))
    set_max_timestamp(memoryview(buffer), 1, len(THREE), LOG_APPEND_TIME, 1234)
    header = read_header(buffer, 1)
    assert header.attributes == 0x19
    assert header.max_timestamp == 1234
    assert crc_is_valid(buffer, 1, len(THREE))
    set_max_timestamp(buffer, 1, len(THREE), 0, 5)
    assert read_header(buffer, 1).attributes == 0x11


def test_a_single_flipped_bit_behind_the_checksum_is_found() -> None:
    for position in range(17, len(THREE)):
        for bit in range(8):
            damaged = bytearray(THREE)
            damaged[position] ^= 1 << bit
            assert not crc_is_valid(damaged, 0, len(damaged))


def test_a_batch_shorter_than_its_header_has_no_valid_checksum() -> None:
    assert not crc_is_valid(GOOD, 0, 60)


def test_sequences_go_on_at_zero() -> None:
    assert last_sequence(5, 3) == 8
    assert last_sequence((1 << 31) - 1, 1) == 0
    assert last_sequence((1 << 31) - 2, 4) == 2
    assert last_sequence(-1, 4) == -1

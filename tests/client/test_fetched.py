"""What is left of a fetch: offsets before the position, control records, aborted transactions."""

import pytest

from ottla.client.fetched import FetchedRecords, check_whole_batch
from ottla.common.errors import CorruptMessage
from ottla.records.builder import build_batch
from ottla.records.control import ControlType, control_batch, transaction_marker_batch
from ottla.records.record import Record

LIMIT = 1 << 20


def data(base: int, *values: bytes, producer_id: int = -1, codec: int = 0) -> bytes:
    return build_batch(
        [Record(value=value, timestamp=1) for value in values],
        base_offset=base,
        codec=codec,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=0 if producer_id >= 0 else -1,
        transactional=producer_id >= 0,
    )


def marker(base: int, producer_id: int, *, commit: bool) -> bytes:
    return bytes(
        transaction_marker_batch(
            commit=commit,
            producer_id=producer_id,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp=1,
            base_offset=base,
        )
    )


def values(fetched: FetchedRecords) -> list[tuple[int, bytes | None]]:
    found = []
    while (records := fetched.next_records()) is not None:
        found += [(record.offset, record.value) for record in records]
    return found


def test_records_before_the_position_are_left_out() -> None:
    fetched = FetchedRecords(data(10, b"a", b"b", b"c"), 11, decompressed_max=LIMIT)
    assert values(fetched) == [(11, b"b"), (12, b"c")]
    assert fetched.position == 13


def test_batches_are_unpacked_one_by_one() -> None:
    fetched = FetchedRecords(data(0, b"a", b"b") + data(2, b"c"), 0, decompressed_max=LIMIT)
    first = fetched.next_records()
    assert first is not None
    assert len(first) == 2
    assert fetched.position == 2


def test_a_part_of_a_batch_at_the_end_is_left_for_the_next_fetch() -> None:
    fetched = FetchedRecords(data(0, b"a") + data(1, b"b")[:-1], 0, decompressed_max=LIMIT)
    assert values(fetched) == [(0, b"a")]
    assert fetched.position == 1


def test_a_batch_that_lies_wholly_before_the_position_is_skipped() -> None:
    fetched = FetchedRecords(data(0, b"a") + data(1, b"b"), 1, decompressed_max=LIMIT)
    assert values(fetched) == [(1, b"b")]


def test_control_records_are_never_shown_but_counted() -> None:
    quorum = bytes(control_batch([(ControlType.LEADER_CHANGE, b"")], timestamp=1, base_offset=1))
    fetched = FetchedRecords(data(0, b"a") + quorum, 0, decompressed_max=LIMIT)
    assert values(fetched) == [(0, b"a")]
    assert fetched.position == 2


LOG = (
    data(0, b"plain")
    + data(1, b"aborted", producer_id=7)
    + data(2, b"committed", producer_id=8)
    + marker(3, 7, commit=False)
    + data(4, b"now committed", producer_id=7)
    + marker(5, 8, commit=True)
    + marker(6, 7, commit=True)
    + data(7, b"aborted again", producer_id=8, codec=3)
    + marker(8, 8, commit=False)
    + data(9, b"end")
)


def test_aborted_transactions_are_left_out_up_to_their_marker() -> None:
    fetched = FetchedRecords(LOG, 0, aborted=[(8, 7), (7, 1)], decompressed_max=LIMIT)
    assert [value for _, value in values(fetched)] == [
        b"plain",
        b"committed",
        b"now committed",
        b"end",
    ]
    assert fetched.position == 10


def test_a_fetch_may_begin_with_the_marker_of_an_aborted_transaction() -> None:
    begin = len(data(0, b"plain") + data(1, b"aborted", producer_id=7))
    begin += len(data(2, b"committed", producer_id=8))
    fetched = FetchedRecords(LOG[begin:], 3, aborted=[(7, 1), (8, 7)], decompressed_max=LIMIT)
    assert [value for _, value in values(fetched)] == [b"now committed", b"end"]


def test_without_a_list_of_aborted_ones_all_is_shown() -> None:
    fetched = FetchedRecords(LOG, 0, decompressed_max=LIMIT)
    assert len(values(fetched)) == 6


def test_damage_is_found() -> None:
    damaged = bytearray(data(0, b"abc"))
    damaged[-2] ^= 1
    with pytest.raises(CorruptMessage):
        values(FetchedRecords(bytes(damaged), 0, decompressed_max=LIMIT))
    unchecked = FetchedRecords(bytes(damaged), 0, check_crc=False, decompressed_max=LIMIT)
    assert len(values(unchecked)) == 1


def test_bytes_without_a_whole_batch_are_an_error_and_not_a_loop() -> None:
    check_whole_batch(b"", "t-0")
    check_whole_batch(data(0, b"a"), "t-0")
    for cut in (data(0, b"a")[:-1], data(0, b"a")[:10]):
        with pytest.raises(CorruptMessage, match="t-0"):
            check_whole_batch(cut, "t-0")

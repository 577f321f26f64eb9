"""A led partition on a real log: high watermark, epochs, isolation, and who wakes whom.

The log lies on a disk in memory; everything above it is the product's own.
"""

import pytest
from tests.replication.alone import alone
from tests.replication.states import lead
from tests.turns import in_turn, virtual_time

from ottla.common.errors import (
    FencedLeaderEpoch,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    UnknownLeaderEpoch,
)
from ottla.common.topic_partition import TopicPartition
from ottla.config.topic import TopicConfig
from ottla.protocol.fetch_response import FetchedPartition
from ottla.records.builder import build_batch
from ottla.records.control import transaction_marker_batch
from ottla.records.record import Record, iterate
from ottla.records.rules import AppendOrigin
from ottla.replication.partition import READ_COMMITTED, READ_UNCOMMITTED, Partition
from ottla.replication.waiting import WaitingRequests
from ottla.storage.files import FileRegion
from ottla.storage.opening import open_log
from ottla.testing.files import MemoryFilesystem

NOW_MS = 1_700_000_000_000


def partition(*, leader_epoch: int = 0) -> Partition:
    filesystem = MemoryFilesystem()
    filesystem.make_directory("/data")
    topic_id = bytes(15) + b"\x07"
    log = open_log(
        filesystem,
        "/data/t-0",
        topic_partition=TopicPartition("t", 0),
        topic_id=topic_id,
        config=TopicConfig({}),
        now_ms=NOW_MS,
    )
    made = Partition(1, "t", topic_id, 0, log, alone())
    lead(made, 1, leader_epoch, (1,))
    return made


def batch(*values: bytes) -> bytes:
    return bytes(build_batch([Record(timestamp=NOW_MS, value=value) for value in values]))


def append(to: Partition, *values: bytes, acks: int = -1) -> int:
    frame = bytearray(b"header" + batch(*values) + b"trailer")
    info = in_turn(to.append, memoryview(frame), 6, len(frame) - 7, acks, NOW_MS)
    return info.first_offset


def read(
    from_: Partition, offset: int, isolation_level: int = READ_UNCOMMITTED, max_bytes: int = 1 << 20
) -> FetchedPartition:
    return from_.read(offset, max_bytes, -1, isolation_level, at_least_one=True)


def values(fetched: FetchedPartition) -> list[bytes | None]:
    records = fetched.records
    if not isinstance(records, FileRegion):
        assert records == b""
        return []
    data = records.read()
    found: list[bytes | None] = []
    position = 0
    while position < len(data):
        found += [record.value for record in iterate(data, position)]
        position += 12 + int.from_bytes(data[position + 8 : position + 12], "big")
    return found


def test_what_is_appended_from_within_a_frame_is_read_back() -> None:
    led = partition()
    assert append(led, b"a", b"b") == 0
    assert append(led, b"c") == 2
    fetched = read(led, 0)
    assert values(fetched) == [b"a", b"b", b"c"]
    assert (fetched.high_watermark, fetched.last_stable_offset) == (3, 3)
    assert fetched.aborted is None


def test_alone_in_sync_a_write_is_committed_at_once() -> None:
    led = partition()
    append(led, b"a")
    assert led.log.high_watermark == led.log.log_end_offset == 1


def test_a_reader_at_the_end_gets_nothing_and_no_error() -> None:
    led = partition()
    append(led, b"a")
    fetched = read(led, 1)
    assert (fetched.error_code, values(fetched)) == (0, [])


@pytest.mark.parametrize("offset", [-1, 2, 1 << 40])
def test_offsets_outside_the_log_are_refused(offset: int) -> None:
    led = partition()
    append(led, b"a")
    with pytest.raises(OffsetOutOfRange):
        read(led, offset)


def test_what_is_below_the_log_start_offset_is_gone() -> None:
    led = partition()
    append(led, b"a")
    append(led, b"b")
    led.log.delete_records_before(1)
    with pytest.raises(OffsetOutOfRange):
        read(led, 0)
    assert read(led, 1).log_start_offset == 1


def test_acks_all_is_refused_before_anything_is_written_when_too_few_are_in_sync() -> None:
    led = partition()
    lead(led, 1, 1, (1,), replicas=(1, 2))
    led.min_insync_replicas = 2
    with pytest.raises(NotEnoughReplicas):
        append(led, b"a", acks=-1)
    assert led.log.log_end_offset == 0
    assert append(led, b"a", acks=1) == 0


def test_a_broker_that_does_not_lead_neither_appends_nor_serves() -> None:
    led = partition()
    append(led, b"a")
    lead(led, 2, 1, (2,))
    with pytest.raises(NotLeaderOrFollower):
        append(led, b"b")
    with pytest.raises(NotLeaderOrFollower):
        read(led, 0)
    assert led.log.log_end_offset == 1


def test_an_older_or_newer_epoch_than_ours_is_told_apart() -> None:
    led = partition(leader_epoch=5)
    led.check_epoch(-1)
    led.check_epoch(5)
    with pytest.raises(FencedLeaderEpoch):
        led.check_epoch(4)
    with pytest.raises(FencedLeaderEpoch):
        led.check_epoch(-2)
    with pytest.raises(UnknownLeaderEpoch):
        led.check_epoch(6)


def test_a_fetch_in_another_epoch_is_refused() -> None:
    led = partition(leader_epoch=5)
    with pytest.raises(UnknownLeaderEpoch):
        led.read(0, 100, 6, READ_UNCOMMITTED, at_least_one=True)


def test_a_new_epoch_is_known_before_anything_is_written_in_it() -> None:
    led = partition(leader_epoch=3)
    append(led, b"a")
    lead(led, 1, 4, (1,))
    assert led.log.end_offset_for_epoch(3).end_offset == 1
    assert led.log.latest_epoch == 4
    lead(led, 1, 4, (1,))
    assert led.log.latest_epoch == 4


def test_the_first_batch_comes_even_if_it_is_larger_than_the_limit() -> None:
    led = partition()
    append(led, b"x" * 500)
    append(led, b"y" * 500)
    assert values(read(led, 0, max_bytes=10)) == [b"x" * 500]
    without = led.read(0, 10, -1, READ_UNCOMMITTED, at_least_one=False)
    assert values(without) == []


def test_read_committed_stops_at_an_open_transaction_and_is_told_of_aborted_ones() -> None:
    led = partition()
    append(led, b"plain")
    open_one = bytearray(
        build_batch(
            [Record(timestamp=NOW_MS, value=b"perhaps")],
            producer_id=9,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )
    )
    led.append(memoryview(open_one), 0, len(open_one), -1, NOW_MS)
    append(led, b"later")
    undecided = read(led, 0, READ_COMMITTED)
    assert (undecided.high_watermark, undecided.last_stable_offset) == (3, 1)
    assert values(undecided) == [b"plain"]
    assert undecided.aborted == []
    assert values(read(led, 0)) == [b"plain", b"perhaps", b"later"]
    led.append_records(
        bytes(
            transaction_marker_batch(
                commit=False,
                producer_id=9,
                producer_epoch=0,
                coordinator_epoch=0,
                timestamp=NOW_MS,
            )
        ),
        AppendOrigin.COORDINATOR,
        NOW_MS,
    )
    decided = read(led, 0, READ_COMMITTED)
    assert decided.last_stable_offset == 4
    assert decided.aborted == [(9, 1)]


def test_what_the_broker_itself_says_is_held_to_the_same_number_of_replicas() -> None:
    led = partition()
    assert led.append_records(batch(b"offset"), AppendOrigin.COORDINATOR, NOW_MS) == 0
    lead(led, 1, 1, (1,), replicas=(1, 2))
    led.min_insync_replicas = 2
    with pytest.raises(NotEnoughReplicas):
        led.append_records(batch(b"offset"), AppendOrigin.COORDINATOR, NOW_MS)


def test_an_append_wakes_those_who_wait_with_the_bytes_that_came() -> None:
    led = partition()
    queue = WaitingRequests(virtual_time(1))
    woken: list[int] = []
    size = len(batch(b"a"))
    queue.add(size + 1, [led.readers.consumers], 500, lambda: woken.append(led.log.high_watermark))
    append(led, b"a")
    assert woken == []
    append(led, b"b")
    assert woken == [2]


def transactional(led: Partition, value: bytes) -> int:
    """Append to a transaction of producer 9; how many bytes that is."""
    data = bytearray(
        build_batch(
            [Record(timestamp=NOW_MS, value=value)],
            producer_id=9,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )
    )
    in_turn(led.append, memoryview(data), 0, len(data), -1, NOW_MS)
    return len(data)


def test_who_reads_what_is_committed_is_woken_by_the_end_of_a_transaction_with_all_of_it() -> None:
    led = partition()
    queue = WaitingRequests(virtual_time(1))
    woken: list[str] = []
    place = led.readers.committed(led.log)
    queue.add(1, [place], 500, lambda: woken.append("soon"))
    size = transactional(led, b"perhaps" * 10)
    assert woken == [], "the transaction is open"
    queue.add(size + 1, [place], 500, lambda: woken.append("with much"))
    queue.add(2 * size, [place], 500, lambda: woken.append("with more"))
    marker = transaction_marker_batch(
        commit=True, producer_id=9, producer_epoch=0, coordinator_epoch=0, timestamp=NOW_MS
    )
    assert len(marker) < size
    in_turn(led.append_records, bytes(marker), AppendOrigin.COORDINATOR, NOW_MS)
    assert woken == ["soon", "with much"]

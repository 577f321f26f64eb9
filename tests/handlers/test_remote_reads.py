"""Fetch and ListOffsets on a log whose older part lies in a remote store."""

import pytest
from tests.handlers.broker import Broker
from tests.handlers.test_fetch import asked, at, only, read, size, start
from tests.handlers.test_offsets import listed
from tests.replication.states import lead
from tests.turns import TURN

from ottla.common.errors import ApiError, CorruptMessage, ErrorCode
from ottla.common.promise import Promise, fulfilled
from ottla.config.changes import Resource
from ottla.protocol.generated.fetch import PartitionData
from ottla.records.batch import batches, read_header
from ottla.records.record import iterate
from ottla.storage.log import Log
from ottla.storage.remote import RemoteData
from ottla.storage.time_search import TimestampAndOffset

BASE = 1_700_000_000_000
NOTHING = (0, -1, -1, -1)


class Shelf:
    """A remote store that has the bytes of one log; it answers when it is told to."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.waiting: list[tuple[Promise[RemoteData], RemoteData]] = []
        self.at_once = True

    def read(
        self,
        log: Log,
        offset: int,
        max_bytes: int,
        *,
        upper_bound_offset: int,
        read_committed: bool,
    ) -> Promise[RemoteData]:
        assert upper_bound_offset <= log.log_end_offset
        records, end = b"", offset
        for start_at, length in batches(self._data):
            header = read_header(self._data, start_at)
            if header.last_offset >= offset and (not records or len(records) < max_bytes):
                records += self._data[start_at : start_at + length]
                end = header.last_offset + 1
        data = RemoteData(records, end, [(7, offset)] if read_committed else [])
        if self.at_once:
            return fulfilled(TURN, data)
        promise: Promise[RemoteData] = Promise(TURN)
        self.waiting.append((promise, data))
        return promise

    def offset_for_timestamp(
        self, log: Log, timestamp: int, start_offset: int
    ) -> Promise[TimestampAndOffset | None]:
        for start_at, _ in batches(self._data):
            for record in iterate(self._data, start_at):
                in_range = start_offset <= record.offset < log.local_log_start_offset
                if in_range and record.timestamp >= timestamp:
                    return fulfilled(TURN, TimestampAndOffset(record.timestamp, record.offset, 3))
        nothing: TimestampAndOffset | None = None
        return fulfilled(TURN, nothing)


@pytest.fixture
def broker() -> Broker:
    """Topic t: 30 records, of which the last segments are here and all others remote."""
    made = Broker({"remote.log.storage.system.enable": "true"})
    made.set_configs(
        Resource.TOPIC,
        "t",
        {
            "remote.storage.enable": "true",
            "local.retention.bytes": "0",
            "internal.segment.bytes": "300",
        },
    )
    made.add_topic("t", 2, leader_epoch=3)
    made.produce("t", 0, tuple(BASE + number for number in range(30)))
    log = made.log_of("t")
    data = b"".join(segment.file.read_at(0, segment.size) for segment in log.segments)
    made.services.remote_logs = Shelf(data)
    log.set_highest_remote_offset(log.segments[-2].base_offset - 1)
    assert log.delete_old_segments(made.scheduler.wall_ms()) > 5
    assert 0 < log.local_log_start_offset < 30
    return made


def shelf_of(broker: Broker) -> Shelf:
    shelf = broker.services.remote_logs
    assert isinstance(shelf, Shelf)
    return shelf


def fetch_at(
    broker: Broker, offset: int, *, isolation_level: int = 0, replica_id: int = -1
) -> PartitionData:
    request = asked(
        broker, at(offset), wait_ms=500, isolation_level=isolation_level, replica_id=replica_id
    )
    answer = start(broker, request)
    if isinstance(answer, Promise):
        return only(read(answer.result(), 18))
    return only(read(answer, 18))


def test_a_consumer_reads_from_the_first_offset_to_the_last_over_both_parts(
    broker: Broker,
) -> None:
    offsets: list[int] = []
    while len(offsets) < 30:
        found = fetch_at(broker, len(offsets))
        assert (found.error_code, found.high_watermark, found.log_start_offset) == (0, 30, 0)
        data = found.records or b""
        for start_at, _ in batches(data):
            offsets += [
                record.offset for record in iterate(data, start_at) if record.offset >= len(offsets)
            ]
    assert offsets == list(range(30))


def test_aborted_transactions_come_with_the_remote_records(broker: Broker) -> None:
    aborted = fetch_at(broker, 2, isolation_level=1).aborted_transactions
    assert aborted is not None
    assert [(entry.producer_id, entry.first_offset) for entry in aborted] == [(7, 2)]
    assert fetch_at(broker, 2).aborted_transactions is None


def test_the_answer_waits_for_the_remote_store_and_no_longer_than_it_may(broker: Broker) -> None:
    shelf = shelf_of(broker)
    shelf.at_once = False
    answer = start(broker, asked(broker, at(0), at(0, 1), wait_ms=1))
    assert isinstance(answer, Promise)
    broker.scheduler.run_for(0.3)
    assert not answer.done
    ((promise, data),) = shelf.waiting
    promise.fulfil(data)
    remote, local = read(answer.result(), 18).responses[0].partitions
    assert size(remote) > 0
    assert (local.error_code, size(local)) == (0, 0)


def test_who_waited_in_vain_is_answered_without_records_and_without_an_error(
    broker: Broker,
) -> None:
    shelf = shelf_of(broker)
    shelf.at_once = False
    answer = start(broker, asked(broker, at(0)))
    assert isinstance(answer, Promise)
    broker.scheduler.run_for(0.6)
    found = only(read(answer.result(), 18))
    assert (found.error_code, size(found), found.high_watermark) == (0, 0, 30)
    ((promise, data),) = shelf.waiting
    promise.fulfil(data)


@pytest.mark.parametrize("error", [CorruptMessage(), ApiError("the store is on fire")])
def test_what_the_store_refuses_the_partition_refuses(broker: Broker, error: ApiError) -> None:
    shelf = shelf_of(broker)
    shelf.at_once = False
    answer = start(broker, asked(broker, at(0)))
    assert isinstance(answer, Promise)
    shelf.waiting[0][0].fail(error)
    assert only(read(answer.result(), 18)).error_code == error.code


def test_a_follower_is_told_where_to_look(broker: Broker) -> None:
    lead(broker.partition("t"), 1, 9, (1, 7))
    found = fetch_at(broker, 0, replica_id=7)
    assert found.error_code == ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE


def test_without_a_remote_store_the_offset_is_out_of_range(broker: Broker) -> None:
    broker.services.remote_logs = None
    assert fetch_at(broker, 0).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_the_places_of_a_log_in_two_parts(broker: Broker) -> None:
    log = broker.log_of("t")
    local_start, copied = log.local_log_start_offset, log.highest_remote_offset
    assert copied + 1 == local_start
    assert listed(broker, -2) == (0, -1, 0, 3)
    assert listed(broker, -4) == (0, -1, local_start, 3)
    assert listed(broker, -5) == (0, -1, copied, 3)
    assert listed(broker, -6) == (0, -1, copied + 1, 3)


def test_the_places_of_a_log_of_which_nothing_is_copied(broker: Broker) -> None:
    assert listed(broker, -4, partition=1) == (0, -1, 0, 3)
    assert listed(broker, -5, partition=1) == NOTHING
    assert listed(broker, -6, partition=1) == (0, -1, 0, 3)
    # After a restart, before the metadata topic was read.
    broker.log_of("t").set_highest_remote_offset(-1)
    assert listed(broker, -6) == NOTHING


@pytest.mark.parametrize("number", [0, 3, 11, 29])
def test_a_time_is_looked_for_in_both_parts(broker: Broker, number: int) -> None:
    assert listed(broker, BASE + number) == (0, BASE + number, number, 3)


def test_a_time_above_all_is_found_nowhere(broker: Broker) -> None:
    assert listed(broker, BASE + 30) == NOTHING

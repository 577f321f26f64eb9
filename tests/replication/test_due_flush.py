"""``flush.messages``: until a flush is done, what it is for counts for nobody."""

import errno

import pytest
from tests.replication.alone import alone
from tests.replication.followers import SETTINGS, Replica
from tests.replication.states import lead
from tests.replication.test_fetching import asked
from tests.replication.test_log_moves import A, B, Moving
from tests.storage import logs
from tests.storage.test_driver import CLEANER, INTERVALS
from tests.turns import TURN

from ottla.common.errors import ApiError, NotLeaderOrFollower
from ottla.common.promise import Promise
from ottla.protocol.generated.fetch import FetchRequest
from ottla.records.rules import AppendOrigin
from ottla.replication.fetching import Fetcher
from ottla.replication.partition import Partition
from ottla.storage.cleaning.driver import CleanerDriver
from ottla.storage.cleaning.worker import BackgroundWorker
from ottla.storage.driver import StorageDriver
from ottla.storage.log import Log

HOLD = SETTINGS.wait_max_ms / 1000


class Disk:
    """Flushes that end when the test says so."""

    def __init__(self) -> None:
        self.outside = alone(flush=self._flush)
        self.asked: list[tuple[Log, Promise[None]]] = []

    def _flush(self, log: Log) -> Promise[None]:
        self.asked.append((log, Promise(TURN)))
        return self.asked[-1][1]

    def partition(self, node_id: int = 1, **settings: object) -> Partition:
        log = logs.open_log(logs.filesystem(), logs.settings(**{"flush_messages": 1} | settings))
        return Partition(node_id, "topic", logs.TOPIC_ID, 0, log, self.outside)

    def end_flush(self) -> None:
        log, done = self.asked.pop(0)
        log.flush(logs.NOW)
        done.fulfil(None)


def led(disk: Disk, *replicas: int, **settings: object) -> Partition:
    made = disk.partition(1, **settings)
    lead(made, 1, 0, replicas or (1,))
    return made


def append(to: Partition, *values: bytes) -> int:
    frame = logs.batch(values)
    return to.append(memoryview(frame), 0, len(frame), -1, logs.NOW).last_offset


# Leaders


def test_what_a_coordinator_writes_is_committed_when_it_is_on_disk() -> None:
    disk = Disk()
    partition = led(disk, flush_messages=2)
    records = [bytes(logs.batch([b"%d" % number])) for number in range(3)]
    offsets = [
        partition.append_records(each, AppendOrigin.COORDINATOR, logs.NOW) for each in records
    ]
    first, second, third = (partition.when_committed(offset) for offset in offsets)
    assert first.done, "below the limit nothing is due"
    assert not second.done
    assert not third.done, "it stands behind what is not on disk"
    assert partition.log.high_watermark == 1
    disk.end_flush()
    assert (second.done, third.done, partition.log.high_watermark) == (True, True, 3)


def test_records_that_come_during_a_flush_are_flushed_by_the_next() -> None:
    disk = Disk()
    partition = led(disk)
    append(partition, b"first")
    flush = partition.log.prepare_flush()
    assert flush is not None
    append(partition, b"second")
    assert len(disk.asked) == 1, "one at a time"
    flush.run()
    partition.log.flushed(flush, logs.NOW)
    disk.asked.pop()[1].fulfil(None)
    assert (partition.log.high_watermark, partition.log.due_offset) == (1, 1)
    disk.end_flush()
    assert (partition.log.high_watermark, disk.asked) == (2, [])


def test_a_log_that_is_cut_has_nothing_to_flush_of_what_is_gone() -> None:
    disk = Disk()
    partition = led(disk)
    for value in (b"a", b"b", b"c"):
        append(partition, value)
    lead(partition, 2, 1, (1, 2))
    partition.truncate_to(2, logs.NOW)
    assert partition.log.due_offset == 0
    disk.end_flush()
    assert not partition.log.is_flush_due
    lead(partition, 1, 2, (1,))
    append(partition, b"d")
    lead(partition, 2, 3, (1, 2))
    partition.truncate_to(2, logs.NOW)
    assert not partition.log.is_flush_due


def test_a_producer_that_waits_is_told_when_the_leadership_ends() -> None:
    disk = Disk()
    partition = led(disk, 1, 2)
    told: list[ApiError | None] = []
    partition.when_flushed(append(partition, b"a"), told.append)
    lead(partition, 2, 1, (1, 2))
    assert [type(error) for error in told] == [NotLeaderOrFollower]
    disk.end_flush()
    assert (len(told), partition.log.high_watermark) == (1, 0)


# Followers


class Follower:
    """A follower whose records are all due to be flushed, and its leader."""

    def __init__(self) -> None:
        self.disk = Disk()
        self.leader = Replica(1, (1, 2))
        self.leader.hear(1, 1)
        self.replica = Replica(2, (1, 2))
        self.replica.partition = self.disk.partition(2)
        self.replica.hear(1, 1)

    @property
    def core(self) -> Fetcher:
        return self.replica.fetcher

    def fetch(self, *values: bytes) -> None:
        """Fetch a record that the leader has got meanwhile."""
        request = self.request()
        self.leader.append(*values)
        self.core.fetched(self.leader.answer(request), self.replica.now, logs.NOW)

    def request(self) -> FetchRequest:
        request = self.replica.ask()
        assert isinstance(request, FetchRequest)
        return request

    def flushed(self) -> None:
        """What the driver does when it hears of a flush."""
        self.disk.end_flush()
        unflushed, self.core.unflushed = self.core.unflushed, []
        for state in unflushed:
            self.core.flushed(state)


def test_a_follower_claims_nothing_that_it_has_to_flush() -> None:
    follower = Follower()
    follower.fetch(b"a")
    assert follower.replica.log.log_end_offset == 1
    assert follower.replica.ask() is None, "the next request waits for the flush"
    assert follower.core.wake_at(1.0) == 1.0 + HOLD
    follower.flushed()
    assert asked(follower.request()) == [(1, 1, 1)]


def test_a_disk_that_hangs_holds_up_its_own_partitions_alone() -> None:
    follower = Follower()
    follower.fetch(b"a")
    follower.replica.now += HOLD
    request = follower.request()
    assert asked(request) == []
    assert [topic.partitions for topic in request.forgotten_topics_data] == [[0]]
    follower.core.fetched(follower.leader.answer(request), follower.replica.now, logs.NOW)
    follower.flushed()
    assert asked(follower.request()) == [(1, 1, 1)]


def test_a_new_epoch_does_not_claim_what_an_old_one_has_to_flush() -> None:
    follower = Follower()
    follower.fetch(b"a")
    for each in (follower.leader, follower.replica):
        each.hear(1, 2)
    request = follower.request()
    assert asked(request) == []
    follower.core.fetched(follower.leader.answer(request), follower.replica.now, logs.NOW)
    follower.flushed()
    assert asked(follower.request()) == [(1, 2, 1)]


def test_a_leader_that_follows_claims_nothing_that_it_has_to_flush() -> None:
    disk = Disk()
    replica = Replica(2, (1, 2))
    replica.partition = disk.partition(2)
    replica.hear(2, 1)
    append(replica.partition, b"a")
    replica.hear(1, 2)
    assert replica.ask() is None
    state = replica.state
    assert state is not None
    replica.fetcher.flushed(state)
    assert replica.ask() is None, "that was not the flush"
    disk.end_flush()
    replica.fetcher.flushed(state)
    request = replica.ask()
    assert isinstance(request, FetchRequest)
    assert asked(request) == [(1, 2, 1)]


# Moves


def test_a_log_takes_the_others_place_when_it_is_as_safe() -> None:
    """The producer has heard of a record that only the old directory has on disk."""
    moving = Moving(flush_messages=1)
    moving.replicas.outside.flush = Disk().outside.flush
    logs.append(moving.log, b"first")
    moving.log.flush(logs.NOW)
    moving.moves.move(logs.TOPIC, B)
    while not moving.manager.future_logs[logs.TOPIC].recovery_point:
        moving.clock.run_due()
        moving.clock.run_background()
    logs.append(moving.log, b"second")
    moving.log.flush(logs.NOW)
    moving.settle()
    assert moving.manager.directory_of(moving.log).path == B
    assert (moving.log.recovery_point, moving.log.is_flush_due) == (2, False)


@pytest.mark.parametrize("trouble", ["hangs", "fails"])
def test_a_log_that_has_left_a_disk_does_not_wait_for_it(trouble: str) -> None:
    moving = Moving(flush_messages=1)
    cleaner = CleanerDriver(
        moving.manager,
        moving.files,
        moving.clock,
        CLEANER,
        lambda worker: BackgroundWorker(moving.files, moving.clock, worker),
    )
    driver = StorageDriver(moving.manager, moving.clock, INTERVALS, cleaner)
    driver.start()
    moving.replicas.outside.flush = driver.flush
    moving.clock.hung.add(A)
    partition = moving.replicas.partition("topic", 0)
    assert partition is not None
    told: list[ApiError | None] = []
    partition.when_flushed(append(partition, b"a"), told.append)
    moving.clock.run_due()
    moving.moves.move(logs.TOPIC, B)
    moving.settle()
    assert moving.manager.directory_of(partition.log).path == B
    if trouble == "fails":
        moving.files.fail = lambda operation, path: (
            OSError(errno.EIO, "injected") if operation == "sync" and path.startswith(A) else None
        )
        moving.clock.hung.clear()
    moving.clock.advance(1)
    assert (told, partition.log.high_watermark) == ([None], 1)
    append(partition, b"b")
    moving.clock.advance(1)
    assert partition.log.high_watermark == 2

"""Logs that move to another directory: what comes along, and what becomes of failures."""

import errno

import pytest
from tests.replication.alone import alone_replicas
from tests.replication.followers import Replica
from tests.replication.states import state
from tests.storage import logs
from tests.storage.scheduler import ManualScheduler

from ottla.common.chance import Chance
from ottla.common.errors import ApiError
from ottla.common.topic_partition import TopicPartition
from ottla.records.control import transaction_marker_batch
from ottla.records.rules import AppendOrigin
from ottla.replication.log_moves import LogMoves
from ottla.storage.log import Log
from ottla.storage.manager import LogManager

A, B = "/data/a", "/data/b"


class Moving:
    """A broker's logs in two directories, and a partition in the first."""

    def __init__(self, **settings: object) -> None:
        self.files = logs.filesystem()
        self.clock = ManualScheduler(logs.NOW)
        self.manager = LogManager(
            self.files,
            [A, B],
            clock=self.clock,
            chance=Chance(1),
            config_for=lambda _topic: logs.settings(**settings),
        )
        self.manager.start()
        self.replicas = alone_replicas(self.manager, self.clock)
        self.manager.on_directory_failed = lambda _directory, lost: self.replicas.fail(lost)
        self.given_up: list[ApiError] = []
        self.mistake: Exception | None = None
        """Raised by what is told of a move that was given up."""
        self.moves = LogMoves(
            self.manager,
            self.replicas,
            self.clock,
            self.files,
            moved=lambda _partition, _to: None,
            given_up=self._given_up,
        )
        self.replicas.apply("topic", logs.TOPIC_ID, 0, state(1, 0, (1,)), is_new=True)
        assert self.manager.directory_of(self.log).path == A

    @property
    def log(self) -> Log:
        return self.manager.logs[logs.TOPIC]

    def _given_up(self, _which: TopicPartition, why: ApiError) -> None:
        if self.mistake is not None:
            raise self.mistake
        self.given_up.append(why)

    def count(self) -> list[TopicPartition]:
        """What is copied from now on, a piece each."""
        copied: list[TopicPartition] = []
        copy = self.manager.copy_to_future

        def counted(topic_partition: TopicPartition, max_bytes: int) -> bool:
            copied.append(topic_partition)
            assert len(copied) < 100
            return copy(topic_partition, max_bytes)

        self.manager.copy_to_future = counted  # type: ignore[method-assign]
        return copied

    def settle(self) -> None:
        for _ in range(200):
            self.clock.advance(1)
            self.clock.run_background()
            if not len(self.moves):
                return


@pytest.fixture
def moving() -> Moving:
    return Moving()


def mark(log: Log, *, commit: bool) -> None:
    data = transaction_marker_batch(
        commit=commit, producer_id=5, producer_epoch=0, coordinator_epoch=0, timestamp=logs.NOW
    )
    log.append_as_leader(
        data, 0, len(data), leader_epoch=0, now_ms=logs.NOW, origin=AppendOrigin.COORDINATOR
    )


def test_gaps_producers_transactions_and_epochs_come_along(moving: Moving) -> None:
    log = moving.log
    for number in range(60):
        data = logs.batch(
            [b"x" * 90] * 2,
            base_offset=3 * number,
            leader_epoch=0,
            producer_id=5,
            producer_epoch=0,
            sequence=2 * number,
            transactional=True,
        )
        log.append_as_follower(bytes(data), now_ms=logs.NOW)
        if number % 10 == 9:
            log.truncate_to(log.log_end_offset, logs.NOW)
            marker_at = log.log_end_offset
            mark(log, commit=number % 20 == 9)
            assert log.log_end_offset == marker_at + 1
    log.begin_leader_epoch(4)
    log.set_high_watermark(log.log_end_offset)
    expected, aborted = logs.values_of(log), log.aborted_transactions(0, 10**6)
    moving.moves.move(logs.TOPIC, B)
    moving.settle()
    moved = moving.log
    assert moving.manager.directory_of(moved).path == B
    assert moved is not log
    assert logs.values_of(moved) == expected
    assert moved.epochs.entries == log.epochs.entries
    assert moved.aborted_transactions(0, 10**6) == aborted != []
    (producer,) = moved.producers.producers.values()
    (before,) = log.producers.producers.values()
    assert (producer.last_sequence, producer.epoch) == (before.last_sequence, before.epoch)
    assert moved.recovery_point == moved.log_end_offset


def test_a_target_that_fails_leaves_the_log_where_it_is(moving: Moving) -> None:
    for number in range(30):
        logs.append(moving.log, b"%d" % number * 50)
    moving.moves.move(logs.TOPIC, B)

    def fails(operation: str, path: str) -> OSError | None:
        failing = operation == "sync" and path.startswith(B)
        return OSError(errno.EIO, "injected", path) if failing else None

    moving.files.fail = fails
    moving.settle()
    assert len(moving.moves) == 0
    assert moving.manager.directory_of(moving.log).path == A
    assert [each.path for each in moving.manager.online_directories] == [A]
    assert moving.replicas.partition("topic", 0) is not None
    logs.append(moving.log, b"served")


def test_a_source_that_fails_takes_the_partition_offline(moving: Moving) -> None:
    for number in range(30):
        logs.append(moving.log, b"%d" % number * 50)
    moving.moves.move(logs.TOPIC, B)
    moving.manager.fail_directory(A, OSError(errno.EIO, "injected"))
    moving.settle()
    assert len(moving.moves) == 0
    assert moving.manager.logs == {}
    assert moving.replicas.is_offline("topic", 0)
    assert [each.path for each in moving.manager.online_directories] == [B]


def test_damage_ends_a_move_and_the_log_stays(moving: Moving) -> None:
    for number in range(200):
        logs.append(moving.log, b"%03d" % number * 30)
    damaged = moving.log.segments[1]
    damaged.sound_from = damaged.size
    file = moving.files.open(damaged.path)
    file.write_at(80, bytes([file.read_at(80, 1)[0] ^ 1]))
    moving.moves.move(logs.TOPIC, B)
    moving.settle()
    assert len(moving.given_up) == 1
    assert moving.manager.future_logs == {}
    assert moving.manager.directory_of(moving.log).path == A


def test_a_bound_on_its_speed_is_kept(moving: Moving) -> None:
    moving.moves.bytes_per_second = 1000.0
    for number in range(100):
        logs.append(moving.log, b"%03d" % number * 10)
    size = moving.log.size()
    moving.moves.move(logs.TOPIC, B)
    other = TopicPartition("other", 0)
    moving.replicas.apply("other", bytes(15) + b"\x07", 0, state(1, 0, (1,)), is_new=True)
    source = moving.manager.directory_of(moving.manager.logs[other]).path
    logs.append(moving.manager.logs[other], b"x")
    moving.moves.move(other, A if source == B else B)
    moving.clock.advance(size / 1000 / 2)
    moving.clock.run_background()
    assert len(moving.moves) == 2
    moving.settle()
    assert len(moving.moves) == 0


def test_a_bound_that_is_lifted_is_lifted_at_once(moving: Moving) -> None:
    """At a byte a second the next piece would come in an hour."""
    moving.moves.bytes_per_second = 1.0
    for number in range(200):
        logs.append(moving.log, b"%03d" % number * 30)
    moving.moves.move(logs.TOPIC, B)
    moving.clock.advance(60)
    assert 0 < moving.manager.future_logs[logs.TOPIC].log_end_offset < 200
    moving.moves.bytes_per_second = 1e6
    moving.clock.advance(1)
    assert len(moving.moves) == 0
    assert moving.manager.directory_of(moving.log).path == B


def test_a_lower_bound_counts_from_the_next_piece_on(moving: Moving) -> None:
    moving.moves.bytes_per_second = 10_000.0
    for number in range(200):
        logs.append(moving.log, b"%03d" % number * 30)
    moving.moves.move(logs.TOPIC, B)
    moving.clock.advance(0.1)
    future = moving.manager.future_logs[logs.TOPIC]
    copied = [future.log_end_offset]
    moving.moves.bytes_per_second = 1.0
    for seconds in (0.4, 60):
        moving.clock.advance(seconds)
        copied.append(future.log_end_offset)
    assert copied[0] < copied[1] == copied[2]


def test_a_mistake_with_one_move_ends_no_other(moving: Moving) -> None:
    for number in range(200):
        logs.append(moving.log, b"%03d" % number * 30)
    damaged = moving.log.segments[1]
    damaged.sound_from = damaged.size
    file = moving.files.open(damaged.path)
    file.write_at(80, bytes([file.read_at(80, 1)[0] ^ 1]))
    other = TopicPartition("other", 0)
    moving.replicas.apply("other", bytes(15) + b"\x07", 0, state(1, 0, (1,)), is_new=True)
    source = moving.manager.directory_of(moving.manager.logs[other]).path
    logs.append(moving.manager.logs[other], b"x")
    moving.mistake = KeyError("a mistake of ours")
    moving.moves.move(logs.TOPIC, B)
    moving.moves.move(other, A if source == B else B)
    with pytest.raises(KeyError):
        moving.settle()
    moving.settle()
    assert len(moving.moves) == 0
    assert moving.manager.directory_of(moving.manager.logs[other]).path != source


def test_a_followed_log_moves_while_it_is_fetched_and_cut(moving: Moving) -> None:
    """Its fetcher goes on with the log in the new place, from where it was."""
    leader = Replica(2, (1, 2))
    leader.hear(2, 1)
    moving.replicas.apply("topic", logs.TOPIC_ID, 0, state(2, 1, (1, 2)), is_new=False)
    partition = moving.replicas.partition("topic", 0)
    assert partition is not None
    follower = Replica(1, (1, 2))
    follower.partition = partition
    follower.fetcher.add(partition, 1, logs.NOW)
    for number in range(30):
        leader.append(b"%d" % number * 40)
    for _ in range(20):
        follower.fetch_from(leader)
    moving.replicas.apply("topic", logs.TOPIC_ID, 0, state(1, 2, (1, 2)), is_new=False)
    follower.append(b"stray")
    moving.moves.move(logs.TOPIC, B)
    moving.clock.advance(1)
    moving.replicas.apply("topic", logs.TOPIC_ID, 0, state(2, 3, (1, 2)), is_new=False)
    leader.hear(2, 3)
    follower.fetcher.add(partition, 3, logs.NOW)
    for number in range(30):
        moving.clock.advance(1)
        leader.append(b"later %d" % number)
        follower.fetch_from(leader)
    moving.settle()
    follower.catch_up(leader)
    assert moving.manager.directory_of(partition.log).path == B
    assert follower.contents() == leader.contents()
    assert b"stray" not in follower.contents()


def test_a_flush_that_is_under_way_is_waited_for_with_pauses(moving: Moving) -> None:
    """Seed 6868: a segment of the copy was full, and flushed; the move asked without a pause."""
    logs.append(moving.log, b"a")
    moving.moves.move(logs.TOPIC, B)
    future = moving.manager.future_logs[logs.TOPIC]
    moving.manager.copy_to_future(logs.TOPIC, 1 << 20)
    flush = future.prepare_flush()
    assert flush is not None
    asked = moving.count()
    for _ in range(5):
        moving.clock.advance(0.01)
    assert 1 < len(asked) <= 6
    assert moving.manager.directory_of(moving.log).path == A
    flush.run()
    future.flushed(flush, logs.NOW)
    moving.settle()
    assert moving.manager.directory_of(moving.log).path == B


def test_a_log_whose_last_records_were_compacted_away_moves_with_its_next_one(
    moving: Moving,
) -> None:
    logs.append(moving.log, b"a")
    later = logs.batch([b"x"], base_offset=5, leader_epoch=0)
    moving.log.append_as_follower(bytes(later), now_ms=logs.NOW)
    moving.log.truncate_to(5, logs.NOW)
    asked = moving.count()
    moving.moves.move(logs.TOPIC, B)
    for _ in range(5):
        moving.clock.advance(0.01)
    assert 1 < len(asked) <= 7
    logs.append(moving.log, b"b")
    moving.settle()
    assert moving.manager.directory_of(moving.log).path == B
    assert logs.values_of(moving.log) == {0: b"a", 5: b"b"}


def test_a_move_waits_for_an_index_that_is_made_anew(moving: Moving) -> None:
    log = moving.log
    for _ in range(20):
        logs.append(log, bytes(100))
    log.set_high_watermark(20)
    log.roll(logs.NOW)
    log.delete_records_before(7)
    segment = log.segments[0]
    size = segment.offset_index.size
    moving.files.write(segment.offset_index.path, b"\0\0\0\1\1\1\1\1" * (size // 8))
    moving.moves.move(logs.TOPIC, B)
    moving.clock.advance(5)
    assert len(moving.moves) == 1
    assert set(moving.manager.doubted) == {segment}
    rebuild = log.prepare_rebuild(segment)
    assert rebuild is not None
    rebuild.run_aside()
    log.rebuilt(segment, rebuild, None)
    moving.settle()
    assert not moving.given_up
    assert moving.manager.directory_of(moving.log).path == B
    assert len(logs.read_all(moving.log)) == 13

"""The runtime: answers wait for commits, failures take the state back, leadership loads it.

The state machine under it is as small as one can be: a dictionary of numbers by name.
"""

from typing import Any, NamedTuple

import pytest
from tests.coordinator.memory_log import MemoryLog
from tests.observability.lines import lines
from tests.turns import virtual_time

from ottla.common.errors import (
    ApiError,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    CorruptMessage,
    ErrorCode,
    InvalidRequest,
    KafkaStorageError,
    MessageTooLarge,
    NetworkException,
    NotCoordinator,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    RequestTimedOut,
)
from ottla.common.promise import Promise
from ottla.coordinator.outside import RuntimeOutside
from ottla.coordinator.partition import Action, CoordinatorState
from ottla.coordinator.runtime import CoordinatorRuntime, client_error
from ottla.coordinator.shard import Outcome
from ottla.coordinator.timeline import Timeline, TimelineDict
from ottla.coordinator.timers import Timers
from ottla.records.control import transaction_marker_batch

TOPIC = "__numbers"


class Number(NamedTuple):
    name: str
    value: int | None


class NumberFormat:
    def encode(self, record: Number) -> tuple[bytes, bytes | None]:
        value = None if record.value is None else b"%d" % record.value
        return record.name.encode(), value

    def decode(self, key: bytes, value: bytes | None) -> Number | None:
        if key == b"unknown":
            return None
        return Number(key.decode(), None if value is None else int(value))


class Numbers:
    """Each name has a number; only replay changes it."""

    def __init__(self, timeline: Timeline, timers: Timers[Action]) -> None:
        self.numbers: TimelineDict[str, int] = TimelineDict(timeline)
        self.timers = timers
        self.log: list[str] = []
        self.offsets: list[int] = []

    def replay(self, offset: int, producer_id: int, record: Number) -> None:
        self.offsets.append(offset)
        if producer_id != -1:
            self.log.append(f"{record.name} of {producer_id}")
        elif record.value is None:
            self.numbers.pop(record.name)
        else:
            self.numbers[record.name] = record.value

    def replay_end_transaction(self, producer_id: int, *, committed: bool) -> None:
        self.log.append(f"{producer_id} {'committed' if committed else 'aborted'}")

    def reverted(self, error: ApiError, now_ms: int) -> None:
        self.log.append(f"reverted: {error.code.name}")

    def loaded(self, now_ms: int) -> None:
        self.log.append("loaded")

    def unloaded(self, now_ms: int) -> None:
        self.log.append("unloaded")

    def add(self, name: str, amount: int = 1) -> Outcome[Number, int]:
        total = (self.numbers.get(name) or 0) + amount
        return Outcome([Number(name, total)], total)


class World:
    def __init__(self, batch_bytes: int = 1 << 16, load_bytes: int = 1 << 16) -> None:
        self.log = MemoryLog()
        self.scheduler = virtual_time(1)
        self.shards: list[Numbers] = []
        outside = RuntimeOutside(
            writer=self.log,
            reader=self.log,
            scheduler=self.scheduler,
            commit_timeout_ms=5000,
            load_bytes=load_bytes,
            batch_bytes=batch_bytes,
        )
        self.runtime: CoordinatorRuntime[Numbers] = CoordinatorRuntime(
            TOPIC, outside, self.make_shard, NumberFormat()
        )

    def make_shard(self, timeline: Timeline, timers: Timers[Action]) -> Numbers:
        self.shards.append(Numbers(timeline, timers))
        return self.shards[-1]

    def add(self, name: str = "a", partition: int = 0) -> Promise[int]:
        return self.runtime.write(partition, lambda shard, _now_ms: shard.add(name))

    def now(self, name: str = "a") -> Promise[int | None]:
        return self.runtime.write(0, lambda shard, _now_ms: Outcome([], shard.numbers.get(name)))

    def committed(self, name: str = "a") -> int | None:
        return self.runtime.read(0, lambda shard: shard.numbers.committed(name))

    def turn(self) -> None:
        self.scheduler.run_for(0)


@pytest.fixture
def world() -> World:
    world = World()
    world.runtime.elected(0, 0)
    return world


def code_of(promise: Promise[Any]) -> ErrorCode:
    with pytest.raises(ApiError) as refusal:
        promise.result()
    return refusal.value.code


def test_an_answer_waits_until_its_records_are_committed(world: World) -> None:
    world.log.hold = True
    first = world.add()
    world.turn()
    assert not first.done
    assert world.committed() is None
    world.log.commit(TOPIC, 0)
    assert first.result() == 1
    assert world.committed() == 1


def test_the_next_request_sees_what_is_not_committed_and_so_waits_for_it(world: World) -> None:
    world.log.hold = True
    world.add()
    world.turn()
    seen = world.now()
    assert not seen.done
    world.log.commit(TOPIC, 0)
    assert seen.result() == 1


def test_a_request_without_records_is_answered_at_once_when_nothing_is_under_way(
    world: World,
) -> None:
    assert world.now().result() is None


def test_requests_of_one_turn_are_written_as_one_batch(world: World) -> None:
    answers = [world.add() for _ in range(10)]
    seen = world.now()
    assert world.log.appends == 0
    world.turn()
    assert world.log.appends == 1
    assert [answer.result() for answer in answers] == list(range(1, 11))
    assert seen.result() == 10


def test_a_full_batch_is_written_without_waiting_for_the_end_of_the_turn() -> None:
    world = World(batch_bytes=100)
    world.runtime.elected(0, 0)
    answers = [world.add() for _ in range(10)]
    world.turn()
    assert world.log.appends > 1
    assert [answer.result() for answer in answers] == list(range(1, 11))


def test_records_that_need_not_stay_together_are_spread_over_batches() -> None:
    world = World(batch_bytes=100)
    world.runtime.elected(0, 0)
    records = [Number(f"n{n}", n) for n in range(50)]
    done = world.runtime.write(0, lambda _shard, _now_ms: Outcome(records, "done", atomic=False))
    world.turn()
    assert done.result() == "done"
    assert world.log.appends > 5
    assert world.committed("n49") == 49


def test_what_is_large_in_itself_gets_a_batch_of_its_own() -> None:
    world = World(batch_bytes=1000)
    world.runtime.elected(0, 0)
    records = [Number(f"{n}" * 400, n) for n in range(3)]
    world.add()
    world.runtime.write(0, lambda _shard, _now_ms: Outcome(records, None))
    world.add()
    world.turn()
    assert world.log.appends == 3


def test_when_too_much_waits_for_its_commit_nobody_else_is_let_in() -> None:
    world = World(batch_bytes=62)
    world.runtime.elected(0, 0)
    world.log.hold = True
    answers = [world.add() for _ in range(1100)]
    assert code_of(answers[-1]) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.log.commit(TOPIC, 0)
    assert not world.add().done
    assert answers[0].result() == 1


def test_a_write_that_is_refused_leaves_no_trace(world: World) -> None:
    world.add()
    world.turn()
    world.log.refuse = NotEnoughReplicas()
    refused = [world.add(), world.add("b")]
    seen = world.now()
    world.turn()
    assert code_of(refused[0]) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert code_of(refused[1]) is ErrorCode.NOT_ENOUGH_REPLICAS
    with pytest.raises(NotEnoughReplicas):
        seen.result()
    assert world.now().result() == 1
    assert world.now("b").result() is None
    world.log.refuse = None
    again = world.add()
    world.turn()
    assert again.result() == 2


def test_who_wants_to_hear_of_its_records_is_told_of_the_loss_and_they_are_not_replayed(
    world: World,
) -> None:
    told: list[ApiError | None] = []

    def write() -> Promise[None]:
        return world.runtime.write(
            0,
            lambda _shard, _now_ms: Outcome(
                [Number("a", 9)], None, lambda error, _now_ms: told.append(error)
            ),
        )

    write()
    world.turn()
    assert told == [None]
    assert world.now().result() is None
    error = world.log.refuse = NotEnoughReplicas()
    write()
    world.turn()
    assert told == [None, error]


def test_an_operation_that_raises_changes_and_writes_nothing(world: World) -> None:
    def refuse(_shard: Numbers, _now_ms: int) -> Outcome[Number, int]:
        raise InvalidRequest

    assert code_of(world.runtime.write(0, refuse)) is ErrorCode.INVALID_REQUEST
    world.turn()
    assert world.log.appends == 0


def test_an_answer_that_waits_too_long_fails_but_its_write_stands(world: World) -> None:
    world.log.hold = True
    late = world.add()
    world.turn()
    world.scheduler.run_for(5)
    assert code_of(late) is ErrorCode.REQUEST_TIMED_OUT
    world.log.commit(TOPIC, 0)
    assert world.committed() == 1


def test_who_wants_to_hear_of_its_records_hears_only_how_it_ended(world: World) -> None:
    told: list[ApiError | None] = []
    world.log.hold = True
    late = world.runtime.write(
        0,
        lambda _shard, _now_ms: Outcome(
            [Number("a", 9)], 0, lambda error, _now_ms: told.append(error)
        ),
    )
    world.turn()
    world.scheduler.run_for(5)
    assert code_of(late) is ErrorCode.REQUEST_TIMED_OUT
    assert told == []
    world.log.commit(TOPIC, 0)
    assert told == [None]


def test_a_batch_that_is_lost_behind_others_is_answered_by_reading_the_log_again(
    world: World,
) -> None:
    world.log.hold = True
    lost = [world.add()]
    world.turn()
    lost.append(world.add())
    world.turn()
    world.log.lose_uncommitted(TOPIC, 0, NotLeaderOrFollower())
    assert [code_of(each) for each in lost] == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2
    world.turn()
    assert world.runtime.state(0) is CoordinatorState.ACTIVE
    assert world.now().result() is None


def test_who_asks_again_as_soon_as_it_hears_of_the_loss_is_told_to_wait(world: World) -> None:
    world.log.hold = True
    again: list[Promise[int]] = []
    world.add().when_done(lambda _: again.append(world.add()))
    world.turn()
    world.add()
    world.turn()
    world.log.lose_uncommitted(TOPIC, 0, NotLeaderOrFollower())
    assert [code_of(each) for each in again] == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    world.log.hold = False
    world.turn()
    assert world.add().done is False
    world.turn()
    assert world.committed() == 1


def test_when_somebody_else_wrote_to_the_log_it_is_read_again(world: World) -> None:
    other = World()
    other.runtime.elected(0, 0)
    other.add("b")
    other.turn()
    (record,) = other.log.records(TOPIC, 0)
    assert record.key == b"b"
    world.log.append(TOPIC, 0, other.log.read(TOPIC, 0, 0, 1))
    surprised = world.add()
    world.turn()
    assert code_of(surprised) is ErrorCode.NOT_COORDINATOR
    world.turn()
    assert world.committed("a") == 1
    assert world.committed("b") == 1


def test_loading_replays_the_whole_log_in_slices() -> None:
    world = World(load_bytes=1)
    world.runtime.elected(0, 0)
    for _ in range(20):
        world.add()
        world.turn()
    world.runtime.resigned(0, 1)
    world.runtime.elected(0, 2)
    assert world.runtime.state(0) is CoordinatorState.LOADING
    with pytest.raises(CoordinatorLoadInProgress):
        world.committed()
    assert code_of(world.add()) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    world.turn()
    assert world.committed() == 20
    assert world.shards[-1].log == ["loaded"]
    assert world.shards[-1].offsets == list(range(20))


def test_what_was_not_committed_when_it_was_loaded_becomes_so_with_the_high_watermark(
    world: World,
) -> None:
    world.add()
    world.turn()
    world.log.hold = True
    world.add()
    world.turn()
    world.runtime.resigned(0, 1)
    world.runtime.elected(0, 2)
    world.turn()
    assert world.committed() == 1
    seen = world.now()
    assert not seen.done
    world.log.commit(TOPIC, 0)
    world.scheduler.run_for(1)
    assert seen.result() == 2
    assert world.committed() == 2


def test_transactions_and_their_markers_are_replayed_as_such(world: World) -> None:
    world.add()
    world.turn()
    batch = bytearray(world.log.read(TOPIC, 0, 0, 1))
    batch[43:51] = (77).to_bytes(8, "big")
    from ottla.records.batch import seal

    seal(batch, 0, len(batch))
    world.log.append(TOPIC, 0, bytes(batch))
    for commit in (True, False):
        marker = transaction_marker_batch(
            commit=commit, producer_id=77, producer_epoch=0, coordinator_epoch=0, timestamp=0
        )
        world.log.append(TOPIC, 0, bytes(marker))
    world.runtime.resigned(0, 1)
    world.runtime.elected(0, 2)
    world.turn()
    assert world.shards[-1].log == ["a of 77", "77 committed", "77 aborted", "loaded"]


def test_records_of_unknown_kinds_are_passed_over(world: World) -> None:
    world.add("unknown")
    world.add()
    world.turn()
    world.runtime.resigned(0, 1)
    world.runtime.elected(0, 2)
    world.turn()
    assert world.committed("a") == 1
    assert world.committed("unknown") is None


def test_a_log_that_cannot_be_read_for_a_while_is_loaded_later() -> None:
    """A broker that has no descriptor left for a moment leads the partition all the same."""
    world = World(load_bytes=1)
    world.runtime.elected(0, 0)
    for _ in range(3):
        world.add()
        world.turn()
    world.runtime.resigned(0, 1)
    world.runtime.elected(0, 2)
    world.log.read_error = KafkaStorageError()
    world.scheduler.run_for(10)
    assert code_of(world.add()) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    world.log.read_error = None
    world.scheduler.run_for(1)
    assert world.committed() == 3
    assert world.shards[-1].offsets == [0, 1, 2]


def test_a_partition_whose_log_is_damaged_is_not_coordinated_here(world: World) -> None:
    world.add()
    world.turn()
    world.runtime.resigned(0, 1)
    world.log.read_error = CorruptMessage()
    world.runtime.elected(0, 2)
    assert world.runtime.state(0) is CoordinatorState.FAILED
    assert code_of(world.add()) is ErrorCode.NOT_COORDINATOR
    world.log.read_error = None
    world.runtime.elected(0, 3)
    world.turn()
    assert world.committed() == 1


def test_who_waits_when_leadership_goes_is_told_to_look_elsewhere(world: World) -> None:
    world.log.hold = True
    waiting = [world.add()]
    world.turn()
    waiting.append(world.add())
    world.runtime.resigned(0, 1)
    assert [code_of(each) for each in waiting] == [ErrorCode.NOT_COORDINATOR] * 2
    assert world.shards[0].log == ["loaded", "unloaded"]
    assert code_of(world.add()) is ErrorCode.NOT_COORDINATOR
    world.log.commit(TOPIC, 0)
    world.turn()


def test_a_late_word_of_an_older_epoch_changes_nothing(world: World) -> None:
    world.runtime.elected(0, 1)
    world.runtime.elected(0, 2)
    world.runtime.resigned(0, 1)
    world.runtime.elected(0, 0)
    assert world.runtime.state(0) is CoordinatorState.ACTIVE
    assert len(world.shards) == 1
    world.runtime.resigned(0, 2)
    assert world.runtime.state(0) is None


def test_timers_act_as_requests_do_and_end_with_the_partition(world: World) -> None:
    shard = world.shards[0]
    shard.timers.schedule("t", 1000, lambda _now_ms: Outcome([Number("a", 5)], None))
    world.scheduler.run_for(1)
    assert world.committed() == 5
    shard.timers.schedule("t", 1000, lambda _now_ms: Outcome([Number("a", 6)], None))
    world.runtime.resigned(0, 1)
    world.scheduler.run_for(2)
    assert world.log.appends == 1


def test_after_the_end_nobody_is_served(world: World) -> None:
    world.runtime.stop()
    assert world.runtime.partitions() == []
    assert code_of(world.add()) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    with pytest.raises(CoordinatorNotAvailable):
        world.committed()


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (NotEnoughReplicas(), ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (RequestTimedOut(), ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (NotLeaderOrFollower(), ErrorCode.NOT_COORDINATOR),
        (KafkaStorageError(), ErrorCode.NOT_COORDINATOR),
        (MessageTooLarge(), ErrorCode.UNKNOWN_SERVER_ERROR),
        (NetworkException(), ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (NotCoordinator(), ErrorCode.NOT_COORDINATOR),
        (InvalidRequest(), ErrorCode.INVALID_REQUEST),
    ],
)
def test_clients_hear_of_the_coordinator_and_not_of_its_log(
    error: ApiError, told: ErrorCode
) -> None:
    assert client_error(error).code is told


# What the log says


def test_what_is_loaded_together_is_told_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "ottla.coordinator")
    world = World()
    for partition in range(50):
        world.runtime.elected(partition, 3)
    world.runtime.tell()
    (told,) = lines(caplog)
    assert told.startswith("INFO coordinator loaded number=50 records=0 milliseconds=0 named=")
    caplog.clear()
    for partition in range(50):
        world.runtime.resigned(partition, 4)
    world.runtime.tell()
    (told,) = lines(caplog)
    assert told.startswith("INFO coordinator unloaded number=50 named=")
    caplog.clear()
    world.runtime.tell()
    assert lines(caplog) == []


def test_a_coordinator_tells_how_much_it_has_loaded_when_all_are(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(load_bytes=1)
    world.runtime.elected(0, 0)
    for name in "abc":
        world.add(name)
        world.turn()
    world.runtime.resigned(0)
    world.runtime.tell()
    caplog.set_level("INFO", "ottla.coordinator")
    world.runtime.elected(0, 7)
    world.runtime.elected(1, 7)
    world.runtime.tell()
    assert lines(caplog) == []
    world.scheduler.run_for(0.01)
    assert lines(caplog) == [
        f"INFO coordinator loaded number=2 records=3 milliseconds=0 named={TOPIC}-1,{TOPIC}-0"
    ]


def test_a_log_that_cannot_be_read_is_told_at_once_and_holds_no_other_line_up(
    caplog: pytest.LogCaptureFixture, world: World
) -> None:
    world.add()
    world.turn()
    world.runtime.resigned(0)
    world.runtime.tell()
    caplog.set_level("INFO", "ottla.coordinator")
    world.log.read_error = KafkaStorageError()
    world.runtime.elected(0, 7)
    world.runtime.elected(1, 7)
    world.runtime.tell()
    name = f"partition={TOPIC}-0 leader_epoch=7"
    why = "its log cannot be read"
    late = f"WARN coordinator not loaded yet: {why} now {name} reason=KafkaStorageError"
    assert lines(caplog)[0] == late
    world.log.read_error = CorruptMessage()
    world.scheduler.run_for(1)
    damaged = f"ERROR coordinator not loaded: {why} {name} reason=CorruptMessage"
    assert lines(caplog)[-1] == damaged
    other = f"partition={TOPIC}-1 leader_epoch=7 records=0 milliseconds=0"
    assert f"INFO coordinator loaded {other}" in lines(caplog)

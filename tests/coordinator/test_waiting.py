"""What waits for a commit that does not come, and what goes back when a write fails: everything."""

from collections.abc import Callable

import pytest
from tests.coordinator.test_runtime import TOPIC, Number, Numbers, World, code_of, world

from ottla.common.errors import (
    ApiError,
    ErrorCode,
    InvalidRequest,
    NotEnoughReplicas,
    NotLeaderOrFollower,
)
from ottla.common.promise import Promise
from ottla.coordinator.outside import EndTransactionMarker
from ottla.coordinator.partition import IN_FLIGHT_MAX, CoordinatorState
from ottla.coordinator.shard import Outcome
from ottla.coordinator.timers import RETRY_MS

__all__ = ["world"]

TIMEOUT = 5.0
RETRY = RETRY_MS / 1000
MARKER = EndTransactionMarker(7, 0, 0, committed=True, transaction_version=2)


def write(world: World, work: Callable[[Numbers], Outcome[Number, None]]) -> Promise[None]:
    return world.runtime.write(0, lambda shard, _now_ms: work(shard))


def schedule(shard: Numbers, name: str, delay_ms: int = 1000) -> None:
    shard.timers.schedule(name, delay_ms, lambda _now_ms: Outcome([Number(name, 1)], None))


# Deadlines


def test_who_asks_behind_a_batch_that_is_not_committed_has_a_deadline_of_its_own(
    world: World,
) -> None:
    world.log.hold = True
    world.add()
    world.scheduler.run_for(TIMEOUT + 1)
    late = [world.now() for _ in range(1000)]
    world.scheduler.run_for(TIMEOUT - 1)
    later = world.now()
    assert not any(each.done for each in late)
    world.scheduler.run_for(1)
    assert {code_of(each) for each in late} == {ErrorCode.REQUEST_TIMED_OUT}
    assert not later.done
    assert world.runtime.waiting == 1
    world.scheduler.run_for(TIMEOUT)
    assert code_of(later) is ErrorCode.REQUEST_TIMED_OUT
    assert world.runtime.waiting == 0


def test_who_asks_behind_the_tail_after_an_election_has_a_deadline_too(world: World) -> None:
    world.log.hold = True
    world.add()
    world.turn()
    world.runtime.resigned(0, 1)
    world.runtime.elected(0, 2)
    world.turn()
    seen = world.now()
    world.scheduler.run_for(TIMEOUT)
    assert code_of(seen) is ErrorCode.REQUEST_TIMED_OUT
    assert world.runtime.waiting == 0
    seen = world.now()
    world.log.commit(TOPIC, 0)
    world.scheduler.run_for(1)
    assert seen.result() == 1


def test_who_is_told_late_hears_in_the_order_of_the_requests(world: World) -> None:
    world.log.hold = True
    told: list[str] = []

    def note(name: str) -> Outcome[Number, None]:
        return Outcome([Number("a", 1)], None, then=lambda _error, _now_ms: told.append(name))

    write(world, lambda _: note("first"))
    world.turn()
    world.scheduler.run_for(TIMEOUT)
    write(world, lambda _: Outcome([], None, then=lambda _error, _now_ms: told.append("second")))
    assert (told, world.runtime.waiting) == ([], 2)
    world.log.commit(TOPIC, 0)
    assert (told, world.runtime.waiting) == (["first", "second"], 0)


def test_a_marker_that_is_asked_for_again_is_not_written_again(world: World) -> None:
    world.log.hold = True
    for _ in range(20):
        late = world.runtime.complete_transaction(0, MARKER)
        world.scheduler.run_for(TIMEOUT)
        with pytest.raises(ApiError):
            late.result()
    assert world.log.appends == 1
    last = world.runtime.complete_transaction(0, MARKER)
    world.log.commit(TOPIC, 0)
    assert last.done
    world.runtime.complete_transaction(0, MARKER)
    assert world.log.appends == 2


# Timers


def fill(world: World) -> None:
    world.log.hold = True
    answers = [world.add("full") for _ in range(IN_FLIGHT_MAX + 100)]
    assert code_of(answers[-1]) is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_timer_that_is_due_while_too_much_is_in_flight_is_not_lost() -> None:
    world = World(batch_bytes=62)
    world.runtime.elected(0, 0)
    schedule(world.shards[0], "t")
    fill(world)
    world.scheduler.run_for(11)
    world.log.hold = False
    world.log.commit(TOPIC, 0)
    world.scheduler.run_for(1)
    assert world.committed("t") == 1


def test_a_timer_whose_records_are_refused_rings_again_after_a_pause(world: World) -> None:
    schedule(world.shards[0], "t")
    world.log.refuse = NotEnoughReplicas()
    world.scheduler.run_for(100)
    assert world.shards[0].log.count("reverted: NOT_ENOUGH_REPLICAS") == 1 + 99 / RETRY
    world.log.refuse = None
    world.scheduler.run_for(RETRY)
    assert world.committed("t") == 1
    assert len(world.shards[0].timers) == 0


def test_a_write_that_fails_takes_its_timers_back(world: World) -> None:
    shard = world.shards[0]
    schedule(shard, "cancelled", 20_000)
    schedule(shard, "put off", 20_000)
    schedule(shard, "brought forward", 20_000)
    world.log.refuse = NotEnoughReplicas()

    def work(shard: Numbers) -> Outcome[Number, None]:
        shard.timers.cancel("cancelled")
        schedule(shard, "put off", 30_000)
        schedule(shard, "brought forward", 500)
        schedule(shard, "new", 500)
        return Outcome([Number("a", 1)], None)

    write(world, work)
    world.turn()
    world.log.refuse = None
    assert "new" not in shard.timers
    world.scheduler.run_for(19.9)
    assert world.log.appends == 0
    world.scheduler.run_for(0.2)
    assert (world.committed("cancelled"), world.committed("brought forward")) == (1, 1)
    assert world.committed("put off") is None
    world.scheduler.run_for(10)
    assert world.committed("put off") == 1


def test_what_stands_keeps_its_timers_when_the_write_of_another_fails(world: World) -> None:
    shard = world.shards[0]

    def work(shard: Numbers) -> Outcome[Number, None]:
        schedule(shard, "mine")
        return Outcome([], None)

    assert write(world, work).done
    world.log.refuse = NotEnoughReplicas()

    def stop(shard: Numbers) -> Outcome[Number, None]:
        shard.timers.cancel("mine")
        return Outcome([Number("a", 1)], None)

    write(world, stop)
    shard.timers.schedule("lasting", 500, lambda _: Outcome([Number("lasting", 1)], None))
    schedule(shard, "mine", 700)
    world.turn()
    world.log.refuse = None
    world.scheduler.run_for(0.7)
    assert (world.committed("lasting"), world.committed("mine")) == (1, 1)


def test_a_timer_that_rang_in_vain_on_what_was_lost_rings_again(world: World) -> None:
    """It saw a state that went back: what it rested on was not committed."""
    shard = world.shards[0]
    world.add("here")
    world.turn()

    def look(_now_ms: int) -> Outcome[Number, None]:
        gone = shard.numbers.get("here") is None
        return Outcome([] if gone else [Number("here", None), Number("found", 1)], None)

    shard.timers.schedule("t", 0, look)
    world.log.refuse = NotEnoughReplicas()
    write(world, lambda _: Outcome([Number("here", None)], None))
    world.turn()
    world.log.refuse = None
    world.scheduler.run_for(1)
    assert world.committed("found") == 1


def test_an_operation_that_raises_leaves_timers_as_they_were(world: World) -> None:
    schedule(world.shards[0], "t", 1000)

    def refuse(shard: Numbers) -> Outcome[Number, None]:
        shard.timers.cancel("t")
        schedule(shard, "u", 1000)
        raise InvalidRequest

    assert code_of(write(world, refuse)) is ErrorCode.INVALID_REQUEST
    world.scheduler.run_for(1)
    assert (world.committed("t"), world.committed("u")) == (1, None)


# What rests on what was lost


def test_records_that_rest_on_a_batch_that_is_lost_in_between_are_lost_with_it() -> None:
    """The batch before is written to make room, after the operation has looked at its state."""
    world = World(batch_bytes=1000)
    world.runtime.elected(0, 0)
    told: list[ApiError | None] = []
    world.log.refuse = NotEnoughReplicas()
    first = world.add()

    def work(shard: Numbers) -> Outcome[Number, None]:
        schedule(shard, "t")
        total = (shard.numbers.get("a") or 0) + 1
        records = [Number("a", total), Number("x" * 1000, 1)]
        return Outcome(records, None, then=lambda error, _now_ms: told.append(error))

    second = write(world, work)
    world.turn()
    assert [code_of(each) for each in (first, second)] == [ErrorCode.NOT_ENOUGH_REPLICAS] * 2
    assert told == [world.log.refuse]
    assert len(world.shards[0].timers) == 0
    world.log.refuse = None
    world.turn()
    assert world.now().result() is None


# Loading


def test_a_log_whose_batches_below_the_high_watermark_are_compacted_away_is_loaded(
    world: World,
) -> None:
    for name in "abc":
        world.add(name)
        world.turn()
    world.log.hold = True
    world.add("d")
    world.turn()
    world.log.drop_batches(TOPIC, 0, [1, 2])
    world.runtime.resigned(0, 1)
    world.runtime.elected(0, 2)
    for _ in range(10):
        world.scheduler.step()
    assert world.runtime.state(0) is CoordinatorState.ACTIVE
    assert (world.committed("a"), world.committed("b"), world.committed("d")) == (1, None, None)
    world.log.commit(TOPIC, 0)
    world.scheduler.run_for(1)
    assert world.committed("d") == 1


def test_timers_of_what_was_gathered_behind_a_write_that_fails_go_with_it(world: World) -> None:
    world.log.hold = True
    world.add()
    world.turn()

    def begin(shard: Numbers) -> Outcome[Number, None]:
        schedule(shard, "t")
        return Outcome([Number("b", 1)], None)

    later = write(world, begin)
    world.log.lose_uncommitted(TOPIC, 0, NotEnoughReplicas())
    assert code_of(later) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert "t" not in world.shards[0].timers


def test_what_rests_on_a_write_that_fails_while_room_is_made_fails_too() -> None:
    world = World(batch_bytes=100)
    world.runtime.elected(0, 0)
    first = world.add()
    world.log.refuse = NotEnoughReplicas()
    large = "n" * 200
    second = write(world, lambda shard: Outcome([Number(large, shard.numbers.get("a"))], None))
    world.log.refuse = None
    world.turn()
    assert code_of(first) is code_of(second) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert world.log.records(TOPIC, 0) == []


def test_the_tail_is_looked_at_again_when_its_log_could_not_say(world: World) -> None:
    world.log.hold = True
    world.add()
    world.turn()
    world.runtime.resigned(0, 1)
    world.runtime.elected(0, 2)
    world.turn()
    world.log.watermark_error = NotLeaderOrFollower()
    world.scheduler.run_for(1)
    world.log.watermark_error = None
    world.log.commit(TOPIC, 0)
    world.scheduler.run_for(1)
    assert world.committed() == 1


# Mistakes of ours


def a_mistake(_done: object) -> None:
    raise RuntimeError("a mistake")


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_mistake_with_one_answer_costs_no_other(world: World, is_committed: bool) -> None:
    world.log.hold = True
    first, second = world.add(), world.add()
    first.when_done(a_mistake)
    world.turn()
    with pytest.raises(RuntimeError):
        if is_committed:
            world.log.commit(TOPIC, 0)
        else:
            world.scheduler.run_for(TIMEOUT)
    assert second.done
    assert world.runtime.waiting == 0


def test_a_mistake_with_one_answer_does_not_end_the_reload(world: World) -> None:
    world.log.hold = True
    first, second = world.add(), world.add()
    first.when_done(a_mistake)
    world.turn()
    world.add()
    world.turn()
    with pytest.raises(RuntimeError):
        world.log.lose_uncommitted(TOPIC, 0, NotEnoughReplicas())
    assert second.done
    world.turn()
    assert world.runtime.state(0) is CoordinatorState.ACTIVE


def test_timers_of_what_was_loaded_anew_meanwhile_never_ring() -> None:
    """An operation may find, while its records are written, that the log is not what it was."""
    world = World(batch_bytes=100)
    world.runtime.elected(0, 0)
    world.add()
    world.turn()
    world.shards[0].timers.schedule("t", 1000, lambda _now_ms: Outcome([], None))

    def cancel(shard: Numbers) -> Outcome[Number, None]:
        shard.timers.cancel("t")
        return Outcome([Number("n" * 50, each) for each in range(10)], None, atomic=False)

    world.log.append(TOPIC, 0, world.log.read(TOPIC, 0, 0, 1))  # by somebody else
    write(world, cancel)
    world.scheduler.run_for(60)
    assert len(world.shards) == 2
    assert [len(shard.timers) for shard in world.shards] == [0, 0]

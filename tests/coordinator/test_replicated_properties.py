"""A coordinator whose log has three replicas, under elections and trouble in any order.

The state machine is the smallest: numbers that requests add one to, and alarms that requests set
and stop, and that time lets ring. Replicas fetch when they like, for longer than every timeout or
not at all; the log may refuse records, and compaction takes away what it can; a leader may be
replaced while it does not know it, and the elected one has all that is committed. Whatever
happens:

- an addition that was acknowledged is in the state of every later coordinator,
- what a coordinator shows as committed never goes back,
- one that was replaced acknowledges nothing more, and says so when it hears of it,
- everybody hears something within the timeout, and
- when the trouble is over, every alarm rings, and nothing waits or is kept any more.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.coordinator.memory_log import compacted
from tests.coordinator.test_runtime import TOPIC, Number, NumberFormat, Numbers
from tests.turns import TURN

from ottla.common.chance import Chance
from ottla.common.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    NotCoordinator,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    RequestTimedOut,
)
from ottla.common.promise import Promise
from ottla.coordinator.outside import RuntimeOutside, Verification
from ottla.coordinator.partition import CoordinatorState
from ottla.coordinator.runtime import CoordinatorRuntime
from ottla.coordinator.shard import Outcome
from ottla.records.batch import read_header, set_base_offset_and_epoch
from ottla.simulation.scheduler import SimulatedScheduler

T = TypeVar("T")

NODES = 3
REFUSALS = (
    NotCoordinator,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    RequestTimedOut,
)
TIMEOUT_MS = 5_000
ALARM_MS = 10_000
BURST = 1_100
"""More than may be in flight."""


class Alarms(Numbers):
    """Numbers, and alarms: each has a record as long as it is to ring."""

    def loaded(self, now_ms: int) -> None:
        for name in self.numbers:
            if name.startswith("alarm"):
                self._schedule(name)

    def set(self, name: str) -> Outcome[Number, None]:
        self._schedule(name)
        return Outcome([Number(name, 1)], None)

    def put_off(self, name: str) -> Outcome[Number, None]:
        if name in self.numbers:
            self._schedule(name)
        return Outcome([], None)

    def stop(self, name: str) -> Outcome[Number, None]:
        self.timers.cancel(name)
        return Outcome([Number(name, None)] if name in self.numbers else [], None)

    def _schedule(self, name: str) -> None:
        self.timers.schedule(name, ALARM_MS, lambda _now_ms: self._ring(name))

    def _ring(self, name: str) -> Outcome[Number, None]:
        return Outcome([Number(name, None)] if name in self.numbers else [], None)


class Replica:
    """One replica of the log, with the coordinator of the node that has it."""

    def __init__(self, scheduler: SimulatedScheduler) -> None:
        self.batches: list[bytes] = []
        self.high_watermark_now = 0
        self.epoch = -1
        """Since when it leads, as it knows; -1 when it does not."""
        self.ends: list[int] = []
        """How far the others have what it has."""
        self.waiting: list[tuple[int, Promise[int]]] = []
        self.refuses = False
        """Whether it has too few in-sync replicas."""
        outside = RuntimeOutside(
            writer=self,
            reader=self,
            scheduler=scheduler,
            commit_timeout_ms=TIMEOUT_MS,
            load_bytes=200,
            batch_bytes=70,
        )
        self.runtime: CoordinatorRuntime[Alarms] = CoordinatorRuntime(
            TOPIC, outside, Alarms, NumberFormat()
        )

    @property
    def end(self) -> int:
        return read_header(self.batches[-1]).last_offset + 1 if self.batches else 0

    def _check(self) -> None:
        if self.epoch < 0:
            raise NotLeaderOrFollower

    def append(
        self,
        topic: str,
        partition: int,
        batch: bytes,
        *,
        verification: Verification | None = None,
        transaction_version: int = 0,
    ) -> Promise[int]:
        promise: Promise[int] = Promise(TURN)
        if self.epoch < 0:
            promise.fail(NotLeaderOrFollower())
            return promise
        if self.refuses:
            promise.fail(NotEnoughReplicas())
            return promise
        stamped = bytearray(batch)
        set_base_offset_and_epoch(stamped, 0, self.end, self.epoch)
        self.batches.append(bytes(stamped))
        self.waiting.append((self.end - 1, promise))
        return promise

    def compact(self) -> None:
        self.batches = compacted(self.batches, self.high_watermark_now)

    def advance(self) -> None:
        """As far as all have it, it is committed."""
        reached = min([self.end, *self.ends])
        if reached > self.high_watermark_now:
            self.high_watermark_now = reached
            due = [each for each in self.waiting if each[0] < reached]
            self.waiting = [each for each in self.waiting if each[0] >= reached]
            for last_offset, promise in due:
                promise.fulfil(last_offset)

    def resign(self, epoch: int) -> None:
        if self.epoch >= 0:
            self.epoch = -1
            waiting, self.waiting = self.waiting, []
            for _, promise in waiting:
                promise.fail(NotLeaderOrFollower())
        self.runtime.resigned(0, epoch)

    def log_start_offset(self, topic: str, partition: int) -> int:
        self._check()
        return 0

    def high_watermark(self, topic: str, partition: int) -> int:
        self._check()
        return self.high_watermark_now

    def log_end_offset(self, topic: str, partition: int) -> int:
        self._check()
        return self.end

    def read(self, topic: str, partition: int, offset: int, max_bytes: int) -> bytes:
        self._check()
        data = b""
        for batch in self.batches:
            if read_header(batch).last_offset >= offset:
                if data and len(data) + len(batch) > max_bytes:
                    break
                data += batch
        return data


class Replicated(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.scheduler = SimulatedScheduler(Chance(5))
        self.replicas = [Replica(self.scheduler) for _ in range(NODES)]
        self.epoch = 0
        self.leader = 0
        self.unaware: set[int] = set()
        """Coordinators that were replaced and do not know it."""
        self.acknowledged = 0
        self.asked = 0
        self.shown = 0
        self.promised: dict[Promise[Any], float] = {}
        """What was not answered yet, and when it was asked."""
        self.elect(0)

    def elect(self, index: int) -> None:
        self.epoch += 1
        self.leader = index
        self.unaware.discard(index)
        replica = self.replicas[index]
        if replica.epoch < 0:
            replica.ends = [0] * NODES
            replica.ends[index] = 1 << 40
        replica.epoch = self.epoch
        replica.runtime.elected(0, self.epoch)

    @rule(index=st.integers(0, NODES - 1))
    def ask(self, index: int) -> None:
        """A client may believe anybody to be the coordinator."""
        self.asked += 1
        leads = index == self.leader
        answer = self._write(index, lambda shard: shard.add("a"))
        answer.when_done(lambda done: self._answered(done, index, leads))

    def _write(self, index: int, work: Callable[[Alarms], Outcome[Number, T]]) -> Promise[T]:
        answer = self.replicas[index].runtime.write(0, lambda shard, _now_ms: work(shard))
        if not answer.done:
            since = self.scheduler.now
            self.promised[answer] = since
            answer.when_done(lambda done: self._came(done, since))
        return answer

    def _came(self, done: Promise[Any], since: float) -> None:
        del self.promised[done]
        assert self.scheduler.now <= since + TIMEOUT_MS / 1000 + 0.1

    def _answered(self, done: Promise[int], index: int, leads: bool) -> None:
        try:
            total = done.result()
        except REFUSALS:
            return
        assert leads, "a coordinator that was replaced has acknowledged"
        assert index == self.leader
        assert total > self.acknowledged
        self.acknowledged = total

    @rule(count=st.sampled_from([1, 1, 1, BURST]))
    def look(self, count: int) -> None:
        """Without records: the answer waits for what was written before."""
        for _ in range(count):
            self._write(self.leader, lambda shard: Outcome([], shard.numbers.get("a")))

    @rule()
    def ask_for_more_than_there_is_room_for(self) -> None:
        for _ in range(BURST):
            self._write(self.leader, lambda shard: shard.add("b"))

    @rule(number=st.integers(0, 3), what=st.sampled_from(["set", "set", "put_off", "stop"]))
    def change_an_alarm(self, number: int, what: str) -> None:
        self._write(self.leader, lambda shard: getattr(shard, what)(f"alarm {number}"))

    @rule(index=st.integers(0, NODES - 1))
    def refuse_or_not(self, index: int) -> None:
        self.replicas[index].refuses = not self.replicas[index].refuses

    @rule(index=st.integers(0, NODES - 1))
    def compact(self, index: int) -> None:
        self.replicas[index].compact()

    @rule(index=st.integers(0, NODES - 1))
    def fetch(self, index: int) -> None:
        """A follower takes what the leader has, and forgets what it has not."""
        leader, replica = self.replicas[self.leader], self.replicas[index]
        if index == self.leader or index in self.unaware:
            return
        replica.batches = list(leader.batches)
        replica.high_watermark_now = min(leader.high_watermark_now, replica.end)
        leader.ends[index] = replica.end
        leader.advance()

    @rule()
    def turn(self) -> None:
        self.scheduler.run_for(0)

    @rule(seconds=st.sampled_from([0.06, 6, 30]))
    def wait(self, seconds: float) -> None:
        self.scheduler.run_for(seconds)

    @rule(index=st.integers(0, NODES - 1))
    def replace(self, index: int) -> None:
        """Somebody else in sync is elected; the one before may hear of it later."""
        if index == self.leader or index in self.unaware:
            return
        old = self.leader
        self.elect(index)
        self.unaware.add(old)

    @precondition(lambda self: self.unaware)
    @rule(data=st.data())
    def hear(self, data: st.DataObject) -> None:
        index = data.draw(st.sampled_from(sorted(self.unaware)))
        self.unaware.discard(index)
        self.replicas[index].resign(self.epoch)

    @rule()
    def elect_again(self) -> None:
        self.elect(self.leader)

    @invariant()
    def what_is_committed_does_not_go_back(self) -> None:
        replica = self.replicas[self.leader]
        if replica.runtime.state(0) is CoordinatorState.ACTIVE:
            shown = replica.runtime.read(0, lambda shard: shard.numbers.committed("a")) or 0
            newest = replica.runtime.read(0, lambda shard: shard.numbers.get("a")) or 0
            assert newest >= self.acknowledged
            assert shown >= self.shown or replica.high_watermark_now < replica.end
            self.shown = max(self.shown, shown)

    def teardown(self) -> None:
        for index in sorted(self.unaware):
            self.replicas[index].resign(self.epoch)
        self.unaware.clear()
        for replica in self.replicas:
            replica.refuses = False
        for _ in range(2 * ALARM_MS // 100):
            self.scheduler.run_for(0.1)
            for index in range(NODES):
                self.fetch(index)
        leader = self.replicas[self.leader]
        assert leader.runtime.state(0) is CoordinatorState.ACTIVE
        shown = leader.runtime.read(0, lambda shard: shard.numbers.committed("a")) or 0
        assert self.acknowledged <= shown <= self.asked
        assert not self.promised
        names = leader.runtime.read(0, lambda shard: list(shard.numbers))
        assert set(names) <= {"a", "b"}, "an alarm does not ring"
        assert [replica.runtime.waiting for replica in self.replicas] == [0] * NODES


TestReplicated = Replicated.TestCase
TestReplicated.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)

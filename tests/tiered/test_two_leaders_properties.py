"""Two brokers that both think they lead one log: whatever they do, no offset goes from everywhere.

Both copy and clean up, each by what it has replayed, which may be little. A record is on its way as
long as it likes, and comes into the log after others; a broker hears of its own record only by
replaying it. Retention asks for nothing here, so nothing may go that nobody else has.
"""

from typing import NamedTuple

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.tiered.histories import PARTITION

from ottla.tiered.expiration import SegmentRemoval
from ottla.tiered.lineage import Lineage
from ottla.tiered.log_view import LocalSegment, LogView
from ottla.tiered.machine import RemotePartition
from ottla.tiered.segments import (
    EpochStart,
    RemoteLogMetadata,
    RemoteLogSegment,
    SegmentState,
    SegmentUpdate,
)
from ottla.tiered.steps import Step, Tell, Upload, copy_steps, removal_steps

END = 40
STARTED, FINISHED = SegmentState.COPY_SEGMENT_STARTED, SegmentState.COPY_SEGMENT_FINISHED


class Sent(NamedTuple):
    """A record on its way; ``number`` tells it apart from others that say the same."""

    number: int
    record: RemoteLogMetadata


class Work:
    """Steps of one task, one after the other; a record that was told is waited for."""

    def __init__(self, steps: tuple[Step, ...]) -> None:
        self.steps = list(steps)
        self.waits_for: int | None = None
        self.segment: RemoteLogSegment = steps[0].segment


class Broker:
    def __init__(self, bounds: list[int]) -> None:
        self.bounds = bounds
        self.remote = RemotePartition(PARTITION)
        self.position = 0
        self.copying: Work | None = None
        self.removing: Work | None = None
        self.removals: list[SegmentRemoval] = []

    def view(self) -> LogView:
        return LogView(
            start_offset=0,
            local_start_offset=self.bounds[0],
            end_offset=END,
            last_stable_offset=END,
            lineage=Lineage((EpochStart(0, 0),), END),
            segments=tuple(
                LocalSegment(base, following - 1, following - base)
                for base, following in zip(self.bounds, self.bounds[1:], strict=False)
            ),
            active_size=0,
            retention_ms=-1,
            retention_bytes=-1,
        )

    @property
    def busy(self) -> set[bytes]:
        return set() if self.copying is None else {self.copying.segment.segment_id}


BROKERS = st.integers(0, 1)


class TwoLeaders(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.log: list[Sent] = []
        self.on_the_way: list[Sent] = []
        self.truth = RemotePartition(PARTITION)
        """What a reader of all of the log knows."""
        self.store: set[bytes] = set()
        self.count = 0
        self.brokers = [Broker([0, 10, 20, 30, END]), Broker([0, 10, 15, 30, END])]

    # Records

    def send(self, record: RemoteLogMetadata) -> int:
        self.count += 1
        self.on_the_way.append(Sent(self.count, record))
        return self.count

    @precondition(lambda self: self.on_the_way)
    @rule(which=st.integers(0, 9))
    def arrive(self, which: int) -> None:
        sent = self.on_the_way.pop(which % len(self.on_the_way))
        self.log.append(sent)
        self.truth.replay(sent.record)

    @rule(number=BROKERS, count=st.integers(1, 4))
    def replay(self, number: int, count: int) -> None:
        broker = self.brokers[number]
        for sent in self.log[broker.position : broker.position + count]:
            outcome = broker.remote.replay(sent.record)
            broker.position += 1
            for work in (broker.copying, broker.removing):
                if work is not None and work.waits_for == sent.number:
                    self.replayed(broker, work, outcome)

    def replayed(self, broker: Broker, work: Work, outcome: bool) -> None:
        work.waits_for = None
        step = work.steps.pop(0)
        assert isinstance(step, Tell)
        if outcome:
            return
        if work is broker.copying:  # refused: the objects go
            assert step.state is FINISHED
            self.store.discard(step.segment.segment_id)
            work.steps.clear()
        elif step.state is SegmentState.DELETE_SEGMENT_STARTED:
            known = broker.remote.segments.get(step.segment.segment_id)
            if known is not None and known.state is FINISHED:
                work.steps.clear()

    # Work

    def go_on(self, work: Work) -> None:
        if not work.steps or work.waits_for is not None:
            return
        step = work.steps[0]
        segment_id = step.segment.segment_id
        if isinstance(step, Tell):
            record: RemoteLogMetadata = step.segment
            if step.state is not STARTED:
                record = SegmentUpdate(PARTITION, segment_id, step.state, 0, 1, step.condition)
            work.waits_for = self.send(record)
            return
        if isinstance(step, Upload):
            self.store.add(segment_id)
        else:
            self.store.discard(segment_id)
        work.steps.pop(0)

    @rule(number=BROKERS, steps=st.integers(1, 3))
    def copy(self, number: int, steps: int) -> None:
        broker = self.brokers[number]
        for _ in range(steps):
            if broker.copying is None or not broker.copying.steps:
                due = broker.remote.next_copy(broker.view())
                if due is None:
                    broker.copying = None
                    return
                self.count += 1
                segment = broker.remote.copy_of(
                    due,
                    broker.view().lineage,
                    segment_id=self.count.to_bytes(16, "big"),
                    max_timestamp_ms=0,
                    transaction_index_empty=True,
                    broker_id=number,
                    now_ms=0,
                )
                broker.copying = Work(copy_steps(segment))
            self.go_on(broker.copying)

    @rule(number=BROKERS)
    def decide_what_goes(self, number: int) -> None:
        broker = self.brokers[number]
        if broker.removing is None and not broker.removals:
            expired = broker.remote.expire(broker.view(), 0, broker.busy)
            assert expired.log_start_offset == 0
            broker.removals = expired.removals

    @rule(number=BROKERS, steps=st.integers(1, 3))
    def remove(self, number: int, steps: int) -> None:
        broker = self.brokers[number]
        for _ in range(steps):
            if broker.removing is None or not broker.removing.steps:
                broker.removing = None
                if not broker.removals:
                    return
                removal = broker.removals.pop(0)
                if not broker.remote.is_due(removal, broker.busy):
                    continue
                broker.removing = Work(removal_steps(*removal))
            self.go_on(broker.removing)

    @rule(number=BROKERS)
    def give_up(self, number: int) -> None:
        """Its process ends, or its writes take too long; what was sent may still arrive."""
        broker = self.brokers[number]
        broker.copying = broker.removing = None
        broker.removals = []

    @rule(number=BROKERS)
    def local_retention(self, number: int) -> None:
        broker = self.brokers[number]
        copied = broker.remote.copied_offset(broker.view())
        while len(broker.bounds) > 1 and broker.bounds[1] <= copied + 1:
            broker.bounds.pop(0)

    # What must hold

    @invariant()
    def what_left_a_disk_is_in_the_store(self) -> None:
        lineage = Lineage((EpochStart(0, 0),), END)
        for broker in self.brokers:
            assert broker.remote.start_offset(broker.view()) == 0
            for offset in range(broker.bounds[0]):
                found = self.truth.find(lineage, offset)
                assert found is not None, f"offset {offset} is nowhere"
                assert found.segment.segment_id in self.store

    def teardown(self) -> None:
        """The second one leads; the first has ended in the midst of things."""
        self.give_up(0)
        for _ in range(200):
            while self.on_the_way:
                self.arrive(0)
            self.replay(1, len(self.log))
            self.decide_what_goes(1)
            self.copy(1, 1)
            self.remove(1, 1)
        self.what_left_a_disk_is_in_the_store()
        for segment in self.truth.segments:
            assert segment.state is FINISHED
            assert self.truth.segments.is_referenced(segment)
        known = {segment.segment_id for segment in self.truth.segments}
        assert known <= self.store


TestTwoLeaders = TwoLeaders.TestCase
TestTwoLeaders.settings = settings(
    max_examples=150, stateful_step_count=60, deadline=None, phases=(Phase.generate,)
)

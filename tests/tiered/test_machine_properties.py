"""Any history of copies, crashes, leaders, retention and deletions: nothing is lost, nothing leaks.

The log is a list of records, the metadata topic a list of records, the store a dict; whatever is
decided is decided by the real core, and a crash may come between any two steps.
"""

from typing import NamedTuple

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.tiered.histories import PARTITION

from ottla.tiered.cache import Extent
from ottla.tiered.expiration import total_size
from ottla.tiered.lineage import Lineage
from ottla.tiered.log_view import LocalSegment, LogView
from ottla.tiered.machine import RemotePartition
from ottla.tiered.segments import (
    IF_UNUSED,
    EpochStart,
    RemoteLogMetadata,
    RemoteLogSegment,
    SegmentState,
    SegmentUpdate,
)
from ottla.tiered.steps import Step, Tell, Upload, copy_steps, removal_steps


class Written(NamedTuple):
    """A record, told apart from any other that had or will have its offset."""

    epoch: int
    timestamp: int
    nonce: int


class Tier(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.records: dict[int, Written] = {}
        self.end = 0
        self.start = 0
        self.checkpoint = 0
        """The log start as the disk has it."""
        self.bounds: list[int] = [0]
        """Where local segments begin; the last one is active."""
        self.epochs: list[EpochStart] = [EpochStart(0, 0)]
        self.checkpointed_epochs = list(self.epochs)
        self.epoch = 0
        self.now = 1_000
        self.nonce = 0
        self.topic: list[RemoteLogMetadata] = []
        self.remote = RemotePartition(PARTITION)
        self.store: dict[bytes, dict[int, Written] | None] = {}
        """The records of each segment's objects; None when they are not all there."""
        self.copying: list[Step] = []
        self.removing: list[Step] = []
        self.retention_ms = -1
        self.retention_bytes = -1

    @initialize(ms=st.sampled_from([-1, 60]), size=st.sampled_from([-1, 40]))
    def choose_retention(self, ms: int, size: int) -> None:
        self.retention_ms, self.retention_bytes = ms, size

    # The log

    def view(self) -> LogView:
        return LogView(
            start_offset=self.start,
            local_start_offset=max(self.bounds[0], self.start),
            end_offset=self.end,
            last_stable_offset=self.end,
            lineage=Lineage(tuple(self.epochs), self.end),
            segments=tuple(
                LocalSegment(base, following - 1, following - base)
                for base, following in zip(self.bounds, self.bounds[1:], strict=False)
            ),
            active_size=self.end - self.bounds[-1],
            retention_ms=self.retention_ms,
            retention_bytes=self.retention_bytes,
        )

    @rule(sizes=st.lists(st.integers(1, 12), min_size=1, max_size=5))
    def append(self, sizes: list[int]) -> None:
        """Fill segments, and begin one more."""
        for size in sizes:
            for _ in range(size):
                self.nonce += 1
                self.records[self.end] = Written(self.epoch, self.now, self.nonce)
                self.end += 1
            self.bounds.append(self.end)

    @rule(ms=st.integers(1, 50))
    def wait(self, ms: int) -> None:
        self.now += ms

    @rule(data=st.data())
    def another_leader(self, data: st.DataObject) -> None:
        """It has the same records in other segments, or, elected uncleanly, not all of them."""
        self.crash_of_process()
        first = self.bounds[0]
        end = self.end
        if data.draw(st.booleans(), "unclean") and end > max(first, self.start):
            end = data.draw(st.integers(max(first, self.start), end), "end")
        for offset in range(end, self.end):
            del self.records[offset]
        self.end = end
        self.epochs = [entry for entry in self.epochs if entry.start_offset < end]
        self.epoch += 1
        self.epochs.append(EpochStart(self.epoch, end))
        cuts = data.draw(st.sets(st.integers(first + 1, max(first + 1, end)), max_size=6), "cuts")
        self.bounds = [first, *sorted(cut for cut in cuts if cut <= end)]
        self.save_start()
        self.take_over()

    @rule(offset=st.integers(0, 200))
    def delete_records(self, offset: int) -> None:
        self.move_start(min(offset, self.end))

    def move_start(self, offset: int) -> None:
        if offset <= self.start:
            return
        self.start = offset
        keep = [entry for entry in self.epochs if entry.start_offset > offset]
        older = [entry for entry in self.epochs if entry.start_offset <= offset]
        self.epochs = [EpochStart(older[-1].epoch, offset), *keep]
        if self.bounds[-1] < offset == self.end:
            self.bounds.append(offset)

    @rule()
    def save_start(self) -> None:
        self.checkpoint = self.start
        self.checkpointed_epochs = list(self.epochs)

    @rule()
    def local_retention(self) -> None:
        """Delete from the local disk what is copied, or below the log start for good."""
        copied = self.remote.copied_offset(self.view())
        while len(self.bounds) > 1 and self.bounds[1] <= max(copied + 1, self.start):
            below = min(self.start, self.bounds[1])
            if self.bounds[0] < below and self.checkpoint < below:
                break  # a crash would forget that the log begins behind it
            self.bounds.pop(0)

    # The remote tier

    def write(self, record: RemoteLogMetadata) -> bool:
        self.topic.append(record)
        return self.remote.replay(record)

    def perform(self, step: Step) -> bool:
        """False when it was a removal that somebody's need has refused."""
        if isinstance(step, Tell):
            segment, state, condition = step
            if state is SegmentState.COPY_SEGMENT_STARTED:
                assert self.write(segment)
            else:
                told = SegmentUpdate(PARTITION, segment.segment_id, state, self.now, 1, condition)
                if not self.write(told):
                    assert condition == IF_UNUSED
                    return False
        elif isinstance(step, Upload):
            offsets = range(step.segment.start_offset, step.segment.end_offset + 1)
            self.store[step.segment.segment_id] = {each: self.records[each] for each in offsets}
        else:
            self.store.pop(step.segment.segment_id, None)
        return True

    @precondition(lambda self: not self.copying and self.remote.next_copy(self.view()))
    @rule(count=st.integers(0, 4), steps=st.integers(0, 3))
    def copy(self, count: int, steps: int) -> None:
        """Copy so many segments, and some steps of one more."""
        for _ in range(count):
            if self.begin_to_copy():
                while self.copying:
                    self.go_on_copying()
        self.begin_to_copy()
        for _ in self.copying[:steps]:
            self.go_on_copying()

    def begin_to_copy(self) -> bool:
        view = self.view()
        due = self.remote.next_copy(view)
        if due is None:
            return False
        assert due.end_offset < self.end
        segment = self.remote.copy_of(
            due,
            view.lineage,
            segment_id=len(self.topic).to_bytes(16, "big"),
            max_timestamp_ms=max(
                self.records[each].timestamp for each in range(due.base_offset, due.end_offset + 1)
            ),
            transaction_index_empty=True,
            broker_id=1,
            now_ms=self.now,
        )
        self.copying = list(copy_steps(segment))
        return True

    @precondition(lambda self: self.copying)
    @rule()
    def go_on_copying(self) -> None:
        self.perform(self.copying.pop(0))

    @precondition(lambda self: not self.removing)
    @rule(steps=st.integers(0, 9))
    def expire(self, steps: int) -> None:
        view = self.view()
        busy = {self.copying[0].segment.segment_id} if self.copying else set()
        expired = self.remote.expire(view, self.now, busy)
        self.check_retention(view, expired.log_start_offset)
        self.move_start(expired.log_start_offset)
        self.removing = [step for each in expired.removals for step in removal_steps(*each)]
        for _ in range(steps):
            if self.removing:
                self.go_on_removing()

    @precondition(lambda self: self.removing)
    @rule()
    def go_on_removing(self) -> None:
        step = self.removing.pop(0)
        if not self.perform(step):
            # It got something back from one that was removed before it.
            self.removing = [
                each for each in self.removing if each.segment.segment_id != step.segment.segment_id
            ]

    def check_retention(self, view: LogView, start: int) -> None:
        """Only what retention lets go has gone."""
        if start == view.start_offset:
            return
        expired = self.now - self.retention_ms if self.retention_ms >= 0 else -1
        kept = [
            extent
            for extent in self.remote.segments.extents(view.lineage)
            if extent.end_offset >= start
        ]
        is_small = 0 <= self.retention_bytes <= total_size(kept, view._replace(start_offset=start))
        for offset in range(view.start_offset, start):
            assert is_small or self.records[offset].timestamp <= expired

    # Crashes

    def crash_of_process(self) -> None:
        if self.copying and isinstance(self.copying[0], Upload):
            self.store[self.copying[0].segment.segment_id] = None
        self.copying, self.removing = [], []
        again = RemotePartition(PARTITION)
        for record in self.topic:
            again.replay(record)
        assert list(again.segments) == list(self.remote.segments)
        lineage = self.view().lineage
        assert list(again.segments.extents(lineage)) == list(self.remote.segments.extents(lineage))
        self.remote = again

    @rule(keeps_start=st.booleans())
    def crash(self, keeps_start: bool) -> None:
        self.crash_of_process()
        if not keeps_start and self.checkpoint < self.start:
            self.start = self.checkpoint
            known = {each.epoch for each in self.checkpointed_epochs}
            newer = [each for each in self.epochs if each.epoch not in known]
            self.epochs = [*self.checkpointed_epochs, *newer]
        self.take_over()

    def take_over(self) -> None:
        """What a leader does first."""
        self.move_start(self.remote.start_offset(self.view()))

    # What must hold

    def extents(self) -> list[Extent]:
        return list(self.remote.segments.extents(self.view().lineage, self.start))

    @invariant()
    def every_offset_that_is_not_local_is_in_one_finished_segment(self) -> None:
        found: dict[int, RemoteLogSegment] = {}
        for extent in self.extents():
            for offset in range(extent.start_offset, extent.end_offset + 1):
                assert offset not in found
                found[offset] = extent.segment
        for offset in range(self.start, max(self.bounds[0], self.start)):
            assert offset in found
        for offset, segment in found.items():
            assert segment.state is SegmentState.COPY_SEGMENT_FINISHED
            stored = self.store[segment.segment_id]
            assert stored is not None
            assert stored[offset] == self.records[offset]

    @invariant()
    def what_is_in_the_store_is_known(self) -> None:
        for segment_id in self.store:
            assert self.remote.segments.get(segment_id) is not None

    def settle(self) -> None:
        """Finish what is under way, and then what has come up by it."""
        while self.copying:
            self.go_on_copying()
        while self.removing:
            self.go_on_removing()

    def teardown(self) -> None:
        self.settle()
        while self.begin_to_copy():
            self.settle()
        view = self.view()
        if view.segments and view.segments[-1].end_offset >= self.start:
            assert self.remote.copied_offset(view) >= view.segments[-1].end_offset
        for _ in range(3):
            self.expire(steps=0)
            self.settle()
        self.check_nothing_is_left()

    def check_nothing_is_left(self) -> None:
        for segment in self.remote.segments:
            assert segment.state is SegmentState.COPY_SEGMENT_FINISHED
            assert self.remote.segments.is_referenced(segment)
            assert self.store[segment.segment_id] is not None
        self.every_offset_that_is_not_local_is_in_one_finished_segment()
        self.what_is_in_the_store_is_known()


TestTier = Tier.TestCase
TestTier.settings = settings(
    max_examples=80, stateful_step_count=50, deadline=None, phases=(Phase.generate,)
)

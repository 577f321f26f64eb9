"""Any history of a log gives what a list would give.

The model is a list of (offset, timestamp, value, epoch). Appends, reads by offset and by time,
rolls, truncations, deletions, clean and unclean reopening are drawn by chance; the log, on small
segments and a disk in memory, must agree with the list after each of them.
"""

from typing import NamedTuple

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.storage import logs

from ottla.common.chance import Chance
from ottla.storage.log import Log


class Entry(NamedTuple):
    offset: int
    timestamp: int
    value: bytes
    epoch: int
    base_offset: int


class LogMachine(RuleBasedStateMachine):
    log: Log

    @initialize(interval=st.sampled_from([0, 100, 1000]), size=st.sampled_from([700, 2000]))
    def begin(self, interval: int, size: int) -> None:
        self.files = logs.filesystem()
        self.config = logs.settings(index_interval_bytes=interval, internal_segment_bytes=size)
        self.log = logs.open_log(self.files, self.config)
        self.entries: list[Entry] = []
        self.start = 0
        self.end = 0
        self.epoch = 0
        self.durable_end = 0
        self.written = 0

    # What the log is told

    @rule(
        count=st.integers(1, 4),
        size=st.integers(0, 120),
        times=st.lists(st.integers(0, 50), min_size=4, max_size=4),
    )
    def append(self, count: int, size: int, times: list[int]) -> None:
        self.written += 1
        values = [f"{self.written}-{n}".encode().ljust(size, b".") for n in range(count)]
        timestamps = [logs.NOW + time for time in times[:count]]
        data = logs.batch(
            values, timestamps=timestamps, producer_id=self.written, producer_epoch=0, sequence=0
        )
        info = logs.append_batch(self.log, data, epoch=self.epoch)
        assert (info.first_offset, info.last_offset) == (self.end, self.end + count - 1)
        base_offset = self.end
        for value, timestamp in zip(values, timestamps, strict=True):
            self.entries.append(Entry(self.end, timestamp, value, self.epoch, base_offset))
            self.end += 1

    @rule()
    def begin_epoch(self) -> None:
        self.epoch += 1

    @rule()
    def roll(self) -> None:
        self.log.roll(logs.NOW)

    @rule()
    def flush(self) -> None:
        self.log.flush(logs.NOW)
        assert self.log.recovery_point == self.end
        self.durable_end = self.end

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        bases = {entry.base_offset for entry in self.entries if entry.base_offset >= self.start}
        offset = data.draw(st.sampled_from(sorted({*bases, self.end})))
        self.log.truncate_to(offset, logs.NOW)
        self.entries = [entry for entry in self.entries if entry.offset < offset]
        self.end = offset
        self.durable_end = min(self.durable_end, offset)

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start, self.end))
        self.log.set_high_watermark(self.end)
        self.log.delete_records_before(offset)
        self.log.delete_old_segments(logs.NOW)
        self.start = offset

    @rule()
    def restart_at(self) -> None:
        self.log.truncate_fully_and_start_at(self.end + 10, logs.NOW)
        self.entries = []
        self.start = self.end = self.durable_end = self.end + 10

    @rule()
    def reopen_after_clean_stop(self) -> None:
        self.log.close(logs.NOW)
        self._reopen(clean=True)
        assert self.log.log_end_offset == self.end
        self.durable_end = self.end

    @rule()
    def reopen_after_kill(self) -> None:
        self.files.kill()
        self._reopen(clean=False)
        assert self.log.log_end_offset == self.end

    @rule(seed=st.one_of(st.none(), st.integers(0, 1000)))
    def reopen_after_power_loss(self, seed: int | None) -> None:
        self.files.crash(None if seed is None else Chance(seed))
        self._reopen(clean=False)
        end = self.log.log_end_offset
        assert self.durable_end <= end <= self.end
        self.entries = [entry for entry in self.entries if entry.offset < end]
        self.end = end

    def _reopen(self, *, clean: bool) -> None:
        self.log = logs.open_log(
            self.files,
            self.config,
            recovery_point=self.log.recovery_point,
            log_start_offset=self.start,
            clean=clean,
        )

    # What must hold

    @invariant()
    def offsets_agree(self) -> None:
        if not hasattr(self, "files"):
            return
        assert self.log.log_start_offset == self.start
        assert self.log.log_end_offset == self.end

    @invariant()
    def reads_agree(self) -> None:
        if not hasattr(self, "files"):
            return
        visible = [entry for entry in self.entries if entry.offset >= self.start]
        found = [(r.offset, r.timestamp, r.value) for r in logs.read_all(self.log, max_bytes=300)]
        assert found == [(e.offset, e.timestamp, e.value) for e in visible]

    @invariant()
    def producers_are_those_of_the_records(self) -> None:
        if not hasattr(self, "files"):
            return
        known = set(self.log.producers.producers)
        ever = {int(entry.value.partition(b"-")[0]) for entry in self.entries}
        now = {int(e.value.partition(b"-")[0]) for e in self.entries if e.offset >= self.start}
        assert now <= known <= ever

    @rule(time=st.integers(-5, 60))
    def find_time(self, time: int) -> None:
        wanted = logs.NOW + time
        found = logs.offset_for_timestamp(self.log, wanted)
        expected = next(
            (e for e in self.entries if e.offset >= self.start and e.timestamp >= wanted), None
        )
        if expected is None:
            assert found is None
        else:
            assert found is not None
            assert found == (expected.timestamp, expected.offset, expected.epoch)

    @rule(data=st.data())
    def read_below_a_bound(self, data: st.DataObject) -> None:
        if self.start == self.end:
            return
        offset = data.draw(st.integers(self.start, self.end))
        upper = data.draw(st.integers(self.start, self.end))
        found = logs.records_of(logs.read_bytes(self.log, offset, upper=upper))
        assert all(record.offset < upper for record in found)
        assert all(
            (record.offset, record.value) in {(e.offset, e.value) for e in self.entries}
            for record in found
            if record.offset >= self.start
        )

    @rule(epoch=st.integers(0, 10))
    def ask_end_of_epoch(self, epoch: int) -> None:
        known = [e for e in self.entries if e.epoch <= epoch and e.offset >= self.start]
        later = [e for e in self.entries if e.epoch > epoch and e.offset >= self.start]
        answer = self.log.end_offset_for_epoch(epoch)
        if known and later:
            assert answer == (known[-1].epoch, later[0].offset)


TestLog = LogMachine.TestCase
TestLog.settings = hypothesis_settings(max_examples=60, stateful_step_count=40, deadline=None)

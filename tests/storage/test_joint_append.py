"""Batches that are appended together: the same log as one by one, and by one write.

Two logs are told the same: one gets each batch alone, the other all batches of a crowd at once. On
small segments with small indexes they must have the same files, byte for byte, know the same
producers, and answer the same. Where a write fails, the log is as if what was in it had never come.
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import NamedTuple

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.storage import logs

from ottla.common.errors import ApiError, CorruptMessage, KafkaStorageError
from ottla.config.topic import TopicConfig
from ottla.storage.directories import LogUnavailable
from ottla.storage.joint_append import Outcome
from ottla.storage.log import Log
from ottla.storage.results import AppendInfo
from ottla.testing.files import MemoryFilesystem

EIO = OSError(errno.EIO, "Input/output error")
ENOMEM = OSError(errno.ENOMEM, "Cannot allocate memory")


class Writes:
    """Counts writes of batches, and lets some of them fail."""

    def __init__(self, files: MemoryFilesystem) -> None:
        self.count = 0
        self._failing: list[int] = []
        self._error = ENOMEM
        files.fail = self._asked

    def fail(self, *numbers: int, error: OSError = ENOMEM) -> None:
        """Let the writes of these numbers from now on fail."""
        self._failing = [self.count + number for number in numbers]
        self._error = error

    def _asked(self, operation: str, path: str) -> OSError | None:
        if operation != "write" or not path.endswith(".log"):
            return None
        self.count += 1
        return self._error if self.count - 1 in self._failing else None


def together(
    log: Log, *batches: bytearray, epoch: int = 0, now_ms: int = logs.NOW
) -> list[Outcome]:
    parts = [(memoryview(bytearray(data)), 0, len(data)) for data in batches]
    return log.append_together(parts, epoch, now_ms)


def told(info: AppendInfo) -> tuple[object, ...]:
    return (
        info.first_offset,
        info.last_offset,
        info.append_time,
        info.log_start_offset,
        info.record_count,
        info.size,
        info.is_duplicate,
        info.is_flush_due,
    )


def content(files: MemoryFilesystem, log: Log) -> dict[str, bytes]:
    names = files.list_directory(log.directory)
    return {name: files.read(f"{log.directory}/{name}") for name in names}


def known_producers(log: Log) -> list[tuple[object, ...]]:
    return [
        (entry.producer_id, entry.epoch, entry.last_timestamp, tuple(entry.batches))
        for entry in log.producers.producers.values()
    ]


class Drawn(NamedTuple):
    producer: int
    sequence: int
    """Relative to the next one: 0 is in order, -1 is sent again, 1 leaves a gap."""
    records: int
    size: int
    time: int
    is_damaged: bool


DRAWN = st.builds(
    Drawn,
    st.integers(-1, 2),
    st.sampled_from([0, 0, 0, 0, 0, -1, -2, 1]),
    st.integers(1, 3),
    st.sampled_from([0, 10, 60, 300]),
    st.integers(0, 40),
    st.sampled_from([False] * 9 + [True]),
)


class JointAppends(RuleBasedStateMachine):
    @initialize(
        interval=st.sampled_from([0, 100, 1000]),
        size=st.sampled_from([500, 900, 5000]),
        index_size=st.sampled_from([36, 60, 4096]),
        age_ms=st.sampled_from([20, 1 << 40]),
        flush=st.sampled_from([3, 1 << 40]),
    )
    def begin(self, interval: int, size: int, index_size: int, age_ms: int, flush: int) -> None:
        config = logs.settings(
            index_interval_bytes=interval,
            internal_segment_bytes=size,
            segment_index_bytes=index_size,
            segment_ms=age_ms,
            flush_messages=flush,
        )
        self.one_files, self.all_files = logs.filesystem(), logs.filesystem()
        self.one = logs.open_log(self.one_files, config)
        self.all = logs.open_log(self.all_files, config)
        self.writes = Writes(self.all_files)
        self.epoch = 0
        self.sequences: dict[int, int] = {}

    def _batch(self, drawn: Drawn) -> bytearray:
        values = [b"v" * drawn.size] * drawn.records
        timestamps = [logs.NOW + drawn.time] * drawn.records
        if drawn.producer < 0:
            data = logs.batch(values, timestamps=timestamps)
        else:
            next_sequence = self.sequences.get(drawn.producer, 0)
            sequence = max(next_sequence + drawn.sequence * drawn.records, 0)
            if drawn.sequence == 0 and not drawn.is_damaged:
                self.sequences[drawn.producer] = sequence + drawn.records
            data = logs.batch(
                values,
                timestamps=timestamps,
                producer_id=drawn.producer,
                producer_epoch=0,
                sequence=sequence,
            )
        if drawn.is_damaged:
            data[-1] ^= 1
        return data

    @rule(drawn=st.lists(DRAWN, min_size=1, max_size=8))
    def a_crowd_comes(self, drawn: list[Drawn]) -> None:
        batches = [self._batch(each) for each in drawn]
        before = self.writes.count
        outcomes = together(self.all, *batches, epoch=self.epoch)
        written = sum(isinstance(each, AppendInfo) and not each.is_duplicate for each in outcomes)
        assert self.writes.count - before <= written
        for data, outcome in zip(batches, outcomes, strict=True):
            if isinstance(outcome, AppendInfo):
                alone = logs.append_batch(self.one, bytearray(data), epoch=self.epoch)
                assert told(outcome) == told(alone)
            else:
                with pytest.raises(ApiError) as refused:
                    logs.append_batch(self.one, bytearray(data), epoch=self.epoch)
                assert type(outcome) is type(refused.value)

    @rule(drawn=st.lists(DRAWN, min_size=1, max_size=8), failing=st.sets(st.integers(0, 3)))
    def a_write_fails(self, drawn: list[Drawn], failing: set[int]) -> None:
        batches = [self._batch(each) for each in drawn]
        self.writes.fail(*failing)
        outcomes = together(self.all, *batches, epoch=self.epoch)
        self.writes.fail()
        for data, outcome in zip(batches, outcomes, strict=True):
            if isinstance(outcome, AppendInfo):
                alone = logs.append_batch(self.one, bytearray(data), epoch=self.epoch)
                assert told(outcome) == told(alone)
        self.sequences = {
            producer: entry.last_sequence + 1
            for producer, entry in self.all.producers.producers.items()
        }
        assert logs.read_all(self.one) == logs.read_all(self.all)
        assert known_producers(self.one) == known_producers(self.all)
        self._begin_anew_with_the_same_files()

    def _begin_anew_with_the_same_files(self) -> None:
        """What failed may have begun a segment and an epoch before, as a lone batch does."""
        self.all.close(logs.NOW)
        self.one_files = deepcopy(self.all_files)
        self._open()

    def _open(self) -> None:
        config, point = self.all.config, self.all.recovery_point
        assert isinstance(config, TopicConfig)
        self.one = logs.open_log(self.one_files, config, recovery_point=point)
        self.all = logs.open_log(self.all_files, config, recovery_point=point)
        self.writes = Writes(self.all_files)
        Writes(self.one_files)

    @rule()
    def an_epoch_begins(self) -> None:
        self.epoch += 1

    @rule()
    def they_are_flushed(self) -> None:
        for log in (self.one, self.all):
            log.flush(logs.NOW)

    @rule()
    def they_are_opened_again(self) -> None:
        for log in (self.one, self.all):
            log.close(logs.NOW)
        assert content(self.one_files, self.one) == content(self.all_files, self.all)
        self._open()

    @invariant()
    def both_are_the_same(self) -> None:
        if not hasattr(self, "one"):
            return
        assert self.one.log_end_offset == self.all.log_end_offset
        assert self.one.producers.end_offset == self.all.producers.end_offset
        assert known_producers(self.one) == known_producers(self.all)
        assert self.one.epochs.entries == self.all.epochs.entries
        assert content(self.one_files, self.one) == content(self.all_files, self.all)
        for one, other in zip(self.one.segments, self.all.segments, strict=True):
            assert one.size == other.size
            assert one.offset_index.all() == other.offset_index.all()
            assert one.time_index.all() == other.time_index.all()


TestJointAppends = JointAppends.TestCase
TestJointAppends.settings = hypothesis_settings(
    max_examples=60, stateful_step_count=30, deadline=None
)


@pytest.fixture
def files() -> MemoryFilesystem:
    return logs.filesystem()


@contextmanager
def unchanged(log: Log) -> Iterator[None]:
    logs.append(log, b"before")
    producers, end = known_producers(log), log.log_end_offset
    yield
    assert (known_producers(log), log.log_end_offset) == (producers, end)
    assert [record.value for record in logs.read_all(log)] == [b"before"]


def idempotent(sequence: int) -> bytearray:
    return logs.batch([b"v"], producer_id=1, producer_epoch=0, sequence=sequence)


def test_a_crowd_is_one_write(files: MemoryFilesystem) -> None:
    log = logs.open_log(files)
    logs.append(log, b"first")
    writes = Writes(files)
    outcomes = together(log, *[logs.batch([b"v"]) for _ in range(10)])
    assert [each.first_offset for each in outcomes if isinstance(each, AppendInfo)] == [
        *range(1, 11)
    ]
    assert writes.count == 1


def test_a_write_that_fails_refuses_every_batch_in_it_and_one_that_is_sent_again(
    files: MemoryFilesystem,
) -> None:
    log = logs.open_log(files)
    writes = Writes(files)
    with unchanged(log):
        writes.fail(0)
        batches = [idempotent(0), idempotent(1), idempotent(1), logs.batch([b"v"])]
        outcomes = together(log, *batches)
        assert [type(each) for each in outcomes] == [LogUnavailable] * 4
    again = together(log, *batches)
    assert [each.is_duplicate for each in again if isinstance(each, AppendInfo)] == [
        False, False, True, False,
    ]  # fmt: skip
    assert log.log_end_offset == 4


def test_a_batch_that_came_behind_a_failed_write_is_not_taken_without_those_before_it(
    files: MemoryFilesystem,
) -> None:
    """Its sequence was checked behind theirs: without them there would be a gap."""
    size = len(logs.batch([b"before"])) + len(idempotent(0))
    log = logs.open_log(files, logs.settings(internal_segment_bytes=size))
    writes = Writes(files)
    with unchanged(log):
        writes.fail(0)
        outcomes = together(log, idempotent(0), idempotent(1))
        assert [type(each) for each in outcomes] == [LogUnavailable] * 2


def test_an_error_of_the_disk_refuses_all_and_ends_the_log(files: MemoryFilesystem) -> None:
    log = logs.open_log(files)
    logs.append(log, b"first")
    writes = Writes(files)
    writes.fail(0, error=EIO)
    outcomes = together(log, idempotent(0), logs.batch([b"v"]))
    assert all(isinstance(each, KafkaStorageError) for each in outcomes)
    assert log.failure is EIO
    assert all(isinstance(each, KafkaStorageError) for each in together(log, idempotent(0)))


def test_one_that_is_refused_costs_the_others_nothing(files: MemoryFilesystem) -> None:
    log = logs.open_log(files)
    damaged = logs.batch([b"v"])
    damaged[-1] ^= 1
    first, second, third = together(log, logs.batch([b"a"]), damaged, logs.batch([b"b"]))
    assert isinstance(first, AppendInfo)
    assert isinstance(second, CorruptMessage)
    assert isinstance(third, AppendInfo)
    assert [record.value for record in logs.read_all(log)] == [b"a", b"b"]


def test_the_first_batch_of_a_segment_tells_its_age_to_those_that_come_with_it(
    files: MemoryFilesystem,
) -> None:
    log = logs.open_log(files, logs.settings(segment_ms=1000))
    times = [logs.NOW, logs.NOW + 900, logs.NOW + 2000]
    together(log, *[logs.batch([b"v"], timestamps=[time]) for time in times])
    assert log.segments.base_offsets == [0, 2]

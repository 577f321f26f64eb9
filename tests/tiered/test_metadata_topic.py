"""The metadata topic: a write is done when it has come back, whatever order that takes."""

from typing import Any

import pytest
from tests.coordinator.memory_log import MemoryLog
from tests.tiered.histories import FINISHED, PARTITION, STARTED, segment, segment_id, update
from tests.turns import TURN

from ottla.common.chance import Chance
from ottla.common.errors import (
    ApiError,
    LeaderNotAvailable,
    NotLeaderOrFollower,
    ReplicaNotAvailable,
    RequestTimedOut,
    UnknownTopicOrPartition,
)
from ottla.common.promise import Promise, fulfilled, run
from ottla.common.topic_partition import TopicPartition
from ottla.config.metadata_topic import REMOTE_LOG_METADATA
from ottla.records.builder import BatchBuilder
from ottla.simulation.scheduler import SimulatedScheduler
from ottla.tiered.machine import RemotePartition
from ottla.tiered.metadata_topic import (
    POLL_SECONDS,
    SLICE_BYTES,
    WRITE_SECONDS,
    MetadataSlice,
    MetadataTopic,
)
from ottla.tiered.records import encode
from ottla.tiered.segments import RemoteLogMetadata


class OnePartition(MemoryLog):
    """The topic has one partition, once it is there."""

    def __init__(self, *, exists: bool = True) -> None:
        super().__init__()
        self.exists = exists
        self.code = 0
        self.late: Promise[int] | None = None
        """Told in place of the promise of an append."""
        self.slow: Promise[MetadataSlice] | None = None
        """Told in place of the next promise of a fetch."""
        self.fetch_error: ApiError | None = None
        self.fetches: list[int] = []
        self.ends: list[int] = []
        """Told as the next ends, before that of the log."""

    def append(self, topic: str, partition: int, batch: bytes, **options: Any) -> Promise[int]:
        appended = super().append(topic, partition, batch, **options)
        return appended if self.late is None else self.late

    def fetch(
        self, topic: str, partition: int, offset: int, max_bytes: int, epoch: int = -1
    ) -> Promise[MetadataSlice]:
        self.fetches.append(offset)
        answer: Promise[MetadataSlice] = Promise(TURN)
        if self.fetch_error is not None:
            answer.fail(self.fetch_error)
            return answer
        records = b""
        if offset >= self.log_start_offset(topic, partition):
            records = self.read(topic, partition, offset, max_bytes)
        answer.fulfil(
            MetadataSlice(
                records,
                self.log_start_offset(topic, partition),
                self.high_watermark(topic, partition),
            )
        )
        if self.slow is not None:
            answer, self.slow = self.slow, None
        return answer

    def end_offset(self, topic: str, partition: int) -> Promise[int]:
        end = self.ends.pop(0) if self.ends else self.high_watermark(topic, partition)
        return fulfilled(TURN, end)

    def partition_count(self, topic: str) -> int | None:
        return 1 if self.exists else None

    def ensure(self, topic: str) -> Promise[int]:
        self.exists = self.exists or not self.code
        return fulfilled(TURN, self.code)


class Topic:
    def __init__(self, log: OnePartition | None = None, slice_bytes: int = SLICE_BYTES) -> None:
        self.log = log or OnePartition()
        self.scheduler = SimulatedScheduler(Chance(1))
        self.loaded: list[list[RemotePartition]] = []
        self.topic = MetadataTopic(
            self.log,
            self.log.ensure,
            self.scheduler,
            self.loaded.append,
            slice_bytes=slice_bytes,
        )

    def elected(self) -> "Topic":
        self.topic.elected(0)
        self.scheduler.run_for(0.1)
        return self

    def appended(self, *values: bytes) -> None:
        """By somebody else."""
        builder = BatchBuilder()
        for value in values:
            builder.append(0, None, value)
        self.log.append(REMOTE_LOG_METADATA, 0, bytes(builder.build()))

    def state(self) -> object:
        found = self.topic.find(PARTITION).segments.get(segment_id(1))
        return None if found is None else found.state


def test_a_write_is_done_when_it_was_replayed_and_tells_whether_it_took_effect() -> None:
    topic = Topic().elected()
    assert topic.topic.write(segment(1, 0, 9)).result()
    assert topic.state() is STARTED
    assert not topic.topic.write(update(2, FINISHED)).result()


def test_what_is_not_committed_is_not_replayed() -> None:
    topic = Topic().elected()
    topic.log.hold = True
    written = topic.topic.write(segment(1, 0, 9))
    topic.scheduler.run_for(5)
    assert not written.done
    assert topic.state() is None
    topic.log.commit(REMOTE_LOG_METADATA, 0)
    topic.scheduler.run_for(0)
    assert written.result()
    assert topic.state() is STARTED


def test_a_record_may_be_replayed_before_its_writer_hears_that_it_is_committed() -> None:
    topic = Topic().elected()
    topic.log.late = Promise(TURN)
    written = topic.topic.write(segment(1, 0, 9))
    topic.scheduler.run_for(5)
    assert topic.state() is STARTED
    assert not written.done
    topic.log.late.fulfil(0)
    assert written.result()


def test_records_of_others_are_taken_and_what_is_no_record_is_passed_over() -> None:
    topic = Topic().elected()
    topic.appended(b"", b"not a record", encode(segment(1, 0, 9)), encode(update(1, FINISHED)))
    topic.scheduler.run_for(2)
    assert topic.state() is FINISHED
    assert topic.topic.unreadable == 2


def test_a_long_partition_is_read_slice_by_slice() -> None:
    topic = Topic(slice_bytes=300)
    for number in range(60, 90):
        topic.appended(encode(segment(number, number, number)))
    topic.topic.elected(0)
    with pytest.raises(ReplicaNotAvailable):
        topic.topic.find(PARTITION)
    topic.scheduler.run_for(0.5)
    assert len(topic.topic.find(PARTITION).segments) == 30
    assert [[each.partition for each in known] for known in topic.loaded] == [[PARTITION]]


def test_whoever_waits_is_told_when_the_topic_is_gone() -> None:
    topic = Topic().elected()
    topic.log.hold = True
    written = topic.topic.write(segment(1, 0, 9))
    topic.topic.gone(0)
    topic.log.commit(REMOTE_LOG_METADATA, 0)
    with pytest.raises(NotLeaderOrFollower):
        written.result()
    with pytest.raises(ReplicaNotAvailable):
        topic.topic.find(PARTITION)
    with pytest.raises(NotLeaderOrFollower):
        topic.topic.write(segment(2, 0, 9)).result()
    assert topic.elected().state() is STARTED


def test_what_somebody_else_leads_is_read_on() -> None:
    topic = Topic().elected()
    topic.topic.resigned(0)
    assert topic.topic.write(segment(1, 0, 9)).result()
    topic.appended(encode(update(1, FINISHED)))
    topic.scheduler.run_for(2 * POLL_SECONDS)
    assert topic.state() is FINISHED


def test_only_who_leads_what_tells_of_them_is_told_of_partitions_that_may_be_gone() -> None:
    topic = Topic()
    topic.appended(encode(segment(1, 0, 9)))
    run(TURN, topic.topic.load(PARTITION))
    topic.scheduler.run_for(0.1)
    assert topic.loaded == []
    assert not topic.topic.is_led(PARTITION)
    topic.topic.elected(0)
    assert [[each.partition for each in known] for known in topic.loaded] == [[PARTITION]]
    assert topic.topic.is_led(PARTITION)
    topic.topic.resigned(0)
    topic.topic.elected(0)
    assert len(topic.loaded) == 2


def test_without_a_leader_it_is_looked_again() -> None:
    topic = Topic()
    topic.appended(encode(segment(1, 0, 9)))
    topic.log.fetch_error = LeaderNotAvailable()
    loading = run(TURN, topic.topic.load(PARTITION))
    topic.scheduler.run_for(POLL_SECONDS + 0.1)
    assert not loading.done
    topic.log.fetch_error = None
    topic.scheduler.run_for(POLL_SECONDS)
    assert len(loading.result().segments) == 1


def test_an_end_that_has_gone_back_with_its_leader_is_asked_for_again() -> None:
    """Otherwise what is never reached would be waited for."""
    topic = Topic()
    topic.appended(encode(segment(1, 0, 9)))
    topic.log.ends = [5, 5]
    loading = run(TURN, topic.topic.load(PARTITION))
    topic.scheduler.run_for(0.5 * POLL_SECONDS)
    assert not loading.done
    topic.scheduler.run_for(4 * POLL_SECONDS)
    assert len(loading.result().segments) == 1
    assert topic.log.ends == []


def test_a_log_that_begins_later_is_read_from_there() -> None:
    topic = Topic()
    topic.appended(encode(segment(1, 0, 9)))
    topic.appended(encode(segment(2, 10, 19)))
    topic.log._logs[TopicPartition(REMOTE_LOG_METADATA, 0)].start = 1
    topic.elected()
    assert [each.segment_id for each in topic.topic.find(PARTITION).segments] == [segment_id(2)]


def test_a_write_behind_a_slow_answer_is_fetched_after_it() -> None:
    topic = Topic().elected()
    slow = topic.log.slow = Promise(TURN)
    topic.scheduler.run_for(POLL_SECONDS)
    written = topic.topic.write(segment(1, 0, 9))
    assert not written.done
    slow.fulfil(MetadataSlice(b"", 0, 0))
    topic.scheduler.run_for(0)
    assert written.result()


def test_the_topic_is_made_when_it_is_needed() -> None:
    log = OnePartition(exists=False)
    topic = Topic(log)
    assert not topic.topic.exists
    log.code = 38
    with pytest.raises(UnknownTopicOrPartition):
        run(TURN, topic.topic.load(PARTITION)).result()
    log.code = 0
    loading = run(TURN, topic.topic.load(PARTITION))
    assert not loading.done
    topic.scheduler.run_for(0.1)
    assert loading.result().partition == PARTITION


def test_the_same_records_make_the_same_state() -> None:
    topic = Topic().elected()
    records: list[RemoteLogMetadata] = [segment(1, 0, 9), update(1, FINISHED), segment(2, 10, 19)]
    for record in records:
        assert topic.topic.write(record).result()
    again = Topic(topic.log).elected()
    assert list(again.topic.find(PARTITION).segments) == list(topic.topic.find(PARTITION).segments)


def test_what_others_have_written_in_place_of_a_lost_record_is_not_its_outcome() -> None:
    """The write was acknowledged; then somebody led who did not have it, and wrote on."""
    topic = Topic().elected()
    slow = topic.log.slow = Promise(TURN)
    topic.scheduler.run_for(POLL_SECONDS)
    written = topic.topic.write(segment(1, 0, 9))
    topic.log._logs.clear()
    topic.appended(encode(segment(2, 0, 9)))
    slow.fulfil(MetadataSlice(b"", 0, 0))
    topic.scheduler.run_for(0)
    with pytest.raises(NotLeaderOrFollower):
        written.result()
    assert topic.state() is None


def test_what_was_replayed_and_is_lost_is_forgotten_and_writes_end() -> None:
    topic = Topic().elected()
    assert topic.topic.write(segment(1, 0, 9)).result()
    slow = topic.log.slow = Promise(TURN)
    topic.scheduler.run_for(POLL_SECONDS)
    written = topic.topic.write(update(1, FINISHED))
    topic.log._logs.clear()
    topic.appended(encode(segment(2, 0, 9)))
    slow.fulfil(MetadataSlice(b"", 0, 1, is_diverged=True))
    with pytest.raises(NotLeaderOrFollower):
        written.result()
    topic.scheduler.run_for(POLL_SECONDS)
    assert [each.segment_id for each in topic.topic.find(PARTITION).segments] == [segment_id(2)]
    assert topic.topic.is_led(PARTITION)


def test_a_write_that_does_not_come_back_fails_in_time() -> None:
    topic = Topic().elected()
    topic.log.hold = True
    written = topic.topic.write(segment(1, 0, 9))
    topic.scheduler.run_for(WRITE_SECONDS + POLL_SECONDS)
    with pytest.raises(RequestTimedOut):
        written.result()
    topic.log.commit(REMOTE_LOG_METADATA, 0)
    topic.scheduler.run_for(POLL_SECONDS)
    assert topic.state() is STARTED

"""``__remote_log_metadata``: what the remote segments of all partitions are, as a topic.

It is made when it is first needed. A broker reads those partitions of it that tell of its own logs,
led or followed, on any leader: from the start, and on with what is appended, by any broker; a
job that rewrites segments writes records too.

Rules:
1. State is what was replayed. A write is done when its record has come back from the log, and then
   it is known whether it took effect or said what cannot be. One that does not come back in time
   fails, and may take effect later.
2. Only committed records are replayed, so that nothing is taken back when leaders change. When a
   leader was elected uncleanly and does not have what was replayed, all is read anew.
3. A partition is loaded when it was replayed up to an end that its leader knows to be committed. An
   answer without records, or with an old high watermark, says nothing.
4. Long partitions are replayed slice by slice, a turn of the loop each.
5. Of what no topic has any more, the leader of the partition that tells of it takes care.
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, Protocol

from ottla.common.environment import Cancellable, Scheduler
from ottla.common.errors import (
    ApiError,
    ErrorCode,
    NotLeaderOrFollower,
    ProtocolViolation,
    ReplicaNotAvailable,
    RequestTimedOut,
    UnknownTopicOrPartition,
)
from ottla.common.promise import Promise, failed
from ottla.common.turn import Turn
from ottla.config.metadata_topic import REMOTE_LOG_METADATA
from ottla.observability.logging import logger
from ottla.records.batch import batches, read_header
from ottla.records.builder import BatchBuilder
from ottla.records.record import iterate
from ottla.tiered.machine import RemotePartition
from ottla.tiered.records import decode, encode, metadata_partition
from ottla.tiered.segments import RemoteLogMetadata, TopicIdPartition

log = logger(__name__)

SLICE_BYTES: Final = 1 << 20
POLL_SECONDS: Final = 1.0
"""How often is looked for records that somebody else has written."""
WRITE_SECONDS: Final = 60.0
"""How long a write may take until its record has come back."""

Key = tuple[bytes, int]
"""A topic id and a partition: the name of a topic may be used again."""


class MetadataSlice(NamedTuple):
    """A piece of a partition of the topic."""

    records: bytes
    """Whole batches, from the one that holds the offset asked for on; at least one if there is."""
    start_offset: int
    high_watermark: int
    is_diverged: bool = False
    """Whether the log does not have what was read before: its leader was elected uncleanly."""


class MetadataTopicLog(Protocol):
    """The topic, on any leader. Promises fail with an ApiError, and may be asked for again."""

    def append(self, topic: str, partition: int, batch: bytes) -> Promise[int]:
        """Append a batch; the promise holds its last offset once that is committed."""
        ...

    def fetch(
        self, topic: str, partition: int, offset: int, max_bytes: int, epoch: int
    ) -> Promise[MetadataSlice]:
        """What is committed from ``offset`` on; nothing when the log begins later.

        ``epoch`` is that of the record before, or -1: it tells whether that is still there.
        """
        ...

    def end_offset(self, topic: str, partition: int) -> Promise[int]:
        """Behind all that is committed; fails while the leader does not know that."""
        ...

    def partition_count(self, topic: str) -> int | None: ...


class _Write:
    """A record on its way into the log and back."""

    __slots__ = ("deadline", "outcome", "value")

    def __init__(self, value: bytes, deadline: float, turn: Turn) -> None:
        self.value = value
        self.deadline = deadline
        self.outcome: Promise[bool] = Promise(turn)

    def settle(self, value: bytes | None, outcome: bool) -> None:
        """Hear what became of the record at its offset, which may be somebody else's by now."""
        if self.outcome.done:
            return
        if value == self.value:
            self.outcome.fulfil(outcome)
        else:
            self.outcome.fail(NotLeaderOrFollower("the record was lost with its leader"))

    def fail(self, error: ApiError) -> None:
        if not self.outcome.done:
            self.outcome.fail(error)


class _Reading:
    """How far a partition of the topic was replayed."""

    __slots__ = (
        "end",
        "epoch",
        "in_flight",
        "is_asked",
        "is_asked_again",
        "is_led",
        "loaded",
        "outcomes",
        "position",
        "waiting",
        "writes",
    )

    def __init__(self, turn: Turn) -> None:
        self.position = 0
        self.epoch = -1
        """The leader epoch of the record before the position."""
        self.end: int | None = None
        """Where it counts as loaded, once its leader has said so."""
        self.is_led = False
        self.is_asked = False
        """Whether a slice is on its way, and whether another is wanted after it."""
        self.is_asked_again = False
        self.loaded: Promise[None] = Promise(turn)
        self.writes: list[_Write] = []
        """All that are not settled, the oldest first."""
        self.waiting: dict[int, _Write] = {}
        """The writes that wait to hear what became of the record at an offset."""
        self.in_flight = 0
        """Writes whose offset is not known yet."""
        self.outcomes: dict[int, tuple[bytes | None, bool]] = {}
        """What became of records that were replayed meanwhile."""

    def expire(self, now: float) -> None:
        """End the writes that have waited for long enough."""
        for write in self.writes:
            if write.deadline <= now:
                write.fail(RequestTimedOut("the record has not come back in time"))
        self.forget_settled()

    def forget_settled(self) -> None:
        self.writes = [write for write in self.writes if not write.outcome.done]
        self.waiting = {
            offset: write for offset, write in self.waiting.items() if not write.outcome.done
        }

    def close(self) -> None:
        for write in self.writes:
            write.fail(NotLeaderOrFollower())
        if not self.loaded.done:
            self.loaded.fail(NotLeaderOrFollower())


class MetadataTopic:
    """See the module."""

    def __init__(
        self,
        log: MetadataTopicLog,
        ensure: Callable[[str], Promise[int]],
        scheduler: Scheduler,
        led: Callable[[list[RemotePartition]], None],
        *,
        slice_bytes: int = SLICE_BYTES,
    ) -> None:
        """``led`` is told of all partitions that a partition of the topic tells of, once it is led
        and read.
        """
        self._log = log
        self._slice_bytes = slice_bytes
        self._ensure = ensure
        """Makes a topic if it is not there; answers an error code."""
        self._scheduler = scheduler
        self._readings: dict[int, _Reading] = {}
        self._partitions: dict[Key, RemotePartition] = {}
        self._poll: Cancellable | None = None
        self.unreadable = 0
        """Records that are none of this kind, and were passed over."""
        self._led = led

    # Which partitions are read

    def elected(self, index: int) -> None:
        """This broker leads a partition of the topic."""
        reading = self._follow(index)
        if not reading.is_led:
            reading.is_led = True
            if reading.loaded.done:
                self._led(self._told_by(index))

    def resigned(self, index: int) -> None:
        """Somebody else leads it: it is read on, as it may tell of logs of this broker."""
        reading = self._readings.get(index)
        if reading is not None:
            reading.is_led = False

    def is_led(self, partition: TopicIdPartition) -> bool:
        """Whether this broker leads what tells of ``partition``."""
        index = self._index_of(partition)
        reading = None if index is None else self._readings.get(index)
        return reading is not None and reading.is_led

    def gone(self, index: int) -> None:
        """The topic was deleted, or is read no longer."""
        reading = self._readings.pop(index, None)
        if reading is None:
            return
        for remote in self._told_by(index, None):
            self.forget(remote.partition)
        reading.close()

    def led(self) -> list[RemotePartition]:
        """All that is told of by what this broker leads and has read."""
        indexes = [
            index
            for index, reading in self._readings.items()
            if reading.is_led and reading.loaded.done
        ]
        return self._told_by(*indexes)

    def _follow(self, index: int) -> _Reading:
        """Read a partition from the start, if it is not read already."""
        reading = self._readings.get(index)
        if reading is None:
            reading = self._readings[index] = _Reading(self._scheduler.turn)
            self._scheduler.call_soon(self._fetch, index, reading)
            if self._poll is None:
                self._poll = self._scheduler.call_later(POLL_SECONDS, self._look)
        return reading

    def _told_by(self, *indexes: int | None) -> list[RemotePartition]:
        return [
            remote
            for remote in self._partitions.values()
            if self._index_of(remote.partition) in indexes
        ]

    def close(self) -> None:
        if self._poll is not None:
            self._poll.cancel()
        self._poll = None
        for index in list(self._readings):
            self.gone(index)

    def _index_of(self, partition: TopicIdPartition) -> int | None:
        count = self._log.partition_count(REMOTE_LOG_METADATA)
        return metadata_partition(partition, count) if count else None

    # Asking

    def find(self, partition: TopicIdPartition) -> RemotePartition:
        """What is known now; ReplicaNotAvailable while that is not all there is to know."""
        index = self._index_of(partition)
        reading = None if index is None else self._readings.get(index)
        if reading is None or not reading.loaded.done:
            raise ReplicaNotAvailable(f"remote log metadata of {partition} is not read yet")
        return self._remote(partition)

    async def load(self, partition: TopicIdPartition) -> RemotePartition:
        """All that is known of a partition, once it is; makes the topic if need be."""
        if self._log.partition_count(REMOTE_LOG_METADATA) is None:
            code = await self._ensure(REMOTE_LOG_METADATA)
            if code or self._log.partition_count(REMOTE_LOG_METADATA) is None:
                reason = ErrorCode(code).name
                raise UnknownTopicOrPartition(f"{REMOTE_LOG_METADATA} is not made: {reason}")
        index = self._index_of(partition)
        assert index is not None
        await self._follow(index).loaded
        return self._remote(partition)

    @property
    def exists(self) -> bool:
        return self._log.partition_count(REMOTE_LOG_METADATA) is not None

    def _remote(self, partition: TopicIdPartition) -> RemotePartition:
        key = partition.topic_id, partition.partition
        found = self._partitions.get(key)
        if found is None:
            found = self._partitions[key] = RemotePartition(partition)
        return found

    def forget(self, partition: TopicIdPartition) -> None:
        """Nothing of it is left."""
        self._partitions.pop((partition.topic_id, partition.partition), None)

    # Writing

    def write(self, record: RemoteLogMetadata) -> Promise[bool]:
        """Append a record; answers, when it has been replayed, whether it took effect.

        The partition that tells of it must have been loaded.
        """
        index = self._index_of(record.partition)
        reading = None if index is None else self._readings.get(index)
        if index is None or reading is None:
            return failed(self._scheduler.turn, NotLeaderOrFollower())
        deadline = self._scheduler.monotonic() + WRITE_SECONDS
        write = _Write(encode(record), deadline, self._scheduler.turn)
        builder = BatchBuilder()
        builder.append(self._scheduler.wall_ms(), None, write.value)
        reading.in_flight += 1
        reading.writes.append(write)
        appended = self._log.append(REMOTE_LOG_METADATA, index, bytes(builder.build()))
        appended.when_done(lambda done: self._committed(index, reading, done, write))
        return write.outcome

    def _committed(self, index: int, reading: _Reading, done: Promise[int], write: _Write) -> None:
        reading.in_flight -= 1
        try:
            offset = done.result()
        except ApiError as error:
            write.fail(error)
        else:
            if offset in reading.outcomes:
                write.settle(*reading.outcomes.pop(offset))
            elif not write.outcome.done:
                reading.waiting[offset] = write
                self._fetch(index, reading)
        if not reading.in_flight:
            reading.outcomes.clear()
        reading.forget_settled()

    # Replaying

    def _look(self) -> None:
        self._poll = self._scheduler.call_later(POLL_SECONDS, self._look)
        now = self._scheduler.monotonic()
        for index, reading in list(self._readings.items()):
            if reading.writes:
                reading.expire(now)
            self._fetch(index, reading)

    def _fetch(self, index: int, reading: _Reading) -> None:
        if self._readings.get(index) is not reading:
            return
        reading.is_asked_again = reading.is_asked
        if reading.is_asked:
            return
        reading.is_asked = True
        if reading.end is None and not reading.loaded.done:
            end = self._log.end_offset(REMOTE_LOG_METADATA, index)
            end.when_done(lambda done: self._end_is_known(index, reading, done))
        else:
            fetched = self._log.fetch(
                REMOTE_LOG_METADATA, index, reading.position, self._slice_bytes, reading.epoch
            )
            fetched.when_done(lambda done: self._fetched(index, reading, done))

    def _end_is_known(self, index: int, reading: _Reading, done: Promise[int]) -> None:
        reading.is_asked = False
        try:
            reading.end = done.result()
        except ApiError:
            return  # asked for again, when somebody may know it
        self._fetch(index, reading)

    def _fetched(self, index: int, reading: _Reading, done: Promise[MetadataSlice]) -> None:
        """Replay what has come, and go on soon if there is more."""
        reading.is_asked = False
        if self._readings.get(index) is not reading:
            return
        try:
            found = done.result()
        except ApiError:
            return  # looked for again, when somebody may lead it
        if found.is_diverged:
            self._read_anew(index, reading)
            return
        before = reading.position
        reading.position = max(before, found.start_offset)
        for offset, value in _values(found.records, reading, found.high_watermark):
            outcome = self._take(value)
            waits = reading.waiting.pop(offset, None)
            if waits is not None:
                waits.settle(value, outcome)
            elif reading.in_flight:
                reading.outcomes[offset] = value, outcome
        self._replayed(index, reading, before, found.high_watermark)

    def _replayed(self, index: int, reading: _Reading, before: int, high_watermark: int) -> None:
        end = reading.end
        if end is not None and not reading.loaded.done:
            if reading.position >= end:
                reading.loaded.fulfil(None)
                if reading.is_led:
                    self._led(self._told_by(index))
            elif reading.position == before:
                # The end may have gone back with its leader: it is asked for again.
                reading.end = None
        has_more = before < reading.position < max(high_watermark, end or 0)
        if has_more or reading.is_asked_again:
            self._scheduler.call_soon(self._fetch, index, reading)

    def _read_anew(self, index: int, reading: _Reading) -> None:
        """What was replayed is not what the log has: forget all of it."""
        log.warning(
            "remote log metadata was lost, and is read anew",
            partition=index,
            position=reading.position,
        )
        self.gone(index)
        self._follow(index).is_led = reading.is_led

    def _take(self, value: bytes | None) -> bool:
        try:
            record = decode(value or b"")
        except ProtocolViolation:
            self.unreadable += 1
            return False
        return self._remote(record.partition).replay(record)


def _values(data: bytes, reading: _Reading, end: int) -> Iterator[tuple[int, bytes | None]]:
    """Offset and value of the records below ``end``; moves the position with them."""
    for start, _ in batches(data):
        header = read_header(data, start)
        if header.base_offset >= end:
            return
        if header.last_offset < reading.position:
            continue
        if not header.is_control:
            for record in iterate(data, start):
                if record.offset >= reading.position:
                    reading.position = record.offset + 1
                    yield record.offset, record.value
        reading.position = header.last_offset + 1
        reading.epoch = header.partition_leader_epoch

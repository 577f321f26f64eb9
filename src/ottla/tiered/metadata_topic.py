"""``__remote_log_metadata``: what the remote segments of all partitions are, as a topic.

It is made when it is first needed. A broker reads those partitions of it that tell of its own logs,
led or followed, whoever leads them: from the start, and on with what is appended, by whomever; a
job that rewrites segments writes records too.

Rules:
1. State is what was replayed. A write is done when its record has come back from the log, and then
   it is known whether it took effect or said what cannot be.
2. Only committed records are replayed, so that nothing is taken back when leaders change.
3. Long partitions are replayed slice by slice, a turn of the loop each.
4. Of what no topic has any more, the leader of the partition that tells of it takes care.
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
    UnknownTopicOrPartition,
)
from ottla.common.promise import Promise
from ottla.records.batch import batches, read_header
from ottla.records.builder import BatchBuilder
from ottla.records.record import iterate
from ottla.tiered.machine import RemotePartition
from ottla.tiered.records import decode, encode, metadata_partition
from ottla.tiered.segments import REMOTE_LOG_METADATA, RemoteLogMetadata, TopicIdPartition

SLICE_BYTES: Final = 1 << 20
POLL_SECONDS: Final = 1.0
"""How often is looked for records that somebody else has written."""

Key = tuple[bytes, int]
"""A topic id and a partition: the name of a topic may be used again."""


class MetadataSlice(NamedTuple):
    """A piece of a partition of the topic."""

    records: bytes
    """Whole batches, from the one that holds the offset asked for on; at least one if there is."""
    start_offset: int
    high_watermark: int


class MetadataLog(Protocol):
    """The topic, whoever leads it. Promises fail with an ApiError, and may be asked for again."""

    def append(self, topic: str, partition: int, batch: bytes) -> Promise[int]:
        """Append a batch; the promise holds its last offset once that is committed."""
        ...

    def fetch(
        self, topic: str, partition: int, offset: int, max_bytes: int
    ) -> Promise[MetadataSlice]:
        """What is committed from ``offset`` on; nothing when the log begins later."""
        ...

    def partition_count(self, topic: str) -> int | None: ...


class _Reading:
    """How far a partition of the topic was replayed."""

    __slots__ = (
        "in_flight",
        "is_asked",
        "is_asked_again",
        "is_led",
        "loaded",
        "outcomes",
        "position",
        "waiting",
    )

    def __init__(self) -> None:
        self.position = 0
        self.is_led = False
        self.is_asked = False
        """Whether a slice is on its way, and whether another is wanted after it."""
        self.is_asked_again = False
        self.loaded: Promise[None] = Promise()
        self.waiting: dict[int, Promise[bool]] = {}
        """Who wants to know what became of the record at an offset."""
        self.in_flight = 0
        """Writes whose offset is not known yet."""
        self.outcomes: dict[int, bool] = {}
        """What became of records that were replayed meanwhile."""


class MetadataTopic:
    """See the module."""

    def __init__(
        self, log: MetadataLog, ensure: Callable[[str], Promise[int]], scheduler: Scheduler
    ) -> None:
        self._log = log
        self._ensure = ensure
        """Makes a topic if it is not there; answers an error code."""
        self._scheduler = scheduler
        self._readings: dict[int, _Reading] = {}
        self._partitions: dict[Key, RemotePartition] = {}
        self._poll: Cancellable | None = None
        self.unreadable = 0
        """Records that are none of this kind, and were passed over."""
        self.on_led: Callable[[list[RemotePartition]], None] = lambda _: None
        """Told of all partitions that a partition of the topic tells of, once it is led and read.
        """

    # Which partitions are read

    def elected(self, index: int) -> None:
        """This broker leads a partition of the topic."""
        reading = self._follow(index)
        if not reading.is_led:
            reading.is_led = True
            if reading.loaded.done:
                self.on_led(self._told_by(index))

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
        for waits in reading.waiting.values():
            waits.fail(NotLeaderOrFollower())
        if not reading.loaded.done:
            reading.loaded.fail(NotLeaderOrFollower())

    def _follow(self, index: int) -> _Reading:
        """Read a partition from the start, if it is not read already."""
        reading = self._readings.get(index)
        if reading is None:
            reading = self._readings[index] = _Reading()
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
        outcome: Promise[bool] = Promise()
        index = self._index_of(record.partition)
        reading = None if index is None else self._readings.get(index)
        if index is None or reading is None:
            outcome.fail(NotLeaderOrFollower())
            return outcome
        builder = BatchBuilder()
        builder.append(self._scheduler.wall_ms(), None, encode(record))
        reading.in_flight += 1
        appended = self._log.append(REMOTE_LOG_METADATA, index, bytes(builder.build()))
        appended.when_done(lambda done: self._committed(index, reading, done, outcome))
        return outcome

    def _committed(
        self, index: int, reading: _Reading, done: Promise[int], outcome: Promise[bool]
    ) -> None:
        reading.in_flight -= 1
        try:
            offset = done.result()
            if self._readings.get(index) is not reading:
                raise NotLeaderOrFollower
        except ApiError as error:
            outcome.fail(error)
            return
        if offset in reading.outcomes:
            outcome.fulfil(reading.outcomes.pop(offset))
        else:
            reading.waiting[offset] = outcome
            self._fetch(index, reading)
        if not reading.in_flight:
            reading.outcomes.clear()

    # Replaying

    def _look(self) -> None:
        self._poll = self._scheduler.call_later(POLL_SECONDS, self._look)
        for index, reading in list(self._readings.items()):
            self._fetch(index, reading)

    def _fetch(self, index: int, reading: _Reading) -> None:
        if self._readings.get(index) is not reading:
            return
        reading.is_asked_again = reading.is_asked
        if not reading.is_asked:
            reading.is_asked = True
            fetched = self._log.fetch(REMOTE_LOG_METADATA, index, reading.position, SLICE_BYTES)
            fetched.when_done(lambda done: self._fetched(index, reading, done))

    def _fetched(self, index: int, reading: _Reading, done: Promise[MetadataSlice]) -> None:
        """Replay what has come, and go on soon if there is more."""
        reading.is_asked = False
        if self._readings.get(index) is not reading:
            return
        try:
            found = done.result()
        except ApiError:
            return  # looked for again, when somebody may lead it
        before = reading.position
        reading.position = max(before, found.start_offset)
        for offset, value in _values(found.records, reading, found.high_watermark):
            outcome = self._take(value)
            waits = reading.waiting.pop(offset, None)
            if waits is not None:
                waits.fulfil(outcome)
            elif reading.in_flight:
                reading.outcomes[offset] = outcome
        has_more = before < reading.position < found.high_watermark
        if has_more or reading.is_asked_again:
            self._scheduler.call_soon(self._fetch, index, reading)
        if not has_more and not reading.loaded.done:
            if reading.is_led:
                self.on_led(self._told_by(index))
            reading.loaded.fulfil(None)

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

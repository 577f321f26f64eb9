"""``__remote_log_metadata``: what the remote segments of all partitions are, as a topic.

It is made when it is first needed. A broker reads the partitions of it that it leads from the start
and goes on with what is appended, by whomever: a job that rewrites segments writes records too.

Rules:
1. State is what was replayed. A write is done when its record has come back from the log, and then
   it is known whether it took effect or said what cannot be.
2. Only committed records are replayed.
3. Long partitions are replayed slice by slice, a turn of the loop each.
"""

from collections.abc import Callable, Iterator
from typing import Final, Protocol

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


class MetadataLog(Protocol):
    """The topic, as far as this broker leads it, and the topics of the cluster."""

    def append(self, topic: str, partition: int, batch: bytes) -> Promise[int]:
        """Append a batch; the promise holds its last offset once that is committed."""
        ...

    def log_start_offset(self, topic: str, partition: int) -> int: ...

    def high_watermark(self, topic: str, partition: int) -> int: ...

    def read(self, topic: str, partition: int, offset: int, max_bytes: int) -> bytes:
        """Whole batches, from the one that holds ``offset`` on, at least one."""
        ...

    def partition_count(self, topic: str) -> int | None: ...


class _Reading:
    """How far a partition of the topic was replayed."""

    __slots__ = ("in_flight", "loaded", "outcomes", "position", "waiting")

    def __init__(self, position: int) -> None:
        self.position = position
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
        self.on_loaded: Callable[[list[RemotePartition]], None] = lambda _: None
        """Told of all partitions that a partition of the topic tells of, once it is read."""

    # Which partitions are read

    def elected(self, index: int) -> None:
        """This broker leads a partition of the topic: read it from the start."""
        if index in self._readings:
            return
        try:
            reading = _Reading(self._log.log_start_offset(REMOTE_LOG_METADATA, index))
        except ApiError:
            return  # its log is not to be had: somebody else will lead it
        self._readings[index] = reading
        self._scheduler.call_soon(self._replay, index, reading)
        if self._poll is None:
            self._poll = self._scheduler.call_later(POLL_SECONDS, self._look)

    def resigned(self, index: int) -> None:
        """Somebody else leads it, or it is gone."""
        reading = self._readings.pop(index, None)
        if reading is None:
            return
        for key, remote in list(self._partitions.items()):
            if self._index_of(remote.partition) in (index, None):
                del self._partitions[key]
        for waits in reading.waiting.values():
            waits.fail(NotLeaderOrFollower())
        if not reading.loaded.done:
            reading.loaded.fail(NotLeaderOrFollower())

    def close(self) -> None:
        if self._poll is not None:
            self._poll.cancel()
        self._poll = None
        for index in list(self._readings):
            self.resigned(index)

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
        reading = None if index is None else self._readings.get(index)
        if reading is None:
            raise NotLeaderOrFollower(f"partition {index} of {REMOTE_LOG_METADATA} is not led here")
        await reading.loaded
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
        """Append a record; answers, when it has been replayed, whether it took effect."""
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
            self._replay(index, reading)
        if not reading.in_flight:
            reading.outcomes.clear()

    # Replaying

    def _look(self) -> None:
        self._poll = self._scheduler.call_later(POLL_SECONDS, self._look)
        for index, reading in list(self._readings.items()):
            self._replay(index, reading)

    def _replay(self, index: int, reading: _Reading) -> None:
        """Take the next slice of what is committed, and go on soon if there is more."""
        if self._readings.get(index) is not reading:
            return
        try:
            end = self._log.high_watermark(REMOTE_LOG_METADATA, index)
            data = b""
            if reading.position < end:
                data = self._log.read(REMOTE_LOG_METADATA, index, reading.position, SLICE_BYTES)
        except ApiError:
            self.resigned(index)
            return
        before = reading.position
        for offset, value in _values(data, reading, end):
            outcome = self._take(value)
            waits = reading.waiting.pop(offset, None)
            if waits is not None:
                waits.fulfil(outcome)
            elif reading.in_flight:
                reading.outcomes[offset] = outcome
        if reading.position < end and reading.position > before:
            self._scheduler.call_soon(self._replay, index, reading)
        elif not reading.loaded.done:
            self.on_loaded(
                [
                    each
                    for each in self._partitions.values()
                    if self._index_of(each.partition) == index
                ]
            )
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

"""Rows of Arrow to record batches, ready to be sent: no Python for any record.

Each partition has one open batch, which grows over tables until a record does not fit. Then it is
packed, given its sequence and sealed. So the batches of a partition come in the order of its rows
and must be sent in that order. A record larger than a batch gets one of its own.
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import numpy as np

from ottla.client.metadata import TopicMetadata
from ottla.common.chance import Chance
from ottla.common.clock import Clock
from ottla.common.errors import MessageTooLarge, UnknownTopicOrPartition
from ottla.common.topic_partition import TopicPartition
from ottla.records.batch import (
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_BIT,
    seal,
)
from ottla.records.compression import NONE, compress
from ottla.spark.codec import encoding_kernels as k
from ottla.spark.codec.kernels import Bytes, Longs
from ottla.spark.codec.rows import Rows

_SEQUENCE_MASK: Final = 0x7FFFFFFF


class ProducerIdentity(NamedTuple):
    """In whose name batches are written."""

    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_PRODUCER_EPOCH
    transactional: bool = False


class Batching(NamedTuple):
    """How batches are made."""

    batch_bytes: int = 64 << 10
    codec: int = NONE
    level: int | None = None
    request_bytes_max: int = 1 << 20
    buffered_bytes_max: int = 64 << 20
    """Of all open batches; more of them, and they are closed before they are full."""


class EncodedBatch(NamedTuple):
    target: TopicPartition
    data: bytes | bytearray
    records: int
    sequence: int


class BatchEncoder:
    """Encodes what one task writes."""

    def __init__(
        self,
        batching: Batching,
        identity: ProducerIdentity,
        topic: Callable[[str], TopicMetadata],
        *,
        clock: Clock,
        chance: Chance,
    ) -> None:
        """``topic`` answers how a topic is, or raises when there is none."""
        self._batching = batching
        self._identity = identity
        self._topic = topic
        self._clock = clock
        self._chance = np.array([chance.below(1 << 62) + 1], np.uint64)
        self._targets: list[TopicPartition] = []
        self._sequences: list[int] = []
        self._known: dict[str, int] = {}
        self._topics = np.empty((0, k.TOPIC), np.int64)
        self._led = np.empty(0, np.int64)
        self._opened = np.empty((0, k.OPEN), np.int64)
        capacity = max(batching.batch_bytes, HEADER_SIZE + k.RECORD_REST_MAX)
        self._room = np.empty((0, capacity), np.uint8)

    def encode(self, rows: Rows) -> Iterator[EncodedBatch]:
        """Take over rows; give the batches that became full by them."""
        targets = self._route(rows)
        stamps = self._stamps(rows)
        row = 0
        while (row := self._append(rows, row, targets, stamps)) < rows.count:
            target = int(targets[row])
            if self._opened[target, k.COUNT]:
                yield self._close(target)
            if HEADER_SIZE + int(rows.sizes[row]) + k.RECORD_REST_MAX > self._room.shape[1]:
                yield self._alone(rows, row, target, stamps)
                row += 1
        if int(self._opened[:, k.USED].sum()) > self._batching.buffered_bytes_max:
            yield from self.finish()

    def finish(self) -> Iterator[EncodedBatch]:
        """The batches that are still open."""
        for target in np.flatnonzero(self._opened[:, k.COUNT]).tolist():
            yield self._close(target)

    # Where to

    def _route(self, rows: Rows) -> Longs:
        numbers = np.array([self._number(name) for name in rows.topics], np.int32)
        targets = np.empty(rows.count, np.int64)
        bad = k.route(
            numbers[rows.topic_of],
            rows.partitions,
            rows.key.data,
            rows.key.starts,
            rows.key.sizes,
            rows.sizes,
            self._topics,
            self._led,
            self._batching.batch_bytes,
            self._chance,
            targets,
        )
        if bad != k.ROUTED:
            name = rows.topics[rows.topic_of[bad]]
            count = int(self._topics[self._known[name], k.PARTITIONS])
            raise UnknownTopicOrPartition(
                f"row {bad} of its table wants partition {int(rows.partitions[bad])} of topic "
                f"{name}, which has partitions 0 to {count - 1}"
            )
        return targets

    def _number(self, name: str) -> int:
        """The number of a topic; its partitions become targets when it is met first."""
        known = self._known.get(name)
        if known is not None:
            return known
        topic = self._topic(name)
        count = len(topic.partitions)
        led = [index for index, each in topic.partitions.items() if each.leader >= 0]
        led = led or list(topic.partitions)
        row = [len(self._targets), count, len(self._led), len(led), -1, 0]
        self._topics = np.concatenate([self._topics, np.array([row], np.int64)])
        self._led = np.concatenate([self._led, np.array(led, np.int64)])
        opened = np.zeros((count, k.OPEN), np.int64)
        opened[:, k.USED] = HEADER_SIZE
        self._opened = np.concatenate([self._opened, opened])
        # Open batches move once with each new topic; room that nobody used takes no memory.
        room = np.empty((len(self._opened), self._room.shape[1]), np.uint8)
        for target in np.flatnonzero(self._opened[:, k.COUNT]).tolist():
            used = int(self._opened[target, k.USED])
            room[target, :used] = self._room[target, :used]
        self._room = room
        self._targets += [TopicPartition(name, index) for index in range(count)]
        self._sequences += [0] * count
        self._known[name] = len(self._topics) - 1
        return self._known[name]

    def _stamps(self, rows: Rows) -> Longs:
        now = self._clock.wall_ms()
        if rows.stamps is None:
            return np.full(rows.count, now, np.int64)
        return np.where(rows.stamps < 0, now, rows.stamps)

    # Batches

    def _append(
        self,
        rows: Rows,
        row: int,
        targets: Longs,
        stamps: Longs,
        *,
        until: int | None = None,
        into: tuple[Longs, Bytes] | None = None,
    ) -> int:
        opened, room = into or (self._opened, self._room)
        return k.append(
            row,
            rows.count if until is None else until,
            targets,
            rows.sizes,
            stamps,
            *rows.key,
            *rows.value,
            rows.header_ends,
            *rows.names,
            *rows.contents,
            opened,
            room,
        )

    def _alone(self, rows: Rows, row: int, target: int, stamps: Longs) -> EncodedBatch:
        """A record that is larger than a batch."""
        capacity = HEADER_SIZE + int(rows.sizes[row]) + k.RECORD_REST_MAX
        if capacity > self._batching.request_bytes_max:
            raise MessageTooLarge(
                f"{self._targets[target]}: a record of {int(rows.sizes[row])} bytes is larger than "
                f"kafka.max.request.size={self._batching.request_bytes_max} allows"
            )
        opened = np.zeros((1, k.OPEN), np.int64)
        opened[0, k.USED] = HEADER_SIZE
        room = np.empty((1, capacity), np.uint8)
        first = np.zeros(rows.count, np.int64)
        end = self._append(rows, row, first, stamps, until=row + 1, into=(opened, room))
        assert end == row + 1
        return self._seal(target, opened[0], room[0])

    def _close(self, target: int) -> EncodedBatch:
        opened = self._opened[target]
        batch = self._seal(target, opened, self._room[target])
        opened[k.COUNT], opened[k.USED] = 0, HEADER_SIZE
        return batch

    def _seal(self, target: int, opened: Longs, room: Bytes) -> EncodedBatch:
        used, count, base, largest = opened.tolist()
        codec, identity = self._batching.codec, self._identity
        if codec == NONE:
            batch = bytearray(room[:used].data)
        else:
            packed = compress(codec, room[HEADER_SIZE:used].tobytes(), self._batching.level)
            batch = bytearray(HEADER_SIZE)
            batch += packed
        sequence = NO_SEQUENCE
        if identity.producer_id != NO_PRODUCER_ID:
            sequence = self._sequences[target]
            self._sequences[target] = (sequence + count) & _SEQUENCE_MASK
        HEADER.pack_into(
            batch,
            0,
            0,
            len(batch) - LOG_OVERHEAD,
            NO_LEADER_EPOCH,
            MAGIC,
            0,
            codec | (TRANSACTIONAL_BIT if identity.transactional else 0),
            count - 1,
            base,
            largest,
            identity.producer_id,
            identity.epoch,
            sequence,
            count,
        )
        seal(batch, 0, len(batch))
        return EncodedBatch(self._targets[target], batch, count, sequence)

"""A topic into another one with another number of partitions; records of a key stay in order.

Each partition of the source is copied from its start to its end by one task at a time, in
transactions. A transaction has some records, the mapping of their offsets (``offset_mapping``), and
how far the source is copied, as an offset of a consumer group: all of it or nothing. A task that
begins takes over the transactional id of the partition, which ends what another has left open, and
goes on where the group stands then, transaction by transaction: an attempt that stood still may
have been overtaken. So a run that is killed is continued by the next, and no record is missing,
doubled, or out of the order of its key.

The group's offsets say by ids which topics they are about: a copy into a topic that was deleted and
made anew meanwhile, or that has more partitions by now, is refused.
"""

from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.client.errors import BrokerUnavailable
from ottla.common.chance import Chance
from ottla.common.errors import ApiError, InvalidRequest, KafkaStorageError
from ottla.common.topic_partition import TopicPartition
from ottla.spark.codec.encoding import BatchEncoder, EncodedBatch
from ottla.spark.codec.rows import Rows
from ottla.spark.codec.schema import Columns
from ottla.spark.jobs.offset_mapping import Longs, Placed
from ottla.spark.jobs.spreading import spread
from ottla.spark.sink.options import SinkOptions
from ottla.spark.sink.produce import RawProducer
from ottla.spark.sink.transactions import Marker, Transaction, end, read_marker
from ottla.spark.sink.writer import Links, links
from ottla.spark.source.options import SourceOptions
from ottla.spark.source.ranges import OffsetRange
from ottla.spark.source.reader import read_range

COLUMNS: Final = Columns(("key", "value", "offset", "timestamp", "headers"))
TRANSACTION_BYTES: Final = 64 << 20
"""Of records in one transaction, about."""


@dataclass(frozen=True, slots=True)
class Repartition:
    """What all tasks of a job know."""

    job: str
    """The group that holds how far it is, and the beginning of the transactional ids."""
    source: str
    target: str
    mapping: str
    """The topic of the mapping of offsets."""
    partitions: int
    """Of the target."""
    mapping_partitions: int
    note: str
    """Which topics these are, by their ids."""
    options: SourceOptions
    sink: SinkOptions
    transaction_records: int

    def transactional_id(self, partition: int) -> str:
        return f"{self.job}-{partition}"

    def check(self, partition: TopicPartition, note: str) -> None:
        """Refuse to go on with what was begun with other topics."""
        if note != self.note:
            raise InvalidRequest(
                f"group {self.job} says that {partition} was copied for other topics than these "
                f"({note}; now {self.note}): a topic was deleted and made anew, or got more "
                "partitions. Delete the group to begin again with an empty target, or name "
                "another job"
            )


class PartitionCopy(NamedTuple):
    """The work of one task: a part of a source partition, in order."""

    repartition: Repartition
    partition: TopicPartition
    ranges: tuple[OffsetRange, ...]


class Copied(NamedTuple):
    topic: str
    partition: int
    offset: int
    """Up to here, exclusive, the source is copied."""
    records: int
    bytes: int


def copy_partition(copy: PartitionCopy) -> Copied:
    """Copy what is not copied yet, and leave the group at the end of the ranges."""
    job = copy.repartition
    with links(job.sink) as taken:
        transaction, position = _begin(copy, taken)
        tables = _tables(copy, position)
        records = size = 0
        is_over = position >= copy.ranges[-1].end
        while not is_over:
            chunk = _Chunk(copy, taken, transaction)
            try:
                is_over = chunk.fill(tables)
                transaction.mark(job.job, copy.partition, Marker(chunk.end_offset, job.note))
            except BaseException:
                with suppress(ApiError, BrokerUnavailable):
                    end(taken.control, transaction.prepared, commit=False)
                raise
            end(taken.control, transaction.prepared, commit=True)
            records, size = records + chunk.records, size + chunk.bytes
            position = chunk.end_offset
            if not is_over:
                transaction, position = _begin(copy, taken)
                if position != chunk.end_offset:  # another has gone on while we stood still
                    tables = _tables(copy, position)
                    is_over = position >= copy.ranges[-1].end
        return Copied(*copy.partition, position, records, size)


def _begin(copy: PartitionCopy, taken: Links) -> tuple[Transaction, int]:
    """A new transaction, and where the source goes on: nobody else changes that from here on."""
    job = copy.repartition
    transaction = Transaction(taken.control, job.transactional_id(copy.partition.partition))
    transaction.begin(job.sink.transaction_timeout_ms)
    marker = read_marker(taken.control, job.job, copy.partition)
    if marker is None:
        return transaction, copy.ranges[0].start
    job.check(copy.partition, marker.note)
    if marker.offset < copy.ranges[0].start:
        raise InvalidRequest(
            f"{copy.partition} is copied up to {marker.offset}, not up to {copy.ranges[0].start}: "
            f"somebody has moved group {job.job}"
        )
    return transaction, marker.offset


def _tables(copy: PartitionCopy, position: int) -> Iterator[tuple[pa.RecordBatch | None, int]]:
    """What is to be copied from ``position`` on, each with the offset behind it."""
    rows_max = copy.repartition.transaction_records
    for planned in copy.ranges:
        if planned.end <= position:
            continue
        wanted = replace(planned, start=max(planned.start, position))
        for table in read_range(wanted, copy.repartition.options, COLUMNS):
            for first in range(0, table.num_rows, rows_max):
                part = table.slice(first, rows_max)
                yield part, int(part.column("offset")[-1].as_py()) + 1
        yield None, planned.end


class _Chunk:
    """What one transaction has: records, and the mapping of their offsets."""

    def __init__(self, copy: PartitionCopy, taken: Links, transaction: Transaction) -> None:
        self._copy = copy
        self._job = copy.repartition
        sink = self._job.sink
        self._producer = RawProducer(
            taken.control,
            taken.data,
            sink.delivery,
            transaction,
            acknowledged=self._acknowledged,
        )
        self._encoder = BatchEncoder(
            sink.batching,
            self._producer.identify(),
            self._producer.topic,
            clock=sink.clock,
            chance=Chance(),
        )
        self._waiting: dict[int, deque[Longs]] = {}
        """By target partition: source offsets of records that are in no sealed batch yet."""
        self._sent: dict[tuple[int, int], Longs] = {}
        """Source offsets of batches on their way, by target partition and sequence."""
        self._placed: list[Placed] = []
        self.records = 0
        self.bytes = 0
        self.end_offset = -1

    def fill(self, tables: Iterator[tuple[pa.RecordBatch | None, int]]) -> bool:
        """Write until there is enough for a transaction; whether that was all."""
        is_over = True
        try:
            for table, self.end_offset in tables:
                if table is not None:
                    self._write(table)
                if self.records >= self._job.transaction_records or self.bytes >= TRANSACTION_BYTES:
                    is_over = False
                    break
            for batch in self._encoder.finish():
                self._send(batch)
            self._producer.flush()
            self._write_mapping()
        finally:
            self._producer.close()
        return is_over and self.end_offset >= self._copy.ranges[-1].end

    def _write(self, table: pa.RecordBatch) -> None:
        rows = Rows(_stamped(table), self._job.target)
        offsets = np.asarray(table.column("offset"))
        rows.partitions = spread(rows, offsets, self._job.partitions)
        order = np.argsort(rows.partitions, kind="stable")
        counts = np.bincount(rows.partitions, minlength=self._job.partitions)
        parts = np.split(offsets[order], np.cumsum(counts)[:-1])
        for partition in np.flatnonzero(counts).tolist():
            self._waiting.setdefault(partition, deque()).append(parts[partition])
        self.records += rows.count
        self.bytes += table.nbytes
        for batch in self._encoder.encode(rows):
            self._send(batch)

    def _send(self, batch: EncodedBatch) -> None:
        partition = batch.target.partition
        self._sent[partition, batch.sequence] = _take(self._waiting[partition], batch.records)
        self._producer.send(batch)

    def _acknowledged(self, batch: EncodedBatch, base_offset: int) -> None:
        if batch.target.topic == self._job.mapping:
            return
        offsets = self._sent.pop((batch.target.partition, batch.sequence))
        if base_offset < 0:
            raise KafkaStorageError(f"{batch.target}: nobody knows where a batch was written")
        placed = Placed(
            self._copy.partition.partition, offsets, batch.target.partition, base_offset
        )
        self._placed.append(placed)

    def _write_mapping(self) -> None:
        if not self._placed:
            return
        values = [each.encode() for each in sorted(self._placed, key=_first)]
        table = pa.RecordBatch.from_arrays([pa.array(values, pa.binary())], ["value"])
        rows = Rows(table, self._job.mapping)
        partition = self._copy.partition.partition % self._job.mapping_partitions
        rows.partitions = np.full(rows.count, partition, np.int32)
        for batch in (*self._encoder.encode(rows), *self._encoder.finish()):
            self._producer.send(batch)
        self._producer.flush()


def _first(placed: Placed) -> int:
    return int(placed.source_offsets[0])


def _take(waiting: deque[Longs], count: int) -> Longs:
    """The next ``count`` offsets."""
    taken: list[Longs] = []
    while count:
        first = waiting.popleft()
        taken.append(first[:count])
        if len(first) > count:
            waiting.appendleft(first[count:])
        count -= len(taken[-1])
    return np.concatenate(taken)


def _stamped(table: pa.RecordBatch) -> pa.RecordBatch:
    """Records of the first formats have no timestamp; they get that of the copy."""
    stamps = table.column("timestamp")
    if pc.min(stamps.cast(pa.int64())).as_py() >= 0:
        return table
    known = pc.if_else(pc.less(stamps.cast(pa.int64()), 0), None, stamps)
    return table.set_column(table.schema.get_field_index("timestamp"), "timestamp", known)

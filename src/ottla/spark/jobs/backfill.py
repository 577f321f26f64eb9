"""A table into a topic, exactly once: each part of it in a transaction of its own.

The parts of a table are dealt out to lanes, in order. A lane is the work of one task: it writes its
parts one after the other, and commits with each how many of its parts are done, as an offset of a
group. A task that begins takes over the transactional id of the lane, which ends what another has
left open, and goes on behind what is done. So a run that is killed is continued by the next, and
readers of committed records find each row once.

With the number stands which parts there are, and of which version of the table. A table that has
changed in between is refused; of Delta and Iceberg the version of the first run is read again.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ottla.client.cluster import Cluster
from ottla.common.checksum import crc32c
from ottla.common.errors import InvalidRequest
from ottla.common.topic_partition import TopicPartition
from ottla.spark.codec.rows import UnwritableTable
from ottla.spark.formats.arrow_types import struct_of
from ottla.spark.jobs.file_tables import FileTable, Part, read_part
from ottla.spark.sink.options import SinkOptions
from ottla.spark.sink.transactions import Marker, Transaction, end, read_marker
from ottla.spark.sink.writer import fill, links, taken_apart

LANES: Final = 32
"""At most so many tasks write at a time, each with a transactional id."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Which columns of a table become what of a record."""

    key: tuple[str, ...] = ()
    """Several make a struct, which needs a format of keys."""
    value: str | None = None
    """None: the column value, or else all columns together, which needs a format of values."""
    timestamp: str | None = None
    partition: str | None = None
    headers: str | None = None

    def shaped(self, table: pa.RecordBatch) -> pa.RecordBatch:
        """With the columns that the sink takes, by their names there."""
        columns: dict[str, pa.Array] = {}
        for name in ("timestamp", "partition", "headers"):
            chosen = getattr(self, name)
            if chosen is not None:
                columns[name] = self._column(table, chosen)
        if "partition" in columns:
            columns["partition"] = columns["partition"].cast(pa.int32())
        if self.key:
            columns["key"] = self._key(table)
        if self.value is not None:
            columns["value"] = self._column(table, self.value)
        elif "value" not in table.schema.names:
            columns["value"] = _struct(table, table.schema.names)
        else:
            kept = ("key", "value", "headers", "timestamp")
            whole = {name: table.column(name) for name in kept if name in table.schema.names}
            columns = whole | columns
        return pa.RecordBatch.from_pydict(columns)

    def _key(self, table: pa.RecordBatch) -> pa.Array:
        if len(self.key) > 1:
            for name in self.key:
                self._column(table, name)
            return _struct(table, self.key)
        column = self._column(table, self.key[0])
        if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
            return column
        return pc.cast(column, pa.string())

    def _column(self, table: pa.RecordBatch, name: str) -> pa.Array:
        if name not in table.schema.names:
            raise UnwritableTable(f"there is no column {name}, only {table.schema.names}")
        return table.column(name)


def _struct(table: pa.RecordBatch, names: tuple[str, ...] | list[str]) -> pa.Array:
    arrays = [table.column(name) for name in names]
    kind = struct_of((name, array.type) for name, array in zip(names, arrays, strict=True))
    return pa.StructArray.from_arrays(arrays, fields=list(kind))


@dataclass(frozen=True, slots=True)
class Backfill:
    """What all tasks of a job know."""

    job: str
    table: FileTable
    shape: Shape
    sink: SinkOptions
    where: TopicPartition
    """A partition of the topic: a group's offset needs one to stand at."""
    note: str
    """Which parts of which table go to which topic."""


class Lane(NamedTuple):
    """The work of one task."""

    backfill: Backfill
    number: int
    parts: tuple[Part, ...]

    @property
    def name(self) -> str:
        """Its transactional id, and the group that holds how far it is."""
        return lane_name(self.backfill.job, self.number)


class Filled(NamedTuple):
    """What became of a part."""

    path: str
    rows: int
    bytes: int


class LaneFilled(NamedTuple):
    lane: int
    done: tuple[Filled, ...]
    """Those of this run."""


def lane_name(job: str, number: int) -> str:
    return f"{job}-{number}"


def deal(backfill: Backfill, parts: list[Part]) -> list[Lane]:
    """All parts to lanes, in turn."""
    count = min(LANES, len(parts))
    return [Lane(backfill, lane, tuple(parts[lane::count])) for lane in range(count)]


def plan_sum(parts: list[Part]) -> str:
    """Of which parts there are."""
    return f"{crc32c(repr([tuple(part) for part in parts]).encode()):08x}"


def noted(note: str) -> Mapping[str, str]:
    """The fields of a note."""
    return dict(field.split("=", 1) for field in note.split())


def first_note(cluster: Cluster, job: str) -> str | None:
    """What an earlier run of the job has noted, if there was one that got that far."""
    for number in range(LANES):
        marker = read_marker(cluster, lane_name(job, number))
        if marker is not None:
            return marker.note
    return None


def parts_done(cluster: Cluster, lane: Lane) -> int:
    """How many of its parts are in the topic. InvalidRequest when that was said of others."""
    marker = read_marker(cluster, lane.name)
    if marker is None:
        return 0
    if marker.note != lane.backfill.note:
        raise InvalidRequest(
            f"group {lane.name} says that another table or topic was meant ({marker.note}; now "
            f"{lane.backfill.note}): files have changed since the run that was ended, or the topic "
            "was made anew. Name another job to write all of it"
        )
    return marker.offset


def fill_lane(lane: Lane) -> LaneFilled:
    """Write the parts of a lane that are not in the topic yet."""
    job = lane.backfill
    filled: list[Filled] = []
    with links(job.sink) as taken:
        number = 0
        while number < len(lane.parts):
            transaction = Transaction(taken.control, lane.name)
            transaction.begin(job.sink.transaction_timeout_ms)
            number = parts_done(taken.control, lane)
            if number >= len(lane.parts):
                break
            part = lane.parts[number]
            tables = (job.shape.shaped(table) for table in _tables(job, part))
            rows = taken_apart(job.sink, tables)
            written = fill(job.sink, taken, transaction, lane.number, rows)
            number += 1
            transaction.mark(lane.name, job.where, Marker(number, job.note))
            end(taken.control, transaction.prepared, commit=True)
            filled.append(Filled(part.path, written.records, part.bytes))
    return LaneFilled(lane.number, tuple(filled))


def _tables(job: Backfill, part: Part) -> Iterator[pa.RecordBatch]:
    for table in read_part(job.table, part):
        if table.num_rows:
            yield table

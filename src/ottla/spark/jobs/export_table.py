"""Ranges of a topic into a table, each offset once however often it is run.

The executors write data files; all of them are committed in one step, which also says up to which
offset each partition is in the table. So a run that crashed leaves nothing, a run that is repeated
adds nothing, and a later one goes on where the last one ended.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from pyspark.sql.types import StructField, StructType

from ottla.common.identifiers import uuid_text
from ottla.spark.codec.schema import Columns
from ottla.spark.datasource import types_of
from ottla.spark.jobs.export import Exported
from ottla.spark.source.options import SourceOptions
from ottla.spark.source.ranges import OffsetRange
from ottla.spark.source.reader import read_range
from ottla.spark.tables.commits import Change, Snapshot
from ottla.spark.tables.data_files import Target, WrittenFile, write_batches
from ottla.spark.tables.logged_table import LoggedTable

COLUMNS = (
    "topic",
    "partition",
    "offset",
    "key",
    "value",
    "timestamp",
    "timestampType",
    "headers",
)


class ExportedRange(NamedTuple):
    wanted: OffsetRange
    files: tuple[WrittenFile, ...]

    def told(self) -> Exported:
        paths = ", ".join(file.path for file in self.files) or None
        wanted = self.wanted
        return Exported(
            wanted.topic,
            wanted.partition,
            wanted.start,
            wanted.end,
            sum(file.rows for file in self.files),
            sum(file.size for file in self.files),
            paths,
        )


def table_schema(options: SourceOptions) -> StructType:
    types = types_of(options.formats)
    return StructType([StructField(name, types[name]) for name in COLUMNS])


def left_to_do(planned: Iterable[OffsetRange], there: Snapshot | None) -> list[OffsetRange]:
    """What is not in the table yet."""
    left = []
    for each in planned:
        done = None if there is None else there.last_batch(writer_of(each))
        start = max(each.start, done or 0)
        if start < each.end:
            left.append(replace(each, start=start))
    return left


def writer_of(wanted: OffsetRange) -> str:
    """Each partition is one, whose batches end at offsets; a topic that is made anew is another."""
    return f"ottla export {wanted.topic} {uuid_text(wanted.topic_id)} {wanted.partition}"


def export_range(wanted: OffsetRange, options: SourceOptions, target: Target) -> ExportedRange:
    batches = read_range(wanted, options, Columns(COLUMNS), keep=True)
    return ExportedRange(wanted, tuple(write_batches(batches, target)))


def commit(table: LoggedTable, base: Snapshot, done: Sequence[ExportedRange]) -> bool:
    """All in one step; False, and nothing is done, when somebody else has exported meanwhile."""
    ends: dict[str, int] = {}
    for each in done:
        writer = writer_of(each.wanted)
        ends[writer] = max(each.wanted.end, ends.get(writer, 0))
    added = [file for each in done for file in each.files]
    return table.commit(base, Change("export", added, (), ends))

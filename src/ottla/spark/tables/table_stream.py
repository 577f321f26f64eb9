"""Reading a table file by file: what a stream reads between two versions, and how.

The offset of a stream is the version of the table. What came between two versions are the files
that the later has and the earlier has not; if a file of the earlier is missing in the later, rows
were replaced, and a stream of rows that were added cannot tell of that. A commit that compacts the
table (:meth:`LoggedTable.compact`) is passed over by a stream that had read all before it.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from ottla.client.system_time import Deadline
from ottla.common.clock import Clock
from ottla.spark.tables.commits import DataFile, Snapshot
from ottla.spark.tables.errors import TableChanged
from ottla.spark.tables.logs import open_log
from ottla.spark.tables.spec import TableSpec
from ottla.spark.tables.store import Store

START: Final = -1
"""Before the first version: a new stream gets all rows."""
LOOK_INTERVAL_MS: Final = 100
"""Spark asks every few milliseconds."""
TASK_BYTES: Final = 64 << 20
"""Small files are read together."""
ROWS: Final = 16_384


class TableStream:
    """The versions of one streaming query."""

    def __init__(self, spec: TableSpec, clock: Clock) -> None:
        self._spec = spec
        self._log = open_log(spec, clock)
        self._clock = clock
        self._latest = START
        self._fresh_until = Deadline(clock, 0)
        self._frozen = False

    def latest(self) -> int:
        if self._fresh_until.passed and not self._frozen:
            self._latest = self._log.version()
            self._fresh_until = Deadline(self._clock, LOOK_INTERVAL_MS)
        return self._latest

    def freeze(self) -> None:
        """What is there now is all that this query will read."""
        self._latest = self._log.version()
        self._frozen = True

    def files(self, start: int, end: int) -> list[DataFile]:
        """What was added after ``start``, up to ``end``."""
        if end == START:
            return []
        newest = self._log.at(end)
        if START < start < newest.compacted:
            self._check_all_read(start, newest.compacted)
            start = newest.compacted
        after = newest.files
        before = _paths(self._log.at(start)) if start > START else set()
        gone = before - _paths(newest)
        if gone:
            raise TableChanged(
                f"table {self._spec.name}: between versions {start} and {end} rows were replaced "
                f"that this stream has read ({len(gone)} files); a stream follows tables that are "
                "only appended to: read this one as a whole, or begin anew with a new checkpoint"
            )
        return [file for file in after if file.path not in before]

    def _check_all_read(self, start: int, compacted: int) -> None:
        unread = _paths(self._log.at(compacted - 1)) - _paths(self._log.at(start))
        if unread:
            raise TableChanged(
                f"table {self._spec.name}: version {compacted} has put together what this stream, "
                f"at version {start}, had not read yet ({len(unread)} files): begin anew with a "
                "new checkpoint"
            )


def _paths(snapshot: Snapshot) -> set[str]:
    return {file.path for file in snapshot.files}


def tasks(files: Sequence[DataFile]) -> list[tuple[DataFile, ...]]:
    """The files of each task."""
    made: list[tuple[DataFile, ...]] = []
    held: list[DataFile] = []
    for file in files:
        held.append(file)
        if sum(each.size for each in held) >= TASK_BYTES:
            made.append(tuple(held))
            held = []
    if held:
        made.append(tuple(held))
    return made


def read_files(
    store: Store, files: Sequence[DataFile], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Columns that a file has not, because they came later, are null."""
    for file in files:
        with pq.ParquetFile(store.full(file.path), filesystem=store.files) as opened:
            there = set(opened.schema_arrow.names)
            names = [name for name in schema.names if name in there]
            for batch in opened.iter_batches(ROWS, columns=names):
                yield pa.RecordBatch.from_arrays(
                    [
                        batch.column(field.name).cast(field.type)
                        if field.name in there
                        else pa.nulls(batch.num_rows, field.type)
                        for field in schema
                    ],
                    schema=schema,
                )

"""Streams over a table that is compacted now and then get each row once; without Spark."""

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from pyspark.sql.types import LongType, StringType, StructField, StructType

from ottla.client.system_time import SystemTime
from ottla.spark.tables.commits import Change
from ottla.spark.tables.data_files import WrittenFile
from ottla.spark.tables.datasource import TableStreamReader
from ottla.spark.tables.errors import TableChanged
from ottla.spark.tables.parquet_log import COMPACT, ParquetLog
from ottla.spark.tables.spec import TableSpec
from ottla.spark.tables.store import Store
from ottla.spark.tables.table_stream import START, TableStream

SCHEMA = StructType([StructField("id", LongType())])
WIDER = StructType([*SCHEMA.fields, StructField("note", StringType())])


class Followed:
    """A table whose files stand for rows, and what can be done to it."""

    def __init__(self, directory: str) -> None:
        self.spec = TableSpec("t", "parquet", directory)
        self.log = ParquetLog(self.spec, Store(directory, {}), SystemTime())
        self.log.prepare(SCHEMA)
        self.rows = 0

    def commit(self, operation: str, *names: str) -> None:
        base = self.log.newest()
        assert base is not None
        removed = base.files if operation == COMPACT else ()
        added = [WrittenFile(f"data/{name}", 1, 2, (), b"") for name in names]
        self.log.commit(base, Change(operation, added, removed, {}))

    def append(self) -> None:
        self.commit("append", f"{self.rows}")
        self.rows += 1

    def compact(self) -> None:
        """All rows so far, in one file."""
        self.commit(COMPACT, f"to {self.rows}")

    def read(self, start: int, end: int) -> list[int]:
        """By a stream that has just been started."""
        found: list[int] = []
        for file in TableStream(self.spec, SystemTime()).files(start, end):
            name = file.path.removeprefix("data/")
            upto = name.removeprefix("to ")
            found += range(int(upto)) if upto != name else [int(name)]
        return found


class Streams(RuleBasedStateMachine):
    """Compaction waits until all have read all; streams begin, read, and repeat what they read."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.mkdtemp()
        self.table = Followed(self.directory)
        self.at: list[int] = []
        self.planned: list[int | None] = []
        self.got: list[list[int]] = []

    def teardown(self) -> None:
        shutil.rmtree(self.directory)

    @rule()
    def begin(self) -> None:
        if len(self.at) < 3:
            self.at.append(START)
            self.planned.append(None)
            self.got.append([])

    @rule(count=st.integers(1, 4))
    def append(self, count: int) -> None:
        for _ in range(count):
            self.table.append()

    @rule()
    def evolve(self) -> None:
        self.table.log.prepare(WIDER)

    @rule(who=st.integers(0, 2))
    def plan(self, who: int) -> None:
        """What is planned is kept in a checkpoint, and read by the next after a crash."""
        if who < len(self.at) and self.planned[who] is None:
            self.planned[who] = self.table.log.version()

    @rule(who=st.integers(0, 2), crashes=st.booleans())
    def read(self, who: int, crashes: bool) -> None:
        end = self.planned[who] if who < len(self.at) else None
        if end is None:
            return
        rows = self.table.read(self.at[who], end)
        if not crashes:
            self.got[who] += rows
            self.at[who], self.planned[who] = end, None

    @precondition(lambda self: all(at == self.table.log.version() for at in self.at))
    @rule()
    def compact(self) -> None:
        self.table.compact()

    @rule()
    def all_read(self) -> None:
        for who in range(len(self.at)):
            self.plan(who)
            self.read(who, crashes=False)
            self.plan(who)
            self.read(who, crashes=False)
            assert sorted(self.got[who]) == list(range(self.table.rows))


TestStreams = Streams.TestCase
TestStreams.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def test_a_stream_that_had_not_read_all_is_told_so(tmp_path: Path) -> None:
    table = Followed(str(tmp_path))
    table.append()
    table.append()
    table.compact()
    assert table.read(2, 3) == []
    assert table.read(START, 3) == [0, 1]
    with pytest.raises(TableChanged, match=r"version 3 has put together .* at version 1, had not"):
        table.read(1, 3)
    table.append()
    assert table.read(2, 4) == table.read(3, 4) == [2]


@pytest.mark.parametrize("start", [{"version": 0, "table": "other"}, {"topic": {"0": 7}}])
def test_a_checkpoint_of_another_source_is_refused(
    tmp_path: Path, start: dict[str, object]
) -> None:
    table = Followed(str(tmp_path))
    table.append()
    reader = TableStreamReader(table.spec, SCHEMA)
    assert len(reader.partitions({"version": 0}, reader.latestOffset())) == 1
    assert len(reader.partitions(reader.initialOffset(), reader.latestOffset())) == 1
    with pytest.raises(TableChanged, match="table t: the checkpoint of this query is of another"):
        reader.partitions(start, reader.latestOffset())

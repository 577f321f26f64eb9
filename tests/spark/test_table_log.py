"""The log of Parquet tables against a model, without Spark: any order of writers and of vacuum."""

import json
import shutil
import tempfile
from pathlib import Path
from unittest.mock import ANY

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from pyspark.sql.types import LongType, StringType, StructField, StructType

from ottla.client.system_time import SystemTime
from ottla.spark.tables.commits import Change, Snapshot
from ottla.spark.tables.data_files import WrittenFile
from ottla.spark.tables.errors import BadTable, CommitConflict, VersionGone
from ottla.spark.tables.parquet_log import KEPT_MS, ParquetLog
from ottla.spark.tables.spec import TableSpec
from ottla.spark.tables.store import Store

SCHEMA = StructType([StructField("id", LongType())])
WIDER = StructType([*SCHEMA.fields, StructField("note", StringType())])
WRITERS = st.integers(0, 1)


class LaterTime(SystemTime):
    """Of a machine on which two days have passed."""

    def wall_ms(self) -> int:
        return super().wall_ms() + 2 * KEPT_MS


class Logs(RuleBasedStateMachine):
    """Two writers, each with what it saw last; the model has the files of every version."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.mkdtemp()
        self.spec = TableSpec("t", "parquet", self.directory)
        self.store = Store(self.directory, {})
        self.logs = [ParquetLog(self.spec, self.store, SystemTime()) for _ in range(2)]
        self.seen: list[Snapshot] = []
        self.versions: list[set[str]] = [set()]
        self.oldest = 0
        self.batches: dict[str, int] = {}
        self.number = 0

    def teardown(self) -> None:
        shutil.rmtree(self.directory)

    @initialize()
    def begin(self) -> None:
        self.seen = [log.prepare(SCHEMA) for log in self.logs]

    @rule(who=WRITERS, removes=st.booleans())
    def commit(self, who: int, removes: bool) -> None:
        base = self.seen[who]
        self.number += 1
        path = f"data/{self.number}.parquet"
        self.store.make_directory("data")
        Path(self.store.full(path)).write_bytes(b"")
        added = [WrittenFile(path, 1, 2, (), b"")]
        change = Change("any", added, base.files if removes else (), {f"w{who}": self.number})
        if base.version != len(self.versions) - 1:
            with pytest.raises(CommitConflict):
                self.logs[who].commit(base, change)
            return
        self.logs[who].commit(base, change)
        self.batches[f"w{who}"] = self.number
        self.versions.append({path} | (set() if removes else self.versions[-1]))

    @rule(who=WRITERS)
    def look(self, who: int) -> None:
        found = self.logs[who].newest()
        assert found is not None
        assert found.version == self.logs[1 - who].version() == len(self.versions) - 1
        assert {file.path for file in found.files} == self.versions[-1]
        assert [found.last_batch(name) for name in ("w0", "w1")] == [
            self.batches.get(name) for name in ("w0", "w1")
        ]
        self.seen[who] = found

    @rule(who=WRITERS, back=st.integers(0, 30))
    def look_back(self, who: int, back: int) -> None:
        version = max(len(self.versions) - 1 - back, 0)
        if version < self.oldest:
            with pytest.raises(VersionGone, match=f"version {version} of table t is not there"):
                self.logs[who].at(version)
            return
        found = self.logs[who].at(version)
        assert {file.path for file in found.files} == self.versions[version]

    @precondition(lambda self: len(self.versions) > 3)
    @rule(who=WRITERS, later=st.booleans())
    def vacuum(self, who: int, later: bool) -> None:
        """Of what is a week old nothing, or of what was before now all but the newest."""
        log = self.logs[who]
        if not later:
            assert log.vacuum(SystemTime().wall_ms() - KEPT_MS) == []
            return
        before_ms = LaterTime().wall_ms() - KEPT_MS // 2
        ParquetLog(self.spec, self.store, LaterTime()).vacuum(before_ms)
        self.oldest = len(self.versions) - 1
        there = {f"data/{path.name}" for path in Path(self.store.full("data")).iterdir()}
        assert there == self.versions[-1]
        for each in range(2):
            self.logs[each] = ParquetLog(self.spec, self.store, SystemTime())
            self.look(each)

    @rule(who=WRITERS, commits=st.integers(0, 12), looks=st.booleans())
    def drop(self, who: int, commits: int, looks: bool) -> None:
        """And make it anew, with as many versions as the other one may have seen."""
        if looks:
            self.look(1 - who)
        self.logs[who].drop()
        self.versions, self.oldest, self.batches = [set()], 0, {}
        self.seen[who] = self.logs[who].prepare(SCHEMA)
        for _ in range(commits):
            self.commit(who, removes=False)
            self.look(who)
        self.look(1 - who)


TestLogs = Logs.TestCase
TestLogs.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)


def test_columns_are_added_once_by_whoever_comes_first(tmp_path: Path) -> None:
    spec = TableSpec("t", "parquet", str(tmp_path))
    one, other = (ParquetLog(spec, Store(str(tmp_path), {}), SystemTime()) for _ in range(2))
    one.prepare(SCHEMA)
    assert other.prepare(WIDER).schema == WIDER
    assert one.prepare(WIDER).version == 1
    assert one.at(0).schema == SCHEMA


def test_a_log_of_another_time_is_refused(tmp_path: Path) -> None:
    spec = TableSpec("t", "parquet", str(tmp_path))
    log = ParquetLog(spec, Store(str(tmp_path), {}), SystemTime())
    log.prepare(SCHEMA)
    path = tmp_path / "_log" / f"{0:020d}.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "formatVersion": 2}))
    with pytest.raises(BadTable, match="has format version 2, and this program knows 1 only"):
        ParquetLog(spec, Store(str(tmp_path), {}), SystemTime()).newest()


def test_who_asks_for_the_newest_version_does_not_look_through_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = TableSpec("t", "parquet", str(tmp_path))
    one, other = (ParquetLog(spec, Store(str(tmp_path), {}), SystemTime()) for _ in range(2))
    base = one.prepare(SCHEMA)
    assert (other.version(), other.newest()) == (0, base._replace(last_batch=ANY))
    with monkeypatch.context() as without_lists:
        without_lists.delattr(Store, "list")
        for batch in range(3):
            one.commit(base, Change("any", [], (), {"w": batch}))
            newest = other.newest()
            assert newest is not None
            assert (newest.version, newest.last_batch("w"), other.version()) == (
                batch + 1,
                batch,
                batch + 1,
            )
            base = newest
    one.drop()
    assert (other.version(), other.newest()) == (-1, None)
    one.prepare(WIDER)
    again = other.newest()
    assert again is not None
    assert (again.version, again.schema) == (0, WIDER)

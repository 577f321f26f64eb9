"""A view that is followed: each change is told once, wherever its computation breaks off."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from tests.spark.pipeline_files import read_rows
from tests.spark.test_pipeline_runs import AtOnce, Hands

from ottla.client.system_time import SystemTime
from ottla.spark.pipelines.cleaning import Cleaning
from ottla.spark.pipelines.evaluation import Evaluation
from ottla.spark.pipelines.followers import NOTHING, Followers, read_up_to
from ottla.spark.pipelines.graph import Graph, Input
from ottla.spark.pipelines.hadoop_files import Directories
from ottla.spark.pipelines.model import Dataset, Flow, Kind, Pipeline, Place
from ottla.spark.pipelines.stored import StoredTables
from ottla.spark.pipelines.views import Views
from ottla.spark.tables.errors import SchemaMismatch
from ottla.spark.tables.table_stream import START, TableStream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HERE = Place("f.py")
Rows = list[tuple[str, int]]


class Followed:
    """A view whose rows the test decides, and a flow that follows it."""

    def __init__(self, spark: "SparkSession", directory: Path) -> None:
        self.rows: Rows = []
        self.columns = ["word", "count"]
        self.spark = spark
        self.view = Dataset("v", Kind.VIEW, HERE)
        self.flow = Flow("v", "v", self._query, HERE)
        follower = Flow("f", "s", "SELECT 1", HERE)
        self.pipeline = Pipeline("p", directory, str(directory), ())
        self.tables = StoredTables(self.pipeline)
        self.graph = Graph(
            {"v": self.view, "s": Dataset("s", Kind.SINK, HERE)},
            {"v": self.flow, "f": follower},
            {"f": {Input("v", streaming=True): None}},
        )
        self.followers = Followers(self.pipeline, self.graph, Directories(spark))
        self.tables.open(self.view).create(self._query().schema)
        self.tables.follow(self.view, spark)

    def _query(self) -> "DataFrame":
        frame = self.spark.createDataFrame(self.rows, "word string, count int")
        return frame.selectExpr(*self.columns)

    def views(self, at_step: Callable[[str], None] = lambda _: None) -> Views:
        """Of a new run."""
        evaluation = Evaluation(self.pipeline, self.graph, self.tables, self.spark)
        parts = (self.pipeline, self.graph, self.tables, evaluation, self.spark)
        return Views(*parts, self.followers, at_step=at_step)

    def compute(self, rows: Rows) -> None:
        self.rows = rows
        assert self.views().refresh(self.flow) == len(rows)

    def has_read(self, version: int, batch: int = 0) -> None:
        """What Spark writes when a micro-batch of the follower is done."""
        checkpoint = Path(self.pipeline.path("checkpoints", "f"))
        offset = json.dumps({"version": version, "table": "v__changes"})
        for name, text in {"offsets": f"v1\n{{}}\n{offset}", "commits": "v1\n{}"}.items():
            (checkpoint / name).mkdir(parents=True, exist_ok=True)
            (checkpoint / name / str(batch)).write_text(text)

    def version(self) -> int:
        return self.tables.changes(self.view).log.version()

    def follow(self, start: int) -> Rows:
        """What a stream gets that stands at a version."""
        spec = self.tables.changes(self.view).spec
        files = TableStream(spec, SystemTime()).files(start, self.version())
        paths = [f"{spec.location}/{file.path}" for file in files]
        rows = [row for path in paths for row in pq.read_table(path).to_pylist()]
        return sorted((row["word"], row["count"]) for row in rows)

    def stored(self, name: str) -> Rows:
        return sorted(
            (str(row["word"]), int(str(row["count"]))) for row in read_rows(self.pipeline, name)
        )


class Crash(RuntimeError):
    pass


def test_changes_are_rows_that_are_new_or_different(spark: "SparkSession", tmp_path: Path) -> None:
    followed = Followed(spark, tmp_path)
    followed.compute([("a", 1), ("b", 1)])
    followed.compute([("a", 2), ("b", 1), ("c", 1)])
    followed.compute([("a", 2), ("b", 1)])
    assert followed.stored("v") == [("a", 2), ("b", 1)]
    assert followed.stored("v__changes") == [("a", 1), ("a", 2), ("b", 1), ("c", 1)]
    assert not any((tmp_path / "staging" / "v").iterdir())


@pytest.mark.parametrize("step", ["computed", "staged", "changes told", "replaced"])
def test_a_computation_that_breaks_off_is_finished_or_forgotten(
    spark: "SparkSession", tmp_path: Path, step: str
) -> None:
    followed = Followed(spark, tmp_path)
    followed.compute([("a", 1), ("b", 1)])

    def crash(done: str) -> None:
        if done == step:
            raise Crash

    followed.rows = [("a", 2), ("b", 1)]
    with pytest.raises(Crash):
        followed.views(crash).refresh(followed.flow)
    followed.compute([("a", 3), ("b", 1)])
    assert followed.stored("v") == [("a", 3), ("b", 1)]
    told = [("a", 1), ("a", 2), ("a", 3), ("b", 1)]
    if step == "computed":
        told.remove(("a", 2))  # nobody has seen it
    assert followed.stored("v__changes") == told


def test_changes_that_all_have_read_give_way_to_the_content(
    spark: "SparkSession", tmp_path: Path
) -> None:
    followed = Followed(spark, tmp_path)
    followed.compute([("a", 1), ("b", 1)])
    read = followed.version()
    followed.compute([("a", 2), ("c", 1)])
    assert not followed.views().forget_read(followed.view), "nobody has read anything"
    followed.has_read(read)
    assert not followed.views().forget_read(followed.view), "the last change was not read"
    read = followed.version()
    followed.has_read(read, batch=1)
    assert followed.views().forget_read(followed.view)
    assert followed.follow(read) == []
    assert followed.follow(START) == [("a", 2), ("c", 1)]
    compacted = followed.version()
    assert followed.views().forget_read(followed.view) is False, "the follower is behind that"
    followed.compute([("a", 2), ("c", 2)])
    assert followed.follow(read) == followed.follow(compacted) == [("c", 2)]
    assert followed.follow(START) == [("a", 2), ("c", 1), ("c", 2)]
    followed.has_read(followed.version(), batch=2)
    assert followed.views().forget_read(followed.view)
    assert followed.follow(START) == [("a", 2), ("c", 2)]


def test_cleaning_comes_after_a_while_and_does_not_pile_up(
    spark: "SparkSession", tmp_path: Path
) -> None:
    followed = Followed(spark, tmp_path)
    followed.compute([("a", 1)])
    followed.compute([("a", 2)])
    followed.has_read(followed.version())
    clock, pool = Hands(), AtOnce()
    parts = (followed.pipeline, followed.graph, followed.tables, followed.views())
    cleaning = Cleaning(*parts, followed.followers, clock, lambda: False)
    cleaning.begin_if_due(pool)
    assert not pool.waiting
    for _ in range(3):
        clock.now += followed.pipeline.keep_seconds
        cleaning.begin_if_due(pool)
        assert len(pool.waiting) == 1
    pool.work()
    assert followed.stored("v__changes") == [("a", 2)]
    cleaning.begin_if_due(pool)
    assert len(pool.waiting) == 1, "the time came again meanwhile"
    followed.has_read(followed.version(), batch=1)  # or it would be waited for
    pool.work()
    cleaning.begin_if_due(pool)
    assert not pool.waiting


@pytest.mark.parametrize(
    ("lines", "version"),
    [
        (['{"version": 3, "table": "t"}'], 3),
        (['{"version": 3, "table": "t"}', '{"version": 2, "table": "t"}'], 2),
        (['{"version": 3, "table": "t"}', "-"], NOTHING),
        (['{"version": 3, "table": "u"}', '{"topic": {"0": 7}}'], NOTHING),
        (['{"version": 3}', "7", "no JSON"], NOTHING),
    ],
)
def test_what_a_checkpoint_does_not_tell_was_not_read(lines: list[str], version: int) -> None:
    assert read_up_to("\n".join(["v1", '{"batchWatermarkMs":0}', *lines]), "t") == version


def test_what_was_there_before_anybody_followed_is_told_also_after_a_crash(
    spark: "SparkSession", tmp_path: Path
) -> None:
    followed = Followed(spark, tmp_path)
    followed.tables.changes(followed.view).drop()
    table = followed.tables.open(followed.view)
    table.replace(spark.createDataFrame([("a", 1)], "word string, count int"), writer="w", batch=0)
    followed.tables.changes(followed.view).create(table.schema())  # and then it crashed
    for _ in range(2):
        followed.tables.follow(followed.view, spark)
        assert followed.stored("v__changes") == [("a", 1)]


def test_who_comes_back_gets_what_changed_while_nobody_followed(
    spark: "SparkSession", tmp_path: Path
) -> None:
    followed = Followed(spark, tmp_path)
    followed.compute([("a", 1)])
    follower = followed.graph.inputs.pop("f")
    followed.compute([("a", 2)])
    followed.graph.inputs["f"] = follower
    followed.compute([("a", 2), ("b", 1)])
    assert followed.stored("v__changes") == [("a", 1), ("a", 2), ("b", 1)]


def test_columns_may_come_and_change_places_and_what_does_not_fit_can_be_mended(
    spark: "SparkSession", tmp_path: Path
) -> None:
    followed = Followed(spark, tmp_path)
    followed.compute([("a", 1), ("b", 1)])
    followed.columns = ["count", "word"]
    followed.compute([("a", 1), ("b", 2)])
    assert followed.stored("v__changes") == [("a", 1), ("b", 1), ("b", 2)]
    followed.columns = ["count"]
    with pytest.raises(SchemaMismatch, match="the rows have no column word; select it"):
        followed.compute([("a", 1)])
    followed.columns = ["word", "count", "if(word = 'a', 'new', null) as more"]
    followed.compute([("a", 1), ("b", 2)])
    assert followed.stored("v__changes") == [("a", 1), ("a", 1), ("b", 1), ("b", 2)]

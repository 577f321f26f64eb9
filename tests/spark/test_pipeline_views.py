"""A view that is followed: each change is told once, wherever its computation breaks off."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.spark.pipeline_files import read_rows

from ottla.spark.pipelines.evaluation import Evaluation
from ottla.spark.pipelines.graph import Graph, Input
from ottla.spark.pipelines.model import Dataset, Flow, Kind, Pipeline, Place
from ottla.spark.pipelines.stored import StoredTables
from ottla.spark.pipelines.views import Views

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HERE = Place("f.py")
Rows = list[tuple[str, int]]


class Followed:
    """A view whose rows the test decides, and a flow that follows it."""

    def __init__(self, spark: "SparkSession", directory: Path) -> None:
        self.rows: Rows = []
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
        self.tables.open(self.view).create(self._query().schema)
        self.tables.follow(self.view, spark)

    def _query(self) -> "DataFrame":
        return self.spark.createDataFrame(self.rows, "word string, count int")

    def views(self, at_step: Callable[[str], None] = lambda _: None) -> Views:
        """Of a new run."""
        evaluation = Evaluation(self.pipeline, self.graph, self.tables, self.spark)
        parts = (self.pipeline, self.graph, self.tables, evaluation, self.spark)
        return Views(*parts, at_step=at_step)

    def compute(self, rows: Rows) -> None:
        self.rows = rows
        assert self.views().refresh(self.flow) == len(rows)

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

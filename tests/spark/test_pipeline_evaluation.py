"""What flows see by a name, and what they leave in the session."""

from pathlib import Path
from typing import TYPE_CHECKING

from ottla.spark.pipelines.evaluation import Evaluation
from ottla.spark.pipelines.graph import Graph, Input
from ottla.spark.pipelines.model import Dataset, Flow, Kind, Pipeline, Place
from ottla.spark.pipelines.stored import StoredTables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Place("f.sql")


def test_names_of_the_pipeline_go_before_others_and_do_not_stay(
    spark: "SparkSession", tmp_path: Path
) -> None:
    pipeline = Pipeline("p", tmp_path, str(tmp_path), ())
    tables = StoredTables(pipeline)
    copy = Flow("copy", "copy", "SELECT id FROM numbers", HERE)
    graph = Graph(
        {name: Dataset(name, Kind.VIEW, HERE) for name in ("numbers", "copy")},
        {"copy": copy, "numbers": Flow("numbers", "numbers", "SELECT 1L AS id", HERE)},
    )
    tables.open(graph.datasets["numbers"]).replace(spark.range(7, 9), writer="w", batch=0)
    spark.range(5).createOrReplaceTempView("numbers")
    with Evaluation(pipeline, graph, tables, spark).frame_of(copy) as frame:
        assert sorted(row["id"] for row in frame.collect()) == [7, 8]
    assert not spark.catalog.tableExists("numbers")
    assert sorted(row["id"] for row in frame.collect()) == [7, 8]
    assert graph.inputs["copy"] == {Input("numbers", streaming=False): None}
    tables.open(graph.datasets["numbers"]).replace(spark.range(1), writer="w", batch=1)
    with Evaluation(pipeline, graph, tables, spark).frame_of(copy) as frame:
        assert [row["id"] for row in frame.collect()] == [0]


def test_what_a_flow_reads_is_told_also_when_another_has_read_it_first(
    spark: "SparkSession", tmp_path: Path
) -> None:
    """The table of another flow is not there yet: that flow is evaluated within this one."""
    pipeline = Pipeline("p", tmp_path, str(tmp_path), ())
    tables = StoredTables(pipeline)
    queries = {
        "first": "SELECT second.id FROM second JOIN third ON second.id = third.id",
        "second": "SELECT id FROM third",
        "third": "SELECT 1L AS id",
    }
    graph = Graph(
        {name: Dataset(name, Kind.VIEW, HERE) for name in queries},
        {name: Flow(name, name, query, HERE) for name, query in queries.items()},
    )
    evaluation = Evaluation(pipeline, graph, tables, spark)
    with evaluation.frame_of(graph.flows["first"]) as frame:
        assert frame.collect() == []
    assert {each.dataset for each in graph.inputs["first"]} == {"second", "third"}
    assert {each.dataset for each in graph.inputs["second"]} == {"third"}
    assert not spark.catalog.tableExists("third")

"""What flows can be made of, in a real session: latest state, joins with tables, mistakes."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.spark.committed import committed_values
from tests.spark.pipeline_files import read_rows
from tests.spark.topics import Row, Topics

from ottla.spark.pipelines import state as states
from ottla.spark.pipelines.model import PipelineError
from ottla.spark.pipelines.project import load
from ottla.spark.pipelines.runner import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHOP = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession, functions as f

spark = SparkSession.active()
SCHEMA = "id int, name string, at int, gone boolean"


@dp.temporary_view
def customer_changes():
    return (
        spark.readStream.table("customers_topic")
        .select(f.from_json(f.col("value").cast("string"), SCHEMA).alias("v")).select("v.*")
    )


dp.create_streaming_table("customers", partition_cols=["id"])
dp.create_auto_cdc_flow(
    target="customers", source="customer_changes", keys=["id"], sequence_by="at",
    apply_as_deletes="gone", stored_as_scd_type=1,
)


@dp.table(schema="customer int, amount double", spark_conf={"spark.sql.ansi.enabled": "false"})
def orders():
    return spark.sql(
        "SELECT CAST(key AS STRING)::int AS customer, CAST(value AS STRING)::double AS amount "
        "FROM STREAM(orders_topic)"
    )


@dp.append_flow(target="named")
def name_orders():
    return spark.readStream.table("orders").join(
        spark.read.table("customers"), f.col("customer") == f.col("id")
    ).select(f.concat_ws(":", "name", "amount").alias("value"))


@dp.append_flow(target="orders")
def late_orders():
    return spark.readStream.table("late_topic").select(
        f.lit(0).alias("customer"), f.col("value").cast("string").cast("double").alias("amount")
    )
"""


def make(directory: Path, topics: Topics, text: str, settings: str = "") -> Path:
    (directory / "transformations").mkdir(parents=True)
    (directory / "transformations" / "all.py").write_text(text)
    (directory / "pipeline.toml").write_text(
        f'name = "shop"\nbootstrap_servers = "{topics.address}"\n{settings}'
    )
    return directory


def record(text: str, key: str | None = None) -> Row:
    return Row(0, None if key is None else key.encode(), text.encode())


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_orders_are_joined_with_the_latest_state_of_customers(
    topics: Topics, spark: "SparkSession", tmp_path: Path
) -> None:
    names = {each: topics.make() for each in ("customers", "orders", "late", "named")}
    settings = "".join(
        f'[sources.{name}_topic]\nsubscribe = "{names[name]}"\nstartingOffsets = "earliest"\n'
        for name in ("customers", "orders", "late")
    )
    settings += f'[sinks.named]\ntopic = "{names["named"]}"\n'
    directory = make(tmp_path / "p", topics, SHOP, settings)
    changes = [
        '{"id": 1, "name": "Ann", "at": 5}',
        '{"id": 1, "name": "older", "at": 4}',
        '{"id": 2, "name": "Bo", "at": 1}',
        '{"id": 3, "name": "Cy", "at": 1}',
        '{"id": 3, "name": "Cy", "at": 2, "gone": true}',
    ]
    topics.fill(names["customers"], [record(each) for each in changes])
    topics.fill(names["orders"], [record("1.5", "1"), record("2.5", "2"), record("9", "3")])
    topics.fill(names["late"], [record("7.0")])
    done = run(load(directory), spark=spark, once=True)
    assert done.status == states.FINISHED, done
    assert list(done.flows) == [
        "customers",
        "orders",
        "late_orders",
        "name_orders__rows",
        "name_orders",
    ]
    customers = sorted((row["id"], row["name"]) for row in read_rows(load(directory), "customers"))
    assert customers == [(1, "Ann"), (2, "Bo")]
    assert committed_values(topics.address, names["named"]) == [b"Ann:1.5", b"Bo:2.5"]
    topics.fill(names["customers"], [record('{"id": 2, "name": "Bob", "at": 2}')])
    topics.fill(names["orders"], [record("3.5", "2")])
    again = run(load(directory), spark=spark, once=True)
    assert again.status == states.FINISHED, again
    assert committed_values(topics.address, names["named"]) == [b"Ann:1.5", b"Bo:2.5", b"Bob:3.5"]
    assert len(read_rows(load(directory), "orders")) == 5


GOOD = """
from pyspark import pipelines as dp
@dp.table
def good():
    return spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
"""
TABLE = "@dp.table({})\ndef t():\n    return spark.readStream.table('good')"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1", "define no flow"),
        ("x = 1 +", r"all\.py:1: SyntaxError"),
        (f"{GOOD}\nraise ValueError('no')", r"all\.py:7: ValueError: no"),
        (
            GOOD + "@dp.materialized_view\ndef v():\n    return spark.table('godo')",
            r"all\.py:6: flow v reads godo, which is not defined; did you mean good\?",
        ),
        (
            GOOD + "@dp.materialized_view\ndef v():\n    return spark.sql('SELECT 1 FROM godo')",
            "flow v reads godo, which is not defined",
        ),
        (
            GOOD + "@dp.materialized_view\ndef v():\n    return spark.sql('SELECT no FROM good')",
            "flow v: .*UNRESOLVED_COLUMN",
        ),
        (
            GOOD + "@dp.materialized_view\ndef v():\n    return spark.readStream.table('good')",
            "materialized view v reads a stream",
        ),
        (
            GOOD + "@dp.table\ndef t():\n    return spark.table('good')",
            "flow t to streaming table t must read a stream",
        ),
        (GOOD + "@dp.table\ndef t():\n    return {}['x']", r"all\.py:6: flow t: KeyError"),
        (GOOD + "@dp.table\ndef t():\n    return 7", "flow t must return a DataFrame, not int"),
        (
            GOOD
            + "@dp.table\ndef t():\n    return spark.readStream.table('u')\n"
            + "@dp.table\ndef u():\n    return spark.readStream.table('t')",
            "t -> u -> t is a circle",
        ),
        (GOOD + TABLE.format("format='orc'"), r"all\.py:6: t: table t: format is 'orc', expected"),
        (
            GOOD + TABLE.format("table_properties={'codecs': 'none'}"),
            "option codecs is unknown; did you mean codec",
        ),
        (GOOD + TABLE.format("schema='id bigint, name'"), r"all\.py:6: t: \[PARSE_SYNTAX_ERROR\]"),
        (GOOD + "dp.create_streaming_table('empty')", "nothing writes to streaming table empty"),
    ],
)
def test_a_mistake_is_told_before_anything_is_written(
    topics: Topics, spark: "SparkSession", tmp_path: Path, text: str, said: str
) -> None:
    pipeline = load(make(tmp_path / "p", topics, text))
    with pytest.raises(PipelineError, match=said):
        run(pipeline, spark=spark, once=True)
    state = states.read(pipeline.state_directory)
    assert state is not None
    assert state.status == states.FAILED
    assert not list(tmp_path.rglob("checkpoints"))


FAILING = """
from pyspark import pipelines as dp
from pyspark.sql import functions as f

def rows():
    return spark.readStream.table("records").select(f.col("value").cast("string").alias("text"))

@dp.table
def good():
    return rows()

@dp.table
def bad():
    return rows().select(f.expr("raise_error('it will not do')").cast("string").alias("x"))

@dp.materialized_view
def bad_view():
    return spark.table("good").select(f.expr("text::int"))
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_flow_that_fails_is_told_and_others_go_on(
    topics: Topics, spark: "SparkSession", tmp_path: Path
) -> None:
    source = topics.make()
    topics.fill(source, [record("no number")])
    settings = f'[sources.records]\nsubscribe = "{source}"\nstartingOffsets = "earliest"\n'
    done = run(load(make(tmp_path / "p", topics, FAILING, settings)), spark=spark, once=True)
    assert done.status == states.FAILED
    assert done.flows["good"].status == states.FINISHED
    assert done.flows["good"].rows == 1
    assert done.flows["bad"].status == states.FAILED
    assert "it will not do" in (done.flows["bad"].error or "")
    assert done.flows["bad"].restarts == 2
    assert done.flows["bad_view"].status == states.FAILED
    assert "no number" in (done.flows["bad_view"].error or "")

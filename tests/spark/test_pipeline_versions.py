"""Tables change while others read them: they are read anew, and their old versions go."""

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.spark.committed import committed_values, visible_values
from tests.spark.pipeline_files import WordCount
from tests.spark.test_pipeline_kinds import make, record
from tests.spark.test_pipeline_run import Background, has_come
from tests.spark.topics import Topics
from tests.waiting import eventually

from ottla.spark.pipelines import state as states
from ottla.spark.pipelines.project import load
from ottla.spark.pipelines.runner import REFRESHING, run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

JOINED = """
from pyspark import pipelines as dp
from pyspark.sql import functions as f

@dp.temporary_view
def customer_changes():
    value = f.from_json(f.col("value").cast("string"), "id string, name string, at int")
    return spark.readStream.table("customers_topic").select(value.alias("v")).select("v.*")

dp.create_streaming_table("customers")
dp.create_auto_cdc_flow(
    target="customers", source="customer_changes", keys=["id"], sequence_by="at",
    stored_as_scd_type=1,
)

@dp.append_flow(target="named")
def name_orders():
    orders = spark.readStream.table("orders_topic").select(
        f.col("key").cast("string").alias("id"), f.col("value").cast("string").alias("number")
    )
    return orders.join(spark.read.table("customers"), "id").select(
        f.concat_ws(":", "name", "number").alias("value")
    )
"""


class Orders:
    """A pipeline that names orders by their customer, whose name changes."""

    def __init__(self, topics: Topics, directory: Path) -> None:
        self.topics = topics
        self.names = {each: topics.make() for each in ("customers", "orders", "named")}
        settings = 'trigger = "100 ms"\nstatic_refresh = "1 second"\n'
        for each in ("customers", "orders"):
            settings += f'[sources.{each}_topic]\nsubscribe = "{self.names[each]}"\n'
            settings += 'startingOffsets = "earliest"\n'
        settings += f'[sinks.named]\ntopic = "{self.names["named"]}"\n'
        self.pipeline = load(make(directory, topics, JOINED, settings))
        self.count = 0
        self.changes = 0

    def rename(self, name: str) -> None:
        self.changes += 1
        change = {"id": "1", "name": name, "at": self.changes}
        self.topics.fill(self.names["customers"], [record(json.dumps(change))])

    def order(self) -> None:
        self.topics.fill(self.names["orders"], [record(f"{self.count}", "1")])
        self.count += 1

    def has_order_of(self, name: str) -> bool:
        """Whether one of the orders has that name; one more is made."""
        self.order()
        seen = visible_values(self.topics.address, self.names["named"])
        return any(each.startswith(name.encode()) for each in seen)

    def check(self) -> None:
        """Each order is there once."""
        named = committed_values(self.topics.address, self.names["named"])
        numbers = sorted(int(each.split(b":")[1]) for each in named)
        assert numbers == list(range(self.count))


def test_a_flow_sees_a_table_anew_that_it_reads_whole(
    topics: Topics, spark: "SparkSession", tmp_path: Path
) -> None:
    orders = Orders(topics, tmp_path / "p")
    orders.rename("Ann")
    with Background(orders.pipeline, spark) as background:
        eventually(lambda: orders.has_order_of("Ann"), seconds=200)
        orders.rename("Bea")
        eventually(lambda: orders.has_order_of("Bea"), seconds=200)
        orders.rename("Cleo")
    assert background.state is not None
    assert background.state.status == states.STOPPED
    assert {flow.error for flow in background.state.flows.values()} == {None}
    again = run(orders.pipeline, spark=spark, once=True)
    assert again.status == states.FINISHED, again
    orders.check()
    orders.order()
    run(orders.pipeline, spark=spark, once=True)
    orders.check()
    named = committed_values(topics.address, orders.names["named"])
    assert f"Cleo:{orders.count - 1}".encode() in named


def test_old_versions_and_changes_that_were_read_go_while_a_pipeline_runs(
    topics: Topics, spark: "SparkSession", tmp_path: Path
) -> None:
    words = WordCount(topics, tmp_path / "p", in_sql=True, per_batch=100, keep="2 seconds")
    tables = words.directory / "storage" / "tables"

    def files(table: str) -> int:
        return len(list((tables / table / "data").iterdir()))

    seen = 0
    with Background(words.pipeline, spark) as background:
        for word in ("a", "b", "a", "c"):
            words.write([word, "x"])
            eventually(lambda: has_come(words), seconds=200)
            seen = max(seen, files("counts") + files("counts__changes"))
        eventually(lambda: files("counts") <= 2 and files("counts__changes") <= 2, seconds=60)
        words.write(["d"])
        eventually(lambda: has_come(words), seconds=200)
    assert seen > 4, "nothing there that could have gone"
    assert background.state is not None
    assert {flow.error for flow in background.state.flows.values()} == {None}
    words.write(["a", "e"])
    for _ in range(2):
        again = run(words.pipeline, spark=spark, once=True)
        assert again.status == states.FINISHED, again
        words.check()


def test_a_refresh_that_was_killed_is_done_by_the_next_run(
    topics: Topics, spark: "SparkSession", tmp_path: Path
) -> None:
    words = WordCount(topics, tmp_path / "p", in_sql=True, per_batch=100)
    words.write(["a", "b", "a"])
    assert run(words.pipeline, spark=spark, once=True).status == states.FINISHED
    storage = words.directory / "storage"
    (storage / REFRESHING).touch()
    shutil.rmtree(storage / "tables")
    again = run(words.pipeline, spark=spark, once=True)
    assert again.status == states.FINISHED, again
    words.check_tables()
    assert words.copied() == words.written + words.written
    assert not (storage / REFRESHING).exists()


FAILED_VIEW = """
from pyspark import pipelines as dp
from pyspark.sql import functions as f

@f.udf("string")
def wrong(text):
    return text + 1

@dp.table
def rows():
    return spark.readStream.table("records").select(f.col("value").cast("string").alias("text"))

@dp.materialized_view
def broken():
    return spark.table("rows").select(wrong("text").alias("text"))

@dp.table
def joined():
    return spark.readStream.table("rows").join(spark.read.table("broken"), "text", "left")
"""


def test_who_reads_a_view_that_cannot_be_computed_goes_on_without_it(
    topics: Topics, spark: "SparkSession", tmp_path: Path
) -> None:
    source = topics.make()
    topics.fill(source, [record("a")])
    settings = f'[sources.records]\nsubscribe = "{source}"\nstartingOffsets = "earliest"\n'
    pipeline = load(make(tmp_path / "p", topics, FAILED_VIEW, settings))

    def has_gone_on() -> bool:
        state = states.read(pipeline.state_directory)
        return state is not None and "joined" in state.flows and state.flows["joined"].rows == 1

    with Background(pipeline, spark) as background:
        eventually(has_gone_on, seconds=200)
    assert background.state is not None
    broken = background.state.flows["broken"]
    assert broken.status == states.FAILED
    assert (broken.error or "").startswith("TypeError: can only concatenate str")

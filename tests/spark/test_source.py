"""``spark.read.format("ottla")`` in a real session, with nothing registered."""

import subprocess
import sys

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from tests.spark.topics import Row, Topics, numbered


def load(
    spark: SparkSession, topics: Topics, topic: str, schema: str = "", **more: str
) -> DataFrame:
    reader = spark.read.format("ottla").option("kafka.bootstrap.servers", topics.address)
    reader = reader.options(subscribe=topic, **more)
    return (reader.schema(schema) if schema else reader).load()


def test_a_topic_is_a_table_with_the_connectors_columns(
    spark: SparkSession, topics: Topics
) -> None:
    topic = topics.make(2)
    topics.fill(topic, [Row(1, b"k", b"v", 1_500, (("h", b"x"),)), *numbered(0, 300, 2)])
    frame = load(spark, topics, topic)
    assert frame.dtypes == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("timestampType", "int"),
    ]
    assert frame.count() == 301
    numbers = frame.where("key != 'k'").selectExpr("sum(cast(cast(value as string) as long))")
    assert numbers.collect()[0][0] == sum(range(300))
    headers = load(spark, topics, topic, includeHeaders="true").where("key = 'k'").first()
    assert headers is not None
    assert headers.asDict(recursive=True) == {
        "key": b"k",
        "value": b"v",
        "topic": topic,
        "partition": 1,
        "offset": 0,
        "timestamp": headers["timestamp"],
        "timestampType": 0,
        "headers": [{"key": "h", "value": b"x"}],
    }
    epoch = load(spark, topics, topic).where("key = 'k'").selectExpr("unix_millis(timestamp)")
    assert epoch.collect()[0][0] == 1_500


def test_only_the_columns_of_a_given_schema_are_read(spark: SparkSession, topics: Topics) -> None:
    topic = topics.make()
    topics.fill(topic, numbered(0, 5))
    found = load(spark, topics, topic, "offset long, value binary").collect()
    assert [tuple(row) for row in found] == [(i, b"%d" % i) for i in range(5)]
    with pytest.raises(PySparkException, match="column value is binary, not string"):
        load(spark, topics, topic, "value string").collect()
    with pytest.raises(PySparkException, match="there is no column body"):
        load(spark, topics, topic, "body binary").collect()


def test_an_empty_topic_is_an_empty_table(spark: SparkSession, topics: Topics) -> None:
    assert load(spark, topics, topics.make(3)).collect() == []


def test_a_query_that_stops_early_leaves_nothing_behind(
    spark: SparkSession, topics: Topics
) -> None:
    topic = topics.make()
    topics.fill(topic, numbered(0, 3000))
    small = {"kafka.max.partition.fetch.bytes": "3000"}
    assert len(load(spark, topics, topic, **small).limit(3).collect()) == 3
    assert load(spark, topics, topic, minPartitions="4", **small).count() == 3000


def test_mistakes_are_told_by_name(spark: SparkSession, topics: Topics) -> None:
    with pytest.raises(PySparkException, match="did you mean startingOffsets"):
        load(spark, topics, "t", startingOffset="earliest").collect()
    with pytest.raises(PySparkException, match="topic missing does not exist"):
        load(spark, topics, "missing").collect()


def test_without_what_it_needs_it_says_so_and_other_sources_are_found() -> None:
    """Spark imports the module whenever it looks for any source in Python."""
    program = (
        "import sys; sys.modules['numba'] = None; import pyspark_ottla as found\n"
        "assert found.DefaultSource.name() == 'ottla'\n"
        "try: found.DefaultSource({})\n"
        "except ImportError as error: print(error)"
    )
    told = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "pip install 'ottla[spark]'" in told.stdout

"""Beside spark-sql-kafka on the same data: equal rows, and one checkpoint for both.

The connector reads our broker too: it is the other way from Spark to our topics.
"""

import json
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.spark.topics import Row, Topics, numbered
from tools.kafka_peer.spark_connector import jars

from ottla.spark.source.offsets import from_json, topic_ids_of

pytestmark = [
    pytest.mark.peer,
    pytest.mark.skipif(not jars(), reason="spark-sql-kafka is not brought: make peer"),
]


def both(spark: SparkSession, topics: Topics, topic: str, **options: str) -> list[DataFrame]:
    given = {"kafka.bootstrap.servers": topics.address, "subscribe": topic, **options}
    return [spark.read.format(name).options(**given).load() for name in ("kafka", "ottla")]


@pytest.mark.parametrize(
    "options",
    [
        {"includeHeaders": "true"},
        {"minPartitions": "5"},
        {"startingTimestamp": "1700000000100", "endingTimestamp": "1700000000200"},
        {
            "startingOffsets": '{"TOPIC":{"0":3,"1":-2}}',
            "endingOffsets": '{"TOPIC":{"0":-1,"1":9}}',
        },
        {"kafka.isolation.level": "read_committed"},
    ],
    ids="-".join,
)
def test_the_rows_are_equal(spark: SparkSession, topics: Topics, options: dict[str, str]) -> None:
    topic = topics.make(2)
    topics.fill(topic, [Row(1, None, b"h", 1_700_000_000_150, (("a", None), ("b", b"x")))])
    topics.fill(topic, numbered(0, 150, 2), codec="zstd")
    topics.transaction(topic, [b"aborted"] * 3, commit=False)
    topics.transaction(topic, [b"committed"] * 3, commit=True)
    topics.fill(topic, numbered(150, 300, 2), codec="lz4")
    given = {name: value.replace("TOPIC", topic) for name, value in options.items()}
    theirs, ours = both(spark, topics, topic, **given)
    assert ours.schema == theirs.schema
    order = ["partition", "offset"]
    rows = [frame.orderBy(*order).collect() for frame in (theirs, ours)]
    assert len(rows[0]) > 10
    assert rows[1] == rows[0]


def test_one_checkpoint_passes_from_the_connector_to_ours_and_back(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.make(2)
    seen: list[int] = []
    counts: list[int] = []

    def take(frame: DataFrame, _: int) -> None:
        seen.extend(int(row[0]) for row in frame.select("value").collect())

    for turn, name in enumerate(["kafka", "ottla", "kafka", "ottla"]):
        topics.fill(topic, numbered(turn * 200, turn * 200 + 200, 2))
        stream = spark.readStream.format(name).option("kafka.bootstrap.servers", topics.address)
        stream = stream.option("subscribe", topic).option("startingOffsets", "earliest")
        writer = stream.load().writeStream.foreachBatch(take)
        query = (
            writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
        )
        query.awaitTermination(120)
        counts.append(len(seen))
    assert counts == [200, 400, 600, 800]
    assert sorted(seen) == list(range(800))
    logged = [
        json.loads(path.read_text().splitlines()[-1])
        for path in sorted((tmp_path / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    ]
    assert [topic_ids_of(each) == {} for each in logged if from_json(each)] == [
        name == "kafka" for name in ("kafka", "ottla", "kafka", "ottla")
    ]

"""What is wrong is told through Spark, by topic, partition, offset and what to do about it.

``failOnDataLoss`` decides whether what is lost ends the query or is passed over.
"""

from pathlib import Path

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import SparkSession
from tests.spark.small_segments import Tiered, fill, log_of, made
from tests.spark.test_source import load
from tests.spark.test_stream import Query
from tests.spark.topics import Row, Topics, numbered
from tests.waiting import eventually

QUICK = {"fetchOffset.retryIntervalMs": "10"}


def test_a_missing_topic_is_told_with_where_and_what_to_do(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    told = f"topic missing does not exist on {topics.address}: create it, or correct its name"
    with pytest.raises(PySparkException, match=told):
        load(spark, topics, "missing").collect()
    with pytest.raises(StreamingQueryException, match=told):
        Query(spark, topics, "missing", tmp_path).run()


def test_an_offset_out_of_range_is_told_with_the_range_or_moved_into_it(
    spark: SparkSession, topics: Topics
) -> None:
    topic = topics.make()
    topics.fill(topic, numbered(0, 10))
    topics.cut(topic, 4)
    begin = {"startingOffsets": f'{{"{topic}":{{"0":2}}}}'}
    told = rf"{topic}-0: startingOffsets is 2, .* from 4 to 10\..* failOnDataLoss to false"
    with pytest.raises(PySparkException, match=told):
        load(spark, topics, topic, **begin).collect()
    assert load(spark, topics, topic, failOnDataLoss="false", **begin).count() == 6


def test_a_lost_segment_is_told_with_its_offsets_or_passed_over(
    spark: SparkSession, files: Topics, broker: Tiered
) -> None:
    topic = made(files, remote_storage_enable="true", local_retention_bytes="1")
    fill(files, topic, numbered(0, 300))
    eventually(lambda: int(min(log_of(broker, topic).glob("*.log")).stem) > 100, seconds=60)
    local = int(min(log_of(broker, topic).glob("*.log")).stem)
    for path in broker.store.glob(f"{topic}-*/0/*"):
        path.unlink()
    told = rf"{topic}-0: offsets 0 to {local - 1} cannot be read, .* verify-tier .* failOnDataLoss"
    for source in ("broker", "remote"):
        more = {"readFrom": source, "remoteStore": f"file://{broker.store}", **QUICK}
        with pytest.raises(PySparkException, match=told):
            load(spark, files, topic, **more).collect()
        careless = load(spark, files, topic, failOnDataLoss="false", **more)
        assert sorted(row.offset for row in careless.collect()) == list(range(local, 300))


def test_a_record_of_another_schema_is_told_with_its_place(
    spark: SparkSession, topics: Topics
) -> None:
    topic = topics.make(2)
    topics.fill(topic, [Row(1, None, b'{"id": 1}'), Row(1, None, b'{"id": "one"}')])
    frame = load(spark, topics, topic, valueFormat="json", valueSchema="id bigint")
    told = rf"{topic}-1 at offset 1: value: .* set the option deadLetterTopic"
    with pytest.raises(PySparkException, match=told):
        frame.collect()
    with pytest.raises(PySparkException, match=r"DDL: 'bigit' is no type that a value can have"):
        load(spark, topics, topic, valueFormat="json", valueSchema="id bigit")


def test_a_topic_that_was_made_anew_ends_a_careful_stream_when_it_is_started_again(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.make()
    topics.fill(topic, numbered(0, 10))
    query = Query(spark, topics, topic, tmp_path)
    query.run()
    topics.delete(topic)
    topics.make(name=topic)
    topics.fill(topic, numbered(100, 130))
    with pytest.raises(StreamingQueryException, match=f"from {topic}-0 offset 10 on, is gone"):
        query.run()
    query.run(failOnDataLoss="false")
    assert query.values == [*range(10), *range(100, 130)]

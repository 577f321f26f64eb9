"""``df.write.format("ottla")`` and ``writeStream``, by Spark itself."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.committed import committed_records, committed_values, visible_values
from tests.spark.topics import HAS_LIMITS, Topics, numbered
from tests.waiting import eventually

from ottla.client.transactions import list_transactions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def sink(topics: Topics, **more: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": topics.address, **more}


def write(frame: "DataFrame", options: dict[str, str]) -> None:
    frame.write.format("ottla").options(**options).mode("append").save()


def test_a_table_becomes_a_topic(spark: "SparkSession", topics: Topics) -> None:
    first, second = topics.make(2), topics.make(1)
    frame = spark.sql(
        "select string(id) key, string(id) value, "
        f"if(id < 60, '{first}', '{second}') topic, "
        "if(id >= 50 and id < 60, 1, null) partition, timestamp_millis(id) timestamp, "
        "array(struct('n' as key, binary(string(id)) as value)) headers from range(0, 100, 1, 3)"
    )
    write(frame, sink(topics))
    found = committed_records(topics.address, first)
    records = [each for some in found.values() for each in some]
    assert sorted(int(each.value or b"") for each in records) == list(range(60))
    assert all(each.timestamp == int(each.value or b"") for each in records)
    assert all(each.headers == [("n", each.value)] for each in records)
    asked = [each for partition, some in found.items() if partition.partition == 1 for each in some]
    assert {int(each.value or b"") for each in asked} >= set(range(50, 60))
    assert committed_values(topics.address, second) == sorted(b"%d" % i for i in range(60, 100))


def test_a_job_that_fails_leaves_nothing_behind_with_exactly_once(
    spark: "SparkSession", topics: Topics
) -> None:
    topic = topics.make(2)
    options = sink(topics, topic=topic, exactlyOnce="true", transactionalIdPrefix=topic)
    good = "select string(id) value from range(0, 50, 1, 2)"
    bad = "select if(id < 49, string(id), string(raise_error('no'))) value from range(0, 50, 1, 2)"
    with pytest.raises(Exception, match="no"):
        write(spark.sql(bad), options)
    assert committed_values(topics.address, topic) == []
    write(spark.sql(good), options)
    assert committed_values(topics.address, topic) == sorted(b"%d" % i for i in range(50))
    eventually(lambda: states(topics, topic) <= {"CompleteCommit", "CompleteAbort", "Empty"})


def states(topics: Topics, prefix: str) -> set[str]:
    """Coordinators complete what they have promised a moment later."""
    found = list_transactions(topics.admin.cluster)
    return {each.state for each in found if each.transactional_id.startswith(prefix)}


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("select 1 value", "column value is int32; it must be binary or string"),
        ("select 'x' key", "needs a column value"),
        ("select 'x' value, bigint(1) partition", "column partition is int64; it must be int"),
        ("select 'x' value, 1.5 timestamp", "column timestamp is decimal"),
    ],
)
def test_a_table_that_cannot_be_written_is_refused(
    spark: "SparkSession", topics: Topics, query: str, text: str
) -> None:
    with pytest.raises(Exception, match=text):
        write(spark.sql(query), sink(topics, topic="t"))


def test_a_topic_cannot_be_overwritten(spark: "SparkSession", topics: Topics) -> None:
    frame = spark.sql("select 'x' value")
    with pytest.raises(Exception, match="append"):
        frame.write.format("ottla").options(**sink(topics, topic="t")).mode("overwrite").save()


def stream(
    spark: "SparkSession", topics: Topics, source: str, target: str, checkpoint: Path, **more: str
) -> "StreamingQuery":
    """From topic to topic, all that is there."""
    read: dict[str, Any] = {
        "kafka.bootstrap.servers": topics.address,
        "subscribe": source,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "30",
    }
    frame = spark.readStream.format("ottla").options(**read).load().select("key", "value")
    options = sink(topics, topic=target, checkpointLocation=str(checkpoint), **more)
    writer = frame.writeStream.format("ottla").options(**options).trigger(availableNow=True)
    query = writer.start()
    query.awaitTermination(120)
    return query


@pytest.mark.parametrize("exactly_once", ["false", "true"])
def test_a_stream_goes_from_topic_to_topic(
    spark: "SparkSession", topics: Topics, tmp_path: Path, exactly_once: str
) -> None:
    source, target = topics.make(2), topics.make(2)
    for start in (0, 50):
        topics.fill(source, numbered(start, start + 50, 2))
        stream(spark, topics, source, target, tmp_path / "c", exactlyOnce=exactly_once)
    assert committed_values(topics.address, target) == sorted(b"%d" % i for i in range(100))


def test_a_micro_batch_whose_commit_is_forgotten_is_not_written_twice(
    spark: "SparkSession", topics: Topics, tmp_path: Path
) -> None:
    """As after a crash between the sink's commit and Spark's own."""
    source, target = topics.make(2), topics.make(2)
    topics.fill(source, numbered(0, 50, 2))
    stream(spark, topics, source, target, tmp_path / "c", exactlyOnce="true")
    before = visible_values(topics.address, target)
    commits = sorted((tmp_path / "c" / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    last = commits[-1]
    last.unlink()
    (last.parent / f".{last.name}.crc").unlink(missing_ok=True)
    topics.fill(source, numbered(50, 60, 2))
    for _ in range(1 if HAS_LIMITS else 2):
        stream(spark, topics, source, target, tmp_path / "c", exactlyOnce="true")
    assert len(before) == 50
    assert committed_values(topics.address, target) == sorted(b"%d" % i for i in range(60))

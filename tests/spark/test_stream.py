"""``readStream.format("ottla")``: exact over restarts and limits; if it cannot be, it is told."""

import json
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter
from tests.spark.small_segments import fill, made
from tests.spark.topics import HAS_LIMITS, Row, Topics, numbered
from tests.waiting import eventually

from ottla.client.system_time import SystemTime
from ottla.common.topic_partition import TopicPartition
from ottla.spark.codec.schema import Columns
from ottla.spark.errors import DataLoss
from ottla.spark.source.broker_reads import connected
from ottla.spark.source.offsets import OffsetsJson, from_json, to_json, topic_ids_of
from ottla.spark.source.options import SourceOptions
from ottla.spark.source.reader import read_range
from ottla.spark.source.segments import SegmentRange
from ottla.spark.source.stream_reader import TopicStream

QUICK = {"kafka.metadata.max.age.ms": "0", "fetchOffset.retryIntervalMs": "10"}


class Query:
    """A stream that appends the values of a topic to a list, batch by batch."""

    def __init__(self, spark: SparkSession, topics: Topics, topic: str, checkpoint: Path) -> None:
        self._spark = spark
        self._options = {
            "kafka.bootstrap.servers": topics.address,
            "subscribe": topic,
            "startingOffsets": "earliest",
            **QUICK,
        }
        self._checkpoint = str(checkpoint)
        self.batches: list[list[int]] = []

    def run(self, **options: str) -> StreamingQuery:
        """All that is there now."""
        query = self._start(options).trigger(availableNow=True).start()
        query.awaitTermination(120)
        return query

    def _start(self, options: dict[str, str]) -> DataStreamWriter:
        def take(frame: DataFrame, _: int) -> None:
            self.batches.append(sorted(int(row[0]) for row in frame.select("value").collect()))

        frame = self._spark.readStream.format("ottla").options(**self._options, **options).load()
        writer = frame.writeStream.foreachBatch(take)
        return writer.option("checkpointLocation", self._checkpoint)

    @property
    def values(self) -> list[int]:
        return sorted(value for batch in self.batches for value in batch)


def test_a_stream_goes_on_from_its_checkpoint(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.make(2)
    group = f"readers-of-{topic}"
    query = Query(spark, topics, topic, tmp_path)
    topics.fill(topic, numbered(0, 100, 2))
    query.run(commitGroup=group)
    topics.fill(topic, numbered(100, 250, 2))
    last = query.run(maxOffsetsPerTrigger="40", commitGroup=group)
    assert query.values == list(range(250))
    assert [len(batch) for batch in query.batches] == [
        100,
        *([40, 40, 40, 30] if HAS_LIMITS else [150]),
    ]
    log = tmp_path / "offsets" / str(len(query.batches) - 1)
    written = json.loads(log.read_text().splitlines()[-1])
    assert plain(written) == {topic: {"0": 125, "1": 125}}
    progress = last.lastProgress
    assert progress is not None
    if HAS_LIMITS:
        assert json.loads(progress["sources"][0]["latestOffset"]) == plain(written)
    else:
        topics.fill(topic, numbered(250, 260, 2))
        query.run(commitGroup=group)  # the group hears of the batch before
    committed = topics.admin.group_offsets(group)
    assert {each: value.offset for each, value in committed.items()} == {
        TopicPartition(topic, 0): 125,
        TopicPartition(topic, 1): 125,
    }


def test_what_is_lost_ends_a_careful_query(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.make()
    query = Query(spark, topics, topic, tmp_path)
    topics.fill(topic, numbered(0, 10))
    query.run()
    topics.fill(topic, numbered(10, 20))
    topics.cut(topic, 15)
    with pytest.raises(StreamingQueryException, match=f"{topic}-0: offsets 10 to 14 are gone"):
        query.run()
    query.run(failOnDataLoss="false")
    assert query.values == [*range(10), *range(15, 20)]


# Without Spark: what the reader tells the driver.


def stream_of(topics: Topics, topic: str, **more: str) -> TopicStream:
    given = {"kafka.bootstrap.servers": topics.address, "subscribe": topic, **QUICK}
    given |= {"startingOffsets": "earliest", **more}
    return TopicStream(SourceOptions.parse(given, streaming=True))


def plain(shape: OffsetsJson) -> OffsetsJson:
    """Without the ids of topics: what spark-sql-kafka reads there."""
    return to_json(from_json(shape))


def values_of(
    topics: Topics, stream: TopicStream, start: OffsetsJson, end: OffsetsJson
) -> list[int]:
    options = stream.options
    return [
        int(value)
        for parts in stream.tasks(start, end)
        for wanted in parts
        for table in read_range(wanted, options, Columns(["value"]))
        for value in table["value"].to_pylist()
    ]


def test_added_partitions_are_read_from_their_start(topics: Topics) -> None:
    topic = topics.make()
    topics.fill(topic, numbered(0, 3))
    stream = stream_of(topics, topic)
    start = stream.latest(stream.initial())
    assert plain(start) == {topic: {"0": 3}}
    topics.admin.create_partitions({topic: 2})
    eventually(lambda: len(stream.latest(start)[topic]) == 2)
    topics.fill(topic, [Row(1, None, b"7"), Row(0, None, b"8")])
    eventually(lambda: stream.latest(start)[topic]["1"] == 1)
    end = stream.latest(start)
    assert sorted(values_of(topics, stream, start, end)) == [7, 8]
    again = stream_of(topics, topic)
    assert sorted(values_of(topics, again, start, end)) == [7, 8]


def test_a_micro_batch_is_cut_into_the_same_tasks_when_segments_were_closed_meanwhile(
    files: Topics,
) -> None:
    topic = made(files)
    fill(files, topic, numbered(0, 200))
    options = {"readFrom": "segments", "minPartitions": "3"}
    stream = stream_of(files, topic, **options)
    start = stream.initial()
    end = stream.latest(start)
    first = stream.tasks(start, end)
    fill(files, topic, numbered(200, 500))
    again = stream_of(files, topic, **options)
    second = again.tasks(start, end)
    assert [(each[0].start, each[-1].end) for each in second] == [
        (each[0].start, each[-1].end) for each in first
    ]
    assert len(first) == 3
    in_files = [
        sum(isinstance(part, SegmentRange) and part.records for each in tasks for part in each)
        for tasks in (first, second)
    ]
    assert 0 < in_files[0] < in_files[1] == 200, "more of it is in files by now"
    assert values_of(files, again, start, end) == list(range(200))


def test_limits_are_shared_out_in_proportion(topics: Topics) -> None:
    topic = topics.make(3)
    topics.fill(topic, [Row(0, None, b"x")] * 90 + [Row(1, None, b"x")] * 9 + [Row(2, None, b"x")])
    stream = stream_of(topics, topic, maxOffsetsPerTrigger="10")
    start = stream.initial()
    assert plain(stream.latest(start, limited=True)) == {topic: {"0": 9, "1": 1, "2": 1}}
    assert plain(stream.latest(start)) == stream.reported() == {topic: {"0": 90, "1": 9, "2": 1}}
    by_bytes = stream_of(topics, topic, maxBytesPerTrigger="300")
    taken = by_bytes.latest(start, limited=True)[topic]
    assert 0 < taken["0"] < 90
    assert taken["0"] > taken["1"] > 0


def test_too_little_is_waited_for_but_not_for_ever(topics: Topics) -> None:
    topic = topics.make()
    topics.fill(topic, numbered(0, 5))
    stream = stream_of(topics, topic, minOffsetsPerTrigger="10", maxTriggerDelay="1h")
    start = stream.initial()
    first = stream.latest(start, limited=True)
    assert plain(first) == {topic: {"0": 5}}, "the first batch does not wait, as in the connector"
    topics.fill(topic, numbered(5, 10))
    assert stream.latest(first, limited=True) == first
    topics.fill(topic, numbered(10, 15))
    assert plain(stream.latest(first, limited=True)) == {topic: {"0": 15}}
    stream.freeze()
    assert plain(stream.latest({topic: {"0": 14}}, limited=True)) == {topic: {"0": 15}}


def test_a_frozen_stream_ends(topics: Topics) -> None:
    topic = topics.make()
    topics.fill(topic, numbered(0, 5))
    stream = stream_of(topics, topic)
    stream.freeze()
    end = stream.latest(stream.initial())
    topics.fill(topic, numbered(5, 9))
    assert stream.latest(end) == end
    assert plain(end) == {topic: {"0": 5}}


def test_a_topic_that_was_made_anew_is_told_or_read_from_its_start(topics: Topics) -> None:
    topic = topics.make()
    topics.fill(topic, numbered(0, 20))
    careful = stream_of(topics, topic)
    careless = stream_of(topics, topic, failOnDataLoss="false")
    start = careful.latest(careful.initial())
    assert careless.latest(careless.initial()) == start
    topics.delete(topic)
    topics.make(name=topic)
    topics.fill(topic, numbered(100, 130))
    with pytest.raises(DataLoss, match=f"topic {topic} was deleted and made anew"):
        careful.latest(start)
    end = careless.latest(start)
    assert plain(end) == {topic: {"0": 30}}
    assert values_of(topics, careless, start, end) == list(range(100, 130))
    assert values_of(topics, careless, end, end) == []


@pytest.mark.parametrize("count", [5, 20, 30])
def test_a_topic_that_was_made_anew_while_the_stream_was_down_is_seen_by_its_id(
    topics: Topics, count: int
) -> None:
    """However many records it holds, and whichever of them are asked for first."""
    topic = topics.make()
    topics.fill(topic, numbered(0, 20))
    before = stream_of(topics, topic)
    begin = before.initial()
    start = before.latest(begin)
    topics.delete(topic)
    topics.make(name=topic)
    topics.fill(topic, numbered(100, 100 + count))
    told = f"topic {topic} was deleted and made anew: .* from {topic}-0 offset 20 on, is gone"
    with pytest.raises(DataLoss, match=told):
        stream_of(topics, topic).latest(start)
    with pytest.raises(DataLoss, match=f"{topic}-0: offsets 0 to 19 of a micro-batch that is run"):
        stream_of(topics, topic).tasks(begin, start)
    old = stream_of(topics, topic)
    with pytest.raises(DataLoss, match=told):  # as Spark 4.1 asks, without the start
        old.tasks(start, old.latest())
    careless = stream_of(topics, topic, failOnDataLoss="false", maxOffsetsPerTrigger="4")
    assert values_of(topics, careless, begin, start) == []
    found: list[int] = []
    at = start
    while (end := careless.latest(at, limited=True)) != at:
        found += values_of(topics, careless, at, end)
        at = end
    assert found == list(range(100, 100 + count))


def test_offsets_of_the_connector_are_taken_for_those_of_the_topics_that_there_are(
    topics: Topics,
) -> None:
    topic = topics.make()
    topics.fill(topic, numbered(0, 20))
    start = {topic: {"0": 15}}
    stream = stream_of(topics, topic)
    end = stream.latest(start)
    assert values_of(topics, stream, start, end) == list(range(15, 20))
    assert set(topic_ids_of(end)) == {topic}
    without = stream_of(topics, topic, checkpointTopicIds="false")
    assert without.latest(start) == {topic: {"0": 20}}


def test_a_micro_batch_of_a_deleted_topic_cannot_be_run_again(topics: Topics) -> None:
    topic = topics.make()
    topics.fill(topic, numbered(0, 4))
    stream = stream_of(topics, topic)
    start = stream.initial()
    end = stream.latest(start)
    topics.delete(topic)
    with pytest.raises(DataLoss, match=f"{topic}-0: offsets 0 to 3 .* the topic was deleted"):
        stream_of(topics, topic).tasks(start, end)
    assert stream_of(topics, topic, failOnDataLoss="false").tasks(start, end) == []


def test_less_than_before_is_told_even_after_a_restart(topics: Topics) -> None:
    topic = topics.make()
    topics.fill(topic, numbered(0, 4))
    restarted = stream_of(topics, topic, **{"fetchOffset.numRetries": "1"})
    start = {topic: {"0": 9}}
    end = restarted.latest(start)
    with pytest.raises(DataLoss, match=f"{topic}-0 has only offsets up to 4, .* at 9"):
        restarted.tasks(start, end)


def test_a_topic_that_a_broker_has_not_heard_of_for_a_moment_is_not_gone(topics: Topics) -> None:
    name = f"late-{topics.make()}"

    class Meanwhile(SystemTime):
        def wait(self, seconds: float) -> None:
            if name not in topics.admin.list_topics():
                topics.make(name=name)
            super().wait(seconds)

    stream = stream_of(topics, name)
    reads = connected(stream.options.kafka)
    reads.cluster.clock, before = Meanwhile(), reads.cluster.clock
    try:
        start = {name: {"0": 0}}
        assert from_json(TopicStream(stream.options).latest(start)) == from_json(start)
    finally:
        reads.cluster.clock = before


def test_a_deleted_topic_is_told_with_its_offset(topics: Topics) -> None:
    topic = topics.make()
    topics.fill(topic, numbered(0, 4))
    careful = stream_of(topics, topic)
    start = careful.latest(careful.initial())
    careless = stream_of(topics, topic, failOnDataLoss="false")
    topics.delete(topic)
    end = careful.latest(start)
    assert end == {}
    with pytest.raises(DataLoss, match=f"{topic}-0 is gone, from offset 4 on"):
        careful.tasks(start, end)
    assert careless.tasks(start, careless.latest(start)) == []


def test_the_last_stable_offset_bounds_readers_of_what_is_committed(topics: Topics) -> None:
    topic = topics.make()
    topics.transaction(topic, [b"1", b"2"], commit=False)
    topics.transaction(topic, [b"3"], commit=True)
    stream = stream_of(topics, topic, **{"kafka.isolation.level": "read_committed"})
    start = stream.initial()
    end = stream.latest(start)
    assert values_of(topics, stream, start, end) == [3]
    assert plain(end) == {topic: {"0": 5}}, "markers have offsets too"

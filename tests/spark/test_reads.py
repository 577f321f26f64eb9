"""Ranges of a topic by fetch, without Spark, on our broker and on Apache Kafka.

They give the rows that a consumer gets, or an error that says what is lost.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from tests.spark.topics import Row, Topics, numbered

from ottla.client.connection import Connection
from ottla.client.consumer import Consumer
from ottla.client.producer import Producer
from ottla.common.errors import ErrorCode, OffsetOutOfRange
from ottla.common.topic_partition import TopicPartition
from ottla.protocol.generated.metadata import MetadataResponse
from ottla.spark.codec.schema import TYPES, Columns
from ottla.spark.errors import BadOption, DataLoss
from ottla.spark.source.broker_reads import (
    BrokerReads,
    Fetched,
    PartitionFetch,
    Refused,
    connected,
    disconnect,
)
from ottla.spark.source.offsets import Offsets
from ottla.spark.source.options import SourceOptions
from ottla.spark.source.positions import Positions
from ottla.spark.source.ranges import OffsetRange
from ottla.spark.source.reader import plan_batch, read_range


def options_of(topics: Topics, topic: str, **more: str) -> SourceOptions:
    named = {key.replace("_", "."): value for key, value in more.items()}
    quick = {"fetchOffset.retryIntervalMs": "10", "kafkaConsumer.pollTimeoutMs": "2000"}
    given = {"kafka.bootstrap.servers": topics.address, "subscribe": topic, **quick, **named}
    if "assign" in given or "subscribePattern" in given:
        del given["subscribe"]
    return SourceOptions.parse(given)


def read(options: SourceOptions, *names: str) -> list[dict[str, object]]:
    return [
        row
        for wanted in plan_batch(options)
        for table in read_range(wanted, options, Columns(names or list(TYPES)))
        for row in table.to_pylist()
    ]


def values(options: SourceOptions) -> list[object]:
    return [row["value"] for row in read(options, "value")]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_was_written_is_read(topics: Topics, codec: str) -> None:
    topic = topics.make(2)
    rows = [
        Row(0, b"k", b"v", 5, (("h", b"x"), ("n", None))),
        Row(1, None, b"", 6),
        Row(0, b"", None, 7),
        *numbered(0, 500, 2),
    ]
    topics.fill(topic, rows, codec=codec)
    found = read(options_of(topics, topic))
    told = [
        Row(
            int(str(row["partition"])),
            row["key"],  # type: ignore[arg-type]
            row["value"],  # type: ignore[arg-type]
            round(row["timestamp"].timestamp() * 1000),  # type: ignore[attr-defined]
            tuple((each["key"], each["value"]) for each in row["headers"] or ()),  # type: ignore[attr-defined]
        )
        for row in found
    ]
    assert told == sorted(rows, key=lambda row: row.partition)
    assert {row["topic"] for row in found} == {topic}
    assert [row["offset"] for row in found if row["partition"] == 0] == list(range(252))


def test_a_range_may_begin_and_end_inside_a_batch_and_span_many_fetches(topics: Topics) -> None:
    topic = topics.make()
    for start in range(0, 3000, 1000):
        topics.fill(topic, numbered(start, start + 1000))
    ends = {
        "startingOffsets": f'{{"{topic}":{{"0":17}}}}',
        "endingOffsets": f'{{"{topic}":{{"0":2990}}}}',
    }
    small = {"kafka_max_partition_fetch_bytes": "5000"}
    found = values(options_of(topics, topic, **ends, **small))
    assert found == [b"%d" % i for i in range(17, 2990)]


def test_splitting_changes_no_row(topics: Topics) -> None:
    topic = topics.make(2)
    topics.fill(topic, [*numbered(0, 1000), Row(1, None, b"last")])
    expected = [b"%d" % i for i in range(1000)] + [b"last"]
    for more, parts in ((("minPartitions", "7"), 8), (("maxRecordsPerPartition", "100"), 11)):
        options = options_of(topics, topic, **dict([more]))
        assert abs(len(plan_batch(options)) - parts) <= 1
        assert values(options) == expected
    options = options_of(topics, topic, maxBytesPerPartition="2k")
    assert len(plan_batch(options)) > 5
    assert values(options) == expected


def test_a_short_range_of_a_large_log_is_not_cut_as_if_it_were_all_of_it(topics: Topics) -> None:
    topic = topics.make()
    topics.fill(topic, numbered(0, 1000))
    ends = {"endingOffsets": f'{{"{topic}":{{"0":10}}}}'}
    options = options_of(topics, topic, maxBytesPerPartition="2k", **ends)
    assert len(plan_batch(options)) == 1
    assert values(options) == [b"%d" % i for i in range(10)]


def test_by_time(topics: Topics) -> None:
    topic = topics.make(2)
    topics.fill(topic, [Row(i % 2, None, b"%d" % i, 1000 * i) for i in range(10)])
    one = options_of(topics, topic, startingTimestamp="4500", endingTimestamp="8000")
    assert values(one) == [b"6", b"5", b"7"]
    each = f'{{"{topic}":{{"0":8000,"1":1000}}}}'
    assert len(values(options_of(topics, topic, startingOffsetsByTimestamp=each))) == 1 + 5
    with pytest.raises(BadOption, match=r"-0 at 9500.*startingOffsetsByTimestampStrategy"):
        plan_batch(options_of(topics, topic, startingTimestamp="9500"))
    late = {"startingTimestamp": "8500", "startingOffsetsByTimestampStrategy": "latest"}
    assert values(options_of(topics, topic, **late)) == [b"9"]


def test_topics_by_pattern_and_partitions_by_name(topics: Topics) -> None:
    names = [topics.make(2, name=f"{topics.make()}.{word}") for word in ("one", "two", "onerous")]
    for name in names:
        topics.fill(name, [Row(i, None, name.encode()) for i in range(2)])
    stem = names[0].removesuffix(".one").replace("-", ".")
    pattern = {"subscribePattern": r".*-\d+\.(one|two)"}
    found = [each for each in values(options_of(topics, "", **pattern)) if each]
    assert set(found) >= {names[0].encode(), names[1].encode()}
    assert names[2].encode() not in found
    assert stem
    assigned = options_of(topics, "", assign=f'{{"{names[2]}":[1]}}')
    assert values(assigned) == [names[2].encode()]
    with pytest.raises(BadOption, match=f"partition 5 of topic {names[2]} does not exist"):
        plan_batch(options_of(topics, "", assign=f'{{"{names[2]}":[5]}}'))


def test_a_topic_that_is_not_there_is_named(topics: Topics) -> None:
    with pytest.raises(BadOption, match="topic no-such-topic does not exist on"):
        plan_batch(options_of(topics, "no-such-topic"))


def test_all_partitions_must_be_named(topics: Topics) -> None:
    topic = topics.make(2)
    with pytest.raises(BadOption, match=rf"missing: {topic}-1; not subscribed to: x-0"):
        plan_batch(
            options_of(topics, topic, startingOffsets=f'{{"{topic}":{{"0":0}},"x":{{"0":1}}}}')
        )


def test_offsets_beyond_what_there_is_are_named(topics: Topics) -> None:
    topic = topics.make()
    topics.fill(topic, numbered(0, 10))
    topics.cut(topic, 4)
    for option, offset in (("startingOffsets", 2), ("endingOffsets", 11)):
        far = {option: f'{{"{topic}":{{"0":{offset}}}}}'}
        said = rf"{topic}-0: {option} is {offset}, .* from 4 to 10.*failOnDataLoss"
        with pytest.raises(DataLoss, match=said):
            plan_batch(options_of(topics, topic, **far))
        careless = options_of(topics, topic, **far, failOnDataLoss="false")
        assert len(values(careless)) == 6


def planned(options: SourceOptions) -> OffsetRange:
    (wanted,) = plan_batch(options)
    return wanted


def rows_of(wanted: OffsetRange, options: SourceOptions) -> Iterator[int]:
    for table in read_range(wanted, options, Columns(["offset"])):
        yield from table["offset"].to_pylist()


def test_records_that_go_between_plan_and_read_are_told_or_passed(topics: Topics) -> None:
    topic = topics.make()
    topics.fill(topic, numbered(0, 20))
    careful, careless = (options_of(topics, topic, failOnDataLoss=f) for f in ("true", "false"))
    wanted = planned(careful)
    topics.cut(topic, 12)
    with pytest.raises(DataLoss, match=rf"{topic}-0: offsets 0 to 11 are gone.* from 12 to 19"):
        list(rows_of(wanted, careful))
    assert list(rows_of(wanted, careless)) == list(range(12, 20))


def test_a_namesake_is_never_read_in_place_of_a_deleted_topic(topics: Topics) -> None:
    topic = topics.make()
    topics.fill(topic, numbered(0, 20))
    careful, careless = (options_of(topics, topic, failOnDataLoss=f) for f in ("true", "false"))
    wanted = planned(careful)
    topics.delete(topic)
    topics.make(name=topic)
    topics.fill(topic, numbered(100, 150))
    with pytest.raises(DataLoss, match=rf"{topic}-0: topic {topic} was deleted and made anew"):
        list(rows_of(wanted, careful))
    assert list(rows_of(wanted, careless)) == []


def test_a_broker_that_has_not_heard_of_the_topic_yet_loses_no_row(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = topics.make()
    topics.fill(topic, numbered(0, 20))
    careless = options_of(topics, topic, failOnDataLoss="false")
    wanted = planned(careless)
    receive, behind = Connection.receive, [2]

    def late(self: Connection, answer: type[Any], timeout_seconds: float) -> Any:
        found = receive(self, answer, timeout_seconds)
        if isinstance(found, MetadataResponse) and found.topics and behind[0]:
            behind[0] -= 1
            for each in found.topics:
                each.error_code, each.partitions = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, []
        return found

    disconnect()
    monkeypatch.setattr(Connection, "receive", late)
    assert list(rows_of(wanted, careless)) == list(range(20))
    assert behind == [0]


def test_a_partition_that_goes_while_a_query_is_planned_is_told(topics: Topics) -> None:
    kept, gone = topics.make(), topics.make()
    careful, careless = (
        options_of(topics, f"{kept},{gone}", failOnDataLoss=each) for each in ("true", "false")
    )
    partitions, _ = Positions(careful, connected(careful.kafka)).assigned()
    topics.delete(gone)
    with pytest.raises(DataLoss, match=f"{gone}-0: its starting offset is not known"):
        Positions(careful, connected(careful.kafka)).starting(partitions)
    left = Positions(careless, connected(careless.kafka)).ending(partitions)
    assert left == {TopicPartition(kept, 0): 0}


def test_what_retention_removes_while_a_query_is_planned_is_not_missed(topics: Topics) -> None:
    topic = topics.make()
    topics.fill(topic, numbered(0, 20))
    options = options_of(topics, topic)

    class Retaining(BrokerReads):
        def list_offsets(self, wanted: Mapping[TopicPartition, int]) -> tuple[Offsets, Refused]:
            listed = super().list_offsets(wanted)
            topics.cut(topic, 5)
            return listed

    reads = Retaining(options.kafka)
    try:
        earliest = Positions(options, reads).starting([TopicPartition(topic, 0)])
    finally:
        reads.close()
    assert earliest == {TopicPartition(topic, 0): 0}


def test_aborted_records_never_appear_to_readers_of_what_is_committed(topics: Topics) -> None:
    topic = topics.make()
    topics.transaction(topic, [b"a"] * 3, commit=False)
    topics.transaction(topic, [b"b"] * 3, commit=True)
    topics.transaction(topic, [b"c"] * 3, commit=False)
    committed = options_of(topics, topic, kafka_isolation_level="read_committed")
    assert values(committed) == [b"b"] * 3
    assert len(values(options_of(topics, topic))) == 9
    inside = options_of(
        topics,
        topic,
        kafka_isolation_level="read_committed",
        startingOffsets=f'{{"{topic}":{{"0":1}}}}',
        endingOffsets=f'{{"{topic}":{{"0":6}}}}',
    )
    assert values(inside) == [b"b"] * 2


def test_a_reader_that_is_left_in_the_middle_does_not_trouble_the_next(topics: Topics) -> None:
    topic = topics.make()
    topics.fill(topic, numbered(0, 2000))
    options = options_of(topics, topic, kafka_max_partition_fetch_bytes="2000")
    wanted = planned(options)
    reading = rows_of(wanted, options)
    assert next(reading) == 0
    assert connected(options.kafka) is connected(options.kafka)
    other = rows_of(wanted, options)
    assert next(other) == 0
    assert list(rows_of(wanted, options)) == list(range(2000))


def test_a_group_says_where_to_begin(topics: Topics) -> None:
    topic = topics.make(2)
    topics.fill(topic, numbered(0, 20, 2))
    group = f"group-of-{topic}"
    topics.admin.alter_group_offsets(group, {TopicPartition(topic, 0): 7})
    options = options_of(topics, topic, startingOffsets="group", commitGroup=group)
    assert [wanted.start for wanted in plan_batch(options)] == [7, 0]


def test_a_batch_that_unpacks_to_very_much_is_read(topics: Topics) -> None:
    """As much as a broker takes: 16 bytes for each of ``max.message.bytes``."""
    topic = topics.make(max_message_bytes=str(8 << 20))
    size, count = 1 << 20, 71
    room = dict.fromkeys(("batch_bytes", "request_bytes_max", "buffered_bytes_max"), 96 << 20)
    with Producer(topics.address, compression="zstd", **room) as producer:  # type: ignore[arg-type]
        for number in range(count):
            producer.send(topic, bytes([number]) * size, partition=0)
    options = options_of(topics, topic)
    (wanted,) = plan_batch(options)
    (table,) = read_range(wanted, options, Columns(("value",)))
    assert [value.as_buffer()[0] for value in table.column(0)] == list(range(count))
    assert {len(value.as_buffer()) for value in table.column(0)} == {size}
    with Consumer(topics.address) as consumer:
        where = TopicPartition(topic, 0)
        consumer.assign({where: 0})
        assert len(consumer.poll(60_000)[where]) == count


def test_an_offset_that_is_there_and_refused_is_asked_for_with_pauses(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = topics.make()
    topics.fill(topic, numbered(0, 5))
    more = {"fetchOffset.retryIntervalMs": "50", "kafkaConsumer.pollTimeoutMs": "300"}
    options = options_of(topics, topic, **more)
    (wanted,) = plan_batch(options)
    asked: list[int] = []

    def fetch(_: PartitionFetch, offset: int) -> Fetched:
        asked.append(offset)
        raise OffsetOutOfRange(f"{offset}")

    monkeypatch.setattr(PartitionFetch, "fetch", fetch)
    with pytest.raises(OffsetOutOfRange):
        list(read_range(wanted, options, Columns(("value",))))
    assert 1 < len(asked) <= 8

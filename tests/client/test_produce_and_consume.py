"""Producer and consumer against a running broker; each test also against Apache Kafka."""

import confluent_kafka
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.client.conftest import NewTopicFixture
from tests.waiting import eventually

from ottla.client.consumer import AtTimestamp, Consumer
from ottla.client.offsets import EARLIEST, LATEST
from ottla.client.partitioner import partition_of_key
from ottla.client.producer import Producer
from ottla.common.errors import ErrorCode, MessageTooLarge, OffsetOutOfRange
from ottla.common.topic_partition import TopicPartition
from ottla.records.compression import NAMES
from ottla.records.record import Record

NOW = 1_750_000_000_000


def read(consumer: Consumer, count: int) -> dict[TopicPartition, list[Record]]:
    """``count`` records of what is assigned, however many polls that takes."""
    found: dict[TopicPartition, list[Record]] = {}

    def enough() -> bool:
        for partition, records in consumer.poll(500).items():
            found.setdefault(partition, []).extend(records)
        return sum(map(len, found.values())) >= count

    eventually(enough, seconds=60)
    return found


@pytest.mark.parametrize("compression", NAMES)
def test_what_is_produced_is_consumed(
    address: str, new_topic: NewTopicFixture, compression: str
) -> None:
    topic = new_topic()
    sent = [
        Record(
            offset=number,
            timestamp=NOW + number,
            key=None if number % 3 == 0 else b"k%d" % number,
            value=None if number % 5 == 0 else b"v" * number * 10,
            headers=[("a", b"1"), ("b", None)] if number % 2 else [],
        )
        for number in range(200)
    ]
    with Producer(address, compression=compression, batch_bytes=20_000) as producer:
        promises = [
            producer.send(
                topic,
                record.value,
                record.key,
                partition=0,
                timestamp=record.timestamp,
                headers=record.headers,
            )
            for record in sent
        ]
    assert [promise.result().offset for promise in promises] == list(range(200))
    with Consumer(address) as consumer:
        consumer.assign({TopicPartition(topic, 0): EARLIEST})
        assert read(consumer, 200) == {TopicPartition(topic, 0): sent}
        assert consumer.position(TopicPartition(topic, 0)) == 200
        assert consumer.high_watermark(TopicPartition(topic, 0)) == 200


@pytest.mark.parametrize("acks", ["0", "1", "all", 0, 1, -1])
def test_acknowledgements_of_every_kind(
    address: str, new_topic: NewTopicFixture, acks: str | int
) -> None:
    topic = new_topic()
    with Producer(address, acks=acks) as producer:
        for _ in range(3):
            producer.send(topic, b"v")
            producer.flush()
    with Consumer(address) as consumer:
        consumer.assign({TopicPartition(topic, 0): 0})
        assert len(read(consumer, 3)[TopicPartition(topic, 0)]) == 3


def test_a_key_goes_to_its_partition_and_order_holds_there(
    address: str, new_topic: NewTopicFixture
) -> None:
    topic = new_topic(7)
    with Producer(address, batch_bytes=500, request_bytes_max=4000) as producer:
        for number in range(1000):
            producer.send(topic, b"%d" % number, b"key-%d" % (number % 20))
    with Consumer(address, partition_bytes_max=2000) as consumer:
        consumer.assign(dict.fromkeys(consumer.partitions(topic), EARLIEST))
        found = read(consumer, 1000)
    for (_, partition), records in found.items():
        assert {partition_of_key(record.key or b"", 7) for record in records} == {partition}
        numbers = [int(record.value or b"") for record in records]
        assert numbers == sorted(numbers)
    assert sum(map(len, found.values())) == 1000


def test_records_without_a_key_spread_over_the_partitions(
    address: str, new_topic: NewTopicFixture
) -> None:
    topic = new_topic(4)
    with Producer(address, batch_bytes=200) as producer:
        promises = [producer.send(topic, bytes(50)) for _ in range(400)]
    partitions = {promise.result().partition for promise in promises}
    assert partitions == {0, 1, 2, 3}


def test_a_topic_is_made_by_the_first_record(address: str, new_topic: NewTopicFixture) -> None:
    topic = f"{new_topic()}-auto"
    with Producer(address) as producer:
        promise = producer.send(topic, b"v")
    assert promise.result().offset == 0


def test_a_record_up_to_the_limit_is_taken_and_one_above_is_not(
    address: str, new_topic: NewTopicFixture
) -> None:
    topic = new_topic(max_message_bytes="5000000")
    with Producer(address, request_bytes_max=8_000_000) as producer:
        producer.send(topic, bytes(4_990_000))
        producer.flush()
        lost = producer.send(topic, bytes(5_100_000))
        with pytest.raises(MessageTooLarge):
            producer.flush()
        assert lost.done
        producer.send(topic, b"after")
    with Consumer(address, partition_bytes_max=1000) as consumer:
        consumer.assign({TopicPartition(topic, 0): EARLIEST})
        records = read(consumer, 2)[TopicPartition(topic, 0)]
        assert [len(record.value or b"") for record in records] == [4_990_000, 5]


def test_a_compacted_topic_names_the_records_without_a_key(
    address: str, new_topic: NewTopicFixture
) -> None:
    topic = new_topic(cleanup_policy="compact")
    producer = Producer(address)
    producer.send(topic, b"v", b"k")
    producer.send(topic, b"v")
    with pytest.raises(Exception, match=r"\w") as refusal:
        producer.flush()
    assert getattr(refusal.value, "code", None) is ErrorCode.INVALID_RECORD
    assert [index for index, _ in getattr(refusal.value, "record_errors", [])] == [1]
    producer.close()


def test_an_append_time_is_told_to_the_producer(address: str, new_topic: NewTopicFixture) -> None:
    topic = new_topic(message_timestamp_type="LogAppendTime")
    with Producer(address) as producer:
        promise = producer.send(topic, b"v", timestamp=5)
    assert promise.result().timestamp > NOW
    with Consumer(address) as consumer:
        consumer.assign({TopicPartition(topic, 0): EARLIEST})
        (record,) = read(consumer, 1)[TopicPartition(topic, 0)]
        assert record.timestamp == promise.result().timestamp


def test_positions_of_every_kind(address: str, new_topic: NewTopicFixture) -> None:
    topic = new_topic()
    partition = TopicPartition(topic, 0)
    with Producer(address) as producer, Consumer(address) as consumer:
        for number in range(10):
            producer.send(topic, b"%d" % number, timestamp=NOW + number * 1000)
        producer.flush()

        def first(position: int | AtTimestamp) -> bytes | None:
            consumer.assign({partition: position})
            return read(consumer, 1)[partition][0].value

        assert first(EARLIEST) == b"0"
        assert first(7) == b"7"
        assert first(AtTimestamp(NOW + 4001)) == b"5"
        consumer.seek(partition, 2)
        assert read(consumer, 1)[partition][0].value == b"2"
        for position in (LATEST, AtTimestamp(NOW + 60_000)):
            consumer.assign({partition: position})
            assert consumer.position(partition) == 10
            assert consumer.poll(50) == {}
        producer.send(topic, b"new")
        producer.flush()
        assert read(consumer, 1)[partition][0].value == b"new"
        assert consumer.beginning_offsets([partition]) == {partition: 0}
        assert consumer.end_offsets([partition]) == {partition: 11}


def test_a_position_beyond_the_end_is_an_error_or_a_reset(
    address: str, new_topic: NewTopicFixture
) -> None:
    topic = new_topic()
    partition = TopicPartition(topic, 0)
    with Producer(address) as producer:
        producer.send(topic, b"v")
    with Consumer(address) as consumer:
        consumer.assign({partition: 99})
        with pytest.raises(OffsetOutOfRange):
            consumer.poll(5000)
    with Consumer(address, reset="earliest") as consumer:
        consumer.assign({partition: 99})
        assert len(read(consumer, 1)[partition]) == 1


def test_a_poll_brings_no_more_than_it_is_asked_for(
    address: str, new_topic: NewTopicFixture
) -> None:
    topic = new_topic()
    with Producer(address, batch_bytes=100) as producer:
        for _ in range(60):
            producer.send(topic, bytes(30))
    with Consumer(address) as consumer:
        consumer.assign({TopicPartition(topic, 0): EARLIEST})
        sizes: list[int] = []
        while sum(sizes) < 60:
            sizes += map(len, consumer.poll(5000, records_max=10).values())
        assert max(sizes) <= 12


def test_records_come_one_by_one_for_ever(address: str, new_topic: NewTopicFixture) -> None:
    topic = new_topic()
    with Producer(address) as producer, Consumer(address) as consumer:
        consumer.assign({TopicPartition(topic, 0): EARLIEST})
        stream = iter(consumer)
        for number in range(3):
            producer.send(topic, b"%d" % number)
            producer.flush()
            partition, record = next(stream)
            assert (partition.partition, record.value) == (0, b"%d" % number)


def test_another_client_reads_what_we_write_and_we_what_it_writes(
    address: str, new_topic: NewTopicFixture
) -> None:
    topic = new_topic()
    with Producer(address, compression="lz4") as ours:
        ours.send(topic, b"from us", b"k", headers=[("h", b"x")])
    theirs = confluent_kafka.Producer({"bootstrap.servers": address, "compression.type": "zstd"})
    theirs.produce(topic, b"from them", b"k", headers=[("h", b"y")])
    assert theirs.flush(20) == 0
    with Consumer(address) as consumer:
        consumer.assign({TopicPartition(topic, 0): EARLIEST})
        records = read(consumer, 2)[TopicPartition(topic, 0)]
        assert [record.value for record in records] == [b"from us", b"from them"]
        assert records[1].headers == [("h", b"y")]
    reader = confluent_kafka.Consumer({"bootstrap.servers": address, "group.id": "unused"})
    reader.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    message = reader.poll(20)
    assert message is not None
    assert (message.value(), message.headers()) == (b"from us", [("h", b"x")])
    reader.close()


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(
        st.tuples(st.none() | st.binary(max_size=30), st.none() | st.binary(max_size=3000)),
        min_size=1,
        max_size=40,
    ),
    st.sampled_from(NAMES),
)
def test_any_records_come_back_as_they_were(
    address: str,
    new_topic: NewTopicFixture,
    pairs: list[tuple[bytes | None, bytes | None]],
    compression: str,
) -> None:
    topic = new_topic()
    with Producer(address, compression=compression, batch_bytes=5000) as producer:
        for key, value in pairs:
            producer.send(topic, value, key)
    with Consumer(address) as consumer:
        consumer.assign({TopicPartition(topic, 0): EARLIEST})
        records = read(consumer, len(pairs))[TopicPartition(topic, 0)]
    assert [(record.key, record.value) for record in records] == pairs

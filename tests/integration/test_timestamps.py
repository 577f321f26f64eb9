"""Offsets by time: what ``offsets_for_times`` and the special timestamps answer."""

import time

import confluent_kafka
import kafka
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import (
    OffsetSpec,
)
from tests.integration.admin import admin_client, create_topic
from tests.integration.clients import CLIENTS, Client, Message
from tools.kafka_peer.broker_process import BrokerProcess

BASE = 1_700_000_000_000
EARLIEST, LATEST, MAX_TIMESTAMP = (
    OffsetSpec.earliest(),  # type: ignore[no-untyped-call]
    OffsetSpec.latest(),  # type: ignore[no-untyped-call]
    OffsetSpec.max_timestamp(),  # type: ignore[no-untyped-call]
)


def write_ladder(broker: BrokerProcess, topic: str) -> None:
    """Offset n has the time BASE + 10 n, in several batches; offset 5 is out of turn."""
    for first in (0, 4, 8):
        messages = [
            Message(b"%d" % n, timestamp=BASE + (95 if n == 5 else 10 * n))
            for n in range(first, first + 4)
        ]
        CLIENTS[0].produce(broker.bootstrap_servers, topic, messages)


def offset_at(broker: BrokerProcess, topic: str, timestamp: int) -> int:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": "not-used"}
    )
    try:
        (found,) = consumer.offsets_for_times([TopicPartition(topic, 0, timestamp)], 20)
        assert found.error is None
        offset: int = found.offset
        return offset
    finally:
        consumer.close()


def test_the_first_record_of_that_time_or_later_is_found(
    broker: BrokerProcess, topic_name: str
) -> None:
    create_topic(broker.bootstrap_servers, topic_name)
    write_ladder(broker, topic_name)

    assert offset_at(broker, topic_name, BASE - 1) == 0
    assert offset_at(broker, topic_name, BASE) == 0
    assert offset_at(broker, topic_name, BASE + 1) == 1
    assert offset_at(broker, topic_name, BASE + 30) == 3
    assert offset_at(broker, topic_name, BASE + 50) == 5
    assert offset_at(broker, topic_name, BASE + 91) == 5
    assert offset_at(broker, topic_name, BASE + 96) == 10
    assert offset_at(broker, topic_name, BASE + 110) == 11


def test_a_time_after_the_last_record_has_no_offset(broker: BrokerProcess, topic_name: str) -> None:
    create_topic(broker.bootstrap_servers, topic_name)
    write_ladder(broker, topic_name)
    consumer = kafka.KafkaConsumer(bootstrap_servers=broker.bootstrap_servers)
    try:
        partition = kafka.TopicPartition(topic_name, 0)
        assert consumer.offsets_for_times({partition: BASE + 111}) == {partition: None}
        found = consumer.offsets_for_times({partition: BASE + 20})[partition]
        assert (found.offset, found.timestamp) == (2, BASE + 20)
        assert consumer.beginning_offsets([partition]) == {partition: 0}
        assert consumer.end_offsets([partition]) == {partition: 12}
    finally:
        consumer.close()


def test_the_special_times_give_the_ends_and_the_latest_record(
    broker: BrokerProcess, topic_name: str
) -> None:
    create_topic(broker.bootstrap_servers, topic_name)
    write_ladder(broker, topic_name)
    admin = admin_client(broker.bootstrap_servers)
    partition = TopicPartition(topic_name, 0)

    def listed(spec: OffsetSpec) -> tuple[int, int]:
        found = admin.list_offsets({partition: spec})[partition].result()
        return found.offset, found.timestamp

    assert listed(EARLIEST) == (0, -1)
    assert listed(LATEST) == (12, -1)
    assert listed(MAX_TIMESTAMP) == (11, BASE + 110)
    assert listed(OffsetSpec.for_timestamp(BASE + 15)) == (2, BASE + 20)


def test_an_empty_partition_has_no_record_of_any_time(
    broker: BrokerProcess, topic_name: str
) -> None:
    create_topic(broker.bootstrap_servers, topic_name)
    admin = admin_client(broker.bootstrap_servers)
    partition = TopicPartition(topic_name, 0)

    for spec in (MAX_TIMESTAMP, OffsetSpec.for_timestamp(0)):
        found = admin.list_offsets({partition: spec})[partition].result()
        assert (found.offset, found.timestamp) == (-1, -1)


def test_a_record_from_too_far_ahead_is_refused(
    client: Client, broker: BrokerProcess, topic_name: str
) -> None:
    create_topic(
        broker.bootstrap_servers,
        topic_name,
        config={"message.timestamp.after.max.ms": "3600000"},
    )
    now = int(time.time() * 1000)
    client.produce(broker.bootstrap_servers, topic_name, [Message(b"x", timestamp=now)])

    with pytest.raises(Exception, match=r"(?i)timestamp"):
        client.produce(
            broker.bootstrap_servers, topic_name, [Message(b"x", timestamp=now + 7_200_000)]
        )


def test_offsets_by_time_survive_compression(
    client: Client, broker: BrokerProcess, topic_name: str
) -> None:
    create_topic(broker.bootstrap_servers, topic_name)
    messages = [Message(b"%d" % n, timestamp=BASE + n) for n in range(1000)]
    client.produce(broker.bootstrap_servers, topic_name, messages, compression="lz4")

    for wanted in (0, 1, 499, 500, 999):
        assert offset_at(broker, topic_name, BASE + wanted) == wanted

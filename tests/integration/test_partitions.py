"""A topic of 1,000 partitions; topics that come into being because somebody writes to them."""

import confluent_kafka
import kafka
import pytest
from confluent_kafka import Consumer, TopicPartition
from kafka.admin import KafkaAdminClient
from tests.integration.admin import admin_client, create_topic, delete_topic
from tests.integration.clients import CLIENTS, Client, Message
from tests.integration.conftest import NewBroker
from tests.waiting import eventually
from tools.kafka_peer.broker_process import BrokerProcess

MANY = 1_000
UNKNOWN_TOPIC = 3


def test_a_thousand_partitions_are_written_read_restarted_and_deleted(
    new_broker: NewBroker,
) -> None:
    broker = new_broker()
    create_topic(broker.bootstrap_servers, "many", partitions=MANY)
    _write_one_to_each(broker)
    assert _read_one_of_each(broker) == {(n, b"%d" % n) for n in range(MANY)}

    broker.stop()
    broker.start()

    assert _read_one_of_each(broker) == {(n, b"%d" % n) for n in range(MANY)}
    delete_topic(broker.bootstrap_servers, "many")
    admin = admin_client(broker.bootstrap_servers)
    eventually(lambda: "many" not in admin.list_topics(timeout=10).topics, "deletion")


def _write_one_to_each(broker: BrokerProcess) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers})
    failed: list[object] = []

    def delivered(error: object, _: object) -> None:
        if error is not None:
            failed.append(error)

    for n in range(MANY):
        producer.produce("many", b"%d" % n, partition=n, on_delivery=delivered)
    assert producer.flush(60) == 0
    assert failed == []


def _read_one_of_each(broker: BrokerProcess) -> set[tuple[int | None, bytes | None]]:
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": "x", "fetch.wait.max.ms": 100}
    )
    try:
        consumer.assign([TopicPartition("many", n, 0) for n in range(MANY)])
        found: set[tuple[int | None, bytes | None]] = set()
        while len(found) < MANY:
            messages = consumer.consume(MANY, 20)
            assert messages, f"{len(found)} of {MANY}"
            for message in messages:
                assert message.error() is None
                found.add((message.partition(), message.value()))
        return found
    finally:
        consumer.close()


def test_writing_to_a_topic_that_is_not_there_makes_it(
    client: Client, broker: BrokerProcess, topic_name: str
) -> None:
    client.produce(broker.bootstrap_servers, topic_name, [Message(b"first")])

    (received,) = client.consume(broker.bootstrap_servers, topic_name, 1)
    assert received.value == b"first"
    described = admin_client(broker.bootstrap_servers).list_topics(topic_name, timeout=10)
    assert len(described.topics[topic_name].partitions) == 1


def test_asking_for_a_topic_does_not_make_it_unless_the_client_allows_it(
    broker: BrokerProcess, topic_name: str
) -> None:
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    try:
        (described,) = admin.describe_topics([topic_name])
        assert described["error_code"] == UNKNOWN_TOPIC
        assert topic_name not in admin.list_topics()
    finally:
        admin.close()


def test_the_broker_may_be_told_to_make_no_topics(new_broker: NewBroker) -> None:
    broker = new_broker(auto_create_topics_enable="false", num_partitions="3")
    producer = kafka.KafkaProducer(bootstrap_servers=broker.bootstrap_servers, max_block_ms=1000)
    try:
        with pytest.raises(Exception, match=r"(?i)metadata|unknown|timeout"):
            producer.send("never", b"x").get(5)
    finally:
        producer.close()
    assert "never" not in admin_client(broker.bootstrap_servers).list_topics(timeout=10).topics


def test_a_topic_made_by_writing_has_the_default_number_of_partitions(
    new_broker: NewBroker,
) -> None:
    broker = new_broker(num_partitions="3")
    CLIENTS[0].produce(broker.bootstrap_servers, "auto", [Message(b"x")], partition=2)
    described = admin_client(broker.bootstrap_servers).list_topics("auto", timeout=10)
    assert len(described.topics["auto"].partitions) == 3

"""Tests of a program that uses Kafka: ``pytest examples/test_orders.py``."""

import json

from confluent_kafka import Consumer, Producer

from ottla.testing import Broker


def place_order(servers: str, topic: str, order: dict[str, int]) -> None:
    """The program under test."""
    producer = Producer({"bootstrap.servers": servers})
    producer.produce(topic, json.dumps(order))
    assert producer.flush(10) == 0


def orders(servers: str, topic: str) -> list[dict[str, int]]:
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
    )
    consumer.subscribe([topic])
    found = []
    while (message := consumer.poll(20)) is not None and message.error() is None:
        found.append(json.loads(message.value() or b""))
    consumer.close()
    return found


def test_an_order_is_placed(kafka_bootstrap_servers: str, ottla_topic: str) -> None:
    place_order(kafka_bootstrap_servers, ottla_topic, {"number": 1})
    assert orders(kafka_bootstrap_servers, ottla_topic) == [{"number": 1}]


def test_orders_survive_a_restart_of_the_broker() -> None:
    with Broker(config={"num.partitions": "1"}) as broker:
        place_order(broker.bootstrap_servers, "orders", {"number": 1})
        broker.stop()
        broker.start()
        place_order(broker.bootstrap_servers, "orders", {"number": 2})
        assert orders(broker.bootstrap_servers, "orders") == [{"number": 1}, {"number": 2}]

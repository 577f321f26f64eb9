"""From a producer to a consumer: one record on its way at a time, by librdkafka."""

import time

from benchmarks.measures import LATENCY, LATENCY_TAIL, Figures
from confluent_kafka import Consumer, Producer, TopicPartition
from tools.kafka_peer.broker_process import BrokerProcess

RECORD = b"x" * 100


def end_to_end(broker: BrokerProcess, topic: str, *, samples: int) -> Figures:
    """Milliseconds from the call that produces to the call that returns the record."""
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "linger.ms": 0,
            "acks": 1,
            "socket.nagle.disable": True,
        }
    )
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "not-used",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.min.bytes": 1,
            "fetch.wait.max.ms": 500,
            "socket.nagle.disable": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    taken: list[float] = []
    try:
        for _ in range(samples + samples // 5):
            began = time.perf_counter()
            producer.produce(topic, RECORD, partition=0)
            message = consumer.poll(10)
            taken.append(time.perf_counter() - began)
            assert message is not None, "the record did not come"
            assert message.error() is None, message.error()
            producer.poll(0)
    finally:
        consumer.close()
    counted = sorted(taken[samples // 5 :])  # the first fifth warms up
    return {
        "p50": (_percentile(counted, 0.5), LATENCY),
        "p99": (_percentile(counted, 0.99), LATENCY),
        "p99.9": (_percentile(counted, 0.999), LATENCY_TAIL),
    }


def _percentile(ordered: list[float], part: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))] * 1000

"""Throughput of produce and consume, and what it costs the broker.

Two clients that others wrote, each the same for both brokers: the performance tools of the Java
client, and librdkafka. One partition, so that a batch is a request. The clients' own settings are
their defaults beside the size of a batch and a linger that lets it fill.
"""

import re
import time
from collections.abc import Callable
from typing import Final

from benchmarks.measures import CPU_PER_GB, THROUGHPUT, Figures
from confluent_kafka import Consumer, Producer, TopicPartition
from tools.kafka_peer.broker_process import BrokerProcess, cpu_seconds
from tools.kafka_peer.peer import JVM_FLAGS, run_tool

CLIENT_FLAGS: Final = ("-Xmx512M", *JVM_FLAGS)
LINGER_MS: Final = 5
TIMEOUT_SECONDS: Final = 300


def _costed(broker: BrokerProcess, payload: int, run: Callable[[], float]) -> Figures:
    """Run a client that says how many bytes a second it moved; count the broker's work for it."""
    before = cpu_seconds(broker.pid)
    bytes_per_second = run()
    spent = cpu_seconds(broker.pid) - before
    return {
        "throughput": (bytes_per_second / 1e6, THROUGHPUT),
        "cpu": (spent / (payload / 1e9), CPU_PER_GB),
    }


def produce_java(
    broker: BrokerProcess, topic: str, *, records: int, size: int, batch: int
) -> Figures:
    """kafka-producer-perf-test; the first fifth warms the JVM up and is not counted."""

    def run() -> float:
        done = run_tool(
            "kafka-producer-perf-test", "--bootstrap-server", broker.bootstrap_servers,
            "--topic", topic, "--num-records", str(records), "--record-size", str(size),
            "--throughput", "-1", "--warmup-records", str(records // 5),
            "--command-property", f"batch.size={batch}", f"linger.ms={LINGER_MS}",
            flags=CLIENT_FLAGS, timeout=TIMEOUT_SECONDS,
        )  # fmt: skip
        rates = re.findall(r"records sent, ([\d.]+) records/sec", done.stdout)
        assert rates, f"{done.stdout}\n{done.stderr}"
        return float(rates[-1]) * size

    return _costed(broker, records * size, run)


def consume_java(broker: BrokerProcess, topic: str, *, records: int, size: int) -> Figures:
    """kafka-consumer-perf-test; only the time in which it fetches, not that of joining a group."""

    def run() -> float:
        done = run_tool(
            "kafka-consumer-perf-test", "--bootstrap-server", broker.bootstrap_servers,
            "--topic", topic, "--num-records", str(records), "--timeout", "30000", "--hide-header",
            flags=CLIENT_FLAGS, timeout=TIMEOUT_SECONDS,
        )  # fmt: skip
        lines = [line for line in done.stdout.splitlines() if line.count(",") == 9]
        assert lines, f"{done.stdout}\n{done.stderr}"
        fields = lines[-1].split(",")
        consumed, fetching_ms = int(fields[4]), int(fields[7])
        assert consumed >= records, f"{consumed} of {records} records"
        return consumed * size / (fetching_ms / 1000)

    return _costed(broker, records * size, run)


def produce_librdkafka(
    broker: BrokerProcess, topic: str, *, records: int, size: int, batch: int
) -> Figures:
    """librdkafka, given its messages by the thousand so that Python is not what is measured."""

    def run() -> float:
        producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "batch.size": batch,
                "batch.num.messages": 1_000_000,
                "linger.ms": LINGER_MS,
                "queue.buffering.max.messages": 200_000,
                "queue.buffering.max.kbytes": 64 << 10,
            }
        )
        chunk = max(1, min(1_000, (4 << 20) // size))
        message = {"value": b"x" * size}
        began = time.perf_counter()
        left = records
        while left:
            wanted = min(chunk, left)
            left -= _queue(producer, topic, [dict(message) for _ in range(wanted)])
        assert producer.flush(TIMEOUT_SECONDS) == 0
        return records * size / (time.perf_counter() - began)

    return _costed(broker, records * size, run)


def _queue(producer: Producer, topic: str, messages: list[dict[str, bytes]]) -> int:
    """Queue what there is room for; a full queue is waited for, as any client does."""
    try:
        queued: int = producer.produce_batch(topic, messages, 0)
    except BufferError:
        queued = 0
    if queued < len(messages):
        producer.poll(0.01)
    return queued


def consume_librdkafka(broker: BrokerProcess, topic: str, *, records: int, size: int) -> Figures:
    """librdkafka with the partition assigned: no group is needed."""

    def run() -> float:
        consumer = Consumer(
            {
                # Above so many records in its queue librdkafka stops fetching for a second; a
                # fast broker must not be measured by that.
                "queued.min.messages": 10_000_000,
                "queued.max.messages.kbytes": 1_000_000,
                "fetch.queue.backoff.ms": 1,
                "bootstrap.servers": broker.bootstrap_servers,
                "group.id": "not-used",
                "enable.auto.commit": False,
                "enable.partition.eof": False,
                "auto.offset.reset": "earliest",
            }
        )
        try:
            consumer.assign([TopicPartition(topic, 0, 0)])
            left = records
            began = time.perf_counter()
            while left > 0:
                found = consumer.consume(min(left, 5_000), 10)
                assert found, f"{left} of {records} records did not come"
                left -= len(found)
            return records * size / (time.perf_counter() - began)
        finally:
            consumer.close()

    return _costed(broker, records * size, run)

"""Throughput of produce and consume, and what it costs the broker.

Two clients that others wrote, each the same for both brokers: the performance tools of the Java
client, and librdkafka. One partition, so that a batch is a request. The clients' own settings are
their defaults beside the size of a batch and a linger that lets it fill.
"""

import re
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from benchmarks.measures import CPU_PER_GB, THROUGHPUT, Figures, Report
from benchmarks.topic import topic_on
from confluent_kafka import Consumer, Producer, TopicPartition
from tools.kafka_peer.broker_process import BrokerProcess, cpu_seconds
from tools.kafka_peer.peer import JVM_FLAGS, run_tool

CLIENT_FLAGS: Final = ("-Xmx512M", *JVM_FLAGS)
LINGER_MS: Final = 5
TIMEOUT_SECONDS: Final = 300
Settings = Mapping[str, str]
"""What a client is told beside the defaults; ``bootstrap.servers`` are another listener's."""
NONE: Final[Settings] = MappingProxyType({})


class ClientSettings(NamedTuple):
    """The same for each of the two clients, which have names of their own for some."""

    java: Settings = NONE
    librdkafka: Settings = NONE


DEFAULTS: Final = ClientSettings()


def row_names(name: str) -> list[str]:
    clients = ("Java", "librdkafka")
    return [f"{kind} {name}, {client}" for kind in ("produce", "consume") for client in clients]


def by_both_clients(
    broker: BrokerProcess,
    name: str,
    report: Report,
    *,
    records: int,
    size: int,
    batch: int,
    settings: ClientSettings = DEFAULTS,
) -> None:
    """The rows of :func:`row_names`: what Java has produced, both clients consume."""
    java, librdkafka = settings
    with topic_on(broker, f"java-{size}-{batch}") as topic:
        report(
            f"produce {name}, Java",
            produce_java(broker, topic, records=records, size=size, batch=batch, settings=java),
        )
        report(
            f"consume {name}, Java",
            consume_java(broker, topic, records=records, size=size, settings=java),
        )
        report(
            f"consume {name}, librdkafka",
            consume_librdkafka(broker, topic, records=records, size=size, settings=librdkafka),
        )
    with topic_on(broker, f"librdkafka-{size}-{batch}") as topic:
        report(
            f"produce {name}, librdkafka",
            produce_librdkafka(
                broker, topic, records=records, size=size, batch=batch, settings=librdkafka
            ),
        )


def _costed(broker: BrokerProcess, payload: int, run: Callable[[], float]) -> Figures:
    """Run a client that says how many bytes a second it moved; count the broker's work for it."""
    before = cpu_seconds(broker.pid)
    bytes_per_second = run()
    spent = cpu_seconds(broker.pid) - before
    return {
        "throughput": (bytes_per_second / 1e6, THROUGHPUT),
        "cpu": (spent / (payload / 1e9), CPU_PER_GB),
    }


def _tool_words(broker: BrokerProcess, settings: Settings) -> tuple[str, list[str]]:
    """Where a tool of Java's goes, and its properties."""
    told = {"bootstrap.servers": broker.bootstrap_servers, **settings}
    servers = told.pop("bootstrap.servers")
    return servers, [f"{key}={value}" for key, value in told.items()]


def produce_java(
    broker: BrokerProcess,
    topic: str,
    *,
    records: int,
    size: int,
    batch: int,
    settings: Settings = NONE,
) -> Figures:
    """kafka-producer-perf-test; the first fifth warms the JVM up and is not counted."""
    servers, properties = _tool_words(broker, settings)

    def run() -> float:
        done = run_tool(
            "kafka-producer-perf-test", "--bootstrap-server", servers,
            "--topic", topic, "--num-records", str(records), "--record-size", str(size),
            "--throughput", "-1", "--warmup-records", str(records // 5),
            "--command-property", f"batch.size={batch}", f"linger.ms={LINGER_MS}", *properties,
            flags=CLIENT_FLAGS, timeout=TIMEOUT_SECONDS,
        )  # fmt: skip
        rates = re.findall(r"records sent, ([\d.]+) records/sec", done.stdout)
        assert rates, f"{done.stdout}\n{done.stderr}"
        return float(rates[-1]) * size

    return _costed(broker, records * size, run)


def consume_java(
    broker: BrokerProcess, topic: str, *, records: int, size: int, settings: Settings = NONE
) -> Figures:
    """kafka-consumer-perf-test; only the time in which it fetches, not that of joining a group."""
    servers, properties = _tool_words(broker, settings)
    words = [word for each in properties for word in ("--command-property", each)]

    def run() -> float:
        done = run_tool(
            "kafka-consumer-perf-test", "--bootstrap-server", servers,
            "--topic", topic, "--num-records", str(records), "--timeout", "30000", "--hide-header",
            *words,
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
    broker: BrokerProcess,
    topic: str,
    *,
    records: int,
    size: int,
    batch: int,
    settings: Settings = NONE,
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
                **settings,
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


def consume_librdkafka(
    broker: BrokerProcess, topic: str, *, records: int, size: int, settings: Settings = NONE
) -> Figures:
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
                **settings,
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

"""The rows of a cluster: what three brokers do together, and what becomes of it when one dies."""

import re
import statistics
import time
from typing import Any, Final

from benchmarks.measures import (
    CPU_PER_GB,
    CREATE,
    FAILOVER,
    LATENCY,
    MEMORY_BROKER,
    THROUGHPUT,
    Figures,
    Load,
)
from benchmarks.throughput import CLIENT_FLAGS, LINGER_MS, TIMEOUT_SECONDS
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tools.kafka_peer.broker_process import cpu_seconds, resident_bytes
from tools.kafka_peer.cluster_process import REPLICAS, ClusterProcess
from tools.kafka_peer.peer import run_tool

SIZE: Final = 1_000
PARTITIONS: Final = 6
BATCH: Final = 64 << 10
RATE: Final = 5_000
SETTLE_SECONDS: Final = 2.0
KILLS: Final = 3
TOPIC_PARTITIONS: Final = 1_000
"""Of one topic: a controller takes no request that makes more than 10,000 records."""
IN_SYNC_SECONDS: Final = 600
PROBE_SECONDS: Final = 0.05


def admin_of(cluster: ClusterProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 2})


def create_topic(cluster: ClusterProcess, name: str, partitions: int) -> None:
    """A topic, and a wait until all its replicas are in sync."""
    admin = admin_of(cluster)
    topic = NewTopic(name, partitions, REPLICAS)
    admin.create_topics([topic], request_timeout=IN_SYNC_SECONDS)[name].result(IN_SYNC_SECONDS)
    wait_in_sync(cluster, name, partitions)


def wait_in_sync(cluster: ClusterProcess, name: str, partitions: int) -> None:
    """Every broker that runs must say that all replicas of the topic are in sync."""
    for broker in cluster.brokers.values():
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 2})
        end = time.monotonic() + IN_SYNC_SECONDS
        while True:
            found = admin.list_topics(name, timeout=60).topics[name].partitions
            whole = sum(len(each.isrs) == REPLICAS for each in found.values())
            if whole == partitions:
                break
            assert time.monotonic() < end, f"{whole} of {partitions} are in sync"
            time.sleep(PROBE_SECONDS)


def memory(cluster: ClusterProcess) -> Figures:
    time.sleep(SETTLE_SECONDS)
    sizes = [resident_bytes(pid) / 1e6 for pid in cluster.pids]
    return {"memory": (statistics.median(sizes), MEMORY_BROKER)}


def _cpu(cluster: ClusterProcess) -> float:
    return sum(cpu_seconds(pid) for pid in cluster.pids)


def produce_java(cluster: ClusterProcess, load: Load) -> Figures:
    """kafka-producer-perf-test on six partitions; the first fifth warms up."""
    create_topic(cluster, "java", PARTITIONS)
    records = load.records(SIZE)
    before = _cpu(cluster)
    rate, _, _ = _perf_test(cluster, "java", records, throughput=-1)
    spent = _cpu(cluster) - before
    return {
        "throughput": (rate * SIZE / 1e6, THROUGHPUT),
        "cpu of all": (spent / (records * SIZE / 1e9), CPU_PER_GB),
    }


def latency(cluster: ClusterProcess, load: Load) -> Figures:
    """From send to acknowledgement by all replicas, at a rate that both clusters manage."""
    create_topic(cluster, "latency", PARTITIONS)
    _, p50, p99 = _perf_test(
        cluster, "latency", int(RATE * max(10, 60 * load.scale)), throughput=RATE
    )
    return {"p50": (p50, LATENCY), "p99": (p99, LATENCY)}


def _perf_test(
    cluster: ClusterProcess, topic: str, records: int, *, throughput: int
) -> tuple[float, float, float]:
    """Records a second, and the milliseconds of the median and of the hundredth that is last."""
    done = run_tool(
        "kafka-producer-perf-test", "--bootstrap-server", cluster.bootstrap_servers,
        "--topic", topic, "--num-records", str(records), "--record-size", str(SIZE),
        "--throughput", str(throughput), "--warmup-records", str(records // 5),
        "--command-property", f"batch.size={BATCH}", f"linger.ms={LINGER_MS}", "acks=all",
        flags=CLIENT_FLAGS, timeout=TIMEOUT_SECONDS,
    )  # fmt: skip
    last = done.stdout.strip().splitlines()[-1]
    found = re.search(
        r"records sent, ([\d.]+) records/sec.* ([\d.]+) ms 50th, .* ([\d.]+) ms 99th", last
    )
    assert found is not None, f"{done.stdout}\n{done.stderr}"
    return float(found[1]), float(found[2]), float(found[3])


def produce_librdkafka(cluster: ClusterProcess, load: Load) -> Figures:
    create_topic(cluster, "librdkafka", PARTITIONS)
    records = load.records(SIZE)
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "acks": "all",
            "batch.size": BATCH,
            "linger.ms": LINGER_MS,
            "queue.buffering.max.messages": 200_000,
            "queue.buffering.max.kbytes": 64 << 10,
        }
    )
    message = {"value": b"x" * SIZE}
    before, began = _cpu(cluster), time.perf_counter()
    left, partition = records, 0
    while left:
        wanted = [dict(message) for _ in range(min(1_000, left))]
        try:
            queued: int = producer.produce_batch("librdkafka", wanted, partition)
        except BufferError:
            queued = 0
        if queued < len(wanted):
            producer.poll(0.01)
        left -= queued
        partition = (partition + 1) % PARTITIONS
    assert producer.flush(TIMEOUT_SECONDS) == 0
    elapsed, spent = time.perf_counter() - began, _cpu(cluster) - before
    return {
        "throughput": (records * SIZE / elapsed / 1e6, THROUGHPUT),
        "cpu of all": (spent / (records * SIZE / 1e9), CPU_PER_GB),
    }


class _Writer:
    """Writes one record after another with acks=all, and knows when each was acknowledged."""

    def __init__(self, cluster: ClusterProcess, topic: str) -> None:
        self._topic = topic
        self.acknowledged_at = 0.0
        self._producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 0,
                "retry.backoff.ms": 10,
                "retry.backoff.max.ms": 50,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 50,
                "topic.metadata.refresh.fast.interval.ms": 50,
                "log_level": 0,
            }
        )

    def write(self, *, timeout: float = 60) -> None:
        """Return when one more record is acknowledged."""
        outcome: list[KafkaError | None] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            outcome.append(error)

        self._producer.produce(self._topic, b"x" * 100, partition=0, on_delivery=delivered)
        end = time.monotonic() + timeout
        while not outcome:
            self._producer.poll(0.005)
            assert time.monotonic() < end, "no acknowledgement"
        assert outcome[0] is None, outcome[0]
        self.acknowledged_at = time.perf_counter()


def _leader(cluster: ClusterProcess, topic: str) -> int:
    described: Any = admin_of(cluster).list_topics(topic, timeout=30)
    return int(described.topics[topic].partitions[0].leader)


def failover(cluster: ClusterProcess, load: Load) -> Figures:
    """From kill -9 of a partition's leader to the first write that is acknowledged after it."""
    create_topic(cluster, "failover", 1)
    writer = _Writer(cluster, "failover")
    taken, back = [], []
    for _ in range(KILLS if load.scale >= 1 else 1):
        for _ in range(20):
            writer.write()
        broker = cluster.brokers[_leader(cluster, "failover")]
        killed = time.perf_counter()
        broker.kill()
        writer.write()
        taken.append(writer.acknowledged_at - killed)
        began = time.perf_counter()
        broker.start()
        wait_in_sync(cluster, "failover", 1)
        back.append(time.perf_counter() - began)
    return {
        "first acknowledged write": (statistics.median(taken), FAILOVER),
        "in sync again after its start": (statistics.median(back), FAILOVER),
    }


def create(cluster: ClusterProcess, partitions: int) -> Figures:
    """From the request until all brokers know the topic, and until each partition has a record.

    A partition is born with all its replicas in sync; only a write that all of them have shows that
    they are really there.
    """
    names = [f"many-{partitions}-{at}" for at in range(partitions // TOPIC_PARTITIONS)]
    began = time.perf_counter()
    for name in names:
        create_topic(cluster, name, TOPIC_PARTITIONS)
    known = time.perf_counter() - began
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "log_level": 2}
    )
    for name in names:
        for partition in range(TOPIC_PARTITIONS):
            producer.produce(name, b"x", partition=partition)
    assert producer.flush(IN_SYNC_SECONDS) == 0
    taken = time.perf_counter() - began
    admin = admin_of(cluster)
    for deleted in admin.delete_topics(names).values():
        deleted.result(IN_SYNC_SECONDS)
    time.sleep(SETTLE_SECONDS)
    return {"known to all": (known, CREATE), "a record in each": (taken, CREATE)}


def restart(cluster: ClusterProcess, partitions: int) -> Figures:
    """A clean stop and a start of one broker, until all of its replicas are in sync again."""
    name = f"restart-{partitions}"
    create_topic(cluster, name, partitions)
    broker = cluster.brokers[2]
    began = time.perf_counter()
    broker.stop(timeout=300)
    stopped = time.perf_counter()
    broker.start(timeout=300)
    wait_in_sync(cluster, name, partitions)
    back = time.perf_counter()
    return {"stop": (stopped - began, CREATE), "start until in sync": (back - stopped, CREATE)}

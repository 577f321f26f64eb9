"""Where the coordinators of a cluster of real processes are, and programs that outlive them."""

import subprocess
import time
from collections.abc import Callable
from typing import Final

from confluent_kafka import Producer

from ottla.coordinator.partitioner import partition_of
from ottla.testing.cluster import Cluster

GROUPS: Final = "__consumer_offsets"
TRANSACTIONS: Final = "__transaction_state"
PARTITIONS: Final = 4
QUICK: Final = {
    "offsets.topic.num.partitions": str(PARTITIONS),
    "transaction.state.log.num.partitions": str(PARTITIONS),
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
}
"""Few partitions, and a broker that is away is soon known to be."""


def coordinator(cluster: Cluster, topic: str, name: str) -> int:
    """The broker that coordinates a group or a transactional id."""
    return cluster.leader(topic, partition_of(name, PARTITIONS))


def wait_for_coordinator(cluster: Cluster, topic: str, name: str, *, not_on: int) -> int:
    """The broker that has taken over."""
    found = -1

    def has_moved() -> bool:
        nonlocal found
        found = coordinator(cluster, topic, name)
        return found not in (-1, not_on)

    cluster.wait_until(has_moved, 30, f"{name} has another coordinator")
    return found


def fill(cluster: Cluster, topic: str, numbers: range, partitions: int = 2) -> list[bytes]:
    """Produce values that are numbers, and see that all are acknowledged."""
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 5, "acks": "all"}
    )
    values = [b"%d" % number for number in numbers]
    failures: list[object] = []
    for number, value in zip(numbers, values, strict=True):
        producer.produce(
            topic,
            value,
            partition=number % partitions,
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
    assert producer.flush(60) == 0
    assert not failures
    return values


class Supervised:
    """A program that is started again whenever it ends."""

    def __init__(self, words: list[str]) -> None:
        self._words = words
        self._process: subprocess.Popen[bytes] | None = None
        self.lives = 0

    def look(self) -> None:
        if self._process is None or self._process.poll() is not None:
            self.lives += 1
            self._process = subprocess.Popen(self._words)

    def watch(self, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not until():
            self.look()
            time.sleep(0.1)

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

"""Three of our processes replicate: equal files, and a leader that is killed is missed by none."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.integration.test_quorum_of_three import IDS, QuorumOfThree

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
TOPIC = "replicated"
WAIT_SECONDS = 60


class Cluster(QuorumOfThree):
    """The same three processes, whose brokers are used too."""

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports[:3])

    def leader(self) -> int:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        found: int = admin.list_topics(TOPIC, timeout=30).topics[TOPIC].partitions[0].leader
        return found

    def isr(self) -> list[int]:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        found: list[int] = admin.list_topics(TOPIC, timeout=30).topics[TOPIC].partitions[0].isrs
        return found

    def batches(self) -> list[bytes]:
        """What the first segment of each replica has."""
        return [
            (self.directory / f"data{each}" / f"{TOPIC}-0" / f"{0:020d}.log").read_bytes()
            for each in IDS
        ]

    def levelled(self) -> bytes:
        deadline = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < deadline:
            found = self.batches()
            if len(set(found)) == 1 and len(self.isr()) == len(IDS):
                return found[0]
            time.sleep(0.2)
        raise AssertionError(f"{[len(each) for each in self.batches()]} bytes, isr {self.isr()}")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path)
    for node_id in IDS:
        cluster.start(node_id)
    cluster.active_after(0)
    create(cluster)
    yield cluster
    for node_id in list(cluster.processes):
        cluster.kill(node_id)


def create(cluster: Cluster) -> None:
    """As soon as three brokers are there to have it."""
    deadline = time.monotonic() + WAIT_SECONDS
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    while True:
        topic = NewTopic(TOPIC, 1, 3, config={"min.insync.replicas": "2"})
        try:
            admin.create_topics([topic])[TOPIC].result(20)
        except KafkaException:
            assert time.monotonic() < deadline
            time.sleep(0.3)
        else:
            return


def produce(cluster: Cluster, name: str, count: int) -> None:
    refused: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            refused.append(error)

    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 2,
        }
    )
    for number in range(count):
        producer.produce(TOPIC, f"{name} {number} ".encode() + b"x" * 200, on_delivery=delivered)
        producer.poll(0)
    assert producer.flush(WAIT_SECONDS) == 0
    assert refused == []


def test_files_are_equal_and_nothing_is_lost_with_the_leader(cluster: Cluster) -> None:
    produce(cluster, "first", 2_000)
    first = cluster.leader()
    cluster.kill(first)
    produce(cluster, "second", 2_000)
    assert cluster.leader() != first
    cluster.start(first)
    produce(cluster, "third", 2_000)
    data = cluster.levelled()
    for name in ("first", "second", "third"):
        for number in range(2_000):
            assert data.count(f"{name} {number} ".encode()) == 1

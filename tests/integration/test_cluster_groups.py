"""Groups whose coordinator is a real process that is killed: they go on where they were."""

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from tests.integration.admin import create_topic
from tests.integration.coordinators import (
    GROUPS,
    QUICK,
    coordinator,
    fill,
    wait_for_coordinator,
)

from ottla.testing.cluster import Cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
KINDS = ("classic", "consumer")
SECONDS = 60


@pytest.fixture(scope="module")
def running() -> Iterator[Cluster]:
    with Cluster(3, config=QUICK) as cluster:
        yield cluster


@pytest.fixture
def cluster(running: Cluster) -> Cluster:
    """Whole, whatever the test before has left."""
    for node in running.nodes:
        if not node.is_running:
            running.start(node.node_id)
    running.wait_until_in_sync()
    return running


class Member:
    """A consumer of librdkafka that commits what it has read."""

    def __init__(self, cluster: Cluster, group: str, topic: str, kind: str) -> None:
        timeouts = {"session.timeout.ms": 6000} if kind == "classic" else {}
        self._consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "group.id": group,
                "group.protocol": kind,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "log_level": 2,
                **timeouts,
            }
        )
        self._topic = topic
        self._consumer.subscribe([topic])
        self.seen: list[bytes] = []

    def read(self, seconds: float = 0.1) -> None:
        for message in self._consumer.consume(50, seconds):
            if message.error() is None:
                self.seen.append(message.value() or b"")

    def commit(self) -> None:
        """Until the coordinator has it."""
        deadline = time.monotonic() + SECONDS
        while True:
            try:
                self._consumer.commit(asynchronous=False)
            except KafkaException as error:
                if error.args[0].code() == KafkaError._NO_OFFSET:
                    return  # nothing was read since the last time
                if time.monotonic() > deadline:
                    raise
                self.read()
            else:
                return

    @property
    def owned(self) -> set[int]:
        return {each.partition for each in self._consumer.assignment()}

    def committed(self, partitions: int) -> list[int]:
        asked = [TopicPartition(self._topic, index) for index in range(partitions)]
        return [each.offset for each in self._consumer.committed(asked, timeout=SECONDS)]

    def close(self) -> None:
        self._consumer.close()


def share(members: list[Member], partitions: int) -> None:
    """Until every partition has one owner, and every member owns something."""
    deadline = time.monotonic() + SECONDS
    while True:
        owned = [member.owned for member in members]
        if all(owned) and sorted(set().union(*owned)) == list(range(partitions)):
            assert sum(map(len, owned)) == partitions, "a partition has two owners"
            return
        assert time.monotonic() < deadline, f"partitions are owned as {owned}"
        for member in members:
            member.read()


def read_all(members: list[Member], count: int) -> None:
    """Until all members together have seen ``count`` different values."""
    deadline = time.monotonic() + SECONDS
    while len({value for member in members for value in member.seen}) < count:
        assert time.monotonic() < deadline, "not all records came"
        for member in members:
            member.read()


@pytest.mark.parametrize("kind", KINDS)
def test_a_group_goes_on_with_its_offsets_when_its_coordinator_is_killed(
    cluster: Cluster, kind: str
) -> None:
    topic = group = f"killed-{kind}"
    create_topic(cluster.bootstrap_servers, topic, partitions=3, replication_factor=3)
    values = fill(cluster, topic, range(300), 3)
    member = Member(cluster, group, topic, kind)
    read_all([member], 300)
    member.commit()
    killed = coordinator(cluster, GROUPS, group)
    cluster.kill(killed)
    values += fill(cluster, topic, range(300, 600), 3)
    read_all([member], 600)
    assert sorted(set(member.seen)) == sorted(values)
    wait_for_coordinator(cluster, GROUPS, group, not_on=killed)
    member.commit()
    assert member.committed(3) == [200, 200, 200]
    member.close()
    successor = Member(cluster, group, topic, kind)
    fill(cluster, topic, range(600, 603), 3)
    read_all([successor], 3)
    assert sorted(successor.seen) == [b"600", b"601", b"602"]
    successor.close()


@pytest.mark.parametrize("kind", KINDS)
def test_members_stay_a_group_when_its_coordinator_is_killed_again_and_again(
    cluster: Cluster, kind: str
) -> None:
    topic = group = f"again-{kind}"
    create_topic(cluster.bootstrap_servers, topic, partitions=4, replication_factor=3)
    members = [Member(cluster, group, topic, kind) for _ in range(2)]
    count = 0
    for _ in range(3):
        share(members, 4)
        fill(cluster, topic, range(count, count + 200), 4)
        count += 200
        read_all(members, count)
        for member in members:
            member.commit()
        killed = coordinator(cluster, GROUPS, group)
        cluster.kill(killed)
        wait_for_coordinator(cluster, GROUPS, group, not_on=killed)
        fill(cluster, topic, range(count, count + 200), 4)
        count += 200
        read_all(members, count)
        cluster.start(killed)
        cluster.wait_until_in_sync()
    share(members, 4)
    for member in members:
        member.commit()
        member.close()

"""Transactions over brokers that are real processes, some of which are killed or stand still."""

import sys
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from tests.integration.admin import create_topic
from tests.integration.coordinators import (
    GROUPS,
    QUICK,
    TRANSACTIONS,
    Supervised,
    coordinator,
    fill,
    wait_for_coordinator,
)
from tests.integration.test_transactions import COPIER, TIMEOUT, read_committed

from ottla.testing.cluster import Cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(3, config=QUICK) as cluster:
        yield cluster


def transactional(cluster: Cluster, transactional_id: str) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": 30_000,
            "message.timeout.ms": 25_000,
            "socket.timeout.ms": 5_000,  # a broker that stands still is given up
            "log_level": 2,
        }
    )
    producer.init_transactions(TIMEOUT)
    return producer


def test_a_transaction_spans_the_leaders_of_its_partitions(cluster: Cluster) -> None:
    create_topic(cluster.bootstrap_servers, "t", partitions=6, replication_factor=3)
    committed = []
    for transactional_id in ("a", "b", "c", "d"):
        producer = transactional(cluster, transactional_id)
        for number in range(6):
            producer.begin_transaction()
            value = f"{transactional_id}{number}".encode()
            for partition in range(6):
                producer.produce("t", value, partition=partition)
            if number % 3:
                producer.commit_transaction(TIMEOUT)
                committed += 6 * [value]
            else:
                producer.flush(TIMEOUT)
                producer.abort_transaction(TIMEOUT)
    seen = read_committed(cluster.bootstrap_servers, "t", len(committed))
    assert sorted(seen) == sorted(committed)


def test_an_open_transaction_is_committed_by_the_coordinator_that_took_over(
    cluster: Cluster,
) -> None:
    create_topic(cluster.bootstrap_servers, "t", partitions=3, replication_factor=3)
    producer = transactional(cluster, "tx")
    producer.begin_transaction()
    for partition in range(3):
        producer.produce("t", b"kept", partition=partition)
    assert producer.flush(TIMEOUT) == 0
    killed = coordinator(cluster, TRANSACTIONS, "tx")
    cluster.kill(killed)
    wait_for_coordinator(cluster, TRANSACTIONS, "tx", not_on=killed)
    producer.commit_transaction(TIMEOUT)
    assert read_committed(cluster.bootstrap_servers, "t", 3) == 3 * [b"kept"]


def test_a_coordinator_that_stood_still_ends_nothing_that_its_successor_has_ended(
    cluster: Cluster,
) -> None:
    create_topic(cluster.bootstrap_servers, "t", partitions=3, replication_factor=3)
    producer = transactional(cluster, "tx")
    producer.begin_transaction()
    for partition in range(3):
        producer.produce("t", b"first", partition=partition)
    assert producer.flush(TIMEOUT) == 0
    paused = coordinator(cluster, TRANSACTIONS, "tx")
    cluster.pause(paused)
    try:
        wait_for_coordinator(cluster, TRANSACTIONS, "tx", not_on=paused)
        producer.abort_transaction(TIMEOUT)
        successor = transactional(cluster, "tx")
        successor.begin_transaction()
        successor.produce("t", b"second", partition=0)
        successor.commit_transaction(TIMEOUT)
    finally:
        cluster.resume(paused)
    cluster.wait_until_in_sync()
    successor.begin_transaction()
    successor.produce("t", b"third", partition=0)
    successor.commit_transaction(TIMEOUT)
    assert read_committed(cluster.bootstrap_servers, "t", 2) == [b"second", b"third"]


def test_a_copy_is_exact_while_its_coordinators_are_killed(cluster: Cluster) -> None:
    for topic in ("in", "out"):
        create_topic(cluster.bootstrap_servers, topic, partitions=2, replication_factor=3)
    words = [sys.executable, "-c", COPIER, cluster.bootstrap_servers, "in", "out", "copy"]
    copy = Supervised(words)
    values: list[bytes] = []
    try:
        copy.watch(3)
        victims = [(TRANSACTIONS, "copy"), (GROUPS, "copy"), ("out", None), (TRANSACTIONS, "copy")]
        for topic, name in victims:
            values += fill(cluster, "in", range(len(values), len(values) + 1_000))
            copy.watch(1)
            killed = cluster.leader(topic) if name is None else coordinator(cluster, topic, name)
            cluster.kill(killed)
            copy.watch(6)
            cluster.start(killed)
            cluster.wait_until_in_sync()
        deadline = time.monotonic() + 120
        seen: list[bytes] = []
        while len(seen) < len(values) and time.monotonic() < deadline:
            copy.watch(2)
            seen = read_committed(cluster.bootstrap_servers, "out", len(values))
    finally:
        copy.end()
    assert len(seen) == len(set(seen)), "something came twice"
    assert set(seen) == set(values)

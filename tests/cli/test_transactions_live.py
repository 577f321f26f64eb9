"""``ottla transactions`` against a broker, with transactions that a real client has open."""

import itertools
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from tests.cli.command import Command

from ottla.client.cluster import Cluster
from ottla.common.errors import ErrorCode
from ottla.protocol.generated.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.records.builder import build_batch
from ottla.records.record import Record

NUMBERS = itertools.count()
UNVERIFIED = 11
"""The last version of Produce whose transactions may go unverified."""


@pytest.fixture
def topic(ottla: Command) -> str:
    name = f"transactions-{next(NUMBERS)}"
    ottla("topics", "create", name)
    return name


@pytest.fixture
def producer(bootstrap: str) -> Iterator[tuple[str, Producer]]:
    transactional_id = f"tx-{next(NUMBERS)}"
    made = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id})
    made.init_transactions(20)
    yield transactional_id, made
    made.abort_transaction(20)


def test_an_open_transaction_is_listed_and_described(
    ottla: Command, topic: str, producer: tuple[str, Producer]
) -> None:
    transactional_id, client = producer
    client.begin_transaction()
    client.produce(topic, b"v", partition=0)
    client.flush(20)
    listed = ottla.document("transactions", "list", "--match", f"{transactional_id}|no")
    (row,) = listed["transactions"]
    assert (row["transactional_id"], row["state"]) == (transactional_id, "Ongoing")
    assert ottla.document("transactions", "list", "--state", "Empty", "--match", "tx-.*") == {
        "transactions": []
    }
    (described,) = ottla.document("transactions", "describe", transactional_id)["transactions"]
    assert described["partitions"] == [f"{topic}-0"]
    assert described["producer_id"] == row["producer_id"]
    assert described["duration_ms"] >= 0
    (writer,) = ottla.document("transactions", "describe-producers", topic)["producers"]
    assert (writer["producer_id"], writer["transaction_start_offset"]) == (row["producer_id"], 0)
    arguments = ("find-hanging", topic, "--max-transaction-timeout", "0")
    assert ottla.document("transactions", *arguments) == {"hanging": []}


def test_a_transactional_id_that_nobody_knows_is_refused(ottla: Command) -> None:
    refused = ottla.document("transactions", "describe", "nobody", code=1)
    (error,) = refused["errors"]
    assert error["error"] == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND.name


def hang(bootstrap: str, topic: str) -> None:
    """Leave a transaction behind that no coordinator knows of, as older brokers allowed it."""
    batch = build_batch(
        [Record(timestamp=1_000, value=b"v")],
        producer_id=9_000_000,
        producer_epoch=3,
        base_sequence=0,
        transactional=True,
    )
    data = PartitionProduceData(index=0, records=bytes(batch))
    request = ProduceRequest(
        transactional_id="gone",
        acks=-1,
        timeout_ms=1_000,
        topic_data=[TopicProduceData(name=topic, partition_data=[data])],
    )
    with Cluster(bootstrap) as cluster:
        deadline = cluster.deadline()
        node_id = cluster.topic(topic).partitions[0].leader
        connection = cluster.connection(node_id, deadline)
        answer = connection.ask(request, ProduceResponse, UNVERIFIED, 10)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE


def test_a_transaction_that_hangs_is_found_and_aborted(
    ottla: Command, topic: str, bootstrap: str
) -> None:
    setting = "transaction.partition.verification.enable"
    ottla("configs", "alter", "broker", "default", "-s", f"{setting}=false")
    try:
        hang(bootstrap, topic)
    finally:
        ottla("configs", "alter", "broker", "default", "-d", setting)
    (found,) = ottla.document("transactions", "find-hanging", topic)["hanging"]
    assert (found["producer_id"], found["transaction_start_offset"]) == (9_000_000, 0)
    ottla("transactions", "abort", topic, "-p", "0", "--start-offset", "7", "-y", code=1)
    ottla("transactions", "abort", topic, "-p", "0", "--start-offset", "0", "-y")
    assert ottla.document("transactions", "find-hanging", topic) == {"hanging": []}
    (writer,) = ottla.document("transactions", "describe-producers", topic)["producers"]
    assert writer["transaction_start_offset"] is None

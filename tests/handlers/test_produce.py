"""Produce against the real server in a simulation: what is refused, and how the client hears."""

import pytest

from ottla.common.errors import ErrorCode
from ottla.protocol.generated.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.protocol.generated.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.protocol.generated.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from ottla.protocol.generated.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.records.builder import build_batch
from ottla.records.compression import ZSTD
from ottla.records.record import Record
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.client import Disconnected, SimulatedClient

TOPIC = "t"


@pytest.fixture
def broker() -> SimulatedBroker:
    broker = SimulatedBroker(1)
    broker.start()
    topic = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
    SimulatedClient(broker).ask(CreateTopicsRequest(topics=[topic]), CreateTopicsResponse, 7)
    return broker


def batch(broker: SimulatedBroker, *, codec: int = 0, transactional: bool = False) -> bytes:
    record = Record(
        offset=0, timestamp=broker.scheduler.wall_ms(), key=b"k", value=b"v" * 50, headers=[]
    )
    producer_id = 7 if transactional else -1
    return bytes(
        build_batch(
            [record],
            codec=codec,
            transactional=transactional,
            producer_id=producer_id,
            producer_epoch=0 if transactional else -1,
            base_sequence=0 if transactional else -1,
        )
    )


def produce(
    client: SimulatedClient, records: bytes | None, version: int, acks: int = 1
) -> PartitionProduceResponse:
    partition = PartitionProduceData(index=0, records=records)
    request = ProduceRequest(
        acks=acks,
        timeout_ms=100,
        topic_data=[TopicProduceData(name=TOPIC, partition_data=[partition])],
    )
    return client.ask(request, ProduceResponse, version).responses[0].partition_responses[0]


def log_end(client: SimulatedClient) -> int:
    partition = ListOffsetsPartition(partition_index=0, timestamp=-1)
    topic = ListOffsetsTopic(name=TOPIC, partitions=[partition])
    answer = client.ask(ListOffsetsRequest(topics=[topic]), ListOffsetsResponse, 5)
    return answer.topics[0].partitions[0].offset


@pytest.mark.parametrize("version", range(3, 13))
def test_every_version_by_name_appends_and_counts_on(broker: SimulatedBroker, version: int) -> None:
    client = SimulatedClient(broker)
    first = produce(client, batch(broker), version)
    second = produce(client, batch(broker), version)
    assert (first.error_code, first.base_offset) == (ErrorCode.NONE, 0)
    assert (second.error_code, second.base_offset) == (ErrorCode.NONE, 1)


def test_zstd_is_refused_from_clients_of_an_age_that_did_not_know_it(
    broker: SimulatedBroker,
) -> None:
    client = SimulatedClient(broker)
    records = batch(broker, codec=ZSTD)
    assert produce(client, records, 6).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert produce(client, records, 7).error_code == ErrorCode.NONE
    assert log_end(client) == 1


@pytest.mark.parametrize("acks", [2, -2, 100])
def test_acks_are_0_1_or_all(broker: SimulatedBroker, acks: int) -> None:
    client = SimulatedClient(broker)
    refused = produce(client, batch(broker), 9, acks)
    assert refused.error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert log_end(client) == 0


def test_a_transaction_that_nobody_could_end_is_not_begun(broker: SimulatedBroker) -> None:
    client = SimulatedClient(broker)
    refused = produce(client, batch(broker, transactional=True), 9)
    assert refused.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert log_end(client) == 0


def test_no_records_at_all_are_refused(broker: SimulatedBroker) -> None:
    assert produce(SimulatedClient(broker), None, 9).error_code == ErrorCode.INVALID_RECORD


def test_with_acks_0_a_refusal_ends_the_connection_and_others_go_on(
    broker: SimulatedBroker,
) -> None:
    other = SimulatedClient(broker)
    with pytest.raises(Disconnected):
        produce(SimulatedClient(broker), b"garbage" * 20, 9, acks=0)
    assert produce(other, batch(broker), 9).error_code == ErrorCode.NONE


def test_a_request_without_records_may_not_be_large(broker: SimulatedBroker) -> None:
    """Of many tiny items, objects take many times the bytes that came."""
    topics = [MetadataRequestTopic(name="x" * 30_000) for _ in range(600)]
    with pytest.raises(Disconnected):
        SimulatedClient(broker).ask(MetadataRequest(topics=topics), MetadataResponse, 4)
    topics = topics[:100]
    answer = SimulatedClient(broker).ask(MetadataRequest(topics=topics), MetadataResponse, 4)
    assert answer.topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION

"""InitProducerId and DescribeProducers: who writes idempotently, and under which id."""

import pytest
from tests.handlers.broker import Broker

from ottla.common.errors import ApiError, ErrorCode
from ottla.handlers import describe_producers, init_producer_id
from ottla.protocol.generated.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from ottla.protocol.generated.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from ottla.records.builder import build_batch
from ottla.records.record import Record


def init(
    version: int = 5,
    transactional_id: str | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
) -> tuple[int, int, int]:
    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=60_000,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )
    answer = Broker().ask(init_producer_id, request, version, InitProducerIdResponse)
    return answer.error_code, answer.producer_id, answer.producer_epoch


@pytest.mark.parametrize("version", range(6))
def test_an_idempotent_producer_gets_an_id_of_its_own(version: int) -> None:
    assert init(version) == (0, 4001, 0)


def test_an_idempotent_producer_that_had_an_id_gets_a_new_one() -> None:
    assert init(producer_id=5, producer_epoch=3) == (0, 4001, 0)


@pytest.mark.parametrize(("producer_id", "producer_epoch"), [(5, -1), (-1, 1)])
def test_an_id_without_its_epoch_is_refused(producer_id: int, producer_epoch: int) -> None:
    refused = (ErrorCode.INVALID_REQUEST, -1, -1)
    assert init(producer_id=producer_id, producer_epoch=producer_epoch) == refused


def described(broker: Broker, topic: str, *partitions: int) -> DescribeProducersResponse:
    request = DescribeProducersRequest(
        topics=[TopicRequest(name=topic, partition_indexes=list(partitions))]
    )
    return broker.ask(describe_producers, request, 0, DescribeProducersResponse)


def test_producers_are_shown_with_what_they_sent_last() -> None:
    broker = Broker()
    broker.add_topic("t", 2)
    batch = build_batch(
        [Record(timestamp=1_700_000_000_005, value=b"v"), Record(timestamp=1_700_000_000_003)],
        producer_id=7,
        producer_epoch=2,
        base_sequence=0,
    )
    broker.append("t", 0, batch)
    written, empty = described(broker, "t", 0, 1).topics[0].partitions
    (producer,) = written.active_producers
    assert (producer.producer_id, producer.producer_epoch) == (7, 2)
    assert (producer.last_sequence, producer.last_timestamp) == (1, 1_700_000_000_005)
    assert (producer.coordinator_epoch, producer.current_txn_start_offset) == (-1, -1)
    assert (empty.error_code, empty.error_message, empty.active_producers) == (0, None, [])


@pytest.mark.parametrize(
    ("topic", "partition", "code", "message"),
    [
        ("t", 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None),
        (
            "nope",
            0,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "This server does not host this topic-partition.",
        ),
        ("far", 0, ErrorCode.NOT_LEADER_OR_FOLLOWER, None),
    ],
)
def test_producers_of_partitions_that_are_not_here_are_not_known(
    topic: str, partition: int, code: ErrorCode, message: str | None
) -> None:
    broker = Broker()
    broker.add_topic("t")
    broker.add_topic("far", replicas=(7,), leader=7)
    (found,) = described(broker, topic, partition).topics[0].partitions
    assert (found.error_code, found.error_message) == (code, message)


def test_what_is_no_name_is_told_why() -> None:
    (found,) = described(Broker(), "bad/", 0).topics[0].partitions
    assert found.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert "'bad/'" in (found.error_message or "")


def test_a_refusal_reaches_every_partition() -> None:
    request = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0, 1])])
    answer = describe_producers.refuse(request, ApiError(), 0)
    assert [p.error_code for p in answer.topics[0].partitions] == [-1, -1]

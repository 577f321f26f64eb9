"""Produce on the hot path: from a frame to the log, partition by partition."""

import pytest
from tests.handlers.broker import Broker
from tests.replication.states import lead

from ottla.common.checksum import crc32c
from ottla.common.errors import ErrorCode, ProtocolViolation
from ottla.handlers import produce
from ottla.protocol.generated.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.protocol.message import from_bytes, to_bytes
from ottla.records.builder import build_batch
from ottla.records.record import Record

NOW_MS = 1_700_000_000_000


def batch(*values: bytes, transactional: bool = False) -> bytes:
    records = [Record(timestamp=NOW_MS, value=value) for value in values]
    if not transactional:
        return bytes(build_batch(records))
    return bytes(
        build_batch(records, producer_id=9, producer_epoch=0, base_sequence=0, transactional=True)
    )


def seal(data: bytearray) -> bytearray:
    """Let the checksum fit what was changed."""
    data[17:21] = crc32c(memoryview(data)[21:]).to_bytes(4, "big")
    return data


def send(
    broker: Broker,
    partitions: dict[int, bytes | None],
    *,
    version: int = 13,
    acks: int = -1,
    topic: str = "t",
    transactional_id: str | None = None,
) -> dict[int, PartitionProduceResponse] | None:
    """Produce to partitions of a topic; each one's answer, or None when there is none."""
    data = TopicProduceData(
        partition_data=[
            PartitionProduceData(index=index, records=records)
            for index, records in partitions.items()
        ]
    )
    if version >= 13:
        found = broker.metadata.image.topics.by_name.get(topic)
        data.topic_id = b"?" * 16 if found is None else found.topic_id
    else:
        data.name = topic
    request = ProduceRequest(
        acks=acks, timeout_ms=1000, topic_data=[data], transactional_id=transactional_id
    )
    frame = memoryview(bytearray(to_bytes(request, version)))
    answer = produce.answer(frame, 0, version, 77, broker.services)
    if answer is None:
        return None
    assert isinstance(answer, bytes)
    response = from_bytes(ProduceResponse, answer[9 if version >= 9 else 8 :], version)
    (answered,) = response.responses
    return {each.index: each for each in answered.partition_responses}


def only(
    broker: Broker, records: bytes | None, *, index: int = 0, version: int = 13, topic: str = "t"
) -> PartitionProduceResponse:
    answered = send(broker, {index: records}, version=version, topic=topic)
    assert answered is not None
    return answered[index]


@pytest.fixture
def broker() -> Broker:
    made = Broker()
    made.add_topic("t", 2)
    return made


@pytest.mark.parametrize("version", range(3, 14))
@pytest.mark.parametrize("acks", [1, -1])
def test_what_is_produced_gets_the_next_offsets(broker: Broker, version: int, acks: int) -> None:
    assert send(broker, {0: batch(b"a", b"b")}, version=version, acks=acks)
    answered = send(broker, {0: batch(b"c"), 1: batch(b"d")}, version=version, acks=acks)
    assert answered is not None
    assert [(p.index, p.error_code, p.base_offset) for p in answered.values()] == [
        (0, 0, 2),
        (1, 0, 0),
    ]
    assert broker.log_of("t").high_watermark == 3


def test_who_wants_no_answer_gets_none(broker: Broker) -> None:
    assert send(broker, {0: batch(b"a")}, acks=0) is None
    assert broker.log_of("t").log_end_offset == 1


def test_who_wants_no_answer_learns_of_a_refusal_by_the_end_of_the_connection(
    broker: Broker,
) -> None:
    with pytest.raises(ProtocolViolation):
        send(broker, {0: batch(b"a"), 9: batch(b"b")}, acks=0)
    assert broker.log_of("t").log_end_offset == 1


@pytest.mark.parametrize("acks", [2, -2, 32767])
def test_other_numbers_of_acks_are_refused(broker: Broker, acks: int) -> None:
    answered = send(broker, {0: batch(b"a")}, acks=acks)
    assert answered is not None
    assert answered[0].error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert broker.log_of("t").log_end_offset == 0


@pytest.mark.parametrize("version", [12, 13])
def test_partitions_that_are_not_there_are_told_apart_from_topics(
    broker: Broker, version: int
) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if version >= 13 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert only(broker, batch(b"a"), topic="nope", version=version).error_code == unknown
    partition = only(broker, batch(b"a"), index=9, version=version)
    assert partition.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_refused_partition_does_not_take_the_others_with_it(broker: Broker) -> None:
    damaged = bytearray(batch(b"b"))
    damaged[-1] ^= 1
    answered = send(broker, {0: batch(b"a"), 1: bytes(damaged)})
    assert answered is not None
    assert [p.error_code for p in answered.values()] == [0, ErrorCode.CORRUPT_MESSAGE]
    assert broker.log_of("t").log_end_offset == 1


def test_where_the_log_begins_is_told_with_records_that_were_looked_at(broker: Broker) -> None:
    broker.produce("t", 0, (1, 2))
    broker.log_of("t").delete_records_before(1)
    control = bytearray(batch(b"a"))
    control[22] |= 0x20
    damaged = bytearray(batch(b"a"))
    damaged[-1] ^= 1
    for records, told in ((seal(control), 1), (damaged, -1), (batch(b"a") * 2, -1), (b"", -1)):
        refused = only(broker, bytes(records))
        assert refused.error_code != ErrorCode.NONE
        assert (refused.base_offset, refused.log_start_offset) == (-1, told)


def test_no_records_at_all_are_refused(broker: Broker) -> None:
    assert only(broker, None).error_code == ErrorCode.INVALID_RECORD


def test_a_broker_that_does_not_lead_says_who_does(broker: Broker) -> None:
    lead(broker.partition("t"), 7, 4, (7,))
    refused = only(broker, batch(b"a"))
    assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    leader = refused.current_leader
    assert (leader.leader_id, leader.leader_epoch) == (7, 4)


def test_a_transactional_batch_of_nobodys_transaction_is_refused(broker: Broker) -> None:
    data = batch(b"a", transactional=True)
    answered = send(broker, {0: data})
    assert answered is not None
    assert answered[0].error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert broker.log_of("t").log_end_offset == 0


@pytest.mark.parametrize("size", [0, 1, 16, 22, 23, 60])
def test_records_of_a_few_bytes_are_no_batch(broker: Broker, size: int) -> None:
    assert only(broker, b"\xff" * size).error_code != ErrorCode.NONE


def test_idempotent_retries_get_their_first_offsets(broker: Broker) -> None:
    record = Record(timestamp=NOW_MS, value=b"v")
    data = bytes(build_batch([record], producer_id=3, producer_epoch=0, base_sequence=0))
    for _ in range(2):
        answered = only(broker, data)
        assert (answered.error_code, answered.base_offset) == (0, 0)
    assert broker.log_of("t").log_end_offset == 1

"""Producer and consumer against brokers that move leaders, lose answers and repeat themselves."""

from collections.abc import Iterator

import pytest
from tests.client.scripted_broker import HANG_UP, TOPIC_ID, ScriptedBroker, metadata
from tests.client.test_cluster import QUICK

from ottla.client.consumer import Consumer
from ottla.client.errors import BrokerUnavailable, SomeRefused
from ottla.client.offsets import EARLIEST
from ottla.client.producer import Producer
from ottla.client.stamps import Stamp, Stamps
from ottla.common.errors import (
    ApiError,
    ErrorCode,
    InvalidRecord,
    MessageTooLarge,
    NetworkException,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    OutOfOrderSequenceNumber,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
)
from ottla.common.topic_partition import TopicPartition
from ottla.protocol.api import ApiKey
from ottla.protocol.generated.fetch import FetchableTopicResponse, FetchRequest, FetchResponse
from ottla.protocol.generated.fetch import PartitionData as FetchedPartition
from ottla.protocol.generated.init_producer_id import InitProducerIdResponse
from ottla.protocol.generated.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.protocol.generated.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from ottla.protocol.message import Message
from ottla.records.batch import BatchHeader, read_header
from ottla.records.builder import build_batch
from ottla.records.record import Record, iterate

T0 = TopicPartition("t", 0)


def produced(code: int = 0, base_offset: int = 0) -> ProduceResponse:
    refused = [BatchIndexAndErrorMessage(batch_index=0, batch_index_error_message="no key")]
    answer = PartitionProduceResponse(
        error_code=code,
        base_offset=base_offset if code == 0 else -1,
        error_message="because" if code == ErrorCode.INVALID_RECORD else None,
        record_errors=refused if code == ErrorCode.INVALID_RECORD else [],
    )
    return ProduceResponse(
        responses=[TopicProduceResponse(topic_id=TOPIC_ID, partition_responses=[answer])]
    )


class Script:
    """A leader whose answers to Produce, Fetch or ListOffsets are given one by one."""

    def __init__(self, *answers: Message | bytes) -> None:
        self._answers: Iterator[Message | bytes] = iter(answers)
        self._producer_ids = iter(range(100, 1000, 100))
        self.broker = ScriptedBroker(
            {
                ApiKey.METADATA: lambda *_: metadata(self.broker),
                ApiKey.INIT_PRODUCER_ID: lambda *_: InitProducerIdResponse(
                    producer_id=next(self._producer_ids), producer_epoch=0
                ),
                ApiKey.PRODUCE: self._next,
                ApiKey.FETCH: self._next,
                ApiKey.LIST_OFFSETS: self._next,
            }
        )

    def _next(self, request: Message, version: int) -> Message | bytes:
        return next(self._answers)

    def sequences(self) -> list[tuple[int, int]]:
        """Producer id and sequence of each batch that came."""
        return [(header.producer_id, header.base_sequence) for header in self.headers()]

    def epochs(self) -> list[int]:
        return [header.producer_epoch for header in self.headers()]

    def headers(self) -> list[BatchHeader]:
        return [read_header(data) for data in self.batches()]

    def batches(self) -> list[bytes]:
        found = []
        for request in self.broker.requests(ApiKey.PRODUCE):
            assert isinstance(request, ProduceRequest)
            data = request.topic_data[0].partition_data[0].records
            assert data is not None
            found.append(data)
        return found


class ClockThatMovesByWaiting:
    def __init__(self) -> None:
        self.waits: list[float] = []

    def wall_ms(self) -> int:
        return 1_750_000_000_000

    def monotonic(self) -> float:
        return sum(self.waits)

    def wait(self, seconds: float) -> None:
        self.waits.append(round(seconds, 6))


def producer_for(script: Script, **options: object) -> Producer:
    return Producer(script.broker.address, timing=QUICK, **options)  # type: ignore[arg-type]


def test_a_batch_is_sent_again_to_the_new_leader() -> None:
    first = Script(produced(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    second = Script(produced(0, 42))
    leaders = iter([0])

    def answer(request: Message, version: int) -> Message:
        return metadata(first.broker, second.broker, leader=next(leaders, 1))

    first.broker.answers[ApiKey.METADATA] = second.broker.answers[ApiKey.METADATA] = answer
    with first.broker, second.broker, producer_for(first) as producer:
        promise = producer.send("t", b"v")
        producer.flush()
        assert promise.result().offset == 42
    assert first.sequences() == second.sequences() == [(100, 0)]


def test_a_lost_answer_is_asked_for_with_the_same_sequence() -> None:
    script = Script(produced(), HANG_UP, produced(0, 5), produced(0, 6))
    with script.broker, producer_for(script) as producer:
        for _ in range(3):
            producer.send("t", b"v")
            producer.flush()
    assert script.sequences() == [(100, 0), (100, 1), (100, 1), (100, 2)]


def test_a_repetition_that_the_leader_knows_is_a_success() -> None:
    script = Script(HANG_UP, produced(ErrorCode.DUPLICATE_SEQUENCE_NUMBER), produced())
    with script.broker, producer_for(script) as producer:
        promise = producer.send("t", b"v")
        producer.flush()
        assert promise.result().offset == -1
        producer.send("t", b"w")
    assert script.sequences() == [(100, 0), (100, 0), (100, 1)]


def test_a_refused_batch_fails_its_records_and_the_next_takes_its_sequence() -> None:
    script = Script(produced(ErrorCode.INVALID_RECORD), produced(0, 3))
    with script.broker, producer_for(script) as producer:
        promises = [producer.send("t", b"v") for _ in range(2)]
        with pytest.raises(InvalidRecord, match="because") as refusal:
            producer.flush()
        assert refusal.value.record_errors == [(0, "no key")]
        for promise in promises:
            with pytest.raises(InvalidRecord):
                promise.result()
        producer.send("t", b"w")
        producer.flush()
    assert script.sequences() == [(100, 0), (100, 0)]


def test_a_lost_sequence_begins_anew_with_the_next_epoch() -> None:
    script = Script(produced(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), produced())
    with script.broker, producer_for(script) as producer:
        producer.send("t", b"v")
        with pytest.raises(OutOfOrderSequenceNumber):
            producer.flush()
        producer.send("t", b"w")
    assert script.sequences() == [(100, 0), (100, 0)]
    assert script.epochs() == [0, 1]


@pytest.mark.parametrize(
    "code", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING]
)
def test_a_producer_id_that_is_no_good_is_given_up(code: ErrorCode) -> None:
    script = Script(produced(code), produced())
    with script.broker, producer_for(script) as producer:
        producer.send("t", b"v")
        with pytest.raises(ApiError):
            producer.flush()
        producer.send("t", b"w")
    assert script.sequences() == [(100, 0), (200, 0)]
    assert script.epochs() == [0, 0]


def test_a_producer_id_whose_epochs_are_over_is_given_up() -> None:
    stamps = Stamps()
    other = TopicPartition("t", 1)
    stamps.take_id(100, 32_766)
    stamps.begin_anew(T0, stamps.next(T0))
    assert stamps.next(T0) == (100, 32_767, 0)
    stamps.begin_anew(T0, stamps.next(T0))
    assert stamps.needs_id(T0)
    stamps.take_id(200, 0)
    stamps.begin_anew(other, Stamp(100, 32_767, 5))
    assert not stamps.needs_id(other), "it has not used that id yet"


def test_what_does_not_arrive_in_time_fails_and_the_next_has_another_epoch() -> None:
    script = Script(*[produced(ErrorCode.NOT_ENOUGH_REPLICAS)] * 3, produced())
    clock = ClockThatMovesByWaiting()
    with script.broker, producer_for(script, delivery_timeout_ms=25, clock=clock) as producer:
        promise = producer.send("t", b"v")
        with pytest.raises(NotEnoughReplicas):
            producer.flush()
        assert promise.done
        producer.send("t", b"w")
        producer.flush()
    assert script.sequences() == [(100, 0)] * 4
    assert script.epochs() == [0, 0, 0, 1]
    assert clock.waits == [0.005, 0.010, 0.010]


def test_without_idempotence_batches_carry_no_producer() -> None:
    script = Script(produced(), produced())
    with script.broker:
        for options in ({"acks": 1}, {"idempotent": False}):
            with producer_for(script, **options) as producer:
                producer.send("t", b"v")
    assert script.sequences() == [(-1, -1), (-1, -1)]
    assert script.broker.requests(ApiKey.INIT_PRODUCER_ID) == []


def test_acks_0_asks_for_no_answer() -> None:
    script = Script(b"", b"")
    with script.broker, producer_for(script, acks=0) as producer:
        promise = producer.send("t", b"v")
        producer.flush()
        assert promise.result().offset == -1


def test_idempotence_needs_all_acknowledgements() -> None:
    with pytest.raises(ValueError, match="acks=all"):
        Producer("localhost", acks=1, idempotent=True)


def test_a_record_that_no_request_holds_is_refused_at_once() -> None:
    script = Script()
    with script.broker, producer_for(script, request_bytes_max=1000) as producer:
        with pytest.raises(MessageTooLarge):
            producer.send("t", bytes(1000))
        with pytest.raises(UnknownTopicOrPartition, match="no partition 5"):
            producer.send("t", b"", partition=5)


def test_full_batches_go_out_before_the_flush_and_order_holds() -> None:
    script = Script(*[produced(0, index * 10) for index in range(100)])
    with (
        script.broker,
        producer_for(script, batch_bytes=1000, request_bytes_max=3000) as producer,
    ):
        promises = [producer.send("t", b"%04d" % index + bytes(90)) for index in range(100)]
        assert promises[0].done
        assert not promises[-1].done
        producer.flush()
        assert all(promise.done for promise in promises)
    batches = script.batches()
    assert len(batches) > 10
    assert max(map(len, batches)) <= 1000
    records = [record for data in batches for record in iterate(data)]
    assert [int((record.value or b"")[:4]) for record in records] == list(range(100))


def test_buffers_are_bounded() -> None:
    script = Script(*[produced()] * 50)
    with script.broker, producer_for(script, buffered_bytes_max=2000) as producer:
        for index in range(100):
            producer.send("t", bytes(100))
            assert producer._buffered_bytes < 2200, index
    assert len(script.batches()) > 3


def test_what_was_not_flushed_fails_when_the_producer_is_closed() -> None:
    script = Script()
    with script.broker:
        producer = producer_for(script)
        promise = producer.send("t", b"v")
        producer.close()
        with pytest.raises(NetworkException, match="closed"):
            promise.result()


def test_a_cluster_that_is_gone_is_told_by_the_flush() -> None:
    script = Script()
    with script.broker:
        producer = producer_for(script, delivery_timeout_ms=200)
        promise = producer.send("t", b"v")
    with pytest.raises(BrokerUnavailable, match=script.broker.address):
        producer.flush()
    assert not promise.done
    producer.close()
    assert promise.done


def fetched(
    code: int = 0, records: bytes = b"", *, high_watermark: int = 9, top_level: int = 0
) -> FetchResponse:
    item = FetchedPartition(error_code=code, high_watermark=high_watermark, records=records)
    return FetchResponse(
        error_code=top_level,
        responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[item])],
    )


def listed(offset: int, code: int = 0) -> ListOffsetsResponse:
    item = ListOffsetsPartitionResponse(error_code=code, offset=offset)
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[item])])


BATCH = build_batch([Record(value=b"a"), Record(value=b"b")], base_offset=4)


def test_a_fetch_is_asked_again_after_errors_that_pass() -> None:
    script = Script(
        fetched(ErrorCode.NOT_LEADER_OR_FOLLOWER),
        HANG_UP,
        fetched(top_level=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR),
        fetched(0, BATCH),
    )
    with script.broker, Consumer(script.broker.address, timing=QUICK) as consumer:
        consumer.assign({T0: 4})
        records = consumer.poll(2000)[T0]
        assert [(record.offset, record.value) for record in records] == [(4, b"a"), (5, b"b")]
        assert consumer.position(T0) == 6
        assert consumer.high_watermark(T0) == 9
    last = script.broker.requests(ApiKey.FETCH)[-1]
    assert isinstance(last, FetchRequest)
    assert last.topics[0].partitions[0].fetch_offset == 4


def test_a_fetch_that_is_refused_is_an_error() -> None:
    script = Script(fetched(ErrorCode.TOPIC_AUTHORIZATION_FAILED), fetched(0, BATCH))
    with script.broker, Consumer(script.broker.address, timing=QUICK) as consumer:
        consumer.assign({T0: 4})
        with pytest.raises(TopicAuthorizationFailed, match="t-0"):
            consumer.poll(2000)
        assert len(consumer.poll(2000)[T0]) == 2


def test_a_position_that_is_gone_is_an_error_or_a_reset() -> None:
    script = Script(fetched(ErrorCode.OFFSET_OUT_OF_RANGE))
    with script.broker, Consumer(script.broker.address, timing=QUICK) as consumer:
        consumer.assign({T0: 999})
        with pytest.raises(OffsetOutOfRange, match="999"):
            consumer.poll(2000)
    script = Script(fetched(ErrorCode.OFFSET_OUT_OF_RANGE), listed(4), fetched(0, BATCH))
    with (
        script.broker,
        Consumer(script.broker.address, timing=QUICK, reset="earliest") as consumer,
    ):
        consumer.assign({T0: 999})
        assert consumer.poll(2000)[T0][0].offset == 4


def test_offsets_are_asked_of_the_leader_until_it_knows_them() -> None:
    script = Script(listed(-1, ErrorCode.OFFSET_NOT_AVAILABLE), listed(7))
    with script.broker, Consumer(script.broker.address, timing=QUICK) as consumer:
        assert consumer.beginning_offsets([T0]) == {T0: 7}


def test_offsets_of_what_does_not_exist_are_refused_at_once() -> None:
    script = Script()
    with script.broker, Consumer(script.broker.address, timing=QUICK) as consumer:
        with pytest.raises(SomeRefused) as refusal:
            consumer.assign({TopicPartition("t", 3): EARLIEST})
        assert refusal.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert list(refusal.value.refused) == [TopicPartition("t", 3)]


def test_offsets_that_do_not_come_in_time_are_refused_with_the_last_reason() -> None:
    script = Script(*[listed(-1, ErrorCode.NOT_LEADER_OR_FOLLOWER)] * 500)
    with script.broker, Consumer(script.broker.address, timing=QUICK) as consumer:
        with pytest.raises(SomeRefused) as refusal:
            consumer.end_offsets([T0])
        assert isinstance(refusal.value.refused[T0], NotLeaderOrFollower)


def test_an_empty_poll_ends_at_its_timeout() -> None:
    script = Script(*[fetched()] * 50_000)
    with script.broker, Consumer(script.broker.address, timing=QUICK) as consumer:
        assert consumer.poll(50) == {}
        consumer.assign({T0: 0})
        assert consumer.poll(50) == {}
        assert consumer.high_watermark(T0) == 9

"""The raw producer against leaders that move, lose answers and repeat themselves."""

import threading
from collections.abc import Iterator

import pytest
from tests.client.scripted_broker import HANG_UP, ScriptedBroker, metadata
from tests.client.test_cluster import QUICK
from tests.client.test_retries import Script, produced

from ottla.client.cluster import Cluster
from ottla.common.errors import (
    ErrorCode,
    InvalidRecord,
    NotEnoughReplicas,
    OutOfOrderSequenceNumber,
    UnknownTopicOrPartition,
)
from ottla.common.topic_partition import TopicPartition
from ottla.protocol.api import ApiKey
from ottla.protocol.message import Message
from ottla.records.batch import read_header
from ottla.records.builder import BatchBuilder
from ottla.spark.codec.encoding import EncodedBatch
from ottla.spark.sink.produce import Delivery, RawProducer

T0 = TopicPartition("t", 0)
NOT_LEADER = produced(ErrorCode.NOT_LEADER_OR_FOLLOWER)
OUT_OF_ORDER = produced(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
DUPLICATE = produced(ErrorCode.DUPLICATE_SEQUENCE_NUMBER)


def batch(sequence: int) -> EncodedBatch:
    builder = BatchBuilder()
    builder.append(0, None, b"%d" % sequence)
    data = builder.build(producer_id=100, producer_epoch=0, base_sequence=sequence)
    return EncodedBatch(T0, data, 1, sequence)


def producer_for(broker: ScriptedBroker, delivery: Delivery | None = None) -> RawProducer:
    control, data = (Cluster(broker.address, timing=QUICK) for _ in range(2))
    producer = RawProducer(control, data, delivery or Delivery(request_bytes_max=1))
    assert producer.topic("t").exists
    return producer


def close(producer: RawProducer) -> None:
    producer.close()
    producer._control.close()
    producer._data.close()


def send(script: Script, sequences: range, delivery: Delivery | None = None) -> RawProducer:
    with script.broker:
        producer = producer_for(script.broker, delivery)
        try:
            for sequence in sequences:
                producer.send(batch(sequence))
            producer.flush()
        finally:
            close(producer)
    return producer


def sequences(script: Script) -> list[int]:
    return [read_header(data).base_sequence for data in script.batches()]


def test_all_is_acknowledged_after_a_flush() -> None:
    script = Script(*[produced()] * 12)
    assert send(script, range(12)).records == 12
    assert sequences(script) == list(range(12))


def test_five_requests_are_on_their_way_but_the_second_waits_for_the_first() -> None:
    came: list[int] = []
    arrived = threading.Condition()
    release = threading.Event()

    def answer(request: Message, version: int) -> Message:
        with arrived:
            came.append(len(came))
            arrived.notify()
        if len(came) > 1:
            release.wait(10)
        return produced()

    script = Script()
    script.broker.answers[ApiKey.PRODUCE] = answer
    with script.broker:
        producer = producer_for(script.broker)
        for sequence in range(3):
            producer.send(batch(sequence))
        # The third is held until the second fills a request; the first was answered before that.
        assert producer._met == {T0}
        for sequence in range(3, 7):
            producer.send(batch(sequence))
        assert sum(len(queue) for queue in producer._sent.values()) == 5
        release.set()
        producer.flush()
        close(producer)
    assert producer.records == 7


def test_what_stood_behind_a_failed_batch_is_sent_again_in_order() -> None:
    # The first meets the leader; the second finds it gone, and so the two behind it.
    script = Script(produced(), NOT_LEADER, OUT_OF_ORDER, OUT_OF_ORDER, *[produced()] * 3)
    assert send(script, range(4)).records == 4
    assert sequences(script) == [0, 1, 2, 3, 1, 2, 3]


def test_lost_answers_are_asked_for_with_the_same_sequences() -> None:
    script = Script(produced(), produced(), HANG_UP, DUPLICATE, produced(), produced())
    assert send(script, range(4)).records == 4
    # What was on its way behind the lost one may have come or not; it is sent again.
    assert sequences(script)[-2:] == [2, 3]


def test_batches_go_to_the_new_leader() -> None:
    # Behind the five that the old leader refuses there is one that waits to be sent to it.
    first, second = Script(produced(), *[NOT_LEADER] * 5), Script(*[produced()] * 11)
    leaders: Iterator[int] = iter([0])

    def answer(request: Message, version: int) -> Message:
        return metadata(first.broker, second.broker, leader=next(leaders, 1))

    first.broker.answers[ApiKey.METADATA] = second.broker.answers[ApiKey.METADATA] = answer
    with second.broker:
        assert send(first, range(12)).records == 12
    assert sequences(second) == list(range(1, 12))


def test_a_gap_that_stays_is_an_error_that_names_the_partition() -> None:
    script = Script(produced(), OUT_OF_ORDER, OUT_OF_ORDER)
    with pytest.raises(OutOfOrderSequenceNumber, match="t-0: OUT_OF_ORDER_SEQUENCE_NUMBER"):
        send(script, range(2))


def test_a_refusal_that_cannot_pass_names_partition_and_reason() -> None:
    script = Script(produced(ErrorCode.INVALID_RECORD))
    with pytest.raises(InvalidRecord, match=r"t-0: INVALID_RECORD \(because; no key\)"):
        send(script, range(1))


def test_what_does_not_pass_in_time_is_raised_as_it_was() -> None:
    script = Script(*[produced(ErrorCode.NOT_ENOUGH_REPLICAS)] * 1000)
    with pytest.raises(NotEnoughReplicas, match="t-0: NOT_ENOUGH_REPLICAS"):
        send(script, range(1), Delivery(request_bytes_max=1, timeout_ms=50))


def test_a_topic_that_nobody_makes_is_an_error_that_names_it() -> None:
    script = Script()
    with script.broker:
        producer = producer_for(script.broker, Delivery(topic_timeout_ms=50))
        with pytest.raises(UnknownTopicOrPartition, match="topic nowhere"):
            producer.topic("nowhere")
        close(producer)

"""Transactions on the whole server, which is killed or loses its power wherever it happens to be.

A reader of committed records sees whole transactions only, all that were acknowledged, and is never
kept waiting by one that nobody can end.
"""

import pytest
from tests.simulation.test_broker import create_topic

from ottla.common.chance import Chance
from ottla.common.errors import ErrorCode
from ottla.protocol.generated.end_txn import EndTxnRequest, EndTxnResponse
from ottla.protocol.generated.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.protocol.generated.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ottla.protocol.generated.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from ottla.protocol.generated.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.records.batch import batches, read_header
from ottla.records.builder import build_batch
from ottla.records.record import Record, iterate
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.client import Disconnected, SimulatedClient

TOPIC = "t"
ID = "tx"
RETRIED = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_ENOUGH_REPLICAS,
)


class TransactionalProducer:
    """Of version 2, one request at a time."""

    def __init__(self, broker: SimulatedBroker, client: SimulatedClient) -> None:
        self._broker = broker
        self._client = client
        found = client.ask(
            FindCoordinatorRequest(key_type=1, coordinator_keys=[ID]), FindCoordinatorResponse, 4
        )
        assert found.coordinators[0].error_code == ErrorCode.NONE
        self.init()

    def init(self) -> None:
        request = InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=5_000)
        while True:
            answer = self._client.ask(request, InitProducerIdResponse, 5)
            if answer.error_code == ErrorCode.NONE:
                break
            assert answer.error_code in RETRIED, ErrorCode(answer.error_code).name
            self._broker.scheduler.run_for(0.1)
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        self.sequence = 0

    def send(self, values: list[bytes]) -> None:
        batch = build_batch(
            [Record(timestamp=self._broker.scheduler.wall_ms(), value=each) for each in values],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self.sequence,
            transactional=True,
        )
        request = ProduceRequest(
            transactional_id=ID,
            acks=-1,
            timeout_ms=1000,
            topic_data=[
                TopicProduceData(
                    name=TOPIC, partition_data=[PartitionProduceData(index=0, records=bytes(batch))]
                )
            ],
        )
        while True:
            answer = self._client.ask(request, ProduceResponse, 12)
            code = answer.responses[0].partition_responses[0].error_code
            if code == ErrorCode.NONE:
                break
            assert code in RETRIED, ErrorCode(code).name
        self.sequence += len(values)

    def end(self, *, commit: bool) -> None:
        request = EndTxnRequest(
            transactional_id=ID,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        while True:
            answer = self._client.ask(request, EndTxnResponse, 5)
            if answer.error_code == ErrorCode.NONE:
                break
            assert answer.error_code in RETRIED, ErrorCode(answer.error_code).name
            self._broker.scheduler.run_for(0.1)
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        self.sequence = 0


def read_committed(client: SimulatedClient) -> tuple[list[bytes], bool]:
    """What is committed, and whether the reader gets to the end of the log."""
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 22)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 22,
        isolation_level=1,
        topics=[FetchTopic(topic=TOPIC, partitions=[partition])],
    )
    answer = client.ask(request, FetchResponse, 12).responses[0].partitions[0]
    assert answer.error_code == ErrorCode.NONE
    data = bytes(answer.records or b"")
    aborted = sorted(
        (each.first_offset, each.producer_id) for each in answer.aborted_transactions or []
    )
    values: list[bytes] = []
    dropped: set[int] = set()
    for start, _ in batches(data, 0, len(data)):
        header = read_header(data, start)
        while aborted and aborted[0][0] <= header.base_offset:
            dropped.add(aborted.pop(0)[1])
        if header.is_control:
            dropped.discard(header.producer_id)
        elif header.producer_id not in dropped:
            values += [bytes(record.value or b"") for record in iterate(data, start)]
    return values, answer.last_stable_offset == answer.high_watermark


class Told:
    """What the producer of a transaction knows of its end."""

    def __init__(self) -> None:
        self.values: dict[int, list[bytes]] = {}
        self.asked: set[int] = set()
        self.committed: set[int] = set()
        self.aborted: set[int] = set()

    def check(self, seen: list[bytes]) -> None:
        assert len(seen) == len(set(seen)), "a duplicate"
        by_number: dict[int, list[bytes]] = {}
        for value in seen:
            by_number.setdefault(int(value.split(b"/")[0]), []).append(value)
        for number, values in by_number.items():
            assert number in self.asked, "nobody asked for this commit"
            assert number not in self.aborted
            assert values == self.values[number], "a part of a transaction"
        assert self.committed <= set(by_number), "a commit that was acknowledged is lost"


def transaction(producer: TransactionalProducer, told: Told, number: int, chance: Chance) -> None:
    told.values[number] = []
    for _ in range(chance.below(3) + 1):
        values = [b"%d/%d" % (number, len(told.values[number]) + i) for i in range(2)]
        producer.send(values)
        told.values[number] += values
    commit = chance.below(3) > 0
    if commit:
        told.asked.add(number)
    producer.end(commit=commit)
    (told.committed if commit else told.aborted).add(number)


def run_lives(seed: int, *, power: bool) -> None:
    broker = SimulatedBroker(
        seed,
        {
            "transaction.state.log.num.partitions": "2",
            "offsets.topic.num.partitions": "2",
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
            # What is acknowledged must be on disk when the power goes.
            "log.flush.interval.messages": "1" if power else "9223372036854775807",
        },
    )
    chance = Chance(seed + 1)
    broker.start()
    client = SimulatedClient(broker)
    create_topic(client)
    end = broker.lose_power if power else broker.kill
    told = Told()
    number = 0
    for _ in range(4):
        try:
            producer = TransactionalProducer(broker, client)
            broker.scheduler.call_later(chance.between(0.0, 0.03), end)
            while True:
                number += 1
                transaction(producer, told, number, chance)
        except Disconnected:
            broker.start()
            client = SimulatedClient(broker)
        broker.scheduler.run_for(chance.between(0.0, 3.0))
    broker.scheduler.run_for(20)
    producer = TransactionalProducer(broker, client)  # nothing is in its way
    for _ in range(3):
        number += 1
        transaction(producer, told, number, chance)
    broker.scheduler.run_for(1)  # an end is told before its markers are written and flushed
    seen, is_whole = read_committed(client)
    assert is_whole, "a reader waits for a transaction that does not end"
    told.check(seen)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("power", [False, True])
def test_transactions_are_whole_after_kills_and_power_cuts(seed: int, power: bool) -> None:
    run_lives(seed, power=power)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 140))
@pytest.mark.parametrize("power", [False, True])
def test_transactions_are_whole_after_many_kills_and_power_cuts(seed: int, power: bool) -> None:
    run_lives(seed, power=power)

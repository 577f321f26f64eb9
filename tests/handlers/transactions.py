"""The broker of these tests with both coordinators on its real logs, and producers who ask it."""

from typing import NamedTuple

from tests.handlers.broker import Peer
from tests.handlers.groups import GroupBroker
from tests.turns import TURN

from ottla.common.errors import ErrorCode
from ottla.common.promise import Promise
from ottla.coordinator.transaction.service import (
    TRANSACTION_STATE_TOPIC,
    TransactionOutside,
    TransactionService,
)
from ottla.coordinator.transaction.settings import TransactionSettings
from ottla.coordinator.transaction.verification import TransactionVerification
from ottla.handlers import add_partitions_to_txn, end_txn, init_producer_id, produce
from ottla.protocol.generated.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from ottla.protocol.generated.end_txn import EndTxnRequest, EndTxnResponse
from ottla.protocol.generated.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from ottla.protocol.generated.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.protocol.message import from_bytes, to_bytes
from ottla.records.batch import batches, read_header
from ottla.records.builder import build_batch
from ottla.records.record import Record, iterate
from ottla.server.transaction_markers import LedMarkers

ID = "tx"
V1 = 11
V2 = 13
"""Versions of Produce that speak version 1 and 2 of transactions."""


class Producer(NamedTuple):
    producer_id: int
    epoch: int
    sequence: int = 0


class TransactionBroker(GroupBroker):
    """Has ``__transaction_state`` too; ``t`` is for the records."""

    def __init__(self, version: int = 2) -> None:
        super().__init__()
        self.version = version
        self.peer = Peer()
        self.markers = LedMarkers(
            self.replicas, self.metadata, self.groups, self.scheduler, timeout_ms=30_000
        )
        self.services.markers = self.markers
        self.start_transactions()

    def start_transactions(self, *, settings: TransactionSettings | None = None) -> None:
        """Make the coordinator; again, it knows only what is in the log."""
        settings = settings or TransactionSettings()
        self.transactions = TransactionService(
            settings,
            TransactionOutside(
                writer=self.internal,
                reader=self.internal,
                scheduler=self.scheduler,
                topics=self.internal,
                producer_ids=self.services.producer_ids,
                markers=self.markers,
                version=lambda: self.version,
            ),
        )
        self.services.transactions = self.transactions
        verification = TransactionVerification(self.transactions, settings, self.scheduler)
        self.services.verification = verification
        self.internal.connect(verification)
        self.add_topic(TRANSACTION_STATE_TOPIC, 1)
        self.transactions.elected(0, 0)
        self.scheduler.run_for(0)

    def begin(
        self, transactional_id: str = ID, *, version: int = 5, expected: Producer | None = None
    ) -> Producer | ErrorCode:
        request = InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=60_000
        )
        if expected is not None:
            request.producer_id, request.producer_epoch = expected.producer_id, expected.epoch
        answer = self.ask(init_producer_id, request, version, InitProducerIdResponse)
        if answer.error_code:
            return ErrorCode(answer.error_code)
        return Producer(answer.producer_id, answer.producer_epoch)

    def producer(self, transactional_id: str = ID) -> Producer:
        began = self.begin(transactional_id)
        assert isinstance(began, Producer)
        return began

    def add(
        self,
        producer: Producer,
        *partitions: int,
        topic: str = "t",
        transactional_id: str = ID,
        version: int = 3,
    ) -> dict[int, ErrorCode]:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))],
        )
        answer = self.ask(add_partitions_to_txn, request, version, AddPartitionsToTxnResponse)
        return {
            each.partition_index: ErrorCode(each.partition_error_code)
            for result in answer.results_by_topic_v3_and_below
            for each in result.results_by_partition
        }

    def start_produce(
        self,
        producer: Producer,
        *values: bytes,
        partition: int = 0,
        transactional_id: str | None = ID,
        version: int = V2,
    ) -> Promise[bytes]:
        """Send a transactional batch; the bytes of the answer may come later."""
        batch = build_batch(
            [Record(timestamp=self.scheduler.wall_ms(), value=value) for value in values],
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=producer.sequence,
            transactional=True,
        )
        data = TopicProduceData(
            partition_data=[PartitionProduceData(index=partition, records=bytes(batch))]
        )
        if version >= V2:
            data.topic_id = self.topic_id
        else:
            data.name = "t"
        request = ProduceRequest(
            acks=-1, timeout_ms=1000, topic_data=[data], transactional_id=transactional_id
        )
        frame = bytearray(to_bytes(request, version))
        answer = produce.answer(memoryview(frame), 0, version, 1, self.services, self.peer)
        frame[:] = bytes(len(frame))  # the connection has read on
        promise: Promise[bytes] = Promise(TURN)
        if isinstance(answer, Promise):
            answer.when_done(lambda done: promise.fulfil(bytes(done.result())))  # type: ignore[arg-type]
        else:
            assert isinstance(answer, bytes)
            promise.fulfil(answer)
        return promise

    def read_produce(self, promise: Promise[bytes], version: int = V2) -> ErrorCode:
        return ErrorCode(self.produced(promise, version).error_code)

    def produced(self, promise: Promise[bytes], version: int = V2) -> PartitionProduceResponse:
        self.scheduler.run_for(1)
        response = from_bytes(ProduceResponse, promise.result()[9:], version)
        return response.responses[0].partition_responses[0]

    def send(
        self,
        producer: Producer,
        *values: bytes,
        partition: int = 0,
        transactional_id: str | None = ID,
        version: int = V2,
    ) -> ErrorCode:
        promise = self.start_produce(
            producer,
            *values,
            partition=partition,
            transactional_id=transactional_id,
            version=version,
        )
        return self.read_produce(promise, version)

    def end(
        self,
        producer: Producer,
        *,
        commit: bool = True,
        transactional_id: str = ID,
        version: int = 5,
    ) -> Producer | ErrorCode:
        """What the producer goes on with, or the refusal."""
        request = EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            committed=commit,
        )
        answer = self.ask(end_txn, request, version, EndTxnResponse)
        if answer.error_code:
            return ErrorCode(answer.error_code)
        if version < 5:
            return producer
        return Producer(answer.producer_id, answer.producer_epoch)

    def ended(self, producer: Producer, *, commit: bool = True, version: int = 5) -> Producer:
        after = self.end(producer, commit=commit, version=version)
        assert isinstance(after, Producer)
        return after

    def committed_values(self, partition: int = 0, topic: str = "t") -> list[bytes | None]:
        """What a reader of committed records gets, as a client would sort it out."""
        log = self.log_of(topic, partition)
        end = log.last_stable_offset
        aborted = sorted(log.aborted_transactions(0, end), key=lambda each: each[1])
        data = self.internal.read(topic, partition, 0, 1 << 20)
        values: list[bytes | None] = []
        dropped: set[int] = set()
        for start, _ in batches(data, 0, len(data)):
            header = read_header(data, start)
            if header.base_offset >= end:
                break
            while aborted and aborted[0][1] <= header.base_offset:
                dropped.add(aborted.pop(0)[0])
            if header.is_control:
                dropped.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in dropped):
                values += [record.value for record in iterate(data, start)]
        return values

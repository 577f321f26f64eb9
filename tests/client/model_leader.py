"""A leader that knows producers as Kafka's does, behind a network that fails."""

from collections.abc import Iterator
from enum import Enum, auto
from typing import NamedTuple

from tests.client.scripted_broker import HANG_UP, TOPIC_ID, ScriptedBroker, metadata

from ottla.common.errors import ErrorCode
from ottla.protocol.api import ApiKey
from ottla.protocol.generated.init_producer_id import InitProducerIdResponse
from ottla.protocol.generated.metadata import MetadataResponse, MetadataResponsePartition
from ottla.protocol.generated.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from ottla.protocol.message import Message
from ottla.records.batch import read_header
from ottla.records.record import iterate

REMEMBERED = 5
"""Batches of a producer that are known when they come again."""


class MovedClock:
    """Goes on by waiting, and when somebody moves it."""

    def __init__(self) -> None:
        self.now = 0.0

    def wall_ms(self) -> int:
        return 1_750_000_000_000 + int(self.now * 1000)

    def monotonic(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        self.now += seconds


class Network(Enum):
    """What becomes of a request."""

    FINE = auto()
    REQUEST_LOST = auto()
    ANSWER_LOST = auto()
    LATE = auto()
    """The answer is lost, and the request comes only after the next one."""


class Outcome(Enum):
    """What becomes of one partition's batch in a request that arrives."""

    WRITTEN = auto()
    NOT_LEADER = auto()
    WRITTEN_BUT = auto()
    """Too few replicas have it: the leader keeps it, and says that it may be sent again."""
    REFUSED = auto()
    NO_SUCH_ID = auto()
    """The cluster does not know the producer any more: it is to get another id."""
    WRITTEN_AND_BROKEN = auto()
    """The leader met an error of its own after the append."""


class Fate(NamedTuple):
    """Of one request."""

    network: Network = Network.FINE
    outcomes: tuple[Outcome, ...] = ()
    """One for each partition of it, in order; those without one are written."""
    milliseconds: int = 0
    """How long it takes."""


class _Producer(NamedTuple):
    epoch: int
    batches: list[tuple[int, int, int]]
    """First and last sequence and base offset of the newest ones."""


class ModelLog:
    """One partition."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self._producers: dict[int, _Producer] = {}

    def append(self, data: bytes) -> tuple[ErrorCode, int]:
        header = read_header(data)
        first, count = header.base_sequence, header.last_offset_delta + 1
        last = (first + count - 1) & 0x7FFFFFFF
        known = self._producers.get(header.producer_id)
        if known is not None:
            if header.producer_epoch < known.epoch:
                return ErrorCode.INVALID_PRODUCER_EPOCH, -1
            if header.producer_epoch == known.epoch:
                for at_first, at_last, offset in known.batches:
                    if (at_first, at_last) == (first, last):
                        return ErrorCode.NONE, offset
                if first != (known.batches[-1][1] + 1) & 0x7FFFFFFF:
                    return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
            elif first != 0:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        before = known.batches if known and known.epoch == header.producer_epoch else []
        offset = len(self.values)
        newest = [*before, (first, last, offset)][-REMEMBERED:]
        self._producers[header.producer_id] = _Producer(header.producer_epoch, newest)
        self.values += [record.value or b"" for record in iterate(data)]
        return ErrorCode.NONE, offset


class ModelLeader:
    """Leads all of topic ``t``; ``fates`` are those of its requests, then all is well."""

    def __init__(self, partitions: int, fates: Iterator[Fate], clock: MovedClock) -> None:
        self.logs = [ModelLog() for _ in range(partitions)]
        self._fates = fates
        self._clock = clock
        self._late: list[ProduceRequest] = []
        self._producer_ids = iter(range(100, 1 << 30, 100))
        self.metadata_is_away: Iterator[bool] = iter(())
        """Whether nobody answers the next questions who leads."""
        self.broker = ScriptedBroker(
            {
                ApiKey.METADATA: lambda *_: self._metadata(),
                ApiKey.INIT_PRODUCER_ID: lambda *_: InitProducerIdResponse(
                    producer_id=next(self._producer_ids), producer_epoch=0
                ),
                ApiKey.PRODUCE: self._produce,
            }
        )

    def _metadata(self) -> MetadataResponse | bytes:
        if next(self.metadata_is_away, False):
            return HANG_UP
        answer = metadata(self.broker)
        answer.topics[0].partitions = [
            MetadataResponsePartition(
                partition_index=index, leader_id=0, replica_nodes=[0], isr_nodes=[0]
            )
            for index in range(len(self.logs))
        ]
        return answer

    def _produce(self, request: Message, version: int) -> Message | bytes:
        assert isinstance(request, ProduceRequest)
        fate = next(self._fates, Fate())
        late, self._late = self._late, []
        self._clock.now += fate.milliseconds / 1000
        answer: Message | bytes = HANG_UP
        if fate.network is Network.LATE:
            self._late = [request]
        elif fate.network is not Network.REQUEST_LOST:
            written = self._write(request, iter(fate.outcomes))
            if fate.network is Network.FINE:
                answer = written
        for each in late:
            self._write(each, iter(()))
        return answer

    def _write(self, request: ProduceRequest, outcomes: Iterator[Outcome]) -> ProduceResponse:
        (topic,) = request.topic_data
        answers = []
        for item in topic.partition_data:
            outcome = next(outcomes, Outcome.WRITTEN)
            code, offset = ErrorCode.NOT_LEADER_OR_FOLLOWER, -1
            if outcome is Outcome.REFUSED:
                code = ErrorCode.INVALID_RECORD
            elif outcome is Outcome.NO_SUCH_ID:
                code = ErrorCode.INVALID_PRODUCER_ID_MAPPING
            elif outcome is not Outcome.NOT_LEADER:
                code, offset = self.logs[item.index].append(item.records or b"")
            if code is ErrorCode.NONE and outcome is Outcome.WRITTEN_BUT:
                code, offset = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, -1
            if code is ErrorCode.NONE and outcome is Outcome.WRITTEN_AND_BROKEN:
                code, offset = ErrorCode.UNKNOWN_SERVER_ERROR, -1
            answers.append(
                PartitionProduceResponse(index=item.index, error_code=code, base_offset=offset)
            )
        response = TopicProduceResponse(topic_id=TOPIC_ID, partition_responses=answers)
        return ProduceResponse(responses=[response])

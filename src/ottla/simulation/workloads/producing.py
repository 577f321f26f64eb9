"""Idempotent producers: acks=all, several batches in flight, sent again in order until all is well.

A producer whose batch is neither acknowledged nor refused in time takes a new producer id, as the
broker could not tell a late copy from the next batch otherwise: what was under way stays unknown.
"""

from typing import Final

from ottla.common.errors import RETRIABLE, ErrorCode
from ottla.common.promise import run
from ottla.protocol.generated.init_producer_id import (
    InitProducerIdRequest,
)
from ottla.protocol.generated.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from ottla.records.builder import build_batch
from ottla.records.record import Record
from ottla.simulation.cluster_client import ClusterClient, Place
from ottla.simulation.history import History, Outcome, Send

IN_FLIGHT_MAX: Final = 5
DELIVERY_SECONDS: Final = 40.0
IDENTITY_LOST: Final = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    }
)


class Batch:
    """Records of one partition, with the sequence of the first."""

    __slots__ = ("is_unsure", "sends", "sequence")

    def __init__(self, sends: list[Send], sequence: int) -> None:
        self.sends = sends
        self.sequence = sequence
        self.is_unsure = False
        """It may be in the log, though nobody has said so."""


class Identity:
    """A producer id with its epoch, and the next sequence of each partition."""

    def __init__(self, producer_id: int, epoch: int, transactional_id: str | None = None) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.transactional_id = transactional_id
        self.sequences: dict[Place, int] = {}

    def take(self, place: Place, count: int) -> int:
        first = self.sequences.get(place, 0)
        self.sequences[place] = first + count
        return first


async def identify(client: ClusterClient) -> Identity:
    """A fresh producer id."""
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2**31 - 1)
    while True:
        try:
            answer = await client.ask_any(request)
            if answer.error_code == ErrorCode.NONE:
                return Identity(answer.producer_id, answer.producer_epoch)
        except OSError:
            pass
        await client.back_off()


async def produce(
    client: ClusterClient, identity: Identity, place: Place, batch: Batch
) -> PartitionProduceResponse:
    """Send a batch to the leader of its partition once."""
    topic, partition = place
    data = build_batch(
        [
            Record(
                timestamp=client.scheduler.wall_ms(),
                key=None if send.key is None else send.key.encode(),
                value=None if send.value is None else send.value.encode(),
            )
            for send in batch.sends
        ],
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        base_sequence=batch.sequence,
        transactional=identity.transactional_id is not None,
    )
    leader, _ = await client.leader(place)
    request = ProduceRequest(
        transactional_id=identity.transactional_id,
        acks=-1,
        timeout_ms=3_000,
        topic_data=[
            TopicProduceData(
                name=topic,
                topic_id=client.topic_ids[topic],
                partition_data=[PartitionProduceData(index=partition, records=data)],
            )
        ],
    )
    answer = await client.ask(leader, request)
    return answer.responses[0].partition_responses[0]


class Producer:
    """One process: each burst goes to one partition, up to five batches at once."""

    def __init__(self, client: ClusterClient, history: History) -> None:
        self._client = client
        self._history = history
        self._identity: Identity | None = None
        self._numbers: dict[tuple[int, Place], int] = {}
        self._count = 0

    async def send_burst(self, place: Place, records: list[list[str | None]]) -> None:
        """Send batches of records, given by their keys; a key with a ``!`` is to be deleted."""
        if self._identity is None:
            self._identity = await identify(self._client)
        batches = [self._batch(self._identity, place, keys) for keys in records]
        deadline = self._client.now + DELIVERY_SECONDS
        while batches:
            attempts = [
                run(self._client.scheduler.turn, self._attempt(place, batch)) for batch in batches
            ]
            codes = [await attempt for attempt in attempts]
            lost = codes[0] in IDENTITY_LOST
            batches = [
                batch
                for batch, code in zip(batches, codes, strict=True)
                if not self._settle(batch, code)
            ]
            if batches and (lost or self._client.now > deadline):
                self._give_up(batches)
                return
            if batches:
                await self._client.renew(place)

    def _batch(self, identity: Identity, place: Place, keys: list[str | None]) -> Batch:
        sends = []
        for key in keys:
            self._count += 1
            counted = (identity.producer_id, place)
            self._numbers[counted] = number = self._numbers.get(counted, -1) + 1
            deleted = key is not None and key.endswith("!")
            send = Send(
                process=self._client.name,
                topic=place[0],
                partition=place[1],
                key=key.rstrip("!") if key is not None else None,
                value=None if deleted else f"{self._client.name}/{self._count}",
                producer=f"{self._client.name}/{identity.producer_id}",
                sequence=number,
            )
            sends.append(self._history.begin(send))
        return Batch(sends, identity.take(place, len(sends)))

    async def _attempt(self, place: Place, batch: Batch) -> int:
        assert self._identity is not None
        try:
            answer = await produce(self._client, self._identity, place, batch)
        except OSError:
            batch.is_unsure = True
            return ErrorCode.NETWORK_EXCEPTION
        if answer.error_code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            for delta, send in enumerate(batch.sends):
                if answer.error_code == ErrorCode.NONE and answer.base_offset >= 0:
                    send.offset = answer.base_offset + delta
            return ErrorCode.NONE
        if answer.error_code in RETRIABLE and answer.error_code != ErrorCode.NOT_ENOUGH_REPLICAS:
            batch.is_unsure = True  # some of these come after the append
        return answer.error_code

    def _settle(self, batch: Batch, code: int) -> bool:
        """Tell the history how a batch ended; False when it is to be sent again."""
        if code == ErrorCode.NONE:
            outcome = Outcome.OK
        elif code in RETRIABLE or code in IDENTITY_LOST:
            # Out of order: one before it has failed, and will be sent again before it.
            return False
        else:
            outcome = Outcome.UNKNOWN if batch.is_unsure else Outcome.FAILED
        for send in batch.sends:
            self._history.end(send, outcome)
        return True

    def _give_up(self, batches: list[Batch]) -> None:
        for batch in batches:
            for send in batch.sends:
                self._history.end(send, Outcome.UNKNOWN)
        self._identity = None

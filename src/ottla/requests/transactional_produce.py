"""Produce within a transaction: each partition is verified before its first batch (KIP-890).

A request that need not ask the coordinator is answered at once. One that must wait keeps a copy of
its frame, and the later ones of its producer wait behind it: batches are appended in the order in
which they came. Each waits for ``request.timeout.ms`` of this broker at most, from when it came; so
those before it have ended by then, and the producer is told to try again.

Readers of committed records wait behind an open transaction. So a batch is taken only when the
coordinator knows the transaction, and will therefore end it, be it by a timeout.
"""

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias, cast

from ottla.common.buffers import Answer
from ottla.common.errors import (
    ApiError,
    ErrorCode,
    InvalidProducerIdMapping,
    InvalidTxnState,
    NotEnoughReplicas,
    RequestTimedOut,
)
from ottla.common.promise import Promise, run
from ottla.common.topic_partition import TopicPartition
from ottla.coordinator.transaction.shard import AddPartitions
from ottla.coordinator.transaction.verification import (
    PRODUCE,
    SupportedOperation,
    operation_of,
    refusal,
)
from ottla.protocol.produce_request import ProduceView
from ottla.records.batch import HEADER_SIZE, MAGIC, MAGIC_POSITION, BatchHeader, read_header
from ottla.replication.partition import Partition
from ottla.replication.verification import VerificationGuard
from ottla.requests.context import Peer, Services
from ottla.requests.deadlines import until
from ottla.requests.produce_outcomes import last_of_each
from ottla.storage.results import AppendInfo

_TRY_AGAIN: Final = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


class Verified:
    """What the coordinator has said of the partitions of a request."""

    __slots__ = ("_codes", "_guards", "_operation")

    def __init__(
        self,
        operation: SupportedOperation,
        guards: dict[TopicPartition, VerificationGuard],
        codes: dict[TopicPartition, ErrorCode],
    ) -> None:
        self._operation = operation
        self._guards = guards
        self._codes = codes

    def append(
        self, partition: Partition, frame: memoryview, start: int, end: int, acks: int, now_ms: int
    ) -> AppendInfo:
        """Append a batch of the transaction, unless the coordinator does not know it."""
        if end - start < HEADER_SIZE:
            return partition.append(frame, start, end, acks, now_ms)
        name = _name(partition)
        code = self._codes.get(name, ErrorCode.NONE)
        if code is not ErrorCode.NONE:
            raise _refusal(code, self._operation)
        guard = self._guards.get(name)
        return partition.append_transactional(frame, start, end, acks, now_ms, guard)


class _Unverified(Verified):
    """Where the coordinator is not asked."""

    __slots__ = ()

    def append(
        self, partition: Partition, frame: memoryview, start: int, end: int, acks: int, now_ms: int
    ) -> AppendInfo:
        return partition.append(frame, start, end, acks, now_ms)


Append: TypeAlias = Callable[[memoryview, Verified], Answer | Promise[Answer] | None]
"""Appends the batches of a request, which stand in a frame."""


class _Request(NamedTuple):
    view: ProduceView
    frame: memoryview
    services: Services
    operation: SupportedOperation
    append: Append


Batches: TypeAlias = list[tuple[Partition, BatchHeader]]
"""The transactional batches of a request that can be tried."""


def when_verified(
    view: ProduceView,
    frame: memoryview,
    version: int,
    services: Services,
    peer: Peer | None,
    append: Append,
) -> Answer | Promise[Answer] | None:
    """What ``append`` answers, when each partition is known to be of the transaction, or not."""
    operation = operation_of(PRODUCE, version)
    request = _Request(view, frame, services, operation, append)
    batches = _transactional(request)
    producers = {(header.producer_id, header.producer_epoch) for _, header in batches}
    enabled = services.config.transaction_partition_verification_enable
    if not producers or not (enabled or operation.supports_epoch_bump):
        return append(frame, _Unverified(operation, {}, {}))
    if len(producers) > 1:
        refused = _all(batches, InvalidProducerIdMapping.code)
        return append(frame, Verified(operation, {}, refused))
    ((producer_id, _),) = producers
    before = services.transactional_appends.get(producer_id)
    if before is None:
        guards = _begin(request, batches)
        if not guards:
            return append(frame, Verified(operation, {}, {}))
    # The frame is the connection's, which reads on.
    request = request._replace(frame=memoryview(bytearray(frame)))
    waits = run(services.scheduler.turn, _wait(request, batches, producer_id, before, peer))
    return waits.result() if waits.done else cast("Promise[Answer]", waits)


def _transactional(request: _Request) -> Batches:
    found = []
    frame = request.frame
    for topic, partitions in request.view.topics:
        for index, start, end in last_of_each(partitions):
            partition = request.services.replicas.partition(topic, index)
            if partition is None or not partition.is_leader or end - start < HEADER_SIZE:
                continue
            if frame[start + MAGIC_POSITION] == MAGIC:
                header = read_header(frame, start)
                if header.is_transactional:
                    found.append((partition, header))
    return found


def _all(batches: Batches, code: ErrorCode) -> dict[TopicPartition, ErrorCode]:
    return {_name(partition): code for partition, _ in batches}


def _name(partition: Partition) -> TopicPartition:
    return TopicPartition(partition.topic, partition.index)


def _begin(request: _Request, batches: Batches) -> dict[TopicPartition, VerificationGuard]:
    """A guard for each partition that does not know the transaction."""
    guards = {}
    for partition, header in batches:
        guard = partition.verify(
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            supports_epoch_bump=request.operation.supports_epoch_bump,
        )
        if guard is not None:
            guards[_name(partition)] = guard
    return guards


async def _wait(
    request: _Request,
    batches: Batches,
    producer_id: int,
    before: Promise[None] | None,
    peer: Peer | None,
) -> Answer | None:
    """The answer, when this request is through; the producer's next one need not wait for it."""
    size = len(request.frame)
    if peer is not None:
        peer.hold(size)
    try:
        answer = await _append_in_turn(request, batches, producer_id, before)
    finally:
        if peer is not None:
            peer.let_go(size)
    return await answer if isinstance(answer, Promise) else answer


async def _append_in_turn(
    request: _Request, batches: Batches, producer_id: int, before: Promise[None] | None
) -> Answer | Promise[Answer] | None:
    """Append when the producer's request before this one is through, and this one is verified."""
    services = request.services
    waiting, scheduler = services.transactional_appends, services.scheduler
    ends_at = scheduler.monotonic() + services.config.request_timeout_ms / 1000
    mine: Promise[None] = Promise(scheduler.turn)
    waiting[producer_id] = mine
    try:
        if before is not None:
            await before
        guards = _begin(request, batches)
        codes: dict[TopicPartition, ErrorCode] = {}
        if guards:
            header = batches[0][1]
            assert request.view.transactional_id is not None
            asked = AddPartitions(
                request.view.transactional_id,
                header.producer_id,
                header.producer_epoch,
                frozenset(guards),
            )
            verified = run(scheduler.turn, services.verification.verify(asked, request.operation))
            left_ms = max(0, round((ends_at - scheduler.monotonic()) * 1000))
            try:
                answered = await until(scheduler, left_ms, verified)
                codes = dict(answered)
            except RequestTimedOut:
                codes = dict.fromkeys(guards, ErrorCode.NETWORK_EXCEPTION)
        return request.append(request.frame, Verified(request.operation, guards, codes))
    finally:
        if waiting.get(producer_id) is mine:
            del waiting[producer_id]
        else:
            mine.fulfil(None)


def _refusal(code: ErrorCode, operation: SupportedOperation) -> ApiError:
    """What passes by itself is told as NOT_ENOUGH_REPLICAS: producers of every age try again."""
    concurrent = code is ErrorCode.CONCURRENT_TRANSACTIONS
    if code in _TRY_AGAIN or (concurrent and not operation.supports_epoch_bump):
        return NotEnoughReplicas(
            "Unable to verify the partition has been added to the transaction. "
            f"Underlying error: {code.name}"
        )
    if code is ErrorCode.INVALID_TXN_STATE:
        return InvalidTxnState("Partition was not added to the transaction")
    return refusal(code)

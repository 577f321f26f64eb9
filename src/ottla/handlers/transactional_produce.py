"""Produce within a transaction: each partition is verified before its first batch (KIP-890).

A request that need not ask the coordinator is answered at once. One that must wait keeps a copy of
its frame, and the later ones of its producer wait behind it: batches are appended in the order in
which they came. Each waits for ``request.timeout.ms`` of this broker at most, from when it came; so
those before it have ended by then, and the producer is told to try again.

Readers of committed records wait behind an open transaction. So a batch is taken only when the
coordinator knows the transaction, and will therefore end it, be it by a timeout.
"""

from functools import partial
from typing import Final, NamedTuple, cast

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
from ottla.handlers.acknowledged_produce import (
    Unacknowledged,
    finish_when_acknowledged,
    unacknowledged,
)
from ottla.handlers.context import Peer, Services
from ottla.handlers.current_leaders import Leaders
from ottla.handlers.deadlines import until
from ottla.handlers.flushed_produce import appended
from ottla.handlers.partitions import missing
from ottla.handlers.produce_outcomes import (
    Outcomes,
    Refused,
    finish,
    is_one_batch,
    last_of_each,
    reason,
)
from ottla.protocol.produce_request import ProduceView
from ottla.protocol.produce_response import Appended
from ottla.records.batch import HEADER_SIZE, MAGIC, MAGIC_POSITION, BatchHeader, read_header
from ottla.records.validation import ZSTD_FROM_PRODUCE_VERSION, refuse_zstd
from ottla.replication.partition import Partition
from ottla.replication.verification import VerificationGuard
from ottla.storage.results import AppendInfo

_TRY_AGAIN: Final = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


class _Request(NamedTuple):
    view: ProduceView
    frame: memoryview
    version: int
    correlation_id: int
    services: Services
    operation: SupportedOperation
    peer: Peer | None


Batches = list[tuple[Partition, BatchHeader]]
"""The transactional batches of a request that can be tried."""


class _Verified(NamedTuple):
    guards: dict[TopicPartition, VerificationGuard]
    codes: dict[TopicPartition, ErrorCode]


def produce_transactionally(
    view: ProduceView,
    frame: memoryview,
    version: int,
    correlation_id: int,
    services: Services,
    peer: Peer | None = None,
) -> "Answer | Promise[Answer] | None":
    operation = operation_of(PRODUCE, version)
    request = _Request(view, frame, version, correlation_id, services, operation, peer)
    batches = _transactional(request)
    producers = {(header.producer_id, header.producer_epoch) for _, header in batches}
    enabled = services.config.transaction_partition_verification_enable
    if not producers or not (enabled or operation.supports_epoch_bump):
        return _append(request, None)
    if len(producers) > 1:
        return _append(request, _Verified({}, _all(batches, InvalidProducerIdMapping.code)))
    ((producer_id, _),) = producers
    before = services.transactional_appends.get(producer_id)
    if before is None:
        guards = _begin(request, batches)
        if not guards:
            return _append(request, _Verified({}, {}))
    # The frame is the connection's, which reads on.
    request = request._replace(frame=memoryview(bytearray(frame)))
    waits = run(_wait(request, batches, producer_id, before))
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
    request: _Request, batches: Batches, producer_id: int, before: Promise[None] | None
) -> Answer | None:
    """The answer, when this request is through; the producer's next one need not wait for it."""
    answer = await _append_in_turn(request, batches, producer_id, before)
    request.services.replicas.waiting.wake()
    return await answer if isinstance(answer, Promise) else answer


async def _append_in_turn(
    request: _Request, batches: Batches, producer_id: int, before: Promise[None] | None
) -> Answer | Promise[Answer] | None:
    """Append when the producer's request before this one is through, and this one is verified."""
    services = request.services
    waiting, scheduler = services.transactional_appends, services.scheduler
    ends_at = scheduler.monotonic() + services.config.request_timeout_ms / 1000
    mine: Promise[None] = Promise()
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
            verified = run(services.verification.verify(asked, request.operation))
            left_ms = max(0, round((ends_at - scheduler.monotonic()) * 1000))
            try:
                answered = await until(scheduler, left_ms, verified)
                codes = dict(answered)
            except RequestTimedOut:
                codes = dict.fromkeys(guards, ErrorCode.NETWORK_EXCEPTION)
        return _append(request, _Verified(guards, codes))
    finally:
        if waiting.get(producer_id) is mine:
            del waiting[producer_id]
        else:  # in a turn of its own: a call within a call for each of a long line is too much
            scheduler.call_soon(mine.fulfil, None)


def _append(request: _Request, verified: _Verified | None) -> Answer | Promise[Answer] | None:
    """Append what may be; without ``verified`` nothing is asked about transactions."""
    view, replicas = request.view, request.services.replicas
    outcomes: Outcomes = []
    pending: list[Unacknowledged] = []
    refused = False
    for topic, partitions in view.topics:
        results: list[Appended | Refused] = []
        for index, start, end in last_of_each(partitions):
            partition = replicas.partition(topic, index)
            try:
                if partition is None or not -1 <= view.acks <= 1 or start < 0:
                    unknown = missing(request.services, topic, index) if partition is None else None
                    raise reason(view, unknown, start, request.version)
                info = _append_one(request, partition, start, end, verified)
                if view.acks < 0 and partition.log.high_watermark <= info.last_offset:
                    pending.append(unacknowledged(partition, info, results))
                results.append(appended(index, info))
            except ApiError as error:
                refused = True
                refusal_of_one = Refused(index, error, partition)
                refusal_of_one.is_one_batch = is_one_batch(request.frame, start, end)
                results.append(refusal_of_one)
        outcomes.append((topic, results))
    leaders = Leaders(request.services, request.peer)
    finish_it = partial(finish, outcomes, view, request.version, request.correlation_id, leaders)
    if pending:
        return finish_when_acknowledged(
            pending, finish_it, replicas, view.timeout_ms, refused=refused
        )
    return finish_it(refused=refused)


def _append_one(
    request: _Request,
    partition: Partition,
    start: int,
    end: int,
    verified: _Verified | None,
) -> AppendInfo:
    frame, acks = request.frame, request.view.acks
    now_ms = request.services.scheduler.wall_ms()
    if request.version < ZSTD_FROM_PRODUCE_VERSION:
        refuse_zstd(frame, start, end, request.version)
    is_headed = end - start >= HEADER_SIZE and frame[start + MAGIC_POSITION] == MAGIC
    if verified is not None and is_headed and read_header(frame, start).is_transactional:
        name = _name(partition)
        code = verified.codes.get(name, ErrorCode.NONE)
        if code is not ErrorCode.NONE:
            raise _refusal(code, request.operation)
        guard = verified.guards.get(name)
        return partition.append_transactional(frame, start, end, acks, now_ms, guard)
    return partition.append_flushed(frame, start, end, acks, now_ms)


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

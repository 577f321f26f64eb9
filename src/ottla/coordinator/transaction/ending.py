"""EndTxn: what a commit or an abort comes to, in either version of the protocol.

Version 1 tells a repetition from the next request by the state alone: a late EndTxn that meets the
next transaction of the same epoch ends it (KAFKA-17754). Version 2 tells them by the epoch, which
each end bumps; "again" is the epoch before the current one:

    ===============  ==============  ===============  ==============  ===============
    state            abort, again    abort, current   commit, again   commit, current
    ===============  ==============  ===============  ==============  ===============
    Empty            fenced          prepare          fenced          invalid
    CompleteAbort    done            prepare          invalid         invalid
    CompleteCommit   invalid         prepare          done            invalid
    Ongoing          fenced          prepare          fenced          prepare
    ===============  ==============  ===============  ==============  ===============

An abort may come where nothing was added: a client of version 2 cannot know whether the partition
that it wrote to was.
"""

from typing import NamedTuple

from ottla.common.errors import (
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    InvalidTxnState,
    ProducerFenced,
)
from ottla.coordinator.transaction.metadata import (
    EPOCH_BUMP_FROM,
    EPOCH_MAX,
    NO_PRODUCER_ID,
    ProducerIdAndEpoch,
    TransactionMetadata,
)
from ottla.coordinator.transaction.state import TransactionState


class EndTransaction(NamedTuple):
    """What a client asks for."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool
    client_version: int

    @property
    def bumps_epoch(self) -> bool:
        return self.client_version >= EPOCH_BUMP_FROM


def needs_producer_id(metadata: TransactionMetadata | None, request: EndTransaction) -> bool:
    """Whether the end of this transaction uses up the epochs of its producer id."""
    return (
        metadata is not None
        and request.bumps_epoch
        and metadata.is_exhausted
        and not metadata.state.is_prepared
        and metadata.producer == (request.producer_id, request.producer_epoch)
    )


def ended(
    metadata: TransactionMetadata | None,
    request: EndTransaction,
    new_producer_id: int | None,
    now_ms: int,
) -> TransactionMetadata | None:
    """The prepared transaction, or None when that was done before. Raises ApiError.

    ``new_producer_id`` is there if :func:`needs_producer_id` was true.
    """
    if metadata is None:
        raise InvalidProducerIdMapping
    if not request.bumps_epoch:
        return _ended_in_version_1(metadata, request, now_ms)
    return _ended_in_version_2(metadata, request, new_producer_id, now_ms)


def _ended_in_version_1(
    metadata: TransactionMetadata, request: EndTransaction, now_ms: int
) -> TransactionMetadata | None:
    if metadata.producer_id != request.producer_id:
        raise InvalidProducerIdMapping
    if metadata.producer_epoch != request.producer_epoch:
        raise ProducerFenced
    if metadata.state.is_prepared:
        raise ConcurrentTransactions
    if metadata.state is TransactionState.ONGOING:
        return metadata.prepared(commit=request.commit, client_version=0, now_ms=now_ms)
    if metadata.state is _complete(request):
        return None
    raise InvalidTxnState


def _ended_in_version_2(
    metadata: TransactionMetadata,
    request: EndTransaction,
    new_producer_id: int | None,
    now_ms: int,
) -> TransactionMetadata | None:
    if metadata.state.is_prepared:
        # First of all: where the epochs were used up, the client has the next producer id already.
        raise ConcurrentTransactions
    again = _is_repeated(metadata, request)
    if metadata.producer_id != request.producer_id and not again:
        raise InvalidProducerIdMapping
    is_current = metadata.producer == (request.producer_id, request.producer_epoch)
    is_complete = metadata.state.is_idle and metadata.state is not TransactionState.EMPTY
    if not is_current and not (again and is_complete):
        raise ProducerFenced
    if again:
        if metadata.state is _complete(request):
            return None
        raise InvalidTxnState
    if metadata.state.is_idle and request.commit:
        raise InvalidTxnState
    next_producer_id = NO_PRODUCER_ID
    if metadata.is_exhausted:
        if new_producer_id is None:
            raise ConcurrentTransactions  # it was not exhausted when we looked: look again
        next_producer_id = new_producer_id
    return metadata.prepared(
        commit=request.commit,
        client_version=request.client_version,
        now_ms=now_ms,
        next_producer_id=next_producer_id,
    )


def _is_repeated(metadata: TransactionMetadata, request: EndTransaction) -> bool:
    """Whether the client has not heard the answer to the request that brought us here."""
    if metadata.client_version < EPOCH_BUMP_FROM:
        return False  # a producer of version 1 ended it, and the epoch before is not its own
    if metadata.producer_id == request.producer_id:
        # The last epoch is nobody's: it is there to fence with.
        return request.producer_epoch + 1 == metadata.producer_epoch < EPOCH_MAX
    return (
        metadata.previous_producer_id == request.producer_id
        and request.producer_epoch == EPOCH_MAX - 1
        and metadata.producer_epoch == 0
    )


def _complete(request: EndTransaction) -> TransactionState:
    return TransactionState.COMPLETE_COMMIT if request.commit else TransactionState.COMPLETE_ABORT


def aborted(metadata: TransactionMetadata, version: int, now_ms: int) -> TransactionMetadata:
    """End an open transaction in its producer's stead, and fence the producer.

    In version 2 the producer may find out by an abort of its own, which is then taken for a
    repetition: unless another one has begun meanwhile, it goes on with the new epoch.
    """
    return metadata.fenced().prepared(commit=False, client_version=version, now_ms=now_ms)


def producer_after(metadata: TransactionMetadata) -> ProducerIdAndEpoch:
    """What the client of an EndTxn goes on with, be its transaction prepared or complete."""
    return metadata.producer_after if metadata.state.is_prepared else metadata.producer

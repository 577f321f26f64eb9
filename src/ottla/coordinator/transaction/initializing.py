"""InitProducerId of a transactional producer: a fresh epoch, which fences all earlier ones.

A producer that goes on after an error says what it has (KIP-360): it is fenced unless that is the
newest there is, or the one before, whose answer it may not have heard.
"""

from typing import NamedTuple

from ottla.common.errors import ConcurrentTransactions, ProducerFenced
from ottla.coordinator.transaction.metadata import (
    ProducerIdAndEpoch,
    TransactionMetadata,
    is_exhausted,
)
from ottla.coordinator.transaction.state import TransactionState


class InitProducerId(NamedTuple):
    """What a client asks for."""

    transactional_id: str
    timeout_ms: int
    expected: ProducerIdAndEpoch | None


def needs_producer_id(metadata: TransactionMetadata | None, request: InitProducerId) -> bool:
    """Whether the answer is another producer id than the one that is known."""
    return metadata is None or (metadata.state.is_idle and _uses_up(metadata, request.expected))


def _uses_up(metadata: TransactionMetadata, expected: ProducerIdAndEpoch | None) -> bool:
    return metadata.is_exhausted and (expected is None or expected == metadata.producer)


def initialized(
    metadata: TransactionMetadata | None,
    request: InitProducerId,
    new_producer_id: int | None,
    now_ms: int,
) -> TransactionMetadata:
    """The transactional id with no transaction open; ONGOING is for the caller to abort first."""
    expected = request.expected
    if metadata is None:
        if new_producer_id is None:
            raise ConcurrentTransactions  # it was there when we looked: look again
        return TransactionMetadata(
            producer_id=new_producer_id,
            producer_epoch=0,
            timeout_ms=request.timeout_ms,
            last_update_ms=now_ms,
            previous_producer_id=new_producer_id,
        )
    assert metadata.state.is_idle
    if _uses_up(metadata, expected):
        if new_producer_id is None:
            raise ConcurrentTransactions
        return metadata.rotated(
            new_producer_id, request.timeout_ms, now_ms, goes_on=expected is not None
        )
    return metadata.next_epoch(
        request.timeout_ms, None if expected is None else expected.epoch, now_ms
    )


def check(metadata: TransactionMetadata, expected: ProducerIdAndEpoch | None) -> None:
    """Refuse while a transaction is being ended, and a producer that others have replaced."""
    if metadata.state.is_prepared:
        raise ConcurrentTransactions
    assert metadata.state in {*TransactionState} - {
        TransactionState.DEAD,
        TransactionState.PREPARE_EPOCH_FENCE,
    }
    if expected is None or expected.producer_id == metadata.producer_id:
        return
    is_before_rotation = expected.producer_id == metadata.previous_producer_id
    if not (is_before_rotation and is_exhausted(expected.epoch)):
        raise ProducerFenced

"""Telling the partitions of a transaction how it ended, until all of them know.

What is decided stands in the log; which leaders were told does not. So after a restart everybody is
told once more, which does no harm: for a partition that knows, the second marker ends an empty
transaction.

A partition that fails for a while is told again after a pause, which grows from ``RETRY_MS`` to
``RETRY_MAX_MS``. One whose topic is gone need not know. When a partition has heard of a later
epoch, another coordinator has taken over, and this one stops; should it be wrong in that, the next
sweep begins again.

When all know, that is written once, and again only when it could not be written: until it is
committed, which may be long, nothing more is to be done.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from ottla.common.errors import ApiError, ErrorCode
from ottla.common.promise import Promise
from ottla.common.topic_partition import TopicPartition
from ottla.coordinator.outside import EndTransactionMarker
from ottla.coordinator.partition import Action
from ottla.coordinator.shard import Outcome
from ottla.coordinator.timers import Timers
from ottla.coordinator.transaction.metadata import TransactionMetadata

RETRY_MS: Final = 50
RETRY_MAX_MS: Final = 1_000

_KNOWN: Final = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)
_OVERTAKEN: Final = frozenset(
    {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED}
)

Codes = Mapping[TopicPartition, ErrorCode]
Send = Callable[[str, TransactionMetadata, tuple[TopicPartition, ...]], Promise[Codes]]
"""Transactional id, prepared transaction, partitions that are to be told."""
Complete = Callable[[str, TransactionMetadata, int], Outcome[Any, None]]


class MarkerSender(Protocol):
    """The way to the leaders of partitions."""

    def send(
        self, marker: EndTransactionMarker, partitions: tuple[TopicPartition, ...]
    ) -> Promise[Codes]:
        """Have ``marker`` written on each partition; how that went.

        Always answers. UNKNOWN_TOPIC_OR_PARTITION means that the cluster has no such partition
        any more.
        """
        ...


class _Sending:
    __slots__ = ("metadata", "remaining", "retry_ms")

    def __init__(self, metadata: TransactionMetadata) -> None:
        self.metadata = metadata
        self.remaining = metadata.partitions
        self.retry_ms = RETRY_MS


class MarkersInFlight:
    """The prepared transactions of one shard that are on their way to be complete."""

    def __init__(self, timers: Timers[Action], send: Send, complete: Complete) -> None:
        self._timers = timers
        self._send = send
        self._complete = complete
        self._sending: dict[str, _Sending] = {}

    def __contains__(self, transactional_id: str) -> bool:
        return transactional_id in self._sending

    def __len__(self) -> int:
        return len(self._sending)

    def remaining(self, transactional_id: str) -> tuple[TopicPartition, ...] | None:
        """The partitions that are not known to be told; None when nothing is under way."""
        sending = self._sending.get(transactional_id)
        return None if sending is None else sending.remaining

    def clear(self) -> None:
        self._sending.clear()

    def begin(self, transactional_id: str, metadata: TransactionMetadata) -> None:
        """``metadata`` is prepared, and nothing can take that back."""
        sending = self._sending.get(transactional_id)
        if sending is None or sending.metadata != metadata:
            sending = self._sending[transactional_id] = _Sending(metadata)
            self._go_on(transactional_id, sending)

    def _go_on(self, transactional_id: str, sending: _Sending) -> None:
        if self._sending.get(transactional_id) is not sending:
            return
        if sending.remaining:
            asked = self._send(transactional_id, sending.metadata, sending.remaining)
            asked.when_done(lambda done: self._sent(transactional_id, sending, done))
        else:
            self._finish(transactional_id, sending)

    def _try_later(self, transactional_id: str, sending: _Sending) -> None:
        def again(_now_ms: int) -> Outcome[Any, None]:
            self._go_on(transactional_id, sending)
            return Outcome([], None)

        self._timers.schedule(("markers", transactional_id), sending.retry_ms, again, lasts=True)
        sending.retry_ms = min(sending.retry_ms * 2, RETRY_MAX_MS)

    def _sent(self, transactional_id: str, sending: _Sending, done: Promise[Codes]) -> None:
        if self._sending.get(transactional_id) is not sending:
            return
        codes = done.result()
        if any(code in _OVERTAKEN for code in codes.values()):
            self._drop(transactional_id)
            return
        sending.remaining = tuple(
            each for each in sending.remaining if codes.get(each) not in _KNOWN
        )
        if sending.remaining:
            self._try_later(transactional_id, sending)
        else:
            self._finish(transactional_id, sending)

    def _finish(self, transactional_id: str, sending: _Sending) -> None:
        def completed(error: ApiError | None, _now_ms: int) -> None:
            if self._sending.get(transactional_id) is not sending:
                return
            if error is None:
                self._drop(transactional_id)
            else:
                self._try_later(transactional_id, sending)

        def complete(now_ms: int) -> Outcome[Any, None]:
            outcome = self._complete(transactional_id, sending.metadata, now_ms)
            return Outcome(outcome.records, None, then=completed)

        self._timers.schedule(("markers", transactional_id), 0, complete, lasts=True)

    def _drop(self, transactional_id: str) -> None:
        del self._sending[transactional_id]
        self._timers.cancel(("markers", transactional_id))

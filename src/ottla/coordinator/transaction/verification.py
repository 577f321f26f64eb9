"""Asking the coordinator whether a partition is part of a transaction, or making it so (KIP-890).

Clients of version 2 do not add partitions themselves: the leader does it for them, before the first
batch. For older ones it verifies that they did. Which of the two, and which errors a client
understands, is told by the version of its request.

The transaction before may not be quite over when the next begins: then the question is asked again
after a moment, so that the client need not (``add.partitions.to.txn.retry.backoff.ms``).
"""

from enum import Enum, auto
from typing import Final

from ottla.common.environment import Scheduler
from ottla.common.errors import (
    ApiError,
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    ErrorCode,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidRequest,
    InvalidTxnState,
    NotCoordinator,
    TransactionAbortable,
)
from ottla.common.promise import Promise
from ottla.coordinator.transaction.markers import Codes
from ottla.coordinator.transaction.metadata import EPOCH_BUMP_FROM
from ottla.coordinator.transaction.service import TransactionService
from ottla.coordinator.transaction.settings import TransactionSettings
from ottla.coordinator.transaction.shard import AddPartitions


class SupportedOperation(Enum):
    """What the version of a client's request lets the leader do."""

    DEFAULT_ERROR = auto()
    """Verify; the client does not know TRANSACTION_ABORTABLE."""
    GENERIC_ERROR = auto()
    """Verify; it does."""
    ADD_PARTITION = auto()
    """Add the partition: the client speaks version 2 of transactions."""

    @property
    def supports_epoch_bump(self) -> bool:
        return self is SupportedOperation.ADD_PARTITION


PRODUCE: Final = (11, 12)
TXN_OFFSET_COMMIT: Final = (4, 5)
"""From which versions of these requests on TRANSACTION_ABORTABLE is known, and version 2 spoken."""


def operation_of(since: tuple[int, int], api_version: int) -> SupportedOperation:
    if api_version >= since[1]:
        return SupportedOperation.ADD_PARTITION
    if api_version >= since[0]:
        return SupportedOperation.GENERIC_ERROR
    return SupportedOperation.DEFAULT_ERROR


class TransactionVerification:
    def __init__(
        self, transactions: TransactionService, settings: TransactionSettings, scheduler: Scheduler
    ) -> None:
        self._transactions = transactions
        self._settings = settings
        self._scheduler = scheduler

    async def verify(self, request: AddPartitions, operation: SupportedOperation) -> Codes:
        """Whether each partition of ``request`` may be written to within the transaction."""
        try:
            if operation.supports_epoch_bump:
                await self._add(request._replace(client_version=EPOCH_BUMP_FROM))
                return dict.fromkeys(sorted(request.partitions), ErrorCode.NONE)
            codes = await self._transactions.verify_partitions(request)
        except ApiError as error:
            codes = dict.fromkeys(sorted(request.partitions), error.code)
        return {each: _understood(code, operation) for each, code in codes.items()}

    async def _add(self, request: AddPartitions) -> None:
        deadline = self._scheduler.monotonic() + self._settings.add_retry_max_ms / 1000
        while True:
            try:
                await self._transactions.add_partitions(request)
            except ApiError as error:
                if error.code is not ErrorCode.CONCURRENT_TRANSACTIONS:
                    raise
                if self._scheduler.monotonic() >= deadline:
                    raise
                await self._moment()
            else:
                return

    def _moment(self) -> Promise[None]:
        passed: Promise[None] = Promise()
        self._scheduler.call_later(self._settings.add_retry_ms / 1000, passed.fulfil, None)
        return passed


_REFUSALS: Final[dict[ErrorCode, type[ApiError]]] = {
    kind.code: kind
    for kind in (
        ConcurrentTransactions,
        CoordinatorLoadInProgress,
        CoordinatorNotAvailable,
        InvalidProducerEpoch,
        InvalidProducerIdMapping,
        InvalidRequest,
        InvalidTxnState,
        NotCoordinator,
        TransactionAbortable,
    )
}


def refusal(code: ErrorCode) -> ApiError:
    """What the code of a verification stands for."""
    return _REFUSALS.get(code, ApiError)()


def _understood(code: ErrorCode, operation: SupportedOperation) -> ErrorCode:
    """Producers do not expect PRODUCER_FENCED of a leader, nor what is newer than they are."""
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and operation is SupportedOperation.DEFAULT_ERROR:
        return ErrorCode.INVALID_TXN_STATE
    return code

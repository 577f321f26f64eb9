"""Asking the coordinator whether a partition is part of a transaction, or making it so (KIP-890).

Clients of version 2 do not add partitions themselves: the leader does it for them, before the first
batch. For older ones it verifies that they did. Which of the two, and which errors a client
understands, is told by the version of its request.

The transaction before may not be quite over when the next begins: then the question is asked again
after a moment, so that the client need not (``add.partitions.to.txn.retry.backoff.ms``).
"""

from enum import Enum, auto
from typing import Final, Protocol

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
    NetworkException,
    NotCoordinator,
    OperationNotAttempted,
    TransactionAbortable,
    UnknownTopicOrPartition,
)
from ottla.common.promise import Promise
from ottla.coordinator.transaction.markers import Codes
from ottla.coordinator.transaction.metadata import EPOCH_BUMP_FROM
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


class TransactionCoordinators(Protocol):
    """The coordinator of a transactional id, whichever broker it is on."""

    async def add_partitions(self, request: AddPartitions) -> Codes:
        """Make partitions part of a transaction; how that went, or an ApiError for all of them."""
        ...

    async def verify_partitions(self, request: AddPartitions) -> Codes:
        """Whether each partition is part of the transaction, or an ApiError for all of them."""
        ...


class TransactionVerification:
    def __init__(
        self,
        coordinators: TransactionCoordinators,
        settings: TransactionSettings,
        scheduler: Scheduler,
    ) -> None:
        self._coordinators = coordinators
        self._settings = settings
        self._scheduler = scheduler

    async def verify(self, request: AddPartitions, operation: SupportedOperation) -> Codes:
        """Whether each partition of ``request`` may be written to within the transaction."""
        if operation.supports_epoch_bump:
            codes = await self._add(request._replace(client_version=EPOCH_BUMP_FROM))
        else:
            codes = await self._ask(request, verify_only=True)
        return {each: _understood(code, operation) for each, code in codes.items()}

    async def _add(self, request: AddPartitions) -> Codes:
        deadline = self._scheduler.monotonic() + self._settings.add_retry_max_ms / 1000
        while True:
            codes = await self._ask(request, verify_only=False)
            if ErrorCode.CONCURRENT_TRANSACTIONS not in codes.values():
                return codes
            if self._scheduler.monotonic() >= deadline:
                return codes
            await self._moment()

    async def _ask(self, request: AddPartitions, *, verify_only: bool) -> Codes:
        coordinators = self._coordinators
        ask = coordinators.verify_partitions if verify_only else coordinators.add_partitions
        try:
            return await ask(request)
        except ApiError as error:
            return dict.fromkeys(sorted(request.partitions), error.code)

    def _moment(self) -> Promise[None]:
        passed: Promise[None] = Promise(self._scheduler.turn)
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
        NetworkException,
        NotCoordinator,
        OperationNotAttempted,
        TransactionAbortable,
        UnknownTopicOrPartition,
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

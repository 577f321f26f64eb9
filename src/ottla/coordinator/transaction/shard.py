"""The transactional ids of one partition of ``__transaction_state``: what the runtime runs.

Requests are turned into records by ``initializing``, ``ending`` and :meth:`TransactionShard.add`;
``markers`` carries out what was decided. A request sees what the one before it did, even when that
is not committed yet; its answer waits for both. Kafka keeps such requests away with
CONCURRENT_TRANSACTIONS; here that is left for transactions that are being ended.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple, TypeVar

from ottla.common.errors import (
    ApiError,
    ConcurrentTransactions,
    ErrorCode,
    InvalidProducerIdMapping,
    ProducerFenced,
)
from ottla.common.topic_partition import TopicPartition
from ottla.coordinator.partition import Action
from ottla.coordinator.shard import Outcome, Stored
from ottla.coordinator.sweep import SLICE, Sweep
from ottla.coordinator.timeline import Timeline, TimelineDict
from ottla.coordinator.timers import Timers
from ottla.coordinator.transaction import ending, initializing
from ottla.coordinator.transaction.ending import EndTransaction
from ottla.coordinator.transaction.initializing import InitProducerId
from ottla.coordinator.transaction.markers import MarkersInFlight, Send
from ottla.coordinator.transaction.metadata import ProducerIdAndEpoch, TransactionMetadata
from ottla.coordinator.transaction.records import TransactionRecord
from ottla.coordinator.transaction.settings import TransactionSettings
from ottla.coordinator.transaction.state import TransactionState
from ottla.observability.logging import logger

log = logger(__name__)

T = TypeVar("T")

FLEXIBLE_RECORDS_FROM: Final = 1
"""The version of transactions from which on their records have tagged fields."""

Records = Outcome[TransactionRecord, None]


class AddPartitions(NamedTuple):
    """Partitions that are to be part of a transaction, or of which that is to be verified."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]
    client_version: int = 0


class TransactionShard:
    def __init__(
        self,
        timeline: Timeline,
        timers: Timers[Action],
        settings: TransactionSettings,
        version: Callable[[], int],
        send: Send,
    ) -> None:
        self._timers = timers
        self._settings = settings
        self._version = version
        self.transactions: TimelineDict[str, TransactionMetadata] = TimelineDict(timeline)
        self.markers = MarkersInFlight(timers, send, self._complete)
        self._prepared_ends = Sweep("prepared", timers, self._slices, self._resume)
        self._timeouts = Sweep("timeouts", timers, self._slices, self._abort_timed_out)
        self._expiry = Sweep("expiry", timers, self._slices, self._expire)

    # What the runtime asks

    def replay(self, _offset: int, _producer_id: int, record: TransactionRecord) -> None:
        if record.metadata is None:
            self.transactions.pop(record.transactional_id)
        else:
            self.transactions[record.transactional_id] = record.metadata

    def replay_end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Nothing is written within a transaction here."""

    def reverted(self, _error: ApiError, _now_ms: int) -> None:
        """Nothing is kept but what records say, and what is certain."""

    def loaded(self, _now_ms: int) -> None:
        self._timers.schedule("prepared", 0, lambda _: Outcome([], None, then=self._certain))
        self._timeouts.every(self._settings.timeout_check_interval_ms)
        self._expiry.every(self._settings.expiration_check_interval_ms)

    def unloaded(self, _now_ms: int) -> None:
        self.markers.clear()

    def _certain(self, error: ApiError | None, _now_ms: int) -> None:
        """Go on with the ends that were decided: all that was loaded is committed."""
        if error is None:
            self._timers.schedule("prepared", 0, self._prepared_ends.begin)

    def _resume(self, transactional_ids: list[str], _now_ms: int) -> Records:
        """Go on with the ends that were decided, where it is certain that they were."""
        prepared = [
            (transactional_id, metadata)
            for transactional_id in transactional_ids
            if (metadata := self.transactions.get(transactional_id)) is not None
            and metadata.state.is_prepared
        ]
        uncommitted = self.transactions.uncommitted() if prepared else set()
        for transactional_id, metadata in prepared:
            if transactional_id not in uncommitted:
                self.markers.begin(transactional_id, metadata)
        return Outcome([], None)

    # Requests

    def init_producer_id(
        self, request: InitProducerId, new_producer_id: int | None, now_ms: int
    ) -> Outcome[TransactionRecord, ProducerIdAndEpoch | None]:
        """Producer id and epoch, or None: the open transaction is aborted first, ask again."""
        metadata = self.transactions.get(request.transactional_id)
        if metadata is not None:
            initializing.check(metadata, request.expected)
            if metadata.state is TransactionState.ONGOING:
                aborted = ending.aborted(metadata, self._version(), now_ms)
                fields = _told(request.transactional_id, aborted)
                log.info("transaction aborted: another producer begins", **fields)
                return self._prepared(request.transactional_id, aborted, None)
        fresh = initializing.initialized(metadata, request, new_producer_id, now_ms)
        return Outcome([self._record(request.transactional_id, fresh)], fresh.producer)

    def add(self, request: AddPartitions, now_ms: int) -> Outcome[TransactionRecord, None]:
        metadata = self._checked(request)
        is_open = metadata.state is TransactionState.ONGOING
        if is_open and request.partitions.issubset(metadata.partitions):
            return Outcome([], None)
        added = metadata.with_partitions(request.partitions, request.client_version, now_ms)
        return Outcome([self._record(request.transactional_id, added)], None)

    def verify(self, request: AddPartitions) -> dict[TopicPartition, ErrorCode]:
        """Whether each partition is part of the transaction."""
        metadata = self._checked(request)
        return {
            each: ErrorCode.NONE if each in metadata.partitions else ErrorCode.TRANSACTION_ABORTABLE
            for each in sorted(request.partitions)
        }

    def _checked(self, request: AddPartitions) -> TransactionMetadata:
        metadata = self.transactions.get(request.transactional_id)
        if metadata is None:
            raise InvalidProducerIdMapping
        if metadata.state.is_prepared:
            # First of all: where the epochs were used up, the client has the next producer id.
            raise ConcurrentTransactions
        if metadata.producer_id != request.producer_id:
            raise InvalidProducerIdMapping
        if metadata.producer_epoch != request.producer_epoch:
            raise ProducerFenced
        return metadata

    def end(
        self, request: EndTransaction, new_producer_id: int | None, now_ms: int
    ) -> Outcome[TransactionRecord, ProducerIdAndEpoch]:
        """What the producer goes on with."""
        transactional_id = request.transactional_id
        metadata = self.transactions.get(transactional_id)
        prepared = ending.ended(metadata, request, new_producer_id, now_ms)
        if prepared is None:
            assert metadata is not None
            return Outcome([], metadata.producer)
        return self._prepared(transactional_id, prepared, prepared.producer_after)

    def _prepared(
        self,
        transactional_id: str,
        prepared: TransactionMetadata,
        answer: T,
    ) -> Outcome[TransactionRecord, T]:
        record = self._record(transactional_id, prepared)
        return Outcome([record], answer, then=self._begin(transactional_id, prepared))

    def _begin(self, transactional_id: str, prepared: TransactionMetadata) -> Stored:
        def begin(error: ApiError | None, _now_ms: int) -> None:
            if error is None and self.transactions.get(transactional_id) == prepared:
                self.markers.begin(transactional_id, prepared)

        return begin

    def _complete(
        self, transactional_id: str, prepared: TransactionMetadata, now_ms: int
    ) -> Outcome[TransactionRecord, None]:
        if self.transactions.get(transactional_id) != prepared:
            return Outcome([], None)
        return Outcome([self._record(transactional_id, prepared.completed(now_ms))], None)

    def _record(self, transactional_id: str, metadata: TransactionMetadata) -> TransactionRecord:
        version = 1 if self._version() >= FLEXIBLE_RECORDS_FROM else 0
        return TransactionRecord(transactional_id, metadata, version)

    # What time does

    def _slices(self) -> Iterator[list[str]]:
        found = list(self.transactions)
        for start in range(0, len(found), SLICE):
            yield found[start : start + SLICE]

    def _abort_timed_out(self, transactional_ids: list[str], now_ms: int) -> Records:
        """End what was open for too long; see that what was decided is being carried out."""
        self._resume(transactional_ids, now_ms)
        aborted = [
            (transactional_id, ending.aborted(metadata, self._version(), now_ms))
            for transactional_id in transactional_ids
            if (metadata := self.transactions.get(transactional_id)) is not None
            and metadata.is_over_time(now_ms)
        ]
        records = [self._record(*each) for each in aborted]
        return Outcome(records, None, atomic=False, then=self._timed_out(aborted))

    def _timed_out(self, aborted: list[tuple[str, TransactionMetadata]]) -> Stored | None:
        def stored(error: ApiError | None, now_ms: int) -> None:
            if error is None:
                log.changes("transaction aborted: timed out", [_told(*each) for each in aborted])
                self._resume([transactional_id for transactional_id, _ in aborted], now_ms)

        return stored if aborted else None

    def _expire(self, transactional_ids: list[str], now_ms: int) -> Records:
        """Forget transactional ids that nobody has used for long."""
        before_ms = now_ms - self._settings.expiration_ms
        records = [
            TransactionRecord(transactional_id, None)
            for transactional_id in transactional_ids
            if (metadata := self.transactions.get(transactional_id)) is not None
            and metadata.state.is_idle
            and metadata.last_update_ms <= before_ms
        ]
        return Outcome(records, None, atomic=False)

    # What people ask

    def committed(self, transactional_id: str) -> TransactionMetadata | None:
        return self.transactions.committed(transactional_id)

    def all_committed(self) -> Iterable[tuple[str, TransactionMetadata]]:
        return self.transactions.committed_items()


def _told(transactional_id: str, metadata: TransactionMetadata) -> dict[str, object]:
    """The fields of a line of the log."""
    return {
        "transactional_id": transactional_id,
        "producer_id": metadata.producer_id,
        "timeout_ms": metadata.timeout_ms,
        "partitions": len(metadata.partitions),
    }

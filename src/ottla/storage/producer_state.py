"""What a log knows of its producers: sequences for idempotence, and open transactions.

Of each producer the last five batches are kept, so that a batch that is sent again is answered
with the offsets that it got. A producer with a higher epoch begins anew at sequence 0; one with a
lower epoch is fenced. A producer that is not known (expired, or its records deleted) may begin
anywhere.

The first unstable offset is where the first transaction begins that is still open, or whose marker
the high watermark has not reached: a committed reader must not read on from there.

Counterpart: ``ProducerStateManager`` and ``ProducerAppendInfo``.
"""

from typing import Final, NamedTuple, Self

from ottla.common.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequenceNumber,
    TransactionCoordinatorFenced,
)
from ottla.records.batch import (
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    BatchHeader,
    read_header,
)
from ottla.records.control import ControlType, read_transaction_marker
from ottla.records.record import iterate
from ottla.records.validation import ValidatedAppend
from ottla.storage.transaction_index import AbortedTransaction

BATCHES_KEPT: Final = 5
SEQUENCE_MAX: Final = (1 << 31) - 1
NO_OFFSET: Final = -1


class BatchMetadata(NamedTuple):
    """A batch that a producer has appended."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @classmethod
    def of(cls, header: BatchHeader) -> Self:
        return cls(
            header.last_sequence,
            header.last_offset,
            header.last_offset_delta,
            header.max_timestamp,
        )

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta

    @property
    def first_sequence(self) -> int:
        """Sequences are 31 bits and go on at 0."""
        return (self.last_sequence - self.offset_delta) & SEQUENCE_MAX


class CompletedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool

    def aborted(self, last_stable_offset: int) -> AbortedTransaction:
        """What the transaction index keeps of it."""
        assert self.is_aborted
        return AbortedTransaction(
            self.producer_id, self.first_offset, self.last_offset, last_stable_offset
        )


class ProducerEntry:
    """The state of one producer id."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_timestamp",
        "producer_id",
        "transaction_first_offset",
    )

    def __init__(
        self,
        producer_id: int,
        epoch: int = NO_PRODUCER_EPOCH,
        coordinator_epoch: int = -1,
        last_timestamp: int = NO_TIMESTAMP,
        transaction_first_offset: int = NO_OFFSET,
    ) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = last_timestamp
        self.transaction_first_offset = transaction_first_offset
        self.batches: list[BatchMetadata] = []
        """The oldest first."""

    def copy(self) -> "ProducerEntry":
        entry = ProducerEntry(
            self.producer_id,
            self.epoch,
            self.coordinator_epoch,
            self.last_timestamp,
            self.transaction_first_offset,
        )
        entry.batches = self.batches.copy()
        return entry

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_data_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    @property
    def last_offset_delta(self) -> int:
        return self.batches[-1].offset_delta if self.batches else 0

    def begin_epoch(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.batches.clear()
            self.epoch = epoch

    def find_duplicate(self, first_sequence: int, last_sequence: int) -> BatchMetadata | None:
        for batch in self.batches:
            if batch.last_sequence == last_sequence and batch.first_sequence == first_sequence:
                return batch
        return None


class ProducerState:
    """All producers of a log, up to ``end_offset``."""

    __slots__ = ("end_offset", "expiration_ms", "ongoing", "producers", "unreplicated")

    def __init__(self, expiration_ms: int) -> None:
        self.expiration_ms = expiration_ms
        self.producers: dict[int, ProducerEntry] = {}
        self.ongoing: dict[int, int] = {}
        """First offset of each open transaction, ascending, and its producer id."""
        self.unreplicated: dict[int, int] = {}
        """First offset and marker of each ended transaction that is not yet replicated."""
        self.end_offset = 0

    def clear(self, end_offset: int) -> None:
        self.producers.clear()
        self.ongoing.clear()
        self.unreplicated.clear()
        self.end_offset = end_offset

    def is_empty(self) -> bool:
        return not self.producers and not self.unreplicated

    # Appending

    def check_client(self, append: ValidatedAppend) -> BatchMetadata | None:
        """Refuse a client's batch that is out of order; the batch that it repeats, if any."""
        entry = self.producers.get(append.producer_id)
        if entry is None:
            return None
        first_sequence = append.base_sequence
        if entry.epoch != append.producer_epoch:
            self._check_new_epoch(entry, append.producer_epoch, first_sequence)
        else:
            batches = entry.batches
            last = batches[-1][0] if batches else NO_SEQUENCE
            if first_sequence != last + 1:
                duplicate = entry.find_duplicate(first_sequence, append.last_sequence)
                if duplicate is not None:
                    return duplicate
                if first_sequence != 0 or last != SEQUENCE_MAX:
                    raise OutOfOrderSequenceNumber(
                        f"producer {entry.producer_id}: sequence {first_sequence} after {last}"
                    )
        if entry.transaction_first_offset >= 0 and not append.is_transactional:
            raise InvalidTxnState(f"producer {entry.producer_id} has an open transaction")
        return None

    def _check_new_epoch(self, entry: ProducerEntry, epoch: int, first_sequence: int) -> None:
        self.check_epoch(entry.producer_id, epoch)
        if first_sequence != 0 and entry.epoch != NO_PRODUCER_EPOCH:
            raise OutOfOrderSequenceNumber(
                f"producer {entry.producer_id}: sequence {first_sequence} begins epoch {epoch}"
            )

    def check_epoch(self, producer_id: int, epoch: int) -> None:
        entry = self.producers.get(producer_id)
        if entry is not None and epoch < entry.epoch:
            raise InvalidProducerEpoch(
                f"producer {producer_id}: epoch {epoch} is smaller than {entry.epoch}"
            )

    def check_transactional(self, producer_id: int, is_transactional: bool) -> None:
        """Within a transaction a producer writes nothing outside of it."""
        entry = self.producers.get(producer_id)
        if entry is not None and entry.transaction_first_offset >= 0 and not is_transactional:
            raise InvalidTxnState(f"producer {producer_id} has an open transaction")

    def add_batch(
        self, producer_id: int, epoch: int, batch: BatchMetadata, is_transactional: bool
    ) -> None:
        """Take note of a data batch that was appended."""
        entry = self.producers.get(producer_id)
        if entry is None:
            entry = self.producers[producer_id] = ProducerEntry(producer_id)
        if entry.epoch != epoch:
            entry.begin_epoch(epoch)
        batches = entry.batches
        if len(batches) == BATCHES_KEPT:
            del batches[0]
        batches.append(batch)
        entry.last_timestamp = batch.timestamp
        if is_transactional and entry.transaction_first_offset < 0:
            first_offset = batch.last_offset - batch.offset_delta
            entry.transaction_first_offset = first_offset
            self.ongoing[first_offset] = producer_id

    def check_coordinator(self, batch: memoryview, transaction_version: int) -> None:
        """Coordinators write markers and offsets; they keep no sequences."""
        header = read_header(batch)
        if header.producer_id < 0:
            return
        if header.is_control:
            marker = read_transaction_marker(iterate(batch)[0])
            self.check_marker(
                header.producer_id,
                header.producer_epoch,
                marker.coordinator_epoch,
                transaction_version,
            )
        else:
            self.check_epoch(header.producer_id, header.producer_epoch)
            self.check_transactional(header.producer_id, header.is_transactional)

    def check_marker(
        self,
        producer_id: int,
        epoch: int,
        coordinator_epoch: int,
        transaction_version: int,
    ) -> None:
        """Refuse the marker of a coordinator that others have replaced, or of an older epoch.

        From transaction version 2 on each transaction has an epoch of its own, so a marker must
        bring a higher one; one that was written already may come again.
        """
        entry = self.producers.get(producer_id)
        if entry is None:
            return
        if transaction_version >= 2:
            repeated = epoch == entry.epoch and (
                entry.transaction_first_offset < 0 or epoch == (1 << 15) - 1
            )
            if epoch <= entry.epoch and not repeated:
                raise InvalidProducerEpoch(
                    f"producer {producer_id}: marker of epoch {epoch} after {entry.epoch}"
                )
        else:
            self.check_epoch(producer_id, epoch)
        if coordinator_epoch < entry.coordinator_epoch:
            raise TransactionCoordinatorFenced(
                f"producer {producer_id}: coordinator epoch {coordinator_epoch} "
                f"is smaller than {entry.coordinator_epoch}"
            )

    def add_marker(
        self,
        producer_id: int,
        epoch: int,
        coordinator_epoch: int,
        *,
        offset: int,
        timestamp: int,
        is_aborted: bool,
    ) -> CompletedTransaction | None:
        """Take note of a marker; the transaction that it ends, unless that one was empty.

        It stays open here until :meth:`complete`.
        """
        entry = self.producers.get(producer_id)
        if entry is None:
            entry = self.producers[producer_id] = ProducerEntry(producer_id)
        first_offset = entry.transaction_first_offset
        entry.begin_epoch(epoch)
        entry.coordinator_epoch = coordinator_epoch
        entry.last_timestamp = timestamp
        entry.transaction_first_offset = NO_OFFSET
        if first_offset < 0:
            return None
        return CompletedTransaction(producer_id, first_offset, offset, is_aborted)

    def replay(self, header: BatchHeader, batch: bytes) -> CompletedTransaction | None:
        """Take note of a batch as the log has it, by any writer.

        ``batch`` is looked into for a marker only. A control batch without records is all that
        compaction left of a transaction.
        """
        self.end_offset = header.last_offset + 1
        producer_id, epoch = header.producer_id, header.producer_epoch
        if producer_id < 0:
            return None
        if not header.is_control:
            batch_metadata = BatchMetadata.of(header)
            self.add_batch(producer_id, epoch, batch_metadata, header.is_transactional)
            return None
        records = iterate(batch)
        if not records:
            return None
        marker = read_transaction_marker(records[0])
        return self.add_marker(
            producer_id,
            epoch,
            marker.coordinator_epoch,
            offset=header.base_offset,
            timestamp=records[0].timestamp,
            is_aborted=marker.control_type is ControlType.ABORT,
        )

    def last_stable_offset_after(self, completed: CompletedTransaction) -> int:
        """The last stable offset once ``completed`` counts no more."""
        for first_offset, producer_id in self.ongoing.items():
            if producer_id != completed.producer_id:
                return first_offset
        return completed.last_offset + 1

    def complete(self, completed: CompletedTransaction) -> None:
        self.ongoing.pop(completed.first_offset, None)
        self.unreplicated[completed.first_offset] = completed.last_offset

    # Offsets

    @property
    def first_unstable_offset(self) -> int | None:
        first = next(iter(self.ongoing), None)
        if self.unreplicated:
            unreplicated = min(self.unreplicated)
            return unreplicated if first is None else min(first, unreplicated)
        return first

    def replicated_to(self, high_watermark: int) -> None:
        """Transactions whose marker lies below are settled."""
        if self.unreplicated:
            self.unreplicated = {
                first: last for first, last in self.unreplicated.items() if last >= high_watermark
            }

    def started_at(self, log_start_offset: int) -> None:
        """The log begins there now; what ended before it is settled."""
        self.replicated_to(log_start_offset)
        self.end_offset = max(self.end_offset, log_start_offset)

    # Loading and expiring

    def load(self, entries: list[ProducerEntry], end_offset: int, now_ms: int) -> None:
        """Begin with what a snapshot at ``end_offset`` has, except what is expired."""
        self.clear(end_offset)
        for entry in entries:
            if not self._is_expired(entry, now_ms):
                self.producers[entry.producer_id] = entry
        transactions = [
            (entry.transaction_first_offset, entry.producer_id)
            for entry in self.producers.values()
            if entry.transaction_first_offset >= 0
        ]
        self.ongoing.update(sorted(transactions))

    def _is_expired(self, entry: ProducerEntry, now_ms: int) -> bool:
        idle_ms = now_ms - entry.last_timestamp
        return entry.transaction_first_offset < 0 and idle_ms >= self.expiration_ms

    def remove_expired(self, now_ms: int) -> None:
        if self.producers:
            expired = [
                e.producer_id for e in self.producers.values() if self._is_expired(e, now_ms)
            ]
            for producer_id in expired:
                del self.producers[producer_id]

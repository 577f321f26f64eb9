"""That a transaction is open on a partition: asked once, before its first batch (KIP-890).

A batch of a transaction that the coordinator does not know of would have nobody to end it: readers
of committed records would wait behind it for ever. So before the first one the leader asks the
coordinator, and holds a guard meanwhile. The append must bring that very guard: when a marker was
written in between, the guard is another, and the batch is refused. Once the first batch is in the
log, the log itself knows that the transaction is open.

The guard also remembers the lowest sequence that was asked for, so that batches which were sent
together are not appended in another order when one of them has to ask again.
"""

from typing import Final

from ottla.common.errors import InvalidTxnState, OutOfOrderSequenceNumber
from ottla.records.batch import BatchHeader
from ottla.storage.producer_state import ProducerState

GUARDS_MAX: Final = 10_000
"""Per partition; beyond it the oldest must be asked for again."""


class VerificationGuard:
    """One question to the coordinator; equal only to itself."""

    __slots__ = ("epoch", "lowest_sequence", "supports_epoch_bump")

    def __init__(self, epoch: int, sequence: int, supports_epoch_bump: bool) -> None:
        self.epoch = epoch
        self.lowest_sequence = sequence
        self.supports_epoch_bump = supports_epoch_bump

    def asked_again(self, epoch: int, sequence: int) -> None:
        if epoch > self.epoch:
            self.epoch, self.lowest_sequence = epoch, sequence
        elif epoch == self.epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)


class Verifications:
    """The guards of one partition, by producer id."""

    __slots__ = ("_guards",)

    def __init__(self) -> None:
        self._guards: dict[int, VerificationGuard] = {}

    def __len__(self) -> int:
        return len(self._guards)

    def begin(
        self,
        producers: ProducerState,
        producer_id: int,
        epoch: int,
        sequence: int,
        *,
        supports_epoch_bump: bool,
    ) -> VerificationGuard | None:
        """A guard for the question; None when the log knows that the transaction is open."""
        if is_ongoing(producers, producer_id, epoch):
            return None
        guard = self._guards.get(producer_id)
        if guard is None:
            if len(self._guards) >= GUARDS_MAX:
                del self._guards[next(iter(self._guards))]
            guard = VerificationGuard(epoch, sequence, supports_epoch_bump)
            self._guards[producer_id] = guard
        else:
            guard.asked_again(epoch, sequence)
        return guard

    def check(
        self, producers: ProducerState, header: BatchHeader, guard: VerificationGuard | None
    ) -> None:
        """Refuse a transactional batch unless its transaction is open for certain."""
        if is_ongoing(producers, header.producer_id, header.producer_epoch):
            return
        if guard is None or self._guards.get(header.producer_id) is not guard:
            raise InvalidTxnState("Record was not part of an ongoing transaction")
        expected = guard.lowest_sequence
        if guard.supports_epoch_bump and header.producer_id not in producers.producers:
            expected = 0  # each transaction begins a new epoch
        if header.base_sequence > expected:
            raise OutOfOrderSequenceNumber(
                f"producer {header.producer_id}: sequence {header.base_sequence} "
                f"where {expected} is expected"
            )

    def end(self, producer_id: int) -> None:
        """The first batch is in the log, or a marker is."""
        self._guards.pop(producer_id, None)


def is_ongoing(producers: ProducerState, producer_id: int, epoch: int) -> bool:
    entry = producers.producers.get(producer_id)
    return entry is not None and entry.transaction_first_offset >= 0 and entry.epoch == epoch

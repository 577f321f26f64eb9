"""What the coordinator knows of one transactional id, and every way in which that may change.

A value is never changed: each transition makes the next one, which becomes a record. Epochs only
grow, and where they are used up the transactional id goes on with another producer id, at epoch 0.

Under version 2 (KIP-890) each transaction has an epoch of its own: preparing its end bumps the
epoch, the markers carry the new one, and whatever still comes under the old one is late. The last
epoch, 32767, is never given to a producer, so that there is always one left to fence it with.
"""

from typing import Final, NamedTuple

from ottla.common.errors import ProducerFenced
from ottla.common.topic_partition import TopicPartition
from ottla.coordinator.transaction.state import VALID_PREVIOUS, TransactionState

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
NO_TIMESTAMP: Final = -1
EPOCH_MAX: Final = (1 << 15) - 1
EPOCH_BUMP_FROM: Final = 2
"""The version of transactions from which on each has an epoch of its own."""


class ProducerIdAndEpoch(NamedTuple):
    producer_id: int
    epoch: int


def is_exhausted(epoch: int) -> bool:
    return epoch >= EPOCH_MAX - 1


class TransactionMetadata(NamedTuple):
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: tuple[TopicPartition, ...] = ()
    """Sorted, each once."""
    start_ms: int = NO_TIMESTAMP
    last_update_ms: int = NO_TIMESTAMP
    last_producer_epoch: int = NO_EPOCH
    """The epoch before this one, if its producer may ask once more; not in the log."""
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    """With which producer id to go on after this transaction, when the epochs are used up."""
    client_version: int = 0
    """The version of transactions that the client speaks."""

    @property
    def is_exhausted(self) -> bool:
        return is_exhausted(self.producer_epoch)

    @property
    def producer(self) -> ProducerIdAndEpoch:
        return ProducerIdAndEpoch(self.producer_id, self.producer_epoch)

    def is_over_time(self, now_ms: int) -> bool:
        return self.state is TransactionState.ONGOING and self.start_ms + self.timeout_ms < now_ms

    # Transitions

    def _to(self, state: TransactionState, now_ms: int) -> "TransactionMetadata":
        assert self.state in VALID_PREVIOUS[state], f"{self.state} to {state}"
        return self._replace(
            state=state, previous_producer_id=self.producer_id, last_update_ms=now_ms
        )

    def next_epoch(
        self, timeout_ms: int, expected_epoch: int | None, now_ms: int
    ) -> "TransactionMetadata":
        """A producer begins anew; ``expected_epoch`` is what one that goes on believes to have."""
        epoch, last = self.producer_epoch + 1, NO_EPOCH
        if expected_epoch is not None:
            if expected_epoch == self.producer_epoch:
                last = self.producer_epoch
            elif expected_epoch == self.last_producer_epoch and self.producer_epoch < EPOCH_MAX:
                epoch, last = self.producer_epoch, self.last_producer_epoch  # it asks once more
            else:
                raise ProducerFenced
        assert epoch < EPOCH_MAX
        return self._begun(self.producer_id, epoch, last, timeout_ms, now_ms)

    def rotated(
        self, producer_id: int, timeout_ms: int, now_ms: int, *, goes_on: bool
    ) -> "TransactionMetadata":
        """A producer begins anew with another producer id: this one has no epochs left."""
        last = self.producer_epoch if goes_on else NO_EPOCH
        return self._begun(producer_id, 0, last, timeout_ms, now_ms)

    def _begun(
        self, producer_id: int, epoch: int, last_epoch: int, timeout_ms: int, now_ms: int
    ) -> "TransactionMetadata":
        return self._to(TransactionState.EMPTY, now_ms)._replace(
            producer_id=producer_id,
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            timeout_ms=timeout_ms,
            partitions=(),
            start_ms=NO_TIMESTAMP,
        )

    def with_partitions(
        self, added: frozenset[TopicPartition], client_version: int, now_ms: int
    ) -> "TransactionMetadata":
        start_ms = now_ms if self.state.is_idle else self.start_ms
        return self._to(TransactionState.ONGOING, now_ms)._replace(
            partitions=tuple(sorted(added.union(self.partitions))),
            start_ms=start_ms,
            client_version=client_version,
        )

    def fenced(self) -> "TransactionMetadata":
        """The user of the current epoch is to be shut out: an abort follows at once."""
        return self._to(TransactionState.PREPARE_EPOCH_FENCE, self.last_update_ms)

    def prepared(
        self,
        *,
        commit: bool,
        client_version: int,
        now_ms: int,
        next_producer_id: int = NO_PRODUCER_ID,
    ) -> "TransactionMetadata":
        """The outcome is decided; without partitions there may have been no transaction at all."""
        epoch, last = self.producer_epoch, self.last_producer_epoch
        if client_version >= EPOCH_BUMP_FROM:
            epoch, last = min(epoch + 1, EPOCH_MAX), epoch
        elif self.state is TransactionState.PREPARE_EPOCH_FENCE:
            epoch, last = min(epoch + 1, EPOCH_MAX), NO_EPOCH
        state = TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT
        return self._to(state, now_ms)._replace(
            producer_epoch=epoch,
            last_producer_epoch=last,
            next_producer_id=next_producer_id,
            start_ms=now_ms if self.state.is_idle else self.start_ms,
            client_version=client_version,
        )

    @property
    def producer_after(self) -> ProducerIdAndEpoch:
        """With which producer id and epoch a prepared transaction leaves its producer."""
        if self.client_version >= EPOCH_BUMP_FROM and self.next_producer_id != NO_PRODUCER_ID:
            return ProducerIdAndEpoch(self.next_producer_id, 0)
        return self.producer

    def completed(self, now_ms: int) -> "TransactionMetadata":
        """All partitions know the outcome."""
        producer_id, epoch = self.producer_after
        committed = self.state is TransactionState.PREPARE_COMMIT
        state = TransactionState.COMPLETE_COMMIT if committed else TransactionState.COMPLETE_ABORT
        return self._to(state, now_ms)._replace(
            producer_id=producer_id,
            producer_epoch=epoch,
            next_producer_id=NO_PRODUCER_ID,
            partitions=(),
        )

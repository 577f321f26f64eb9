"""Which transactions somebody wants to see."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from ottla.coordinator.transaction.metadata import TransactionMetadata
from ottla.coordinator.transaction.state import TransactionState


class Listed(NamedTuple):
    transactional_id: str
    producer_id: int
    state: TransactionState


class Filters(NamedTuple):
    """Each narrows what is shown; an empty one lets everything through."""

    states: frozenset[TransactionState] = frozenset()
    producer_ids: frozenset[int] = frozenset()
    longer_than_ms: int = -1
    """Only those that run for longer; negative is all."""
    matches: Callable[[str], bool] | None = None
    """Whether a transactional id is wanted."""

    def apply(
        self, transactions: Iterable[tuple[str, TransactionMetadata]], now_ms: int
    ) -> list[Listed]:
        return [
            Listed(transactional_id, metadata.producer_id, metadata.state)
            for transactional_id, metadata in transactions
            if self._wants(transactional_id, metadata, now_ms)
        ]

    def _wants(self, transactional_id: str, metadata: TransactionMetadata, now_ms: int) -> bool:
        if metadata.state is TransactionState.DEAD:
            return False
        if self.producer_ids and metadata.producer_id not in self.producer_ids:
            return False
        if self.states and metadata.state not in self.states:
            return False
        if self.longer_than_ms >= 0 and now_ms - metadata.start_ms <= self.longer_than_ms:
            return False
        return self.matches is None or self.matches(transactional_id)

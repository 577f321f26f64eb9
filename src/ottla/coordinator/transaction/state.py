"""The states of a transaction, and of which state each may follow.

Two of them are never in the log: PrepareEpochFence is one step with the abort that follows it, and
Dead is the tombstone of a transactional id that nobody uses any more.
"""

from enum import Enum
from typing import Final


class TransactionState(Enum):
    """The states, by the numbers that the log has for them."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        """The name that people see."""
        return _LABELS[self]

    @property
    def is_prepared(self) -> bool:
        """Whether the outcome is decided, but not yet known to all partitions."""
        return self in _PREPARED

    @property
    def is_idle(self) -> bool:
        """Whether no transaction is open: the transactional id may be forgotten."""
        return self in _IDLE


_LABELS: Final = {
    TransactionState.EMPTY: "Empty",
    TransactionState.ONGOING: "Ongoing",
    TransactionState.PREPARE_COMMIT: "PrepareCommit",
    TransactionState.PREPARE_ABORT: "PrepareAbort",
    TransactionState.COMPLETE_COMMIT: "CompleteCommit",
    TransactionState.COMPLETE_ABORT: "CompleteAbort",
    TransactionState.DEAD: "Dead",
    TransactionState.PREPARE_EPOCH_FENCE: "PrepareEpochFence",
}
_PREPARED: Final = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
_IDLE: Final = frozenset(
    {
        TransactionState.EMPTY,
        TransactionState.COMPLETE_COMMIT,
        TransactionState.COMPLETE_ABORT,
    }
)

VALID_PREVIOUS: Final = {
    TransactionState.EMPTY: _IDLE,
    TransactionState.ONGOING: _IDLE | {TransactionState.ONGOING},
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.ONGOING}),
    TransactionState.PREPARE_ABORT: _IDLE
    | {TransactionState.ONGOING, TransactionState.PREPARE_EPOCH_FENCE},
    TransactionState.COMPLETE_COMMIT: frozenset({TransactionState.PREPARE_COMMIT}),
    TransactionState.COMPLETE_ABORT: frozenset({TransactionState.PREPARE_ABORT}),
    TransactionState.DEAD: _IDLE,
    TransactionState.PREPARE_EPOCH_FENCE: frozenset({TransactionState.ONGOING}),
}


def state_of(label: str) -> TransactionState | None:
    """The state that people call so."""
    return _BY_LABEL.get(label)


_BY_LABEL: Final = {label: state for state, label in _LABELS.items()}

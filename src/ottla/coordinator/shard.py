"""The state machine of one partition, as the runtime sees it.

A request becomes an :class:`Outcome`: records and an answer. The runtime replays the records at
once, writes them, and gives the answer when they are committed; when they cannot be written, it
takes the state back. A shard therefore changes what it must remember in ``replay`` alone.

What is not in records (who waits for a rebalance) a shard keeps as it likes, but then it must put
it right itself when a write fails: that is what ``Outcome.stored`` and ``reverted`` are for. Timers
go back by themselves.
"""

from collections.abc import Callable, Sequence
from typing import Final, Generic, Protocol, TypeVar

from ottla.common.errors import ApiError

R = TypeVar("R")
R_contra = TypeVar("R_contra", contravariant=True)
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

Stored = Callable[[ApiError | None, int], None]
"""Called once, with an error or None and the time in ms: the records are lost, or committed."""


class Outcome(Generic[R, T_co]):
    """What a request comes to.

    With ``stored``, the records are not replayed: their effect comes when they are committed, and
    it is ``stored`` that brings it about. ``then`` is told the same of records that are replayed at
    once, for what may begin only when nothing can take them back. Records that are not ``atomic``
    may be spread over several batches.
    """

    __slots__ = ("answer", "atomic", "records", "stored", "then")

    def __init__(
        self,
        records: Sequence[R],
        answer: T_co,
        stored: Stored | None = None,
        *,
        atomic: bool = True,
        then: Stored | None = None,
    ) -> None:
        assert stored is None or then is None
        self.records = records
        self.answer = answer
        self.stored = stored
        self.then = then
        self.atomic = atomic

    def with_answer(self, answer: T) -> "Outcome[R, T]":
        return Outcome(self.records, answer, self.stored, atomic=self.atomic, then=self.then)


class Shard(Protocol[R_contra]):
    def replay(self, offset: int, producer_id: int, record: R_contra) -> None:
        """Take over what ``record`` says; ``producer_id`` is -1 outside of transactions."""
        ...

    def replay_end_transaction(self, producer_id: int, *, committed: bool) -> None: ...

    def reverted(self, error: ApiError, now_ms: int) -> None:
        """A write has failed, and what it and later ones have changed is as it was before."""
        ...

    def loaded(self, now_ms: int) -> None:
        """The log is replayed; requests come from now on."""
        ...

    def unloaded(self, now_ms: int) -> None:
        """This broker leads the partition no longer; requests that still wait must be told."""
        ...


class RecordFormat(Protocol[R]):
    """How the records of a topic lie in its log."""

    def encode(self, record: R) -> tuple[bytes, bytes | None]: ...

    def decode(self, key: bytes, value: bytes | None) -> R | None:
        """The record, or None when it is of a kind that is not known here."""
        ...


NO_PRODUCER_ID: Final = -1

"""Which fetch session makes room for a new one, found without a look at all of them.

A broker whose slots are taken is asked for room by every fetch of each client that has no session.
So the orders are kept in heaps that are put right when they are asked: an entry that its session
has left behind, by its use or another size, is met at most once. A use costs nothing: a session is
looked at again when the time that its entry bears is long ago, once in that time.

Counterpart in Apache Kafka: the three ``TreeMap`` of ``FetchSessionCache``.
"""

from collections import deque
from heapq import heapify, heappop, heappush
from typing import Final, Protocol, TypeAlias

SPARE: Final = 16
"""So many entries of a heap may be out of date, and as many as there are sessions."""

Worth: TypeAlias = tuple[bool, int]
"""Whether it is a follower's, and how many partitions it has."""


class Evictable(Protocol):
    @property
    def is_privileged(self) -> bool: ...

    @property
    def created(self) -> float: ...

    @property
    def last_used(self) -> float: ...

    @property
    def is_over(self) -> bool: ...

    @property
    def worth(self) -> Worth: ...


class _ByWorth:
    """Sessions, those of least worth first, and of these the oldest."""

    __slots__ = ("_heap",)

    def __init__(self) -> None:
        self._heap: list[tuple[Worth, int, Evictable]] = []

    def add(self, session: Evictable, number: int, count: int) -> None:
        heappush(self._heap, (session.worth, number, session))
        if len(self._heap) > 2 * count + SPARE:
            self._heap = [each for each in self._heap if _is_current(each)]
            heapify(self._heap)

    def first(self) -> Evictable | None:
        heap = self._heap
        while heap:
            if _is_current(heap[0]):
                return heap[0][2]
            heappop(heap)
        return None


def _is_current(entry: tuple[Worth, int, Evictable]) -> bool:
    worth, _, session = entry
    return not session.is_over and session.worth == worth


class EvictableSessions:
    """All sessions, each from when it is begun until it ``is_over``."""

    def __init__(self) -> None:
        self._count = 0
        self._numbers: dict[Evictable, int] = {}
        """Of each that is not over: how many were begun before it."""
        self._used: list[tuple[float, int, Evictable]] = []
        """By a time at which it was used; it may have been used since."""
        self._young: deque[Evictable] = deque()
        self._settled = _ByWorth()
        self._are_settled: set[Evictable] = set()
        self._consumers = _ByWorth()

    def add(self, session: Evictable) -> None:
        self._count += 1
        self._numbers[session] = self._count
        heappush(self._used, (session.last_used, self._count, session))
        self._young.append(session)
        self.resized(session)

    def remove(self, session: Evictable) -> None:
        """It is over."""
        del self._numbers[session]
        self._are_settled.discard(session)
        if len(self._used) > 2 * len(self._numbers) + SPARE:
            self._used = [entry for entry in self._used if not entry[2].is_over]
            heapify(self._used)
            self._young = deque(each for each in self._young if not each.is_over)

    def resized(self, session: Evictable) -> None:
        """It has another number of partitions."""
        number, count = self._numbers[session], len(self._numbers)
        if not session.is_privileged:
            self._consumers.add(session, number, count)
        if session in self._are_settled:
            self._settled.add(session, number, count)

    def next(self, worth: Worth, horizon: float) -> Evictable | None:
        """The session that makes room for one of ``worth``, if any does.

        That is the one that was longest unused, if it was so since ``horizon``; or that of least
        worth among those that are as old as that, or among all of consumers for a follower.
        """
        stale = self._longest_unused(horizon)
        if stale is not None:
            return stale
        self._settle(horizon)
        is_follower = worth[0]
        least = self._consumers.first() if is_follower else None
        if least is None:
            least = self._settled.first()
        return least if least is not None and least.worth < worth else None

    def _longest_unused(self, horizon: float) -> Evictable | None:
        used = self._used
        while used and used[0][0] < horizon:
            at, number, session = used[0]
            if not session.is_over and session.last_used == at:
                return session
            heappop(used)
            if not session.is_over:
                heappush(used, (session.last_used, number, session))
        return None

    def _settle(self, horizon: float) -> None:
        young = self._young
        while young and (young[0].is_over or young[0].created < horizon):
            session = young.popleft()
            if not session.is_over:
                self._are_settled.add(session)
                self._settled.add(session, self._numbers[session], len(self._numbers))

"""Deadlines in, due keys out: no thread, no clock."""

import heapq
from collections.abc import Callable
from itertools import count


class Timer:
    """A call that is to happen at a moment, unless it is cancelled before."""

    __slots__ = ("action", "at")

    def __init__(self, at: float, action: Callable[[], None]) -> None:
        self.at = at
        self.action: Callable[[], None] | None = action

    def cancel(self) -> None:
        self.action = None


class TimerQueue:
    """Timers by their moment; those of one moment in the order in which they were set."""

    __slots__ = ("_heap", "_order")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Timer]] = []
        self._order = count()

    def add(self, at: float, action: Callable[[], None]) -> Timer:
        timer = Timer(at, action)
        heapq.heappush(self._heap, (at, next(self._order), timer))
        return timer

    def next_at(self) -> float | None:
        """Return the moment of the first timer that still counts."""
        heap = self._heap
        while heap and heap[0][2].action is None:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def run_due(self, now: float) -> int:
        """Run what is due; return how many ran."""
        heap = self._heap
        ran = 0
        while heap and heap[0][0] <= now:
            action = heapq.heappop(heap)[2].action
            if action is not None:
                action()
                ran += 1
        return ran

"""Deadlines in, due keys out: no thread, no clock.

Most deadlines are cancelled, since what they guard is done in time; and a deadline may be weeks
away, if a client says so. So those that are cancelled leave the queue when they are more than half
of it: that costs each of them a constant, and the queue is never larger than twice what counts.
"""

import heapq
from collections.abc import Callable
from itertools import count
from typing import Final

FEW: Final = 100
"""So many may stay for good: it is not worth the while."""


class Timer:
    """A call that is to happen at a moment, unless it is cancelled before."""

    __slots__ = ("_queue", "action", "at")

    def __init__(self, queue: "TimerQueue", at: float, action: Callable[[], None]) -> None:
        self._queue = queue
        self.at = at
        self.action: Callable[[], None] | None = action

    def cancel(self) -> None:
        if self.action is not None:
            self.action = None
            self._queue.cancelled()


class TimerQueue:
    """Timers by their moment; those of one moment in the order in which they were set."""

    __slots__ = ("_dead", "_heap", "_order")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Timer]] = []
        self._order = count()
        self._dead = 0
        """How many of the heap are cancelled."""

    def __len__(self) -> int:
        """How many are kept, cancelled or not."""
        return len(self._heap)

    def add(self, at: float, action: Callable[[], None]) -> Timer:
        timer = Timer(self, at, action)
        heapq.heappush(self._heap, (at, next(self._order), timer))
        return timer

    def cancelled(self) -> None:
        """One of them counts no more."""
        self._dead += 1
        if self._dead > FEW and self._dead * 2 > len(self._heap):
            # In place: it may be one that is due that cancels the others.
            self._heap[:] = [entry for entry in self._heap if entry[2].action is not None]
            heapq.heapify(self._heap)
            self._dead = 0

    def next_at(self) -> float | None:
        """Return the moment of the first timer that still counts."""
        heap = self._heap
        while heap and heap[0][2].action is None:
            heapq.heappop(heap)
            self._dead -= 1
        return heap[0][0] if heap else None

    def run_due(self, now: float) -> int:
        """Run what is due; return how many ran."""
        heap = self._heap
        ran = 0
        while heap and heap[0][0] <= now:
            timer = heapq.heappop(heap)[2]
            action, timer.action = timer.action, None
            if action is None:
                self._dead -= 1
            else:
                action()
                ran += 1
        return ran

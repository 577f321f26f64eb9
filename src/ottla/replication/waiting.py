"""Requests that cannot be answered yet (Kafka: purgatory), by partition and deadline.

A waiting request costs nothing while it waits: it lies in a dictionary of each partition it asks
for, and in one queue of deadlines. An append tells the partition's waiters how many bytes came; the
one that has enough is answered at the end of the turn, so that it gets all that one read of a
socket has brought.
"""

from collections.abc import Callable, Iterable
from typing import TypeAlias

from ottla.common.environment import Cancellable, Scheduler
from ottla.common.timers import Timer, TimerQueue
from ottla.common.turn import Turn

WaitingAt: TypeAlias = "dict[WaitingRequest, None]"
"""All that wait for one thing: the high watermark of a partition, or the end of its log."""


class WaitingRequest:
    """A request that waits for ``missing`` bytes (or acknowledgements), or its deadline."""

    __slots__ = ("_answer", "_places", "_turn", "missing", "timer")

    def __init__(
        self,
        turn: Turn,
        missing: int,
        places: Iterable[WaitingAt],
        answer: Callable[[], None],
    ) -> None:
        self._turn = turn
        self._places = list(places)
        self._answer: Callable[[], None] | None = answer
        self.timer: Timer | None = None
        """Its deadline, which ``WaitingRequests`` keeps."""
        self.missing = missing
        for place in self._places:
            place[self] = None

    def came(self, amount: int) -> None:
        """Something came for which this request waits."""
        if self.missing > 0:
            self.missing -= amount
            if self.missing <= 0:
                self._turn.enqueue(self.finish)

    @property
    def is_finished(self) -> bool:
        return self._answer is None

    def finish(self) -> None:
        """Answer, once: whichever comes first of enough and deadline."""
        answer, self._answer = self._answer, None
        if answer is None:
            return
        for place in self._places:
            place.pop(self, None)
        if self.timer is not None:
            self.timer.cancel()
        answer()


class WaitingRequests:
    """All requests of a broker that wait."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._deadlines = TimerQueue()
        self._wake_up: Cancellable | None = None
        self._wake_up_at = 0.0

    def add(
        self,
        missing: int,
        places: Iterable[WaitingAt],
        wait_ms: int,
        answer: Callable[[], None],
    ) -> WaitingRequest:
        request = WaitingRequest(self._scheduler.turn, missing, places, answer)
        self._set_deadline(request, wait_ms)
        return request

    def postpone(self, request: WaitingRequest, wait_ms: int) -> None:
        """Give a request that still waits another deadline, from now on."""
        if request.timer is not None and not request.is_finished:
            request.timer.cancel()
            self._set_deadline(request, wait_ms)

    def _set_deadline(self, request: WaitingRequest, wait_ms: int) -> None:
        at = self._scheduler.monotonic() + wait_ms / 1000
        request.timer = self._deadlines.add(at, request.finish)
        if self._wake_up is None or at < self._wake_up_at:
            self._schedule(at)

    def _schedule(self, at: float) -> None:
        if self._wake_up is not None:
            self._wake_up.cancel()
        self._wake_up_at = at
        delay = max(0.0, at - self._scheduler.monotonic())
        self._wake_up = self._scheduler.call_later(delay, self._deadline)

    def _deadline(self) -> None:
        self._wake_up = None
        try:
            self._deadlines.run_due(self._scheduler.monotonic())
        finally:
            # One that fails must not keep the others waiting: they are due, and come next.
            at = self._deadlines.next_at()
            if at is not None:
                self._schedule(at)

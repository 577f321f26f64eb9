"""Time that a test moves by hand, and background work that runs when the test says so."""

import errno
from collections.abc import Callable
from typing import Any, TypeVar

from ottla.common.promise import Promise
from ottla.common.timers import Timer, TimerQueue
from ottla.common.turn import Turn, at_once

T = TypeVar("T")


class ManualScheduler:
    def __init__(self, wall_ms: int) -> None:
        self._start_ms = wall_ms
        self.skew_ms = 0
        """How far the wall clock has jumped."""
        self._now = 0.0
        self._timers = TimerQueue()
        self._background: list[tuple[str, Callable[[], None]]] = []
        self.hung: set[str] = set()
        """Lanes in which no work ends."""
        self.has_threads = True
        self.lanes: list[str] = []
        """Those of all work so far."""
        self.turn = Turn(at_once)

    def wall_ms(self) -> int:
        return self._start_ms + round(self._now * 1000) + self.skew_ms

    def monotonic(self) -> float:
        return self._now

    def call_soon(self, callback: Callable[..., Any], *args: Any) -> Timer:
        return self._timers.add(self._now, lambda: self.turn.run(callback, *args))

    def call_later(self, seconds: float, callback: Callable[..., Any], *args: Any) -> Timer:
        return self._timers.add(self._now + seconds, lambda: self.turn.run(callback, *args))

    def run_in_background(self, work: Callable[[], T], lane: str = "") -> Promise[T]:
        promise: Promise[T] = Promise(self.turn)
        self.lanes.append(lane)
        if not self.has_threads:
            self.call_soon(promise.fail, OSError(errno.EAGAIN, "no thread can be started"))
            return promise

        def run() -> None:
            try:
                result = work()
            except Exception as error:  # noqa: BLE001 - it belongs to the promise
                promise.fail(error)
            else:
                promise.fulfil(result)

        self._background.append((lane, run))
        return promise

    @property
    def background(self) -> int:
        """How many pieces of work wait for a thread."""
        return len(self._background)

    def run_background(self) -> None:
        """Run what is in the background now; what it brings on the loop runs with the next step."""
        work = [each for each in self._background if each[0] not in self.hung]
        self._background = [each for each in self._background if each[0] in self.hung]
        for _, run in work:
            run()

    def run_due(self) -> None:
        """Let the loop do what is due, and the background nothing."""
        self._timers.run_due(self._now)

    def advance(self, seconds: float = 0) -> None:
        """Let time pass; the loop and the background do all that comes up on the way."""
        end = self._now + seconds
        while True:
            due = self._timers.next_at()
            if any(lane not in self.hung for lane, _ in self._background):
                self.run_background()
            elif due is not None and due <= end:
                self._now = max(self._now, due)
                self._timers.run_due(self._now)
            else:
                break
        self._now = end

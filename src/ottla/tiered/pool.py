"""Work that blocks, done elsewhere: so much at once, so much waiting, and no more.

What runs the work is an argument: threads in a server, the simulator's own background in a
simulation. Promises are settled on the loop, so waiting never blocks it.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from ottla.common.promise import Promise
from ottla.common.turn import Turn

T = TypeVar("T")


class Background(Protocol):
    """Runs blocking work off the loop."""

    def __call__(self, work: Callable[[], T]) -> Promise[T]: ...


class PoolIsFull(Exception):
    """As much waits already as may wait."""


class Pool:
    """At most ``size`` works at once, the others in the order in which they came."""

    def __init__(
        self, background: Background, turn: Turn, size: int, waiting_max: int | None = None
    ) -> None:
        self._background = background
        self._turn = turn
        self._waiting_max = waiting_max
        self._waiting: deque[tuple[Callable[[], Any], Promise[Any]]] = deque()
        self.size = size
        self.running = 0

    def submit(self, work: Callable[[], T]) -> Promise[T]:
        outcome: Promise[T] = Promise(self._turn)
        if self._waiting_max is not None and len(self._waiting) >= self._waiting_max:
            outcome.fail(PoolIsFull(f"{len(self._waiting)} are waiting"))
            return outcome
        self._waiting.append((work, outcome))
        self._start()
        return outcome

    def _start(self) -> None:
        while self._waiting and self.running < self.size:
            work, outcome = self._waiting.popleft()
            self.running += 1
            self._background(work).when_done(lambda done, to=outcome: self._done(done, to))  # type: ignore[misc]

    def _done(self, done: Promise[Any], outcome: Promise[Any]) -> None:
        self.running -= 1
        try:
            result = done.result()
        except Exception as error:  # noqa: BLE001 - it belongs to the promise
            outcome.fail(error)
        else:
            outcome.fulfil(result)
        self._start()

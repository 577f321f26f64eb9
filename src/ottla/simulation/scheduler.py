"""Virtual time: nothing waits, everything happens in the order of its moment.

Work that a real node would hand to a thread is done on the spot, but its answer comes after a delay
drawn from the seed, so that what happens in between is explored.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from ottla.common.chance import Chance
from ottla.common.promise import Promise
from ottla.common.timers import Timer, TimerQueue

T = TypeVar("T")

EPOCH_MS = 1_700_000_000_000
"""What the wall clock shows when a simulation begins."""
BACKGROUND_SECONDS = (0.0001, 0.01)
STEPS_LIMIT = 50_000_000


class SimulatedScheduler:
    def __init__(self, chance: Chance) -> None:
        self._chance = chance
        self._timers = TimerQueue()
        self.now = 0.0
        self.steps = 0
        self.wall_skew_ms = 0

    def monotonic(self) -> float:
        return self.now

    def wall_ms(self) -> int:
        return EPOCH_MS + int(self.now * 1000) + self.wall_skew_ms

    def call_soon(self, callback: Callable[..., Any], *args: Any) -> Timer:
        return self._timers.add(self.now, lambda: callback(*args))

    def call_later(self, seconds: float, callback: Callable[..., Any], *args: Any) -> Timer:
        return self._timers.add(self.now + max(0.0, seconds), lambda: callback(*args))

    def run_in_background(self, work: Callable[[], T]) -> Promise[T]:
        promise: Promise[T] = Promise()

        def done() -> None:
            try:
                result = work()
            except Exception as error:  # noqa: BLE001 - it belongs to whoever reads the promise
                promise.fail(error)
            else:
                promise.fulfil(result)

        self.call_later(self._chance.between(*BACKGROUND_SECONDS), done)
        return promise

    def forget_all(self) -> None:
        """Nothing that was to happen happens any more: whoever waited for it is gone."""
        self._timers = TimerQueue()

    def step(self) -> bool:
        """Go to the next moment at which something happens; False when there is none."""
        at = self._timers.next_at()
        if at is None:
            return False
        self.now = max(self.now, at)
        self.steps += self._timers.run_due(self.now)
        assert self.steps < STEPS_LIMIT, "the simulation does not come to an end"
        return True

    def run_for(self, seconds: float) -> None:
        end = self.now + seconds
        while True:
            at = self._timers.next_at()
            if at is None or at > end:
                self.now = end
                return
            self.step()

    def run_until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Step until ``condition`` holds; tell whether it did within ``seconds``."""
        end = self.now + seconds
        while not condition():
            at = self._timers.next_at()
            if at is None or at > end:
                return False
            self.step()
        return True

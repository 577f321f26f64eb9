"""A look at everything that a shard keeps, slice by slice, a turn of the loop each.

There may be hundreds of thousands of what is looked at. A walk that takes longer than the interval
is not begun anew before its end. What a slice could not write is left for the next walk.
"""

from collections.abc import Callable, Iterator
from typing import Final, Generic, TypeVar

from ottla.coordinator.partition import Action
from ottla.coordinator.shard import Outcome
from ottla.coordinator.timers import Timers

T = TypeVar("T")
R = TypeVar("R")

SLICE: Final = 1_000
"""What is looked at in one turn."""


class Sweep(Generic[T, R]):
    def __init__(
        self,
        name: str,
        timers: Timers[Action],
        slices: Callable[[], Iterator[list[T]]],
        look: Callable[[list[T], int], Outcome[R, None]],
    ) -> None:
        """``slices`` are made one by one, as the walk goes on; ``look`` gets each, and the time."""
        self._name = name
        self._next = f"{name}, next slice"
        self._timers = timers
        self._slices = slices
        self._look = look
        self._left: Iterator[list[T]] = iter(())

    def every(self, interval_ms: int) -> None:
        """Begin a walk after each ``interval_ms``, unless the last one still goes on."""

        def check(now_ms: int) -> Outcome[R, None]:
            self.every(interval_ms)
            return Outcome([], None) if self._next in self._timers else self.begin(now_ms)

        self._timers.schedule(self._name, interval_ms, check)

    def begin(self, now_ms: int) -> Outcome[R, None]:
        """Look at the first slice; the others follow by themselves."""
        self._left = self._slices()
        return self._go_on(now_ms)

    def _go_on(self, now_ms: int) -> Outcome[R, None]:
        found = next(self._left, None)
        if found is None:
            return Outcome([], None)
        self._timers.schedule(self._next, 0, self._go_on)
        return self._look(found, now_ms)

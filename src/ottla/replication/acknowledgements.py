"""Waits for the high watermark of a partition to pass an offset, the lowest offset first.

Thousands may wait: the high watermark's step costs only those that it releases. It may stand still
for hours, when no controller lets a dead follower leave the ISR. One that waits no more says so,
and is let go as soon as half of all are of that kind: no more are kept for nothing than wait.
"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import TypeAlias

from ottla.common.errors import ApiError
from ottla.common.promise import Promise
from ottla.common.turn import Turn

Acknowledge: TypeAlias = Callable[[ApiError | None], None]
"""Called once, by the turn: with None when the offset is committed, or with why it never will be.
"""
IsOver: TypeAlias = Callable[[], bool]
"""Whether somebody waits no more."""


def never() -> bool:
    return False


def settle(promise: Promise[None], error: ApiError | None) -> None:
    """What tells a promise; bound to it, it is an :data:`Acknowledge`."""
    if error is None:
        promise.fulfil(None)
    else:
        promise.fail(error)


class Acknowledgements:
    __slots__ = ("_count", "_over", "_turn", "_waiting")

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._waiting: list[tuple[int, int, Acknowledge, IsOver]] = []
        self._count = 0
        self._over = 0
        """How many have said so since it was looked for them."""

    def __len__(self) -> int:
        return len(self._waiting)

    def tell(self, acknowledge: Acknowledge, error: ApiError | None) -> None:
        """Tell at the end of the turn what need not be waited for."""
        self._turn.enqueue(acknowledge, error)

    def add(self, offset: int, acknowledge: Acknowledge, is_over: IsOver = never) -> None:
        """Call ``acknowledge`` when the high watermark is above ``offset``, unless it is over."""
        self._count += 1
        heappush(self._waiting, (offset, self._count, acknowledge, is_over))

    def let_go(self) -> None:
        """One that was added is over."""
        self._over += 1
        if 2 * self._over >= len(self._waiting):
            self._waiting = [entry for entry in self._waiting if not entry[3]()]
            heapify(self._waiting)
            self._over = 0

    def passed(self, high_watermark: int) -> None:
        """Everything below ``high_watermark`` is committed."""
        waiting = self._waiting
        while waiting and waiting[0][0] < high_watermark:
            self._turn.enqueue(heappop(waiting)[2], None)

    def fail(self, error: ApiError) -> None:
        """Nobody will tell here: this broker leads no more."""
        waiting = self._waiting
        while waiting:
            self._turn.enqueue(heappop(waiting)[2], error)

"""Long answers in turns of the loop, so that nobody else waits for the whole of one."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from ottla.common.environment import Scheduler
from ottla.common.promise import Promise

T = TypeVar("T")
R = TypeVar("R")


def _alike(_item: object) -> int:
    return 1


async def in_turns(
    scheduler: Scheduler,
    work: Callable[[T], R],
    items: Iterable[T],
    *,
    at_once: int,
    weight: Callable[[T], int] = _alike,
) -> list[R]:
    """What ``work`` makes of each item; a turn is over with items of the weight of ``at_once``."""
    results: list[R] = []
    left = at_once
    for item in items:
        if left <= 0:
            turn: Promise[None] = Promise(scheduler.turn)
            scheduler.call_soon(turn.fulfil, None)
            await turn
            left = at_once
        left -= weight(item)
        results.append(work(item))
    return results

"""Long answers in turns of the loop, so that nobody else waits for the whole of one."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from ottla.common.environment import Scheduler
from ottla.common.promise import Promise

T = TypeVar("T")
R = TypeVar("R")


async def in_turns(
    scheduler: Scheduler, work: Callable[[T], R], items: Iterable[T], *, at_once: int
) -> list[R]:
    """What ``work`` makes of each item, of ``at_once`` of them in a turn."""
    results: list[R] = []
    for item in items:
        if results and not len(results) % at_once:
            turn: Promise[None] = Promise(scheduler.turn)
            scheduler.call_soon(turn.fulfil, None)
            await turn
        results.append(work(item))
    return results

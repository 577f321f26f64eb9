"""Long requests in turns of the loop, so that nobody else waits for the whole of one."""

from collections.abc import Callable, Collection, Generator, Iterable
from typing import Final, TypeVar

from ottla.common.environment import Scheduler
from ottla.common.promise import Promise
from ottla.requests.context import NodeServices, RequestContext

T = TypeVar("T")
R = TypeVar("R")

NAMES_AT_ONCE: Final = 1_000
"""How many are judged, or looked up, in one turn: this takes some milliseconds."""


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
            await _next_turn(scheduler)
            left = at_once
        left -= weight(item)
        results.append(work(item))
    return results


async def of_names(
    context: RequestContext,
    services: NodeServices,
    work: Callable[[T], R],
    items: Collection[T],
    *,
    weight: Callable[[T], int] = _alike,
) -> list[R]:
    """What ``work`` makes of each item of a request; of few of them in this very turn.

    Of many, nothing else that the client sends is looked at until the request is answered: what it
    sent later must not come first.
    """
    if len(items) <= NAMES_AT_ONCE and (
        weight is _alike or sum(map(weight, items)) <= NAMES_AT_ONCE
    ):
        return [work(item) for item in items]
    context.is_long = True
    return await in_turns(services.scheduler, work, items, at_once=NAMES_AT_ONCE, weight=weight)


def in_this_turn(work: Generator[None, None, R]) -> R:
    """What comes of work that yields behind each name, in this very turn."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


async def name_by_name(
    context: RequestContext, services: NodeServices, work: Generator[None, None, R]
) -> R:
    """As ``in_this_turn``, for work with many names: some of them in each turn."""
    context.is_long = True
    while True:
        try:
            for _ in range(NAMES_AT_ONCE):
                next(work)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        await _next_turn(services.scheduler)


def _next_turn(scheduler: Scheduler) -> Promise[None]:
    turn: Promise[None] = Promise(scheduler.turn)
    scheduler.call_soon(turn.fulfil, None)
    return turn

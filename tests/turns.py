"""The turn of a test that completes something itself, outside of any turn: it is told at once."""

from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

from ottla.common.chance import Chance
from ottla.common.turn import Turn, at_once
from ottla.simulation.scheduler import SimulatedScheduler

P = ParamSpec("P")
R = TypeVar("R")

TURN: Final = Turn(at_once)


def virtual_time(seed: int) -> SimulatedScheduler:
    """A scheduler whose turn is :data:`TURN`, so that all promises of a test have the same."""
    scheduler = SimulatedScheduler(Chance(seed))
    scheduler.turn = TURN
    return scheduler


def in_turn(call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """What a call returns when the turn that it is, with all that it completes, is over."""
    returned: list[R] = []
    TURN.run(lambda: returned.append(call(*args, **kwargs)))
    return returned[0]

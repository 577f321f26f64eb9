"""The turn of a test that completes something itself, outside of any turn: it is told at once."""

from typing import Final

from ottla.common.chance import Chance
from ottla.common.turn import Turn, at_once
from ottla.simulation.scheduler import SimulatedScheduler

TURN: Final = Turn(at_once)


def virtual_time(seed: int) -> SimulatedScheduler:
    """A scheduler whose turn is :data:`TURN`, so that all promises of a test have the same."""
    scheduler = SimulatedScheduler(Chance(seed))
    scheduler.turn = TURN
    return scheduler

"""A task that stands still at some moment while another attempt at the same work is made."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeVar

from ottla.client.errors import BrokerUnavailable
from ottla.client.system_time import SystemTime
from ottla.common.errors import ApiError
from ottla.spark.sink.options import SinkOptions

R = TypeVar("R")


class StallingClock(SystemTime):
    """The process that looks at it for the ``moment``-th time stands still there."""

    __slots__ = ("looks", "meanwhile", "moment")

    def __init__(self, moment: int, meanwhile: Callable[[], object]) -> None:
        self.looks = 0
        self.moment = moment
        self.meanwhile = meanwhile

    def monotonic(self) -> float:
        self.looks += 1
        if self.looks == self.moment:
            self.meanwhile()
        return super().monotonic()


class StallingOptions(SinkOptions):
    """Writers by these look at that clock."""

    __slots__ = ("stalling",)
    stalling: StallingClock

    __eq__ = object.__eq__  # connections of one clock are no other's
    __hash__ = object.__hash__

    @property
    def clock(self) -> SystemTime:
        return self.stalling


def stalling(options: SinkOptions, clock: StallingClock) -> StallingOptions:
    given: dict[str, Any] = {each.name: getattr(options, each.name) for each in fields(options)}
    made = StallingOptions(**given)
    object.__setattr__(made, "stalling", clock)
    return made


def stalled(
    options: SinkOptions, moment: int, attempt: Callable[[SinkOptions], R]
) -> tuple[bool, list[R]]:
    """Whether a first attempt came to ``moment``, and what all attempts have answered.

    The second attempt is made from its beginning to its end while the first one stands still. A
    first one that fails is tried again, as Spark does.
    """
    answers: list[R] = []
    clock = StallingClock(moment, lambda: answers.append(attempt(options)))
    try:
        answers.append(attempt(stalling(options, clock)))
    except (ApiError, BrokerUnavailable):
        answers.append(attempt(options))
    return clock.looks >= moment, answers

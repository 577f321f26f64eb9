"""The time of this machine: the default of everything here that takes a clock."""

import time
from typing import Protocol

from ottla.common.clock import Clock


class WaitingClock(Clock, Protocol):
    """A clock of a client, which may block."""

    def wait(self, seconds: float) -> None: ...


class SystemTime:
    __slots__ = ()

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()  # noqa: TID251 - this is the clock that others take

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)


class Deadline:
    """A moment until which a call may go on."""

    __slots__ = ("_at", "_clock")

    def __init__(self, clock: Clock, milliseconds: float) -> None:
        self._clock = clock
        self._at = clock.monotonic() + milliseconds / 1000

    @property
    def seconds(self) -> float:
        """What is left, never less than nothing."""
        return max(0.0, self._at - self._clock.monotonic())

    @property
    def milliseconds(self) -> int:
        return int(self.seconds * 1000)

    @property
    def passed(self) -> bool:
        return self._clock.monotonic() >= self._at

"""Timers by key, whose actions are requests like any other.

Most timers of a coordinator are sessions that every heartbeat puts off. Putting one off only moves
its deadline: the alarm that was set rings at the old time, sees that it is early, and is set anew.
"""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from ottla.common.environment import Cancellable, Scheduler

A = TypeVar("A")


class _Timer(Generic[A]):
    __slots__ = ("action", "alarm", "alarm_at", "deadline")

    def __init__(self, deadline: float, action: A, alarm: Cancellable) -> None:
        self.deadline = deadline
        self.action = action
        self.alarm = alarm
        self.alarm_at = deadline


class Timers(Generic[A]):
    """At most one timer for each key; ``run`` is called with the action of one that is due."""

    __slots__ = ("_run", "_scheduler", "_timers")

    def __init__(self, scheduler: Scheduler, run: Callable[[A], object]) -> None:
        self._scheduler = scheduler
        self._run = run
        self._timers: dict[Hashable, _Timer[A]] = {}

    def __contains__(self, key: Hashable) -> bool:
        return key in self._timers

    def __len__(self) -> int:
        return len(self._timers)

    def schedule(self, key: Hashable, delay_ms: int, action: A) -> None:
        """Run ``action`` after ``delay_ms``, in place of what ``key`` stood for before."""
        delay = delay_ms / 1000
        deadline = self._scheduler.monotonic() + delay
        timer = self._timers.get(key)
        if timer is not None and timer.alarm_at <= deadline:
            timer.deadline = deadline
            timer.action = action
            return
        if timer is not None:
            timer.alarm.cancel()
        alarm = self._scheduler.call_later(delay, self._ring, key)
        self._timers[key] = _Timer(deadline, action, alarm)

    def run_now(self, action: A) -> None:
        """Run ``action`` at once, as if it were due."""
        self._run(action)

    def cancel(self, key: Hashable) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.alarm.cancel()

    def cancel_all(self) -> None:
        for timer in self._timers.values():
            timer.alarm.cancel()
        self._timers.clear()

    def _ring(self, key: Hashable) -> None:
        timer = self._timers[key]
        remaining = timer.deadline - self._scheduler.monotonic()
        if remaining > 0:
            timer.alarm_at = timer.deadline
            timer.alarm = self._scheduler.call_later(remaining, self._ring, key)
        else:
            del self._timers[key]
            self._run(timer.action)

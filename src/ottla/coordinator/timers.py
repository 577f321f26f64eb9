"""Timers by key, whose actions are requests like any other.

Most timers of a coordinator are sessions that every heartbeat puts off. Putting one off only moves
its deadline: the alarm that was set rings at the old time, sees that it is early, and is set anew.

Timers go back as the state does. While an operation runs, what it does to timers is noted
(:class:`Changes`), a timer that has rung included; the notes stay with the batch that the answer of
the operation waits for, and when that cannot be written, ``undo`` puts everything right:

- what was set is gone, what was cancelled or has rung is set again, to ring after a pause at the
  earliest, and
- what was only put off keeps the later time, for what was heard of is alive.

Timers that ``last`` are left out: they belong to what is in memory only, and does not go back.
"""

from collections.abc import Callable, Hashable
from typing import Final, Generic, NamedTuple, TypeVar

from ottla.common.environment import Cancellable, Scheduler

A = TypeVar("A")

RETRY_MS: Final = 500
"""The pause before what has rung in vain rings again."""


class _Setting(NamedTuple, Generic[A]):
    """When a timer rings, and what it does then."""

    deadline: float
    action: A
    lasts: bool


class _Timer(Generic[A]):
    __slots__ = ("alarm", "alarm_at", "setting")

    def __init__(self, setting: _Setting[A], alarm: Cancellable) -> None:
        self.setting = setting
        self.alarm = alarm
        self.alarm_at = setting.deadline


_Change = tuple[_Setting[A] | None, _Setting[A] | None]
Changes = dict[Hashable, _Change[A]]
"""What timers were before, and have become; one change for each key, however often it changed."""


def merge(changes: Changes[A], later: Changes[A]) -> None:
    """Add ``later`` to ``changes``: each key goes back to where the first change found it."""
    for key, (before, after) in later.items():
        first = changes.get(key)
        if first is not None and first[1] is before:
            before = first[0]
        changes[key] = (before, after)


class Timers(Generic[A]):
    """At most one timer for each key; ``run`` is called with the key of one that is due.

    It is to ``take`` the action, within an operation, and carry it out.
    """

    __slots__ = ("_is_stopped", "_run", "_scheduler", "_timers", "noted")

    def __init__(self, scheduler: Scheduler, run: Callable[[Hashable], object]) -> None:
        self._scheduler = scheduler
        self._run = run
        self._timers: dict[Hashable, _Timer[A]] = {}
        self._is_stopped = False
        self.noted: Changes[A] | None = None
        """Where changes are noted, while an operation runs."""

    def __contains__(self, key: Hashable) -> bool:
        return key in self._timers

    def __len__(self) -> int:
        return len(self._timers)

    def schedule(self, key: Hashable, delay_ms: int, action: A, *, lasts: bool = False) -> None:
        """Run ``action`` after ``delay_ms``, in place of what ``key`` stood for before."""
        deadline = self._scheduler.monotonic() + delay_ms / 1000
        setting = _Setting(deadline, action, lasts)
        timer = self._timers.get(key)
        if not lasts and self.noted is not None:
            merge(self.noted, {key: (None if timer is None else timer.setting, setting)})
        self._set(key, setting)

    def _set(self, key: Hashable, setting: _Setting[A]) -> None:
        if self._is_stopped:
            return
        timer = self._timers.get(key)
        if timer is not None and timer.alarm_at <= setting.deadline:
            timer.setting = setting
            return
        if timer is not None:
            timer.alarm.cancel()
        delay = max(setting.deadline - self._scheduler.monotonic(), 0.0)
        self._timers[key] = _Timer(setting, self._scheduler.call_later(delay, self._ring, key))

    def cancel(self, key: Hashable) -> None:
        timer = self._timers.get(key)
        if timer is not None:
            self._remove(key, timer)
            timer.alarm.cancel()

    def _remove(self, key: Hashable, timer: _Timer[A]) -> None:
        if not timer.setting.lasts and self.noted is not None:
            merge(self.noted, {key: (timer.setting, None)})
        del self._timers[key]

    def stop(self) -> None:
        """Cancel all, for good: an operation that is under way may still set some, or undo."""
        self._is_stopped = True
        for timer in self._timers.values():
            timer.alarm.cancel()
        self._timers.clear()

    def _ring(self, key: Hashable) -> None:
        timer = self._timers[key]
        remaining = timer.setting.deadline - self._scheduler.monotonic()
        if remaining > 0:
            timer.alarm_at = timer.setting.deadline
            timer.alarm = self._scheduler.call_later(remaining, self._ring, key)
            return
        self._run(key)

    def take(self, key: Hashable) -> A:
        """The action of a timer that is due; it is set no longer."""
        timer = self._timers[key]
        self._remove(key, timer)
        return timer.setting.action

    def undo(self, changes: Changes[A]) -> None:
        """Put back what was changed, except what was changed again by something that stands."""
        for key, (before, after) in changes.items():
            timer = self._timers.get(key)
            if (None if timer is None else timer.setting) is not after:
                continue
            if timer is not None:
                timer.alarm.cancel()
                del self._timers[key]
            if before is not None:
                if after is not None and after.deadline > before.deadline:
                    before = before._replace(deadline=after.deadline)
                self._set(key, self._later(before))

    def _later(self, setting: _Setting[A]) -> _Setting[A]:
        """The same, not before a pause is over if it is due."""
        now = self._scheduler.monotonic()
        if setting.deadline > now:
            return setting
        return setting._replace(deadline=now + RETRY_MS / 1000)

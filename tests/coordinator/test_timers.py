"""Timers by key, on a clock that the test moves."""

from collections.abc import Hashable

from ottla.common.chance import Chance
from ottla.coordinator.timers import Timers
from ottla.simulation.scheduler import SimulatedScheduler


def make() -> tuple[SimulatedScheduler, Timers[str], list[tuple[float, str]]]:
    scheduler = SimulatedScheduler(Chance(1))
    ran: list[tuple[float, str]] = []

    def run(key: Hashable) -> None:
        ran.append((scheduler.now, timers.take(key)))

    timers: Timers[str] = Timers(scheduler, run)
    return scheduler, timers, ran


def test_a_timer_that_is_put_off_again_and_again_runs_once_at_its_last_deadline() -> None:
    scheduler, timers, ran = make()
    for _ in range(5):
        timers.schedule("session", 1000, "gone")
        scheduler.run_for(0.6)
    assert ran == []
    scheduler.run_for(10)
    assert ran == [(2.4 + 1.0, "gone")]
    assert len(timers) == 0


def test_a_timer_that_is_brought_forward_runs_early() -> None:
    scheduler, timers, ran = make()
    timers.schedule("join", 1000, "late")
    timers.schedule("join", 100, "early")
    scheduler.run_for(10)
    assert ran == [(0.1, "early")]


def test_a_cancelled_timer_does_not_run() -> None:
    scheduler, timers, ran = make()
    timers.schedule("a", 100, "a")
    timers.schedule("b", 100, "b")
    timers.cancel("a")
    timers.cancel("unknown")
    assert "a" not in timers
    assert "b" in timers
    timers.stop()
    scheduler.run_for(10)
    assert ran == []


def test_a_key_can_be_used_again_after_its_timer_ran() -> None:
    scheduler, timers, ran = make()
    timers.schedule("a", 100, "first")
    scheduler.run_for(1)
    timers.schedule("a", 100, "second")
    scheduler.run_for(1)
    assert [action for _, action in ran] == ["first", "second"]

"""Timers run in the order of their moments, those of one moment in the order they were set."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.common.timers import FEW, TimerQueue


@given(st.lists(st.tuples(st.integers(0, 20), st.booleans()), max_size=40), st.integers(0, 20))
def test_exactly_what_is_due_and_not_cancelled_runs_in_order(
    wanted: list[tuple[int, bool]], now: int
) -> None:
    queue = TimerQueue()
    ran: list[int] = []
    for number, (at, cancelled) in enumerate(wanted):
        timer = queue.add(at, lambda number=number: ran.append(number))  # type: ignore[misc]
        if cancelled:
            timer.cancel()
    queue.run_due(now)
    due = [
        (at, number) for number, (at, cancelled) in enumerate(wanted) if at <= now and not cancelled
    ]
    assert ran == [number for _, number in sorted(due)]
    left = [at for at, cancelled in wanted if at > now and not cancelled]
    assert queue.next_at() == (min(left) if left else None)


def test_a_timer_that_is_set_by_a_due_timer_for_the_same_moment_runs_too() -> None:
    queue = TimerQueue()
    ran: list[str] = []

    def first() -> None:
        ran.append("a")
        queue.add(1.0, lambda: ran.append("b"))

    queue.add(1.0, first)
    queue.run_due(1.0)
    assert ran == ["a", "b"]


def test_what_is_cancelled_does_not_stay_until_its_moment() -> None:
    """Clients may ask for deadlines that are weeks away, and most requests are done at once."""
    queue = TimerQueue()
    ran: list[int] = []
    kept = [queue.add(float(at), lambda at=at: ran.append(at)) for at in range(50)]  # type: ignore[misc]
    longest = 0
    for number in range(200_000):
        queue.add(2_000_000.0 + number, lambda: ran.append(-1)).cancel()
        longest = max(longest, len(queue))
    assert longest <= 2 * (len(kept) + FEW)
    assert queue.next_at() == 0.0
    queue.run_due(3_000_000.0)
    assert ran == list(range(50))
    assert len(queue) == 0


def test_many_that_wait_at_once_leave_little_behind() -> None:
    queue = TimerQueue()
    timers = [queue.add(1e9 - number, lambda: None) for number in range(20_000)]
    for timer in timers[:-10]:
        timer.cancel()
        timer.cancel()  # twice counts once
    assert len(queue) <= 2 * (10 + FEW)
    assert queue.next_at() == timers[-1].at


def test_one_that_is_due_may_cancel_all_others() -> None:
    queue = TimerQueue()
    ran: list[str] = []
    others = [queue.add(1.0 + number, lambda: ran.append("late")) for number in range(1_000)]

    def first() -> None:
        ran.append("first")
        for other in others:
            other.cancel()

    queue.add(0.5, first)
    queue.add(1_500.0, lambda: ran.append("last"))
    queue.run_due(2_000.0)
    assert ran == ["first", "last"]

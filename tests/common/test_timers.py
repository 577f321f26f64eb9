"""Timers run in the order of their moments, those of one moment in the order they were set."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.common.timers import TimerQueue


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

"""A connection that cannot be accepted waits, and costs nothing meanwhile."""

import errno
from collections import deque
from collections.abc import Callable

import pytest

from ottla.common.chance import Chance
from ottla.network.accepting import BACKLOG, PAUSE_SECONDS, Accepting
from ottla.simulation.scheduler import SimulatedScheduler


class Backlog:
    """A listening socket on an event loop that tells of readiness in every turn."""

    TURN_SECONDS = 0.001

    def __init__(self, waiting: int) -> None:
        self.scheduler = SimulatedScheduler(Chance(1))
        self.waiting = deque(range(waiting))
        self.refusals: deque[int] = deque()
        """What the next calls of accept fail with."""
        self.free = waiting
        """Descriptors."""
        self.accepted: list[int] = []
        self.calls = 0
        self._callback: Callable[[], None] | None = None
        self.accepting = Accepting(self, self.accepted.append, self.scheduler.call_later)
        self.accepting.start()
        self.scheduler.call_soon(self._turn)

    def accept(self) -> int:
        self.calls += 1
        if not self.waiting:
            raise BlockingIOError
        if self.refusals:
            self.waiting.popleft()
            raise OSError(self.refusals.popleft(), "refused")
        if not self.free:
            raise OSError(errno.EMFILE, "Too many open files")
        self.free -= 1
        return self.waiting.popleft()

    def watch(self, callback: Callable[[], None]) -> None:
        assert self._callback is None
        self._callback = callback

    def unwatch(self) -> None:
        self._callback = None

    def _turn(self) -> None:
        if self.waiting and self._callback is not None:
            self._callback()
        self.scheduler.call_later(self.TURN_SECONDS, self._turn)


def test_all_who_wait_are_accepted_in_turns() -> None:
    backlog = Backlog(3 * BACKLOG)
    backlog.scheduler.run_for(0.0)
    assert len(backlog.accepted) == BACKLOG
    backlog.scheduler.run_for(1.0)
    assert backlog.accepted == list(range(3 * BACKLOG))


def test_without_descriptors_it_is_tried_now_and_then_and_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It was a call of accept in every turn of the loop, a hundred thousand a second."""
    backlog = Backlog(3)
    backlog.free = 1
    with caplog.at_level("ERROR", "ottla"):
        backlog.scheduler.run_for(60.0)
    assert backlog.accepted == [0]
    assert backlog.calls <= 60.0 / PAUSE_SECONDS + 3
    assert len(caplog.records) == 1
    backlog.free = 5
    backlog.scheduler.run_for(PAUSE_SECONDS)
    assert backlog.accepted == [0, 1, 2]


@pytest.mark.parametrize("why", [errno.ECONNABORTED, errno.EPROTO, errno.EHOSTUNREACH])
def test_one_who_is_gone_does_not_keep_the_next_waiting(why: int) -> None:
    backlog = Backlog(3)
    backlog.refusals.extend([why, why])
    backlog.scheduler.run_for(0.0)
    assert backlog.accepted == [2]


@pytest.mark.parametrize("free", [0, 1])
def test_after_its_end_nobody_is_accepted(free: int) -> None:
    backlog = Backlog(1)
    backlog.free = 0
    backlog.scheduler.run_for(0.0 if not free else 1.2)
    backlog.accepting.stop()
    backlog.free = 1
    backlog.scheduler.run_for(10.0)
    assert backlog.accepted == []


def test_it_pauses_when_it_is_told_to_and_nobody_is_lost() -> None:
    backlog = Backlog(3)
    took = backlog.accepted.append

    def take_one(sock: int) -> None:
        took(sock)
        backlog.accepting.pause(5.0)

    backlog.unwatch()
    backlog.accepting = Accepting(backlog, take_one, backlog.scheduler.call_later)
    backlog.accepting.start()
    backlog.scheduler.run_for(4.9)
    assert backlog.accepted == [0]
    backlog.scheduler.run_for(0.2)
    assert backlog.accepted == [0, 1]
    backlog.accepting.stop()
    backlog.scheduler.run_for(20.0)
    assert backlog.accepted == [0, 1]

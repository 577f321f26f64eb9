"""Requests that wait: woken by what comes, by their deadline, or by the end of their partition."""

import pytest
from tests.turns import TURN, virtual_time

from ottla.replication.waiting import WaitingRequest, WaitingRequests


class Awaited:
    """A partition, as far as what waits for it is concerned."""

    def __init__(self) -> None:
        self.waiting: dict[WaitingRequest, None] = {}

    def came(self, amount: int) -> None:
        for request in tuple(self.waiting):
            request.came(amount)


class Waiters:
    def __init__(self) -> None:
        self.scheduler = virtual_time(3)
        self.queue = WaitingRequests(self.scheduler)
        self.answered: list[tuple[str, float]] = []

    def wait(
        self, name: str, missing: int, partitions: list[Awaited], wait_ms: int = 500
    ) -> WaitingRequest:
        return self.queue.add(
            missing,
            [partition.waiting for partition in partitions],
            wait_ms,
            lambda: self.answered.append((name, round(self.scheduler.now, 3))),
        )

    def names(self) -> list[str]:
        return [name for name, _ in self.answered]


def test_a_request_is_answered_at_the_end_of_the_turn_in_which_enough_came() -> None:
    waiters, partition = Waiters(), Awaited()
    waiters.wait("a", 10, [partition])
    partition.came(6)
    assert waiters.names() == []

    def come() -> None:
        partition.came(4)
        assert waiters.names() == []
        partition.came(1)

    TURN.run(come)
    assert waiters.names() == ["a"]


def test_bytes_of_all_its_partitions_count_together() -> None:
    waiters, left, right = Waiters(), Awaited(), Awaited()
    waiters.wait("a", 10, [left, right])
    left.came(5)
    right.came(5)
    assert waiters.names() == ["a"]
    assert left.waiting == right.waiting == {}


def test_who_has_waited_long_enough_is_answered_without_anything() -> None:
    waiters, partition = Waiters(), Awaited()
    waiters.wait("slow", 10, [partition], 800)
    waiters.wait("fast", 10, [partition], 200)
    waiters.scheduler.run_for(10.0)
    assert waiters.answered == [("fast", 0.2), ("slow", 0.8)]
    assert partition.waiting == {}


def test_a_request_is_answered_once_however_often_it_is_woken() -> None:
    waiters, partition = Waiters(), Awaited()
    waiters.wait("a", 1, [partition], 200)
    partition.came(5)
    partition.came(5)
    waiters.scheduler.run_for(1.0)
    assert waiters.names() == ["a"]


def test_many_deadlines_cost_one_timer_and_each_is_kept() -> None:
    waiters, partition = Waiters(), Awaited()
    for number in (5, 1, 4, 2, 3):
        waiters.wait(str(number), 1, [partition], number * 100)
    waiters.scheduler.run_for(1.0)
    assert waiters.answered == [(str(n), n / 10) for n in (1, 2, 3, 4, 5)]


def test_an_answer_may_begin_another_wait() -> None:
    waiters, partition = Waiters(), Awaited()

    def begin_again() -> None:
        waiters.wait("again", 1, [partition], 100)

    waiters.queue.add(1, [partition.waiting], 100, begin_again)
    waiters.scheduler.run_for(1.0)
    assert waiters.answered == [("again", 0.2)]


def test_what_becomes_ready_while_others_are_answered_is_answered_in_the_same_turn() -> None:
    waiters, first, second = Waiters(), Awaited(), Awaited()
    waiters.queue.add(1, [first.waiting], 100, lambda: second.came(1))
    waiters.wait("woken by an answer", 1, [second])
    first.came(1)
    assert waiters.names() == ["woken by an answer"]


def test_the_end_of_a_partition_answers_who_waits_for_it() -> None:
    waiters, partition, other = Waiters(), Awaited(), Awaited()
    request = waiters.wait("a", 10, [partition, other])
    request.finish()
    assert waiters.names() == ["a"]
    assert other.waiting == {}


def test_requests_that_are_answered_keep_nothing_until_their_deadline() -> None:
    """With max_wait_ms of 24.8 days, and all of them answered at once."""
    waiters, partition = Waiters(), Awaited()
    waiters.wait("kept", 2, [partition], wait_ms=2**31 - 1)
    for _ in range(200_000):
        waiters.queue.add(1, [], 2**31 - 1, lambda: None).finish()
    assert len(waiters.queue._deadlines) < 300
    partition.came(2)
    assert waiters.names() == ["kept"]


def fail() -> None:
    raise KeyError("a mistake of ours")


def test_a_request_that_cannot_be_answered_keeps_no_other_waiting() -> None:
    waiters, partition = Waiters(), Awaited()
    waiters.wait("a", 1, [partition])
    waiters.queue.add(1, [partition.waiting], 500, fail)
    waiters.wait("b", 1, [partition])
    with pytest.raises(KeyError):
        TURN.run(partition.came, 1)
    assert waiters.names() == ["a", "b"]


def test_a_deadline_that_fails_keeps_no_other_from_its_own() -> None:
    waiters = Waiters()
    waiters.queue.add(1, [], 500, fail)
    waiters.wait("same", 1, [])
    waiters.wait("later", 1, [], wait_ms=900)
    with pytest.raises(KeyError):
        waiters.scheduler.run_for(0.6)
    waiters.scheduler.run_for(1.0)
    assert waiters.answered == [("same", 0.5), ("later", 0.9)]


def test_a_request_that_comes_with_the_answer_of_another_puts_nobody_off() -> None:
    waiters, partition = Waiters(), Awaited()

    def answer() -> None:
        waiters.wait("patient", 1, [partition], 1_000_000)

    waiters.queue.add(1, [], 100, answer)
    waiters.wait("other", 1, [partition], 200)
    waiters.scheduler.run_for(10)
    assert waiters.answered == [("other", 0.2)]

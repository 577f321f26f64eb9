"""Promises settle once, and tell by the turn; coroutines are stepped without an event loop."""

import pytest

from ottla.common.promise import Promise, failed, fulfilled, run, settle_by
from ottla.common.turn import Turn, at_once


def test_a_coroutine_that_need_not_wait_is_done_when_run_returns() -> None:
    turn = Turn(at_once)

    async def answer() -> int:
        return await fulfilled(turn, 20) + 1

    def begin() -> None:
        assert run(turn, answer()).result() == 21

    turn.run(begin)


def test_a_coroutine_goes_on_in_the_turn_in_which_what_it_awaits_is_fulfilled() -> None:
    turn = Turn(at_once)
    first: Promise[int] = Promise(turn)
    second: Promise[int] = Promise(turn)

    async def answer() -> int:
        return await first + await second

    outcome = run(turn, answer())
    turn.run(first.fulfil, 1)
    assert not outcome.done
    turn.run(second.fulfil, 2)
    assert outcome.result() == 3


def test_settling_calls_nobody_before_what_is_at_work_has_ended() -> None:
    turn = Turn(at_once)
    fulfilled_later: Promise[int] = Promise(turn)
    failed_later: Promise[int] = Promise(turn)
    told: list[str] = []

    async def wait() -> None:
        await fulfilled_later
        told.append("coroutine")

    def work() -> None:
        fulfilled_later.when_done(lambda _: told.append("fulfilled"))
        failed_later.when_done(lambda _: told.append("failed"))
        run(turn, wait())
        fulfilled_later.fulfil(1)
        failed_later.fail(KeyError())
        fulfilled_later.when_done(lambda _: told.append("done before"))
        assert told == []

    turn.run(work)
    assert told == ["fulfilled", "coroutine", "failed", "done before"]


def test_an_error_reaches_whoever_awaits_and_whoever_reads() -> None:
    turn = Turn(at_once)
    asked: Promise[int] = Promise(turn)

    async def answer() -> int:
        return await asked

    outcome = run(turn, answer())
    asked.fail(KeyError("gone"))
    with pytest.raises(KeyError):
        outcome.result()
    with pytest.raises(KeyError):
        failed(turn, KeyError("gone")).result()


def test_callbacks_run_in_the_order_in_which_they_came() -> None:
    promise: Promise[str] = Promise(Turn(at_once))
    seen: list[str] = []
    promise.when_done(lambda done: seen.append("first " + done.result()))
    promise.when_done(lambda done: seen.append("second " + done.result()))
    promise.fulfil("x")
    promise.when_done(lambda done: seen.append("late " + done.result()))
    assert seen == ["first x", "second x", "late x"]


def test_a_promise_cannot_be_settled_twice() -> None:
    promise = fulfilled(Turn(at_once), 1)
    with pytest.raises(AssertionError):
        promise.fulfil(2)


def test_a_callback_that_fails_costs_the_others_nothing() -> None:
    turn = Turn(at_once)
    asked: Promise[int] = Promise(turn)
    heard: list[int] = []

    def fails(_done: Promise[int]) -> None:
        raise KeyError("ours")

    asked.when_done(fails)
    asked.when_done(lambda done: heard.append(done.result()))
    asked.when_done(fails)
    asked.when_done(lambda done: heard.append(done.result()))
    with pytest.raises(KeyError) as raised:
        turn.run(asked.fulfil, 3)
    assert heard == [3, 3]
    assert raised.value.__notes__ == ["and then KeyError('ours')"]


def test_what_work_raises_belongs_to_the_promise() -> None:
    turn = Turn(at_once)
    good: Promise[int] = Promise(turn)
    settle_by(good, lambda: 3)
    assert good.result() == 3
    bad: Promise[int] = Promise(turn)
    settle_by(bad, lambda: int("a"))
    with pytest.raises(ValueError, match="invalid literal"):
        bad.result()

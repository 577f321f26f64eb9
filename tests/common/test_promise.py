"""Promises settle once and run what waits at once; coroutines are stepped without a loop."""

import pytest

from ottla.common.promise import Promise, fulfilled, run, settle_by


def test_a_coroutine_that_need_not_wait_is_done_when_run_returns() -> None:
    async def answer() -> int:
        return await fulfilled(20) + 1

    assert run(answer()).result() == 21


def test_a_coroutine_goes_on_inside_the_call_that_fulfils_what_it_awaits() -> None:
    first: Promise[int] = Promise()
    second: Promise[int] = Promise()

    async def answer() -> int:
        return await first + await second

    outcome = run(answer())
    first.fulfil(1)
    assert not outcome.done
    second.fulfil(2)
    assert outcome.result() == 3


def test_an_error_reaches_whoever_awaits_and_whoever_reads() -> None:
    asked: Promise[int] = Promise()

    async def answer() -> int:
        return await asked

    outcome = run(answer())
    asked.fail(KeyError("gone"))
    with pytest.raises(KeyError):
        outcome.result()


def test_callbacks_run_in_the_order_in_which_they_came() -> None:
    promise: Promise[str] = Promise()
    seen: list[str] = []
    promise.when_done(lambda done: seen.append("first " + done.result()))
    promise.when_done(lambda done: seen.append("second " + done.result()))
    promise.fulfil("x")
    promise.when_done(lambda done: seen.append("late " + done.result()))
    assert seen == ["first x", "second x", "late x"]


def test_a_promise_cannot_be_settled_twice() -> None:
    promise = fulfilled(1)
    with pytest.raises(AssertionError):
        promise.fulfil(2)


def test_a_callback_that_fails_costs_the_others_nothing() -> None:
    asked: Promise[int] = Promise()
    heard: list[int] = []

    def fails(_done: Promise[int]) -> None:
        raise KeyError("ours")

    asked.when_done(fails)
    asked.when_done(lambda done: heard.append(done.result()))
    asked.when_done(fails)
    asked.when_done(lambda done: heard.append(done.result()))
    with pytest.raises(KeyError) as raised:
        asked.fulfil(3)
    assert heard == [3, 3]
    assert raised.value.__notes__ == ["and then KeyError('ours')"]


def test_what_work_raises_belongs_to_the_promise() -> None:
    good: Promise[int] = Promise()
    settle_by(good, lambda: 3)
    assert good.result() == 3
    bad: Promise[int] = Promise()
    settle_by(bad, lambda: int("a"))
    with pytest.raises(ValueError, match="invalid literal"):
        bad.result()

"""Promises settle once and run what waits at once; coroutines are stepped without a loop."""

import pytest

from ottla.common.promise import Promise, fulfilled, run


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

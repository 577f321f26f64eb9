"""What a client gives the cluster time for: done within it, or REQUEST_TIMED_OUT.

A request that comes with no time at all is refused before anything is done. One whose time ends
while it is under way may still be done; only its answer no longer waits.
"""

from collections.abc import Callable
from typing import TypeVar

from ottla.common.environment import Scheduler
from ottla.common.errors import RequestTimedOut
from ottla.common.promise import Promise, failed

T = TypeVar("T")


def within(scheduler: Scheduler, timeout_ms: int, ask: Callable[[], Promise[T]]) -> Promise[T]:
    """The outcome of ``ask()``, or a refusal when that takes longer than the client waits."""
    if timeout_ms <= 0:
        return failed(scheduler.turn, RequestTimedOut())
    return until(scheduler, timeout_ms, ask())


def until(scheduler: Scheduler, timeout_ms: int, asked: Promise[T]) -> Promise[T]:
    """The outcome of ``asked``, or a refusal when that takes longer."""
    if asked.done:
        return asked
    outcome: Promise[T] = Promise(scheduler.turn)

    def expire() -> None:
        if not outcome.done:
            outcome.fail(RequestTimedOut())

    timer = scheduler.call_later(timeout_ms / 1000, expire)

    def settle(done: Promise[T]) -> None:
        timer.cancel()
        if outcome.done:
            return
        try:
            result = done.result()
        except Exception as error:  # noqa: BLE001 - the error belongs to the promise
            outcome.fail(error)
        else:
            outcome.fulfil(result)

    asked.when_done(settle)
    return outcome

"""A stop goes without a metadata log whose disk does not answer.

Else the other directories of the node would not be closed cleanly either.
"""

import errno
from typing import Final

from ottla.common.environment import Scheduler
from ottla.common.promise import Promise
from ottla.storage.directories import LogDirFailed

STOP_SECONDS: Final = 15.0
"""For a resignation, which takes no longer than an election, and a sync that is under way."""


def in_time(stopped: Promise[None], scheduler: Scheduler, log_dir: str) -> Promise[None]:
    """As ``stopped``, or LogDirFailed when that takes too long."""
    settled: Promise[None] = Promise(scheduler.turn)

    def settle(promise: Promise[None]) -> None:
        timer.cancel()
        if settled.done:
            return
        try:
            promise.result()
        except BaseException as error:  # noqa: BLE001 - it belongs to the promise
            settled.fail(error)
        else:
            settled.fulfil(None)

    def give_up() -> None:
        reason = f"no answer in {STOP_SECONDS:.0f} seconds"
        settled.fail(LogDirFailed(log_dir, TimeoutError(errno.ETIMEDOUT, reason)))

    timer = scheduler.call_later(STOP_SECONDS, give_up)
    stopped.when_done(settle)
    return settled

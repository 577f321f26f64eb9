"""Committed batches on their way to the listener, in turns of the loop.

A node that starts has everything since its last snapshot to replay, by default up to 20 MB, which
takes seconds. Others have their turns meanwhile: votes, fetches and heartbeats.
"""

from collections.abc import Callable
from typing import Final

from ottla.common.environment import Cancellable, Scheduler
from ottla.raft.listener import RaftListener
from ottla.raft.log import RaftLog, read_batches
from ottla.storage.directories import LogUnavailable

RETRY_SECONDS: Final = 0.1
"""The pause before a log is read again that could not be read for want of a descriptor."""


class Replaying:
    """See the module. ``done`` is called when all is replayed, unless ``go_to`` tells it."""

    def __init__(
        self,
        log: RaftLog,
        listener: RaftListener,
        scheduler: Scheduler,
        turn_bytes: int,
        done: Callable[[], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._log = log
        self._listener = listener
        self._scheduler = scheduler
        self._turn_bytes = turn_bytes
        self._done = done
        self._failed = failed
        self._end = 0
        self._turn: Cancellable | None = None
        self.next_offset = 0

    @property
    def is_under_way(self) -> bool:
        """Whether something is left; so it is too when a turn has ended with a mistake."""
        return self.next_offset < self._end

    def go_to(self, end: int) -> bool:
        """Replay what begins before ``end``; whether that is done now."""
        self._end = end
        return self._turn is None and self._replay_some()

    def stop(self) -> None:
        if self._turn is not None:
            self._turn.cancel()

    def _replay_some(self) -> bool:
        left = self._turn_bytes
        for batch in read_batches(self._log, self.next_offset, self._end):
            if left <= 0:
                self._turn = self._scheduler.call_soon(self._go_on)
                break
            self._listener.replay(batch)
            self.next_offset = batch.last_offset + 1
            left -= len(batch.data)
        self._listener.replayed()
        return self._turn is None

    def _go_on(self) -> None:
        self._turn = None
        try:
            if self._replay_some():
                self._done()
        except LogUnavailable:
            self._turn = self._scheduler.call_later(RETRY_SECONDS, self._go_on)
        except Exception as error:  # noqa: BLE001 - the node ends with it
            self._failed(error)

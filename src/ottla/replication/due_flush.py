"""The flush that is due in a partition's log (``flush.messages``), and what waits for it.

An append says that a flush is due; the partition asks for one, which runs in the background of the
log's directory. Until it is done the records count for nobody: the high watermark of a leader stays
below them, a follower does not claim them by its fetch, a producer hears nothing.

What counts is what the log says, not that a flush has ended: records may have been cut off and
others have come in their place, or the log lies in another directory by now. So one that waits
as a producer of a leader is told when this broker leads no more, before others can write there.
"""

from collections.abc import Callable
from functools import partial

from ottla.common.errors import ApiError
from ottla.common.promise import Promise
from ottla.replication.acknowledgements import Acknowledge, Acknowledgements, IsOver
from ottla.replication.outside import PartitionOutside
from ottla.storage.log import Log


class DueFlush:
    __slots__ = ("_ended", "_log", "_outside", "_waiting", "is_under_way")

    def __init__(self, outside: PartitionOutside, ended: Callable[[], None]) -> None:
        self._outside = outside
        self._ended = ended
        self._waiting = Acknowledgements(outside.turn)
        self._log: Log | None = None
        """The one whose flush was asked for last."""
        self.is_under_way = False

    def begin(self, log: Log) -> None:
        """Ask for a flush of what is due in ``log`` now; one at a time."""
        if not self.is_under_way:
            self.is_under_way = True
            self._ask(log)

    def _ask(self, log: Log) -> None:
        self._log = log
        self._outside.flush(log).when_done(partial(self._done, log))

    def _done(self, log: Log, done: Promise[None]) -> None:
        if self._log is not log:
            return  # another has its records by now, and may be on another disk
        try:
            done.result()
        except ApiError as error:  # the log is gone, with its disk or its topic
            self._waiting.fail(error)
        else:
            self._ended()

    def settle(self, log: Log) -> None:
        """Tell of what is on disk by now; what has come up meanwhile is flushed next."""
        self.is_under_way = log.is_flush_due
        if self.is_under_way:
            self._ask(log)
        self._waiting.passed(log.due_offset)

    def wait(self, log: Log, last_offset: int, tell: Acknowledge, is_over: IsOver) -> None:
        """Tell when nothing is due up to ``last_offset``, or that this will not be heard of."""
        if log.due_offset > last_offset:
            self._waiting.tell(tell, None)
        else:
            self._waiting.add(last_offset, tell, is_over)

    def let_go(self) -> None:
        """One that waited does so no more."""
        self._waiting.let_go()

    def fail(self, error: ApiError) -> None:
        self._waiting.fail(error)

"""The syncs of the metadata log: in the background, one at a time.

Whatever is appended while one is under way waits for the next (group commit). One that lacks only a
descriptor or memory begins later; what was appended counts all the same.
"""

from collections.abc import Callable

from ottla.common.environment import Cancellable, Scheduler
from ottla.common.promise import Promise
from ottla.raft.lanes import LANE
from ottla.raft.log import RaftLog
from ottla.storage.directories import LogDirFailed, LogUnavailable


class Syncing:
    """See the module. ``done`` hears how far the log is on disk, ``failed`` why no more is."""

    __slots__ = (
        "_done",
        "_failed",
        "_is_stopped",
        "_log",
        "_offset",
        "_retry",
        "_retry_seconds",
        "_scheduler",
        "_since",
        "under_way",
    )

    def __init__(
        self,
        log: RaftLog,
        scheduler: Scheduler,
        retry_seconds: float,
        done: Callable[[int], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._log = log
        self._scheduler = scheduler
        self._retry_seconds = retry_seconds
        self._done = done
        self._failed = failed
        self._offset = 0
        """What stands below is synced."""
        self._since = 0.0
        self._retry: Cancellable | None = None
        self._is_stopped = False
        self.under_way: Promise[None] | None = None

    @property
    def seconds(self) -> float:
        """For how long one has been under way."""
        return 0.0 if self.under_way is None else self._scheduler.monotonic() - self._since

    def begin(self) -> None:
        """Sync what is not on disk yet; LogDirFailed, which was told, when that cannot be."""
        is_needed = self._log.end_offset > self._offset
        if not is_needed or self.under_way is not None or self._is_stopped:
            return
        try:
            work = self._log.prepare_sync()
        except LogUnavailable:
            self._begin_later()
            return
        except LogDirFailed as error:
            self._failed(error)
            raise
        self.under_way = self._scheduler.run_in_background(work, LANE)
        self._since = self._scheduler.monotonic()
        self.under_way.when_done(self._ended)

    def truncated(self) -> None:
        """What is appended in its place is not synced."""
        self._offset = min(self._offset, self._log.end_offset)

    def stop(self) -> None:
        """Begin no more, and tell nothing of the one that is under way."""
        self._is_stopped = True
        if self._retry is not None:
            self._retry.cancel()

    def _begin_later(self) -> None:
        if self._retry is None:
            self._retry = self._scheduler.call_later(self._retry_seconds, self._begin_again)

    def _begin_again(self) -> None:
        self._retry = None
        self._or_fail(self.begin)

    def _ended(self, sync: Promise[None]) -> None:
        self.under_way = None
        if not self._is_stopped:
            self._or_fail(lambda: self._count(sync))

    def _count(self, sync: Promise[None]) -> None:
        try:
            self._offset = self._log.synced(self._scheduler.wall_ms(), _error_of(sync))
        except LogUnavailable:
            self._begin_later()
            return
        self._done(self._offset)
        self.begin()

    def _or_fail(self, go_on: Callable[[], None]) -> None:
        try:
            go_on()
        except Exception as error:  # noqa: BLE001 - the node ends with it
            self._failed(error)


def _error_of(sync: Promise[None]) -> OSError | None:
    """Why a sync failed, if it did."""
    try:
        sync.result()
    except OSError as error:
        return error
    return None

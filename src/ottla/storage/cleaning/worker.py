"""The heavy part of a cleaning: the map and the copies.

On a real machine that is a process of its own, so that a cleaning takes no turn from the broker's
interpreter (``ottla.server.cleaner_process``). Here is the other one, which does it wherever the
scheduler does background work: in unit tests and in the simulator.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from ottla.common.environment import Scheduler
from ottla.common.promise import Promise
from ottla.storage.cleaning.plan import (
    CleaningAborted,
    GroupCleaned,
    GroupPlan,
    MapBuilt,
    MapPlan,
)
from ottla.storage.files import Filesystem

if TYPE_CHECKING:
    from ottla.storage.cleaning.cleaner import Cleaner


class WorkerDied(Exception):
    """The process that was to clean did not start, or has ended; another one may do better."""


class WorkerSettings(NamedTuple):
    buffer_size: int
    """Bytes that are read at once."""
    bytes_per_second: float
    """How many are read and written at most."""


class CleanerWorker(Protocol):
    """Does one thing at a time; a promise may fail with CleaningAborted, WorkerDied, an OSError,
    CorruptMessage or InvalidRecord.
    """

    def build_map(self, plan: MapPlan) -> Promise[MapBuilt]: ...

    def clean(self, plan: GroupPlan) -> Promise[GroupCleaned]:
        """Of the log whose map was built last."""
        ...

    def abort(self) -> None:
        """Do no more; it is not used again."""
        ...

    def close(self) -> None:
        """It is not needed any more."""
        ...


StartWorker: TypeAlias = Callable[[WorkerSettings], CleanerWorker]


class BackgroundWorker:
    """In the background of the scheduler; it does not throttle, since time there may be virtual."""

    def __init__(
        self, filesystem: Filesystem, scheduler: Scheduler, settings: WorkerSettings
    ) -> None:
        self._filesystem = filesystem
        self._scheduler = scheduler
        self._settings = settings
        self._cleaner: Cleaner | None = None
        self._is_aborted = False

    def build_map(self, plan: MapPlan) -> Promise[MapBuilt]:
        lane = plan.directory.rpartition("/")[0]
        return self._scheduler.run_in_background(lambda: self._get().build_map(plan), lane)

    def clean(self, plan: GroupPlan) -> Promise[GroupCleaned]:
        lane = plan.directory.rpartition("/")[0]
        return self._scheduler.run_in_background(lambda: self._get().clean(plan), lane)

    def abort(self) -> None:
        self._is_aborted = True

    def close(self) -> None:
        self._cleaner = None

    def _get(self) -> "Cleaner":
        from ottla.storage.cleaning.cleaner import Cleaner

        self._check()
        if self._cleaner is None:
            self._cleaner = Cleaner(
                self._filesystem, buffer_size=self._settings.buffer_size, check=self._check
            )
        return self._cleaner

    def _check(self) -> None:
        if self._is_aborted:
            raise CleaningAborted

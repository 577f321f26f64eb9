"""Opening all logs at the start of a broker, elsewhere than on its loop.

After an unclean stop everything above the recovery points is read and checked, which may take
minutes. The loop goes on meanwhile: a quorum elects and commits, heartbeats are sent. So each
directory's logs are opened in the background, some at a time; nobody else knows of them until all
are open, and :meth:`~ottla.storage.manager.LogManager.take_loaded` takes them over on the loop.

A process that has too little of something for a moment tries again: nothing that was opened is
lost by that, and no directory is to blame. A disk that does not answer is waited for, and named in
the broker's log; a stop goes without it.
"""

import errno
from collections.abc import Callable
from typing import Final

from ottla.common.environment import Cancellable, Scheduler
from ottla.common.errors import CorruptMessage
from ottla.common.identifiers import METADATA_TOPIC
from ottla.common.promise import Promise, first_of, run
from ottla.common.topic_partition import TopicPartition
from ottla.observability.logging import logger
from ottla.storage.directories import (
    DirectoryKind,
    LogDirectory,
    LogDirFailed,
    LogUnavailable,
    parse_directory_name,
)
from ottla.storage.files import Filesystem, is_disks
from ottla.storage.log import Log

report = logger(__name__)

LOGS_PER_STEP: Final = 32
"""Logs that are opened before it is asked whether the broker stops."""
RETRY_SECONDS: Final = 1.0
WAITING_SECONDS: Final = 30.0
"""After which it is told, again and again, which directories are waited for."""
STOP_SECONDS: Final = 10.0
"""How long a stop waits for what is under way in a directory."""

OpenLog = Callable[[LogDirectory, str, TopicPartition], Log]


class DirectoryLoad:
    """Opens the logs of one directory, in one thread at a time."""

    def __init__(self, directory: LogDirectory, filesystem: Filesystem, open_log: OpenLog) -> None:
        self.directory = directory
        self._filesystem = filesystem
        self._open_log = open_log
        self._left: list[str] | None = None
        """Names that were not looked at yet, the first one last."""
        self.logs: list[tuple[Log, DirectoryKind]] = []
        self.to_delete: list[str] = []
        self.strays: dict[str, TopicPartition] = {}
        self.failure: OSError | None = None

    @property
    def is_done(self) -> bool:
        return self.failure is not None or self._left == []

    def run(self) -> None:
        """Open all of them here and now; what is lacking is a failure."""
        while not self.is_done:
            self.failure = self.step() or self.failure

    def step(self) -> OSError | None:
        """Open the next logs; what the process has too little of, if it must be tried again."""
        try:
            self._step()
        except LogUnavailable as refused:
            return refused.error
        except LogDirFailed as failure:
            self.failure = failure.error
        except CorruptMessage as error:  # of this directory alone; the others go on
            self.failure = OSError(errno.EIO, error.message)
        except OSError as error:
            if not is_disks(error):
                return error
            self.failure = error
        return None

    def _step(self) -> None:
        if self._left is None:
            self.directory.read_checkpoints()
            self._left = self._filesystem.list_directory(self.directory.path)[::-1]
        opened = len(self.logs)
        while self._left and len(self.logs) < opened + LOGS_PER_STEP:
            self._look_at(self._left[-1])
            self._left.pop()

    def _look_at(self, name: str) -> None:
        path = f"{self.directory.path}/{name}"
        parsed = parse_directory_name(name)
        if parsed is None or parsed.topic_partition.topic == METADATA_TOPIC:
            return
        if not self._filesystem.is_directory(path):
            return
        topic_partition, kind = parsed
        if kind is DirectoryKind.DELETE:
            self.to_delete.append(path)
        elif kind is DirectoryKind.STRAY:
            self.strays[path] = topic_partition
        else:
            self.logs.append((self._open_log(self.directory, path, topic_partition), kind))


class Loading:
    """Runs the loads of all directories, each in its own lane."""

    def __init__(self, loads: list[DirectoryLoad], scheduler: Scheduler) -> None:
        self._loads = loads
        self._scheduler = scheduler
        self._is_stopped = False
        self._done: Promise[None] | None = None
        self._under_way: dict[str, DirectoryLoad] = {}
        self._timer: Cancellable | None = None

    def run(self) -> Promise[None]:
        """Fulfilled when all logs are open, or when nothing is done any more after a stop."""
        self._timer = self._scheduler.call_later(WAITING_SECONDS, self._tell, WAITING_SECONDS)
        self._done = run(self._scheduler.turn, self._run())
        return self._done

    async def stop(self) -> set[str]:
        """Open no more, and wait for what is under way: it may be writing.

        The directories that do not answer: they may still be written to.
        """
        self._is_stopped = True
        if self._done is not None:
            overdue: Promise[None] = Promise(self._scheduler.turn)
            timer = self._scheduler.call_later(STOP_SECONDS, overdue.fulfil, None)
            await first_of(self._scheduler.turn, self._done, overdue)
            timer.cancel()
        self._end_telling()
        return set(self._under_way)

    def _tell(self, waited: float) -> None:
        """A broker that does not come up must say what it waits for."""
        for path, load in self._under_way.items():
            report.warning(
                "logs are still being opened",
                directory=path,
                opened=len(load.logs),
                seconds=round(waited),
            )
        waited += WAITING_SECONDS
        self._timer = self._scheduler.call_later(WAITING_SECONDS, self._tell, waited)

    def _end_telling(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _run(self) -> None:
        for under_way in [run(self._scheduler.turn, self._load(load)) for load in self._loads]:
            await under_way
        self._end_telling()

    async def _load(self, load: DirectoryLoad) -> None:
        path = load.directory.path
        self._under_way[path] = load
        while not load.is_done and not self._is_stopped:
            try:
                lacking = await self._scheduler.run_in_background(load.step, path)
            except OSError as error:  # no thread can be started
                lacking = error
            if lacking is not None:
                report.error(
                    "logs cannot be opened now, and are tried again",
                    directory=path,
                    reason=str(lacking),
                )
                pause: Promise[None] = Promise(self._scheduler.turn)
                self._scheduler.call_later(RETRY_SECONDS, pause.fulfil, None)
                await pause
        del self._under_way[path]

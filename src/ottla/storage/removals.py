"""Files and directories that are to go, each at its time.

They bear their new names already; a crash before the removal is made good when the log is opened.
"""

from collections.abc import Container
from typing import NamedTuple

from ottla.common.clock import Clock
from ottla.storage.files import Filesystem


class Removal(NamedTuple):
    due: float
    """By the monotonic clock: a wall clock that goes back would keep files for as long."""
    paths: list[str]
    is_directory: bool

    @property
    def log_directory(self) -> str:
        parent = self.paths[0].rpartition("/")[0]
        return parent if self.is_directory else parent.rpartition("/")[0]


class Removals:
    """What is to go, and when."""

    __slots__ = ("_clock", "_filesystem", "_queue")

    def __init__(self, filesystem: Filesystem, clock: Clock) -> None:
        self._filesystem = filesystem
        self._clock = clock
        self._queue: list[Removal] = []

    def __len__(self) -> int:
        return len(self._queue)

    def add_files(self, delay_ms: int, paths: list[str]) -> None:
        self._add(delay_ms, paths, is_directory=False)

    def add_directory(self, delay_ms: int, path: str) -> None:
        self._add(delay_ms, [path], is_directory=True)

    def _add(self, delay_ms: int, paths: list[str], *, is_directory: bool) -> None:
        if paths:
            due = self._clock.monotonic() + delay_ms / 1000
            self._queue.append(Removal(due, paths, is_directory))

    def take_due(self, busy: Container[str] = ()) -> dict[str, list[Removal]]:
        """Those that are due, by log directory; of those that are ``busy`` none."""
        now = self._clock.monotonic()
        due: dict[str, list[Removal]] = {}
        left: list[Removal] = []
        for removal in self._queue:
            directory = removal.log_directory
            if removal.due > now or directory in busy:
                left.append(removal)
            else:
                due.setdefault(directory, []).append(removal)
        self._queue = left
        return due

    def seconds_left(self, busy: Container[str] = ()) -> float | None:
        """Until the next one is due, outside of what is ``busy``."""
        due = [each.due for each in self._queue if each.log_directory not in busy]
        return min(due) - self._clock.monotonic() if due else None

    def put_back(self, removals: list[Removal], delay_ms: int) -> None:
        """They could not be removed now, by no fault of the disk."""
        for removal in removals:
            self._add(delay_ms, removal.paths, is_directory=removal.is_directory)

    def discard(self, log_directory: str) -> None:
        """Its disk has failed: what is there stays there."""
        self._queue = [each for each in self._queue if each.log_directory != log_directory]

    def remove(self, removals: list[Removal]) -> OSError | None:
        """Remove what was taken, in any thread; the last error, if there was one."""
        failure = None
        for removal in removals:
            for path in removal.paths:
                try:
                    if removal.is_directory:
                        self._filesystem.remove_directory(path)
                    else:
                        self._filesystem.remove(path)
                except FileNotFoundError:
                    # Its whole directory has gone or been renamed in the meantime.
                    continue
                except OSError as error:
                    failure = error
        return failure

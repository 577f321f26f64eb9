"""Files and directories that are to go, each at its time.

They bear their new names already; a crash before the removal is made good when the log is opened.
"""

from collections.abc import Callable
from typing import NamedTuple

from ottla.common.clock import Clock
from ottla.storage.files import Filesystem


class Removal(NamedTuple):
    due: float
    """By the monotonic clock: a wall clock that goes back would keep files for as long."""
    paths: list[str]
    is_directory: bool


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
        due = self._clock.monotonic() + delay_ms / 1000
        self._queue.append(Removal(due, paths, is_directory))

    def seconds_left(self) -> float:
        """Until the next one is due."""
        return min(removal.due for removal in self._queue) - self._clock.monotonic()

    def take_due(self) -> Callable[[], list[tuple[str, OSError]]] | None:
        """The work that is due, for any thread; it tells which log directories have failed."""
        now = self._clock.monotonic()
        due = [removal for removal in self._queue if removal.due <= now]
        if not due:
            return None
        self._queue = [removal for removal in self._queue if removal.due > now]
        return lambda: self._remove(due)

    def _remove(self, due: list[Removal]) -> list[tuple[str, OSError]]:
        failed = []
        for removal in due:
            for path in removal.paths:
                parent = path.rpartition("/")[0]
                try:
                    if removal.is_directory:
                        self._filesystem.remove_directory(path)
                    else:
                        self._filesystem.remove(path)
                except FileNotFoundError:
                    # Its whole directory has gone or been renamed in the meantime.
                    continue
                except OSError as error:
                    directory = parent if removal.is_directory else parent.rpartition("/")[0]
                    failed.append((directory, error))
        return failed

"""Files and directories that are to go, each at its time.

They bear their new names already; a crash before the removal is made good when the log is opened.
"""

from collections.abc import Callable
from typing import NamedTuple

from ottla.storage.files import Filesystem


class Removal(NamedTuple):
    due_ms: int
    paths: list[str]
    is_directory: bool


class Removals:
    """What is to go, and when."""

    __slots__ = ("_filesystem", "_queue")

    def __init__(self, filesystem: Filesystem) -> None:
        self._filesystem = filesystem
        self._queue: list[Removal] = []

    def __len__(self) -> int:
        return len(self._queue)

    def add_files(self, due_ms: int, paths: list[str]) -> None:
        self._queue.append(Removal(due_ms, paths, is_directory=False))

    def add_directory(self, due_ms: int, path: str) -> None:
        self._queue.append(Removal(due_ms, [path], is_directory=True))

    def next_due_ms(self) -> int:
        return min(removal.due_ms for removal in self._queue)

    def take_due(self, now_ms: int) -> Callable[[], list[tuple[str, OSError]]] | None:
        """The work that is due, for any thread; it tells which log directories have failed."""
        due = [removal for removal in self._queue if removal.due_ms <= now_ms]
        if not due:
            return None
        self._queue = [removal for removal in self._queue if removal.due_ms > now_ms]
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

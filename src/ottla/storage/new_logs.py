"""Logs that were made a moment ago: whose they are must be on disk before what they hold.

Many are made at once when a topic is, so they are synced together, and more than a few of them by
one sync of the whole disk.
"""

import contextlib
from collections.abc import Callable
from typing import Final

from ottla.storage.checkpoints import PARTITION_METADATA
from ottla.storage.files import Filesystem

ONE_BY_ONE_MAX: Final = 16
"""Above this many logs one sync of the whole disk is shorter than one for each of their files."""


class NewLogs:
    """The directories of new logs, until :meth:`take`."""

    __slots__ = ("_filesystem", "_paths")

    def __init__(self, filesystem: Filesystem) -> None:
        self._filesystem = filesystem
        self._paths: dict[str, None] = {}

    def __len__(self) -> int:
        return len(self._paths)

    def add(self, path: str) -> None:
        self._paths[path] = None

    def discard(self, path: str) -> None:
        self._paths.pop(path, None)

    def take(self) -> Callable[[], list[tuple[str, OSError]]]:
        """The work of syncing them, for any thread; it tells which log directories have failed."""
        taken, self._paths = self._paths, {}
        by_directory: dict[str, list[str]] = {}
        for path in taken:
            by_directory.setdefault(path.rpartition("/")[0], []).append(path)
        return lambda: self._sync(by_directory)

    def _sync(self, by_directory: dict[str, list[str]]) -> list[tuple[str, OSError]]:
        failed = []
        for directory, paths in by_directory.items():
            try:
                if len(paths) > ONE_BY_ONE_MAX:
                    self._filesystem.sync_all(directory)
                else:
                    self._sync_each(paths)
                    self._filesystem.sync_directory(directory)
            except OSError as error:
                failed.append((directory, error))
        return failed

    def _sync_each(self, paths: list[str]) -> None:
        for path in paths:
            # It may have been deleted already.
            with contextlib.suppress(FileNotFoundError):
                file = self._filesystem.open(f"{path}/{PARTITION_METADATA}")
                try:
                    file.sync()
                finally:
                    file.close()
                self._filesystem.sync_directory(path)

"""Logs that were made a moment ago: whose they are must be on disk before what they hold.

Many are made at once when a topic is, so they are synced together, and more than a few of them by
one sync of the whole disk.
"""

import contextlib
from typing import Final

from ottla.storage.checkpoints import PARTITION_METADATA
from ottla.storage.files import Filesystem

ONE_BY_ONE_MAX: Final = 16
"""Above this many logs one sync of the whole disk is shorter than one for each of their files."""


class NewLogs:
    """The directories of new logs, by the log directories they are in, until :meth:`take`."""

    __slots__ = ("_filesystem", "_paths")

    def __init__(self, filesystem: Filesystem) -> None:
        self._filesystem = filesystem
        self._paths: dict[str, dict[str, None]] = {}

    @property
    def log_directories(self) -> list[str]:
        """Those with new logs."""
        return list(self._paths)

    def add(self, path: str) -> None:
        self._paths.setdefault(path.rpartition("/")[0], {})[path] = None

    def discard(self, path: str) -> None:
        directory = path.rpartition("/")[0]
        paths = self._paths.get(directory, {})
        paths.pop(path, None)
        if not paths:
            self._paths.pop(directory, None)

    def take(self, directory: str) -> list[str]:
        return list(self._paths.pop(directory, ()))

    def sync(self, directory: str, paths: list[str]) -> OSError | None:
        """Sync what was taken, in any thread; the error, if there was one."""
        try:
            if len(paths) > ONE_BY_ONE_MAX:
                self._filesystem.sync_all(directory)
            else:
                self._sync_each(paths)
                self._filesystem.sync_directory(directory)
        except OSError as error:
            return error
        return None

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

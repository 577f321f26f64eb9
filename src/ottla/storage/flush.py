"""A flush of a log: decided on the loop, carried out wherever, counted on the loop.

:meth:`Flush.run` touches nothing but files that it was given, by descriptor or name, so it may run
in a thread while the log goes on. Only ``Log.flushed`` moves the recovery point, and only if what
was synced is still what the log has.
"""

import contextlib

from ottla.storage.files import File, Filesystem, Mutex


class Flush:
    """What has to reach the disk so that a log is safe up to ``up_to``."""

    __slots__ = (
        "_filesystem",
        "_is_cancelled",
        "_mutex",
        "directories",
        "epochs",
        "files",
        "paths",
        "up_to",
    )

    def __init__(self, filesystem: Filesystem, up_to: int) -> None:
        self._filesystem = filesystem
        self._mutex = Mutex()
        self._is_cancelled = False
        self.up_to = up_to
        self.files: list[File] = []
        self.paths: list[str] = []
        self.directories: list[str] = []
        """Innermost first: a name counts when the directory that has it is synced."""
        self.epochs: tuple[str, bytes] | None = None

    def run(self) -> None:
        """Sync everything, except files that were deleted meanwhile."""
        for file in self.files:
            file.sync()
        for path in self.paths:
            with contextlib.suppress(FileNotFoundError):
                self._sync_path(path)
        try:
            with self._mutex:
                if self.epochs is not None and not self._is_cancelled:
                    self._filesystem.write_atomically(*self.epochs)
            for directory in self.directories:
                self._filesystem.sync_directory(directory)
        except FileNotFoundError:
            # Its directory has another name by now; nothing is claimed of it.
            if not self._is_cancelled:
                raise

    def cancel(self) -> None:
        """From now on it writes nothing: the log has changed, or its name is another's."""
        with self._mutex:
            self._is_cancelled = True

    def _sync_path(self, path: str) -> None:
        file = self._filesystem.open(path)
        try:
            file.sync()
        finally:
            file.close()

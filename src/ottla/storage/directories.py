"""Log directories: their names for partitions, and what becomes of them when a disk fails."""

from ottla.common.errors import KafkaStorageError


class LogDirFailed(KafkaStorageError):
    """The disk under ``directory`` gave an error: all its partitions are offline.

    Nothing is tried again: after a failed write or sync nobody knows what the disk has.
    """

    def __init__(self, directory: str, error: OSError) -> None:
        super().__init__(f"log directory {directory} failed: {error}")
        self.directory = directory
        self.error = error

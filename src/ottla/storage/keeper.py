"""What a log tells goes to the manager of all logs, with the log that tells it."""

from typing import Protocol

from ottla.storage.directories import LogDirFailed
from ottla.storage.inspection import Damage
from ottla.storage.log import Log
from ottla.storage.segment import Segment


class KeepsLogs(Protocol):
    """The manager, as the listeners of its logs see it; see ``LogListener`` for what is told."""

    def log_rolled(self, log: Log) -> None: ...

    def log_truncating(self, log: Log, offset: int) -> None: ...

    def log_truncated(self, log: Log) -> None: ...

    def files_deleted(self, delay_ms: int, paths: list[str]) -> None: ...

    def fail_directory(self, path: str, error: OSError) -> None: ...

    def indexes_doubted(self, log: Log, segment: Segment) -> None: ...

    def log_damaged(self, log: Log | None, path: str, damage: Damage) -> None: ...


class Keeper:
    """The listener of one log, which is None while it is being opened."""

    __slots__ = ("_manager", "log")

    def __init__(self, manager: KeepsLogs) -> None:
        self._manager = manager
        self.log: Log | None = None

    def rolled(self) -> None:
        if self.log is not None:
            self._manager.log_rolled(self.log)

    def truncating(self, offset: int) -> None:
        if self.log is not None:
            self._manager.log_truncating(self.log, offset)

    def recovery_point_lowered(self) -> None:
        if self.log is not None:
            self._manager.log_truncated(self.log)

    def files_deleted(self, paths: list[str]) -> None:
        delay_ms = 0 if self.log is None else self.log.config.file_delete_delay_ms
        self._manager.files_deleted(delay_ms, paths)

    def failed(self, failure: LogDirFailed) -> None:
        self._manager.fail_directory(failure.directory, failure.error)

    def indexes_doubted(self, segment: Segment) -> None:
        if self.log is None:  # nobody waits for it yet
            segment.rebuild_indexes()
        else:
            self._manager.indexes_doubted(self.log, segment)

    def damaged(self, path: str, damage: Damage) -> None:
        self._manager.log_damaged(self.log, path, damage)

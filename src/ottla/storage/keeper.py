"""What the manager does for one log: work that comes up, claims on disk, the disk that fails."""

from typing import TYPE_CHECKING

from ottla.storage.checkpoints import Claims
from ottla.storage.directories import LogDirFailed
from ottla.storage.inspection import Damage

if TYPE_CHECKING:
    from ottla.storage.log import Log
    from ottla.storage.manager import LogManager
    from ottla.storage.segment import Segment


class Keeper:
    """The listener of one log."""

    __slots__ = ("_manager", "log")

    def __init__(self, manager: "LogManager") -> None:
        self._manager = manager
        self.log: Log | None = None

    def rolled(self) -> None:
        if self.log is not None:
            self._manager.rolled[self.log] = None
            self._manager.on_work()

    def truncating(self, offset: int) -> None:
        if self.log is not None:
            self._manager.cleaner.truncating(self.log, offset)

    def files_deleted(self, paths: list[str]) -> None:
        manager, log = self._manager, self.log
        delay_ms = 0 if log is None else log.config.file_delete_delay_ms
        manager.removals.add_files(delay_ms, paths)
        manager.on_work()

    def recovery_point_lowered(self) -> None:
        manager, log = self._manager, self.log
        if log is not None:
            current = manager.logs.get(log.topic_partition, log)
            if current is log:
                manager.cleaner.truncated(log)
            manager._lower_claims(
                manager.directory_of(log),
                log.topic_partition,
                Claims(log.recovery_point, log.log_start_offset, current.high_watermark),
            )
            manager._truncate_future(log)

    def failed(self, failure: LogDirFailed) -> None:
        self._manager.fail_directory(failure.directory, failure.error)

    def indexes_doubted(self, segment: "Segment") -> None:
        if self.log is None:  # it is being opened, and nobody waits for it yet
            segment.rebuild_indexes()
        else:
            self._manager.doubted[segment] = self.log
            self._manager.on_work()

    def damaged(self, path: str, damage: Damage) -> None:
        manager, log = self._manager, self.log
        manager.damages += 1
        if log is not None:
            manager.on_damaged(log.topic_partition, path, damage)

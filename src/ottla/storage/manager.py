"""All logs of a broker, in all its log directories.

Synchronous; used from the loop. What blocks for long (flushing, removing, writing checkpoints) is
handed out as work for the background: see ``driver``.

Rules:

1. A checkpoint on disk never claims more than a log has: before a log is made or truncated, a
   claim that would be too high is written down lower.
2. A directory that fails takes its logs with it, at once and for good; the others go on.
3. The clean shutdown marker is written last, and removed before anything else happens.
"""

import contextlib
import errno
from collections.abc import Callable, Collection, Iterable
from typing import Final

from ottla.common.chance import Chance
from ottla.common.clock import Clock
from ottla.common.errors import KafkaStorageError, LogDirNotFound
from ottla.common.identifiers import LOST_DIRECTORY, MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY
from ottla.common.topic_partition import TopicPartition
from ottla.storage.checkpoints import META_PROPERTIES, Claims, CorruptCheckpoint, Offsets
from ottla.storage.cleaning.log_cleaning import Cleaning
from ottla.storage.cleaning.manager import CleanerManager
from ottla.storage.config import LogConfig
from ottla.storage.directories import (
    DirectoryKind,
    LogDirectory,
    LogDirFailed,
    LogUnavailable,
    directory_name,
)
from ottla.storage.files import Filesystem, is_disks
from ottla.storage.inspection import Damage
from ottla.storage.keeper import Keeper
from ottla.storage.loading import DirectoryLoad
from ottla.storage.log import Log
from ottla.storage.log_table import LogTable
from ottla.storage.new_logs import ONE_BY_ONE_MAX, NewLogs
from ottla.storage.open_files import OpenFiles
from ottla.storage.opening import PRODUCER_EXPIRATION_MS, open_log
from ottla.storage.removals import Removals
from ottla.storage.segment import Segment
from ottla.storage.verification import Verify

OPEN_FILES_MAX: Final = 256

_NO_DIRECTORY = (MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY, LOST_DIRECTORY)


class DuplicateLog(Exception):
    """A partition lies in two log directories, and nobody knows which one counts."""


class LogManager:
    def __init__(
        self,
        filesystem: Filesystem,
        paths: Iterable[str],
        *,
        clock: Clock,
        chance: Chance,
        config_for: Callable[[str], LogConfig],
        producer_expiration_ms: int = PRODUCER_EXPIRATION_MS,
        open_files_max: int = OPEN_FILES_MAX,
        verify: Verify = Verify.ONCE,
    ) -> None:
        self._filesystem = filesystem
        self._clock = clock
        self._chance = chance
        self._config_for = config_for
        self._producer_expiration_ms = producer_expiration_ms
        self._verify = verify
        self._by_path = {path: LogDirectory(filesystem, path) for path in paths}
        each_max = max(1, open_files_max // max(1, len(self._by_path)))
        self._open_files = {path: OpenFiles(each_max) for path in self._by_path}
        """By directory: at the start each has a thread of its own."""
        self._preferred: dict[TopicPartition, str] = {}
        self.logs = LogTable()
        self.future_logs = LogTable()
        """Logs that are being filled to take the place of the current one."""
        self.strays: dict[str, TopicPartition] = {}
        """Directories of partitions that the cluster does not know, by their paths."""
        self.cleaner = CleanerManager()
        self.removals = Removals(filesystem, clock)
        self.rolled: dict[Log, None] = {}
        """Logs with closed segments that are to be flushed."""
        self.doubted: dict[Segment, Log] = {}
        """Segments whose indexes mislead and are to be made anew."""
        self.new_logs = NewLogs(filesystem)
        self.on_directory_failed: Callable[[LogDirectory, list[TopicPartition]], None] = (
            lambda _directory, _lost: None
        )
        self.damages = 0
        """Places in segments that were found not to be as they were written."""
        self.on_damaged: Callable[[TopicPartition, str, Damage], None] = (
            lambda _topic_partition, _path, _damage: None
        )
        self.on_work: Callable[[], None] = lambda: None
        """Called when something was added to ``rolled``, ``doubted`` and the like."""

    # Directories

    @property
    def directories(self) -> list[LogDirectory]:
        return list(self._by_path.values())

    @property
    def online_directories(self) -> list[LogDirectory]:
        return [directory for directory in self._by_path.values() if directory.is_online]

    def directory_of(self, log: Log) -> LogDirectory:
        return self._by_path[log.directory.rpartition("/")[0]]

    def directory_by_id(self, directory_id: bytes) -> LogDirectory | None:
        for directory in self._by_path.values():
            if directory.is_online and directory.directory_id == directory_id:
                return directory
        return None

    def previous_broker_epoch(self) -> int:
        """The epoch that ended cleanly in all directories; -1 if there is no such."""
        epochs = {directory.previous_broker_epoch for directory in self._by_path.values()}
        return epochs.pop() if len(epochs) == 1 else -1

    def fail_directory(self, path: str, error: OSError) -> None:
        """Go on without a directory."""
        directory = self._by_path[path]
        if not directory.is_online:
            return
        directory.fail(error)
        self.removals.discard(path)
        lost = self._let_go(self.logs, directory, error)
        self._let_go(self.future_logs, directory, error)
        self.on_directory_failed(directory, lost)

    def _let_go(
        self, logs: LogTable, directory: LogDirectory, error: OSError
    ) -> list[TopicPartition]:
        """Take the logs that lie in ``directory`` out of ``logs``; which those were."""
        gone = {each: log for each, log in logs.items() if self.directory_of(log) is directory}
        for topic_partition, log in gone.items():
            logs.take(topic_partition)
            self.cleaner.forget(log)
            log.failure = log.failure or error
            log.abandon()
            self.rolled.pop(log, None)
            self.new_logs.discard(log.directory)
        return list(gone)

    # Start and stop

    def start(self, is_stray: Callable[[Log], bool] = lambda _log: False) -> None:
        """Lock the directories and open every log in them, all here and now."""
        self.lock()
        loads = self.begin_load()
        for load in loads:
            load.run()
        self.take_loaded(loads, is_stray)

    def lock(self) -> None:
        """Take the directories; nothing else may touch them before this.

        One that cannot be read is offline from the start; one that another process uses raises
        DirectoryInUse.
        """
        for directory in self._by_path.values():
            try:
                directory.open()
            except OSError as error:
                self.fail_directory(directory.path, error)
            except CorruptCheckpoint as error:
                damaged = OSError(errno.EIO, str(error), f"{directory.path}/{META_PROPERTIES}")
                self.fail_directory(directory.path, damaged)

    def begin_load(self) -> list[DirectoryLoad]:
        """What opens the logs in the directories that were locked; it may run elsewhere."""
        return [
            DirectoryLoad(directory, self._filesystem, self._open)
            for directory in self.online_directories
        ]

    def take_loaded(self, loads: list[DirectoryLoad], is_stray: Callable[[Log], bool]) -> None:
        """Take over the logs that were opened; those that the cluster does not know go aside."""
        for load in loads:
            directory = load.directory
            if load.failure is not None:
                self.fail_directory(directory.path, load.failure)
                continue
            self.cleaner.load(directory)
            for path in load.to_delete:
                self.removals.add_directory(0, path)
            self.strays.update(load.strays)
            for log, kind in load.logs:
                try:
                    if kind is not DirectoryKind.CURRENT:
                        self._add(log, self.future_logs)
                    elif is_stray(log):
                        self._set_aside(log)
                    else:
                        self._add(log, self.logs)
                except LogDirFailed as failure:  # perhaps of the other copy's directory
                    self.fail_directory(failure.directory, failure.error)
                if not directory.is_online:
                    break
        for directory in self.online_directories:
            self._lower_all_claims(directory)

    def _open(self, directory: LogDirectory, path: str, topic_partition: TopicPartition) -> Log:
        log = self._open_log(
            path,
            topic_partition,
            None,
            recovery_point=directory.recovery_points.claim(topic_partition),
            log_start_offset=directory.log_start_offsets.claim(topic_partition),
            clean_shutdown=directory.was_clean,
            may_have_gaps=not directory.recovery_points_known,
        )
        log.set_high_watermark(directory.high_watermarks.claim(topic_partition))
        return log

    def _open_log(
        self,
        path: str,
        topic_partition: TopicPartition,
        topic_id: bytes | None,
        *,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        clean_shutdown: bool = True,
        may_have_gaps: bool = False,
    ) -> Log:
        keeper = Keeper(self)
        log = open_log(
            self._filesystem,
            path,
            topic_partition=topic_partition,
            topic_id=topic_id,
            config=self._config_for(topic_partition.topic),
            now_ms=self._clock.wall_ms(),
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            clean_shutdown=clean_shutdown,
            may_have_gaps=may_have_gaps,
            producer_expiration_ms=self._producer_expiration_ms,
            open_files=self._open_files[path.rpartition("/")[0]],
            listener=keeper,
            chance=self._chance,
            verify=self._verify,
        )
        keeper.log = log
        return log

    def _add(self, log: Log, logs: LogTable) -> None:
        other = logs.get(log.topic_partition)
        if other is None:
            logs[log.topic_partition] = log
            return
        # A crash while one took the place of the other: the copy has all that the original had.
        shorter, longer = sorted((log, other), key=lambda each: each.log_end_offset)
        common = longer.end_offset_for_epoch(shorter.latest_epoch)
        if longer.topic_id != shorter.topic_id or (
            shorter.log_end_offset > shorter.log_start_offset
            and (shorter.latest_epoch, shorter.log_end_offset) > common
        ):
            raise DuplicateLog(f"{log.directory} and {other.directory}")
        logs[log.topic_partition] = longer
        self._retire(shorter)

    def stop(self, broker_epoch: int = -1, hanging: Collection[str] = ()) -> None:
        """Close everything but what is ``hanging`` so that the next start is a clean one."""
        for directory in self.online_directories:
            if directory.path in hanging:
                continue
            try:
                self._close_logs(self._logs_in(directory))
                self._write_checkpoints(directory)
                directory.close_cleanly(broker_epoch)
            except OSError as error:
                self.fail_directory(directory.path, error)
            except LogDirFailed as failure:
                self.fail_directory(directory.path, failure.error)
            directory.unlock()

    def _close_logs(self, logs: list[Log]) -> None:
        dirty = [log for log in logs if log.is_dirty]
        now_ms = self._clock.wall_ms()
        if len(dirty) <= ONE_BY_ONE_MAX:
            for log in logs:
                log.close(now_ms)
            return
        temporaries = [log.prepare_close() for log in logs]
        self._filesystem.sync_all(logs[0].directory)
        renamed = [path for path in temporaries if path is not None]
        for path in renamed:
            self._filesystem.rename(path, path.removesuffix(".tmp"))
        self._filesystem.sync_all(logs[0].directory)
        for log in logs:
            log.closed()

    def abandon(self, hanging: Collection[str] = ()) -> None:
        """End without writing anything, as a crash does; what is ``hanging`` stays locked."""
        for log in self.all_logs():
            log.abandon()
        for path, directory in self._by_path.items():
            if path not in hanging:
                directory.unlock()

    # Logs

    def all_logs(self) -> list[Log]:
        return [*self.logs.values(), *self.future_logs.values()]

    def _logs_in(self, directory: LogDirectory) -> list[Log]:
        return [log for log in self.all_logs() if self.directory_of(log) is directory]

    def current_logs_in(self, directory: LogDirectory) -> dict[TopicPartition, Log]:
        """Without those that are being filled."""
        return {tp: log for tp, log in self.logs.items() if self.directory_of(log) is directory}

    def get(self, topic_partition: TopicPartition) -> Log | None:
        return self.logs.get(topic_partition)

    def get_or_create(
        self,
        topic_partition: TopicPartition,
        topic_id: bytes,
        *,
        directory_id: bytes | None = None,
        is_new: bool = True,
    ) -> Log:
        """The log of a partition; a new one in ``directory_id``, or where there are the fewest.

        A partition that is not new may lie in a directory that is offline: it is not made again.
        """
        log = self.logs.get(topic_partition)
        if log is None:
            if not is_new and len(self.online_directories) < len(self._by_path):
                raise KafkaStorageError(f"{topic_partition} may be in a directory that is offline")
            directory = self._directory_for(topic_partition, directory_id)
            name = directory_name(topic_partition)
            log = self.logs[topic_partition] = self._create(
                directory, name, topic_partition, topic_id
            )
        else:
            log.assign_topic_id(topic_id)
        return log

    def _directory_for(
        self, topic_partition: TopicPartition, directory_id: bytes | None
    ) -> LogDirectory:
        path = self._preferred.pop(topic_partition, None)
        if path is not None:
            return self.online_directory(path)
        if directory_id is not None and directory_id not in _NO_DIRECTORY:
            directory = self.directory_by_id(directory_id)
            if directory is not None:
                return directory
        online = self.online_directories
        if not online:
            raise KafkaStorageError("no log directory is online")
        if len(online) == 1:
            return online[0]
        current, future = self.logs.counts, self.future_logs.counts
        return min(online, key=lambda each: current[each.path] + future[each.path])

    def online_directory(self, path: str) -> LogDirectory:
        directory = self._by_path.get(path)
        if directory is None:
            raise LogDirNotFound(f"{path} is none of this broker's log directories")
        if not directory.is_online:
            raise KafkaStorageError(f"log directory {path} is offline")
        return directory

    def _create(
        self, directory: LogDirectory, name: str, topic_partition: TopicPartition, topic_id: bytes
    ) -> Log:
        self.cleaner.forget_offset(directory.path, topic_partition)
        try:
            self._lower_claims(directory, topic_partition, Claims(), may_refuse=True)
            log = self._open_log(f"{directory.path}/{name}", topic_partition, topic_id)
        except LogUnavailable:
            with contextlib.suppress(OSError):  # what is half made is made anew
                self._filesystem.remove_directory(f"{directory.path}/{name}")
            raise
        except LogDirFailed as failure:
            self.fail_directory(directory.path, failure.error)
            raise
        self.new_logs.add(log.directory)
        self.on_work()
        return log

    def prefer_directory(self, topic_partition: TopicPartition, path: str) -> None:
        """Where a log that is made later shall lie (AlterReplicaLogDirs before it exists)."""
        self.online_directory(path)
        self._preferred[topic_partition] = path

    def delete(self, topic_partition: TopicPartition) -> None:
        """Forget a log, and the one that was to replace it; their files go after a while."""
        self._preferred.pop(topic_partition, None)
        for logs in (self.logs, self.future_logs):
            log = logs.take(topic_partition)
            if log is not None:
                with contextlib.suppress(LogDirFailed):
                    self._retire(log)

    def _retire(self, log: Log, successor: Log | None = None) -> None:
        self.cleaner.forget(log)
        self.rolled.pop(log, None)
        self.new_logs.discard(log.directory)
        log.rename_directory(
            directory_name(log.topic_partition, DirectoryKind.DELETE, self._chance)
        )
        log.abandon()
        log.retire(successor)
        self.removals.add_directory(log.config.file_delete_delay_ms, log.directory)
        self.on_work()

    def _set_aside(self, log: Log) -> None:
        self.cleaner.forget(log)
        log.close(self._clock.wall_ms())
        log.rename_directory(directory_name(log.topic_partition, DirectoryKind.STRAY, self._chance))
        log.retire()
        self.strays[log.directory] = log.topic_partition

    def configure(self, topics: Collection[str]) -> None:
        """The settings of topics have changed, perhaps of all."""
        for log in self.all_logs():
            topic = log.topic_partition.topic
            if topic in topics:
                log.configure(self._config_for(topic))

    # Moving a log to another directory

    def create_future(self, topic_partition: TopicPartition, path: str) -> Log:
        """Begin a log in ``path`` that is to replace the current one when it has caught up."""
        directory = self.online_directory(path)
        current = self.logs[topic_partition]
        assert self.directory_of(current) is not directory
        assert topic_partition not in self.future_logs
        name = directory_name(topic_partition, DirectoryKind.FUTURE, self._chance)
        assert current.topic_id is not None
        self.cleaner.abort(current)
        log = self._create(directory, name, topic_partition, current.topic_id)
        if current.local_log_start_offset:
            self._begin_as(log, current)
        self.future_logs[topic_partition] = log
        return log

    def _begin_as(self, future: Log, current: Log) -> None:
        """Let the copy begin where the original begins on disk, with the same remote part."""
        future.truncate_fully_and_start_at(
            current.local_log_start_offset, self._clock.wall_ms(), current.log_start_offset
        )
        for entry in current.epochs.entries:
            if entry.start_offset < current.local_log_start_offset:
                future.epochs.assign(entry.epoch, entry.start_offset)

    def copy_to_future(self, topic_partition: TopicPartition, max_bytes: int) -> bool:
        """Copy the next batches, at least one; whether the future log has caught up."""
        current, future = self.logs[topic_partition], self.future_logs[topic_partition]
        now_ms = self._clock.wall_ms()
        if future.log_end_offset > current.log_end_offset:
            future.truncate_to(current.log_end_offset, now_ms)
        if future.log_end_offset < current.local_log_start_offset:
            self._begin_as(future, current)
        data = current.read_bytes(future.log_end_offset, max_bytes)
        if data:
            future.append_as_follower(data, now_ms=now_ms)
        future.set_high_watermark(min(current.high_watermark, future.log_end_offset))
        if future.high_watermark >= current.log_start_offset:
            future.delete_records_before(current.log_start_offset)
        return future.log_end_offset == current.log_end_offset

    def _truncate_future(self, log: Log) -> None:
        """What the current log has lost its copy must lose too, before other records come."""
        future = self.future_logs.get(log.topic_partition)
        if future is not None and future is not log:
            with contextlib.suppress(LogDirFailed):
                future.truncate_to(log.log_end_offset, self._clock.wall_ms())

    def name_future(self, topic_partition: TopicPartition) -> str:
        """Give a future log its final name, which is on disk when the path returned is synced.

        Until it takes the other's place there are two of that name in two directories; a start that
        finds them so keeps the longer one.
        """
        future = self.future_logs[topic_partition]
        future.rename_directory(directory_name(topic_partition))
        return self.directory_of(future).path

    def replace_current_with_future(self, topic_partition: TopicPartition) -> Log:
        """Let the future log, which has caught up, be the current one; the old one goes.

        It has been flushed and has its name, on disk: never may the old one be gone there, and the
        new one not be there.
        """
        current = self.logs[topic_partition]
        future = self.future_logs.take(topic_partition)
        assert future is not None
        assert future.log_end_offset == current.log_end_offset
        self.logs[topic_partition] = future
        future.follow_epochs(current.epochs)
        self.cleaner.moved(current, future)
        future.set_high_watermark(current.high_watermark)
        with contextlib.suppress(LogDirFailed):
            self._retire(current, future)
        return future

    def abandon_future(self, topic_partition: TopicPartition) -> None:
        """Stop moving a log."""
        log = self.future_logs.take(topic_partition)
        if log is not None:
            with contextlib.suppress(LogDirFailed):
                self._retire(log)

    # What logs tell (``KeepsLogs``)

    def log_rolled(self, log: Log) -> None:
        self.rolled[log] = None
        self.on_work()

    def log_truncating(self, log: Log, offset: int) -> None:
        self.cleaner.truncating(log, offset)

    def log_truncated(self, log: Log) -> None:
        current = self.logs.get(log.topic_partition, log)
        if current is log:
            self.cleaner.truncated(log)
        most = Claims(log.recovery_point, log.log_start_offset, current.high_watermark)
        self._lower_claims(self.directory_of(log), log.topic_partition, most)
        self._truncate_future(log)

    def files_deleted(self, delay_ms: int, paths: list[str]) -> None:
        self.removals.add_files(delay_ms, paths)
        self.on_work()

    def indexes_doubted(self, log: Log, segment: Segment) -> None:
        self.doubted[segment] = log
        self.on_work()

    def log_damaged(self, log: Log | None, path: str, damage: Damage) -> None:
        self.damages += 1
        if log is not None:
            self.on_damaged(log.topic_partition, path, damage)

    # What is done now and then

    def delete_old_segments(self, logs: Iterable[Log]) -> int:
        """Apply retention; how many segments went. A directory that fails is dealt with."""
        now_ms = self._clock.wall_ms()
        count = 0
        for log in logs:
            if log in self.cleaner.in_progress:
                continue
            with contextlib.suppress(LogDirFailed):
                count += log.delete_old_segments(now_ms)
        return count

    def begin_cleaning(self) -> Cleaning | None:
        """Choose the dirtiest of the logs that may be compacted now; one that moves is not."""
        logs = [log for tp, log in self.logs.items() if tp not in self.future_logs]
        return self.cleaner.grab_dirtiest(logs, self._clock.wall_ms())

    def logs_to_flush(self) -> list[Log]:
        """Those that were not flushed for as long as ``flush.ms`` allows."""
        now_ms = self._clock.wall_ms()
        return [log for log in self.all_logs() if log.is_flush_overdue(now_ms)]

    def take_rolled(self) -> list[Log]:
        """Those with closed segments that were not flushed yet."""
        rolled, self.rolled = self.rolled, {}
        return list(rolled)

    # Checkpoints

    def recovery_points(self, directory: LogDirectory) -> Offsets:
        return {log.topic_partition: log.recovery_point for log in self._logs_in(directory)}

    def log_start_offsets(self, directory: LogDirectory) -> Offsets:
        """Only where the first segment does not say it."""
        return {
            log.topic_partition: log.log_start_offset
            for log in self._logs_in(directory)
            if log.remote_storage_enabled or log.log_start_offset > log.segments[0].base_offset
        }

    def high_watermarks(self, directory: LogDirectory) -> Offsets:
        return {tp: log.high_watermark for tp, log in self.current_logs_in(directory).items()}

    def cleaner_offsets(self, directory: LogDirectory) -> Offsets:
        partitions = list(self.high_watermarks(directory))
        return self.cleaner.clean_offsets(directory.path, partitions)

    def _write_checkpoints(self, directory: LogDirectory) -> None:
        directory.recovery_points.write(self.recovery_points(directory))
        directory.log_start_offsets.write(self.log_start_offsets(directory))
        directory.high_watermarks.write(self.high_watermarks(directory))
        cleaner_offsets = self.cleaner_offsets(directory)
        if not directory.cleaner_offsets.says(cleaner_offsets):
            directory.cleaner_offsets.write(cleaner_offsets)

    def _lower_all_claims(self, directory: LogDirectory) -> None:
        """A crash may have come after logs were cut, and before that was written down."""
        with contextlib.suppress(LogDirFailed):
            for log in self._logs_in(directory):
                most = Claims(log.recovery_point, log.log_start_offset, log.high_watermark)
                self._lower_claims(directory, log.topic_partition, most)

    def _lower_claims(
        self,
        directory: LogDirectory,
        topic_partition: TopicPartition,
        most: Claims,
        *,
        may_refuse: bool = False,
    ) -> None:
        """See the first rule; a log that is made may be made later, one that is cut may not."""
        try:
            clean = self.cleaner.clean_offsets(directory.path, (topic_partition,))
            for checkpoint, offset, offsets in (
                (directory.recovery_points, most.recovery_point, self.recovery_points),
                (directory.log_start_offsets, most.log_start_offset, self.log_start_offsets),
                (directory.high_watermarks, most.high_watermark, self.high_watermarks),
                (directory.cleaner_offsets, sum(clean.values()), self.cleaner_offsets),
            ):
                if checkpoint.claim(topic_partition) > offset:
                    checkpoint.write(offsets(directory))
        except OSError as error:
            if may_refuse and not is_disks(error):
                raise LogUnavailable(directory.path, error) from error
            self.fail_directory(directory.path, error)
            raise LogDirFailed(directory.path, error) from error

"""What storage does by the clock: flush, delete what is old, write checkpoints, remove files.

Decisions are made on the loop, where the logs live. Into the background goes only what blocks and
touches no state: ``Flush.run``, the writing of checkpoints that were composed before, the syncing
of new names, the removal of renamed files. At most one work of a kind is under way in a directory,
so nothing overtakes anything, and a disk that hangs holds up nothing but its own.

An ``OSError`` of the disk in the background fails the directory as it would on the loop; what the
process has too little of for a moment fails nothing, and is tried again when its time comes.
"""

import contextlib
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, NamedTuple, TypeVar

from ottla.common.environment import Cancellable, Scheduler
from ottla.common.promise import Promise, first_of, run
from ottla.config.broker import BrokerConfig
from ottla.observability.logging import logger
from ottla.storage.checkpoints import OffsetCheckpoint, Offsets
from ottla.storage.cleaning.driver import CleanerDriver
from ottla.storage.directories import LogDirectory, LogDirFailed
from ottla.storage.files import is_disks
from ottla.storage.flush import Flush
from ottla.storage.log import Log
from ottla.storage.manager import LogManager
from ottla.storage.new_logs import ONE_BY_ONE_MAX
from ottla.storage.removals import Removal
from ottla.storage.segment import Segment

report = logger(__name__)

LOGS_PER_STEP: Final = 100
"""Logs that retention looks at before others have their turn on the loop."""
FLUSH_CHECK_MS_MAX: Final = 1000
"""Kafka looks for logs to flush only when told how often; a topic's ``flush.ms`` says enough."""

STOP_SECONDS: Final = 10.0
"""How long a stop waits for what is under way in the background."""
SYNC_SECONDS: Final = 60.0
"""How long it waits for the last sync: a slow disk may have much to write."""
RETRY_MS: Final = 1000
"""Before something is tried again for which the process had too little of something."""

FLUSH: Final = "flush"
ASKED: Final = "asked"
NEW_LOGS: Final = "new logs"
REMOVE: Final = "remove"
INDEXES: Final = "indexes"

T = TypeVar("T")


class Intervals(NamedTuple):
    """How often, in milliseconds."""

    flush_check: int
    retention_check: int
    recovery_point_checkpoint: int
    log_start_checkpoint: int
    high_watermark_checkpoint: int
    producer_expiration_check: int
    initial_delay: int

    @staticmethod
    def of(config: BrokerConfig) -> "Intervals":
        return Intervals(
            min(config.log_flush_scheduler_interval_ms, FLUSH_CHECK_MS_MAX),
            config.log_retention_check_interval_ms,
            config.log_flush_offset_checkpoint_interval_ms,
            config.log_flush_start_offset_checkpoint_interval_ms,
            config.replica_high_watermark_checkpoint_interval_ms,
            config.producer_id_expiration_check_interval_ms,
            config.log_initial_task_delay_ms,
        )


class StorageDriver:
    """Runs one :class:`LogManager`, which was started before."""

    def __init__(
        self,
        manager: LogManager,
        scheduler: Scheduler,
        intervals: Intervals,
        cleaner: CleanerDriver,
    ) -> None:
        self._manager = manager
        self.cleaner = cleaner
        self._scheduler = scheduler
        self._intervals = intervals
        self._timers: dict[str, Cancellable] = {}
        self._under_way: dict[tuple[str, str], Promise[None]] = {}
        """By what it is, and the log directory in which it is done."""
        self._is_stopped = False
        self._asked: dict[Log, list[Promise[None]]] = {}
        """Logs that somebody wants to be flushed, and who is told of it."""

    def start(self) -> None:
        intervals = self._intervals
        self._every("flush", intervals.flush_check, self._flush_due)
        self._every("retention", intervals.retention_check, self._delete_old)
        self._every("recovery points", intervals.recovery_point_checkpoint, self._recovery_points)
        self._every("log starts", intervals.log_start_checkpoint, self._log_starts)
        self._every("high watermarks", intervals.high_watermark_checkpoint, self._high_watermarks)
        self._every("producers", intervals.producer_expiration_check, self._expire_producers)
        self._manager.on_work = self._wake
        self.cleaner.start()
        self._wake()

    def flush(self, log: Log) -> Promise[None]:
        """Everything that ``log`` has now is on disk when this is fulfilled."""
        asked: Promise[None] = Promise(self._scheduler.turn)
        self._asked.setdefault(log, []).append(asked)
        self._wake()
        return asked

    def stop(self, broker_epoch: int = -1) -> Promise[None]:
        """Let what is under way finish, then close all logs cleanly.

        A disk that hangs is not waited for long. The next start finds what an unclean stop leaves
        there; until this process ends, the directory stays locked.
        """
        self._is_stopped = True
        self._manager.on_work = lambda: None
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        return run(self._scheduler.turn, self._stop(broker_epoch))

    async def _stop(self, broker_epoch: int) -> None:
        hanging: set[str] = set()
        cleaner = run(self._scheduler.turn, self.cleaner.stop())
        await self._end(STOP_SECONDS, hanging, cleaner)
        hanging |= self.cleaner.directories
        for directory in self._manager.online_directories:
            if directory.path not in hanging:
                self._sync_last(directory.path)
        await self._end(SYNC_SECONDS, hanging)
        if hanging:
            report.error("log directories do not answer, and are not closed", paths=sorted(hanging))
        self._manager.stop(broker_epoch, hanging)

    async def _end(self, seconds: float, hanging: set[str], *others: Promise[None]) -> None:
        """Wait for what is under way where nothing is ``hanging``; add where it does not end."""
        turn = self._scheduler.turn
        overdue: Promise[None] = Promise(turn)
        timer = self._scheduler.call_later(seconds, overdue.fulfil, None)
        for other in others:
            await first_of(turn, other, overdue)
        while not overdue.done:
            left = [each for (_, path), each in self._under_way.items() if path not in hanging]
            if not left:
                break
            await first_of(turn, left[0], overdue)
        timer.cancel()
        hanging |= {path for _, path in self._under_way}

    def _sync_last(self, path: str) -> None:
        """So that closing the logs, which is done on the loop, has little to wait for."""
        dirty = self._by_directory(log for log in self._manager.all_logs() if log.is_dirty)
        logs = dirty.get(path, [])
        if len(logs) <= ONE_BY_ONE_MAX:
            self._flush(path, [(log, log.log_end_offset) for log in logs])
        else:  # one sync of the whole disk
            for log in logs:
                self._manager.new_logs.add(log.directory)
        self._sync_new(path)

    # On the loop

    def _every(self, name: str, interval_ms: int, action: Callable[[], None]) -> None:
        def tick() -> None:
            if self._is_stopped:
                return
            self._timers[name] = self._scheduler.call_later(interval_ms / 1000, tick)
            action()

        delay_ms = min(self._intervals.initial_delay, interval_ms)
        self._timers[name] = self._scheduler.call_later(delay_ms / 1000, tick)

    def _wake(self) -> None:
        """Something is to be synced or removed: soon, together with what else comes now."""
        if "work" not in self._timers and not self._is_stopped:
            self._timers["work"] = self._scheduler.call_soon(self._work)

    def _work(self) -> None:
        del self._timers["work"]
        manager = self._manager
        for path, rolled in self._by_directory(manager.take_rolled()).items():
            if (FLUSH, path) in self._under_way:
                manager.rolled.update(dict.fromkeys(rolled))
            else:
                self._flush(path, [(log, log.segments.active.base_offset) for log in rolled])
        for path in manager.new_logs.log_directories:
            if (NEW_LOGS, path) not in self._under_way:
                self._sync_new(path)
        if self._asked:
            self._flush_asked()
        self._rebuild_indexes()
        self._cleaner_offsets()
        self._remove()

    def _rebuild_indexes(self) -> None:
        """Make those of one segment anew; a log that goes meanwhile takes its segments along."""
        for segment, log in list(self._manager.doubted.items()):
            path = log.directory.rpartition("/")[0]
            if (INDEXES, path) not in self._under_way:
                del self._manager.doubted[segment]
                with contextlib.suppress(LogDirFailed):
                    self._rebuild(path, log, segment)

    def _rebuild(self, path: str, log: Log, segment: Segment) -> None:
        rebuild = log.prepare_rebuild(segment)
        if rebuild is None:
            return

        def done(error: OSError | None) -> None:
            with contextlib.suppress(LogDirFailed):
                log.rebuilt(segment, rebuild, error)

        self._background(INDEXES, path, lambda: _error_of(rebuild.run_aside), done)

    def _by_directory(self, logs: Iterable[Log]) -> dict[str, list[Log]]:
        found: dict[str, list[Log]] = {}
        for log in logs:
            found.setdefault(log.directory.rpartition("/")[0], []).append(log)
        return found

    def _sync_new(self, path: str) -> None:
        new_logs = self._manager.new_logs
        paths = new_logs.take(path)

        def done(error: OSError | None) -> None:
            if error is None:
                return
            if is_disks(error):
                self._manager.fail_directory(path, error)
            else:
                self._scheduler.call_later(RETRY_MS / 1000, self._sync_again, paths)

        self._background(NEW_LOGS, path, lambda: new_logs.sync(path, paths), done)

    def _sync_again(self, paths: list[str]) -> None:
        for path in paths:
            self._manager.new_logs.add(path)
        self._wake()

    def _remove(self) -> None:
        timer = self._timers.pop("removal", None)
        if timer is not None:
            timer.cancel()
        removals = self._manager.removals
        busy = {path for kind, path in self._under_way if kind == REMOVE}
        for path, due in removals.take_due(busy).items():
            self._remove_in(path, due)
            busy.add(path)
        left = removals.seconds_left(busy)
        if left is not None:
            self._timers["removal"] = self._scheduler.call_later(left, self._remove)

    def _remove_in(self, path: str, due: list[Removal]) -> None:
        removals = self._manager.removals

        def done(error: OSError | None) -> None:
            if error is None:
                return
            if is_disks(error):
                self._manager.fail_directory(path, error)
            else:
                removals.put_back(due, RETRY_MS)

        self._background(REMOVE, path, lambda: removals.remove(due), done)

    def _flush_asked(self) -> None:
        """Flush what was asked for; a log that is being flushed waits until that is done."""
        asked = self._take_asked()
        for path, logs in self._by_directory(asked).items():
            if (ASKED, path) in self._under_way:
                self._asked.update({log: asked[log] for log in logs})
            else:
                self._flush_asked_in(path, {log: asked[log] for log in logs})

    def _flush_asked_in(self, path: str, asked: dict[Log, list[Promise[None]]]) -> None:
        flushes: list[tuple[Log, Flush]] = []
        for log, promises in asked.items():
            try:
                flush = log.prepare_flush()
            except LogDirFailed as failure:
                self._not_flushed(log, promises, failure)
                continue
            if flush is not None:
                flushes.append((log, flush))
            elif log.recovery_point < log.log_end_offset:
                self._asked[log] = promises
            else:
                _fulfil_all(promises)
        if flushes:

            def done(flushed: list[tuple[Log, Flush, OSError | None]]) -> None:
                self._asked_flushed(flushed, asked)

            self._background(ASKED, path, lambda: _run_flushes(flushes), done)

    def _take_asked(self) -> dict[Log, list[Promise[None]]]:
        """What was asked for, of the logs that have the records by now."""
        taken: dict[Log, list[Promise[None]]] = {}
        for log, promises in self._asked.items():
            taken.setdefault(_latest(log), []).extend(promises)
        self._asked = {}
        return taken

    def _asked_flushed(
        self,
        flushes: list[tuple[Log, Flush, OSError | None]],
        asked: dict[Log, list[Promise[None]]],
    ) -> None:
        for log, flush, error in flushes:
            promises = asked[log]
            try:
                log.flushed(flush, self._scheduler.wall_ms(), error)
            except LogDirFailed as failure:
                self._not_flushed(log, promises, failure)
                continue
            if log.failure is not None and log.successor is None:
                _fail_all(promises, LogDirFailed(log.directory.rpartition("/")[0], log.failure))
            elif log.recovery_point >= flush.up_to:
                _fulfil_all(promises)
            else:  # it was called off: the log was truncated, or has another name
                self._asked.setdefault(log, []).extend(promises)

    def _not_flushed(self, log: Log, promises: list[Promise[None]], failure: LogDirFailed) -> None:
        if log.failure is not None and log.successor is None:
            _fail_all(promises, failure)
        else:
            self._scheduler.call_later(RETRY_MS / 1000, self._ask_again, log, promises)

    def _ask_again(self, log: Log, promises: list[Promise[None]]) -> None:
        self._asked.setdefault(log, []).extend(promises)
        self._wake()

    def _flush_due(self) -> None:
        for path, logs in self._by_directory(self._manager.logs_to_flush()).items():
            if (FLUSH, path) not in self._under_way:
                self._flush(path, [(log, log.log_end_offset) for log in logs])

    def _flush(self, path: str, logs: list[tuple[Log, int]]) -> None:
        flushes: list[tuple[Log, Flush]] = []
        for log, up_to in logs:
            try:
                flush = log.prepare_flush(up_to)
            except LogDirFailed:
                continue
            if flush is not None:
                flushes.append((log, flush))
        if flushes:
            self._background(FLUSH, path, lambda: _run_flushes(flushes), self._flushed)

    def _flushed(self, flushes: list[tuple[Log, Flush, OSError | None]]) -> None:
        now_ms = self._scheduler.wall_ms()
        for log, flush, error in flushes:
            try:
                log.flushed(flush, now_ms, error)
            except LogDirFailed:
                continue

    def _delete_old(self) -> None:
        # Compacted logs have their turn when the cleaner looks at them.
        logs = [
            log for log in self._manager.all_logs() if "compact" not in log.config.cleanup_policy
        ]

        def step() -> None:
            self._timers.pop("retention step", None)
            self._manager.delete_old_segments([logs.pop() for _ in logs[:LOGS_PER_STEP]])
            if logs and not self._is_stopped:
                self._timers["retention step"] = self._scheduler.call_soon(step)

        step()

    def _expire_producers(self) -> None:
        now_ms = self._scheduler.wall_ms()
        for log in self._manager.all_logs():
            log.producers.remove_expired(now_ms)

    def _recovery_points(self) -> None:
        for directory in self._manager.online_directories:
            offsets = self._manager.recovery_points(directory)
            self._checkpoint(directory, directory.recovery_points, offsets)

    def _log_starts(self) -> None:
        for directory in self._manager.online_directories:
            offsets = self._manager.log_start_offsets(directory)
            # Those of future logs are in there too; their originals are in other directories.
            logs = self._manager.current_logs_in(directory)
            starts = [(log, offsets[tp]) for tp, log in logs.items() if tp in offsets]
            self._checkpoint(
                directory, directory.log_start_offsets, offsets, partial(_starts_are_saved, starts)
            )

    def _high_watermarks(self) -> None:
        for directory in self._manager.online_directories:
            offsets = self._manager.high_watermarks(directory)
            self._checkpoint(directory, directory.high_watermarks, offsets)

    def _cleaner_offsets(self) -> None:
        changed = self._manager.cleaner.changed
        for directory in self._manager.online_directories:
            checkpoint = directory.cleaner_offsets
            if directory.path in changed and not self._is_written(directory, checkpoint):
                del changed[directory.path]
                offsets = self._manager.cleaner_offsets(directory)
                self._checkpoint(directory, checkpoint, offsets)

    def _checkpoint(
        self,
        directory: LogDirectory,
        checkpoint: OffsetCheckpoint,
        offsets: Offsets,
        then: Callable[[], None] = lambda: None,
    ) -> None:
        if self._is_written(directory, checkpoint):
            return
        if checkpoint.says(offsets):
            then()
            return
        work = checkpoint.prepare(offsets)

        def done(generation: int | OSError) -> None:
            if not isinstance(generation, OSError):
                checkpoint.written(generation)
                then()
            elif is_disks(generation):
                self._manager.fail_directory(directory.path, generation)

        self._background(checkpoint.path, directory.path, lambda: _or_error(work), done)

    def _is_written(self, directory: LogDirectory, checkpoint: OffsetCheckpoint) -> bool:
        """Whether it is being written now."""
        return (checkpoint.path, directory.path) in self._under_way

    # In the background

    def _background(
        self, kind: str, path: str, work: Callable[[], T], done: Callable[[T], None]
    ) -> None:
        """Do ``work`` elsewhere and ``done`` here; afterwards look what came up meanwhile."""
        finished: Promise[None] = Promise(self._scheduler.turn)
        self._under_way[kind, path] = finished

        def begin() -> None:
            self._scheduler.run_in_background(work, path).when_done(settled)

        def settled(promise: Promise[T]) -> None:
            try:
                result = promise.result()
            except OSError as error:  # no thread can be started: it was not begun
                if self._is_stopped:
                    end()
                else:
                    report.error(
                        "background work cannot begin now, and is tried again",
                        kind=kind,
                        path=path,
                        reason=str(error),
                    )
                    self._scheduler.call_later(RETRY_MS / 1000, begin)
                return
            except BaseException:
                end()
                raise
            del self._under_way[kind, path]
            try:
                done(result)
            finally:
                finished.fulfil(None)
                self._wake()

        def end() -> None:
            del self._under_way[kind, path]
            finished.fulfil(None)

        begin()


def _latest(log: Log) -> Log:
    """The log that has the records of ``log`` now: itself, or the copy that has replaced it."""
    while isinstance(log.successor, Log):
        log = log.successor
    return log


def _fulfil_all(promises: list[Promise[None]]) -> None:
    for promise in promises:
        promise.fulfil(None)


def _fail_all(promises: list[Promise[None]], failure: LogDirFailed) -> None:
    for promise in promises:
        promise.fail(failure)


def _run_flushes(flushes: list[tuple[Log, Flush]]) -> list[tuple[Log, Flush, OSError | None]]:
    return [(log, flush, _error_of(flush.run)) for log, flush in flushes]


def _error_of(work: Callable[[], None]) -> OSError | None:
    try:
        work()
    except OSError as error:
        return error
    return None


def _starts_are_saved(starts: list[tuple[Log, int]]) -> None:
    """A log that was truncated meanwhile has claimed less since."""
    for log, offset in starts:
        log.saved_start_offset = min(offset, log.log_start_offset)


def _or_error(work: Callable[[], T]) -> T | OSError:
    try:
        return work()
    except OSError as error:
        return error

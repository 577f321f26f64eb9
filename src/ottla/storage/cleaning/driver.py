"""Cleaning by the clock: the dirtiest log first, as many at once as ``log.cleaner.threads``.

On the loop are the decisions, the plans and the renames that put new segments in place; the heavy
part is a worker's. Workers are started when a log is to be cleaned and let go when nothing was for
a while, so that a broker without compacted topics has none.

Compacted logs are looked at for retention here too, between cleanings, so that both never take
from one log at a time.

Counterpart: ``LogCleaner``.
"""

from functools import partial
from typing import Final, NamedTuple

from ottla.common.environment import Cancellable, Scheduler
from ottla.common.errors import ApiError
from ottla.common.promise import Promise, run
from ottla.config.broker import BrokerConfig
from ottla.observability.logging import logger
from ottla.storage.cleaning.log_cleaning import Cleaning
from ottla.storage.cleaning.plan import CleaningAborted, GroupCleaned, MapBuilt
from ottla.storage.cleaning.worker import CleanerWorker, StartWorker, WorkerDied, WorkerSettings
from ottla.storage.directories import LogDirFailed
from ottla.storage.files import Filesystem, is_disks
from ottla.storage.manager import LogManager

SLOT_BYTES: Final = 24
MAP_BYTES_MAX: Final = (1 << 31) - 1
IDLE_SECONDS: Final = 60.0
"""How long a worker that has nothing to do is kept."""
BACKOFF_MS_MIN: Final = 10
PAUSE_SECONDS: Final = 1.0
"""After a worker that did not start or has died; twice as long after each one more."""
PAUSE_SECONDS_MAX: Final = 300.0

log = logger(__name__)


class CleanerSettings(NamedTuple):
    is_enabled: bool
    threads: int
    backoff_ms: int
    dedupe_buffer_size: int
    load_factor: float
    io_buffer_size: int
    io_max_bytes_per_second: float

    @staticmethod
    def of(config: BrokerConfig) -> "CleanerSettings":
        return CleanerSettings(
            config.log_cleaner_enable,
            config.log_cleaner_threads,
            config.log_cleaner_backoff_ms,
            config.log_cleaner_dedupe_buffer_size,
            config.log_cleaner_io_buffer_load_factor,
            config.log_cleaner_io_buffer_size,
            config.log_cleaner_io_max_bytes_per_second,
        )

    @property
    def slots(self) -> int:
        """How many keys a map has room for."""
        share = self.dedupe_buffer_size // max(self.threads, 1)
        return max(min(share, MAP_BYTES_MAX) // SLOT_BYTES, 2)

    @property
    def of_worker(self) -> WorkerSettings:
        threads = max(self.threads, 1)
        return WorkerSettings(
            self.io_buffer_size // threads // 2, self.io_max_bytes_per_second / threads
        )


class CleanerStats:
    """What the last cleanings did."""

    __slots__ = (
        "bytes_read",
        "bytes_written",
        "cleanings",
        "last_seconds",
        "last_utilization",
        "records_read",
        "records_written",
        "without_key",
    )

    def __init__(self) -> None:
        self.cleanings = 0
        self.bytes_read = 0
        self.bytes_written = 0
        self.records_read = 0
        self.records_written = 0
        self.without_key = 0
        self.last_seconds = 0.0
        self.last_utilization = 0.0

    def add(self, cleaned: GroupCleaned) -> None:
        self.bytes_read += cleaned.bytes_read
        self.bytes_written += cleaned.size
        self.records_read += cleaned.records_read
        self.records_written += cleaned.records_written
        self.without_key += cleaned.without_key


class CleanerDriver:
    """Cleans the logs of one :class:`LogManager`."""

    def __init__(
        self,
        manager: LogManager,
        filesystem: Filesystem,
        scheduler: Scheduler,
        settings: CleanerSettings,
        start_worker: StartWorker,
    ) -> None:
        self._manager = manager
        self._filesystem = filesystem
        self._scheduler = scheduler
        self._settings = settings
        self._start_worker = start_worker
        self._idle: list[CleanerWorker] = []
        self._running: dict[Cleaning, Promise[None]] = {}
        self._timer: Cancellable | None = None
        self._idle_timer: Cancellable | None = None
        self._is_stopped = False
        self._deaths = 0
        """Of workers, since one did what it was told."""
        self._not_before = 0.0
        self.stats = CleanerStats()

    def start(self) -> None:
        self._look_later(self._settings.backoff_ms)

    def configure(self, settings: CleanerSettings) -> None:
        """Follow other settings, from the next cleaning on."""
        if settings != self._settings:
            self._settings = settings
            self._release_idle()
            if not self._is_stopped:
                self._look_later(settings.backoff_ms)

    async def stop(self) -> None:
        """Abort what is under way; when this returns nothing is."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
        self._manager.cleaner.abort_all()
        while self._running:
            await next(iter(self._running.values()))
        self._release_idle()

    @property
    def directories(self) -> set[str]:
        """The log directories in which something is under way."""
        return {each.log.directory.rpartition("/")[0] for each in self._running}

    # When

    def _look_later(self, delay_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._is_stopped:
            return
        delay_ms = max(delay_ms, BACKOFF_MS_MIN)
        self._timer = self._scheduler.call_later(delay_ms / 1000, self._look)

    def _look(self) -> None:
        """Begin to clean what needs it, as much as may be at once."""
        manager = self._manager
        self._look_later(self._settings.backoff_ms)
        if self._settings.is_enabled:
            manager.delete_old_segments(
                [each for each in manager.all_logs() if "compact" in each.config.cleanup_policy]
            )
            while len(self._running) < self._settings.threads and self._may_start():
                cleaning = manager.begin_cleaning()
                if cleaning is None:
                    break
                self._begin(cleaning)

    def _begin(self, cleaning: Cleaning) -> None:
        ended: Promise[None] = Promise(self._scheduler.turn)
        self._running[cleaning] = ended

        def end(promise: Promise[bool]) -> None:
            del self._running[cleaning]
            if promise.result() and not self._is_stopped:
                # One that was cleaned may be followed by the next at once.
                self._look_later(0)
            ended.fulfil(None)

        run(self._scheduler.turn, self._clean(cleaning)).when_done(end)

    # One cleaning

    async def _clean(self, cleaning: Cleaning) -> bool:
        """Whether the log is cleaner now."""
        manager = self._manager.cleaner
        worker = self._take_worker()
        cleaning.on_abort = worker.abort
        name = str(cleaning.log.topic_partition)
        try:
            await self._clean_groups(cleaning, worker)
        except (CleaningAborted, LogDirFailed):
            worker.abort()
            manager.failed(cleaning, for_good=False)
        except (WorkerDied, MemoryError) as error:
            worker.abort()
            if not cleaning.is_aborted:
                self._wait_longer(name, error)
            manager.failed(cleaning, for_good=False)
        except OSError as error:
            worker.abort()
            manager.failed(cleaning, for_good=False)
            if cleaning.is_aborted:
                pass
            elif is_disks(error):
                path = self._manager.directory_of(cleaning.log).path
                self._manager.fail_directory(path, error)
            else:
                self._wait_longer(name, error)
        except Exception as error:
            worker.abort()
            manager.failed(cleaning, for_good=True)
            if isinstance(error, ApiError):
                log.warning("log cannot be cleaned", partition=name, reason=str(error))
            else:
                log.exception("log cannot be cleaned", partition=name)
        else:
            self._put_back(worker)
            self._deaths = 0
            return True
        return False

    def _may_start(self) -> bool:
        return self._scheduler.monotonic() >= self._not_before

    def _wait_longer(self, partition: str, error: BaseException) -> None:
        """The machine has too little of something, or this program is being replaced."""
        pause = min(PAUSE_SECONDS * (1 << self._deaths), PAUSE_SECONDS_MAX)
        self._deaths = min(self._deaths + 1, 16)
        self._not_before = self._scheduler.monotonic() + pause
        log.warning("cleaning ended early", partition=partition, reason=str(error), pause=pause)

    async def _clean_groups(self, cleaning: Cleaning, worker: CleanerWorker) -> None:
        settings = self._settings
        started = self._scheduler.monotonic()
        before = self.stats.bytes_read, self.stats.bytes_written
        built = await worker.build_map(cleaning.map_plan(settings.slots, settings.load_factor))
        _go_on(cleaning)
        for group in cleaning.mapped(built):
            cleaned = await worker.clean(cleaning.group_plan(group))
            _go_on(cleaning)
            cleaning.swap(group)
            directory = cleaning.log.directory
            await self._scheduler.run_in_background(
                partial(self._filesystem.sync_directory, directory), directory.rpartition("/")[0]
            )
            _go_on(cleaning)
            self.stats.add(cleaned)
        self._manager.cleaner.done(cleaning)
        self._manager.on_work()
        self._tell(cleaning, built, started, before)

    def _tell(
        self, cleaning: Cleaning, built: MapBuilt, started: float, before: tuple[int, int]
    ) -> None:
        stats = self.stats
        stats.cleanings += 1
        stats.last_seconds = self._scheduler.monotonic() - started
        stats.last_utilization = built.utilization
        log.info(
            "log cleaned",
            partition=str(cleaning.log.topic_partition),
            dirty_from=cleaning.to_clean.first_dirty_offset,
            dirty_to=cleaning.end_offset,
            bytes_before=stats.bytes_read - before[0],
            bytes_after=stats.bytes_written - before[1],
            seconds=round(stats.last_seconds, 3),
            map_full_percent=round(100 * built.utilization),
        )

    # Workers

    def _take_worker(self) -> CleanerWorker:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None
        if self._idle:
            return self._idle.pop()
        return self._start_worker(self._settings.of_worker)

    def _put_back(self, worker: CleanerWorker) -> None:
        self._idle.append(worker)
        if len(self._running) == 1:
            self._idle_timer = self._scheduler.call_later(IDLE_SECONDS, self._release_idle)

    def _release_idle(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None
        for worker in self._idle:
            worker.close()
        self._idle.clear()


def _go_on(cleaning: Cleaning) -> None:
    """After each wait: something may have aborted the cleaning."""
    if cleaning.is_aborted:
        raise CleaningAborted

"""When logs are cleaned, which one first, and what stops a cleaning."""

import errno
from typing import Any

import pytest
from tests.storage import cleaning, logs
from tests.storage.scheduler import ManualScheduler
from tests.storage.test_cleaning_crash_points import SETTINGS as SMALL
from tests.turns import TURN

from ottla.common.chance import Chance
from ottla.common.promise import Promise, run
from ottla.common.topic_partition import TopicPartition
from ottla.config.topic import TopicConfig
from ottla.storage.checkpoints import read_offsets
from ottla.storage.cleaning.driver import CleanerDriver, CleanerSettings
from ottla.storage.cleaning.worker import BackgroundWorker, WorkerDied, WorkerSettings
from ottla.storage.driver import Intervals, StorageDriver
from ottla.storage.log import Log
from ottla.storage.manager import LogManager
from ottla.testing.files import MemoryFilesystem

SETTINGS = SMALL._replace(dedupe_buffer_size=1 << 16)
PATHS = ["/data/a", "/data/b"]
INTERVALS = Intervals(*[3600_000] * 7)
ONE = TopicPartition("one", 0)
TWO = TopicPartition("two", 0)


class Storage:
    def __init__(
        self,
        config: TopicConfig | None = None,
        *,
        settings: CleanerSettings = SETTINGS,
        files: MemoryFilesystem | None = None,
    ) -> None:
        self.files = logs.filesystem() if files is None else files
        self.clock = ManualScheduler(logs.NOW)
        self.configs = dict.fromkeys(
            ("one", "two"), config or cleaning.compacted(file_delete_delay_ms=0)
        )
        self.manager = LogManager(
            self.files,
            PATHS,
            clock=self.clock,
            chance=Chance(1),
            config_for=lambda topic: self.configs[topic],
        )
        self.manager.start()
        self.workers: list[WorkerSettings] = []
        self.cleaner = CleanerDriver(
            self.manager, self.files, self.clock, settings, self._start_worker
        )
        self.driver = StorageDriver(self.manager, self.clock, INTERVALS, self.cleaner)
        self.driver.start()

    def _start_worker(self, settings: WorkerSettings) -> BackgroundWorker:
        self.workers.append(settings)
        return BackgroundWorker(self.files, self.clock, settings)

    def log(self, topic_partition: TopicPartition = ONE) -> Log:
        return self.manager.get_or_create(topic_partition, logs.TOPIC_ID)

    def clean_offset(self, log: Log) -> int | None:
        """As it stands on disk."""
        directory = self.manager.directory_of(log)
        return read_offsets(self.files, directory.cleaner_offsets.path).get(log.topic_partition)

    def begin(self) -> None:
        """Let the cleaner begin, and its map wait in the background."""
        while not self.manager.cleaner.in_progress:
            due = self.clock._timers.next_at()
            assert due is not None
            self.clock._now = max(self.clock._now, due)
            self.clock._timers.run_due(self.clock._now)


def fill(log: Log, count: int, *, keys: int = 5, now_ms: int = logs.NOW) -> None:
    for number in range(count):
        cleaning.put(log, [(b"%d" % (number % keys), b"v" * 100)], now_ms=now_ms)


def test_a_dirty_log_is_cleaned_and_its_checkpoint_written() -> None:
    storage = Storage()
    log = storage.log()
    fill(log, 50)
    base = log.segments.active.base_offset
    storage.clock.advance(5)
    assert storage.clean_offset(log) == base
    assert len([seen for seen in cleaning.read_committed(log) if seen.offset < base]) <= 6
    assert [worker.buffer_size for worker in storage.workers] == [500]


def test_nothing_is_started_where_nothing_is_compacted() -> None:
    storage = Storage(logs.settings(internal_segment_bytes=600))
    fill(storage.log(), 50)
    storage.clock.advance(60)
    assert storage.workers == []


def test_a_worker_is_kept_for_the_next_cleaning_and_let_go_after_a_while() -> None:
    storage = Storage()
    fill(storage.log(), 50)
    storage.clock.advance(5)
    fill(storage.log(), 50)
    storage.clock.advance(5)
    assert storage.cleaner.stats.cleanings == 2
    assert len(storage.workers) == 1
    storage.clock.advance(100)
    fill(storage.log(), 80)
    storage.clock.advance(5)
    assert len(storage.workers) == 2


def test_the_dirtiest_log_comes_first_and_one_that_is_clean_enough_not_at_all() -> None:
    storage = Storage(cleaning.compacted(min_cleanable_dirty_ratio=0.5))
    one, two = storage.log(ONE), storage.log(TWO)
    fill(one, 60, keys=60)
    storage.clock.advance(5)
    assert storage.cleaner.stats.cleanings == 1
    fill(one, 30, keys=60)
    fill(two, 30, keys=60)
    chosen = storage.manager.begin_cleaning()
    assert chosen is not None
    assert chosen.log is two
    assert storage.manager.begin_cleaning() is None
    assert 0.0 < storage.manager.cleaner.cleanable_bytes(one, logs.NOW).cleanable_ratio < 0.5


def test_the_active_segment_and_what_is_young_or_not_committed_is_left_alone() -> None:
    storage = Storage(cleaning.compacted(min_compaction_lag_ms=1000, min_cleanable_dirty_ratio=0))
    log = storage.log()
    fill(log, 10, now_ms=logs.NOW - 5000)
    log.roll(logs.NOW)
    old_end = log.log_end_offset
    fill(log, 20)
    storage.clock.advance(0.5)
    to_clean = storage.manager.cleaner.cleanable_bytes(log, logs.NOW)
    assert to_clean.first_uncleanable_offset == old_end
    later = storage.manager.cleaner.cleanable_bytes(log, logs.NOW + 5000)
    assert later.first_uncleanable_offset == log.segments.active.base_offset
    log.set_high_watermark(log.log_start_offset + 2)
    assert storage.manager.cleaner.cleanable_bytes(log, logs.NOW).cleanable_bytes == 0


def test_an_open_transaction_stops_the_cleaning_before_its_segment() -> None:
    storage = Storage()
    log = storage.log()
    fill(log, 20)
    first = cleaning.put(
        log, [(b"1", b"t")], producer_id=1, producer_epoch=0, sequence=0, transactional=True
    )
    fill(log, 20)
    segment = log.segments.floor(first)
    assert segment is not None
    storage.clock.advance(5)
    assert storage.clean_offset(log) == segment.base_offset


def test_max_compaction_lag_cleans_a_log_that_is_not_dirty_enough_and_rolls_it() -> None:
    config = cleaning.compacted(max_compaction_lag_ms=10_000, min_cleanable_dirty_ratio=0.9)
    storage = Storage(config)
    log = storage.log()
    fill(log, 30)
    storage.clock.advance(5)
    fill(log, 10, now_ms=logs.NOW + 5000)
    assert storage.cleaner.stats.cleanings == 1
    cleaned = storage.clean_offset(log)
    storage.clock.advance(5)
    assert storage.clean_offset(log) == cleaned
    storage.clock.advance(10)
    assert (storage.clean_offset(log) or 0) > (cleaned or 0)
    assert log.segments.active.age_max_ms == 10_000


def test_a_map_that_is_too_small_takes_several_passes() -> None:
    config = cleaning.compacted(min_cleanable_dirty_ratio=0)
    storage = Storage(config, settings=SETTINGS._replace(dedupe_buffer_size=24 * 8))
    log = storage.log()
    fill(log, 60, keys=30)
    base = log.segments.active.base_offset
    table = cleaning.newest(cleaning.read_committed(log))
    storage.clock.advance(5)
    assert storage.cleaner.stats.cleanings > 3
    assert storage.cleaner.stats.last_utilization <= 0.9
    assert storage.clean_offset(log) == base
    assert cleaning.newest(cleaning.read_committed(log)) == table


def test_small_segments_become_one() -> None:
    storage = Storage()
    log = storage.log()
    for number in range(12):
        cleaning.put(log, [(b"%d" % number, b"v" * 10)])
        log.roll(logs.NOW)
    assert len(log.segments) == 13
    storage.clock.advance(5)
    sizes = [segment.size for segment in log.segments]
    assert len(sizes) < 5
    assert all(size <= 600 for size in sizes)
    names = storage.files.list_directory(log.directory)
    assert len([name for name in names if name.endswith(".snapshot")]) <= len(log.segments)


def test_a_reader_goes_on_in_the_file_that_it_holds() -> None:
    storage = Storage()
    log = storage.log()
    fill(log, 50)
    fetched = log.read(0, 300, upper_bound_offset=log.log_end_offset, at_least_one=True)
    assert fetched.region is not None
    before = fetched.region.read()
    storage.clock.advance(5)
    assert fetched.region.read() == before
    after = log.read(
        fetched.next_offset, 300, upper_bound_offset=log.log_end_offset, at_least_one=True
    )
    assert after.region is not None
    assert logs.records_of(after.region.read())[0].offset >= fetched.next_offset


def test_a_truncation_below_the_active_segment_stops_a_cleaning_and_lowers_the_checkpoint() -> None:
    storage = Storage()
    log = storage.log()
    fill(log, 50)
    storage.clock.advance(5)
    assert storage.clean_offset(log) == log.segments.active.base_offset
    fill(log, 50)
    storage.begin()
    log.truncate_to(20, logs.NOW)
    assert storage.manager.cleaner.in_progress == {}
    assert storage.clean_offset(log) == log.segments.active.base_offset <= 20
    storage.clock.advance(0.1)
    assert log.log_end_offset <= 20
    assert not [
        name for name in storage.files.list_directory(log.directory) if name.endswith(".cleaned")
    ]


@pytest.mark.parametrize("moment", range(4))
def test_a_topic_that_is_deleted_and_made_again_is_not_touched_by_the_old_cleaning(
    moment: int,
) -> None:
    storage = Storage()
    log = storage.log()
    fill(log, 50)
    storage.begin()
    for _ in range(moment):
        storage.clock.run_background()
    storage.manager.delete(ONE)
    new = storage.log()
    fill(new, 3)
    storage.clock.advance(0.5)
    assert [seen.offset for seen in cleaning.read_committed(new)] == [0, 1, 2]
    assert storage.clean_offset(new) is None
    names = storage.files.list_directory(new.directory)
    assert not [name for name in names if name.endswith(".cleaned")]


def test_a_new_log_does_not_inherit_the_checkpoint_of_one_that_had_its_name() -> None:
    storage = Storage()
    fill(storage.log(), 50)
    storage.clock.advance(5)
    assert storage.clean_offset(storage.log()) is not None
    storage.manager.delete(ONE)
    assert storage.clean_offset(storage.log()) is None


def test_a_log_that_is_being_moved_is_not_cleaned_and_takes_its_checkpoint_along() -> None:
    storage = Storage()
    log = storage.log()
    fill(log, 50)
    storage.clock.advance(5)
    clean_offset = storage.clean_offset(log)
    fill(log, 50)
    storage.begin()
    other = next(path for path in PATHS if not log.directory.startswith(path))
    storage.manager.create_future(ONE, other)
    assert storage.manager.cleaner.in_progress == {}
    storage.clock.advance(5)
    assert storage.cleaner.stats.cleanings == 1
    while not storage.manager.copy_to_future(ONE, 500):
        pass
    storage.manager.name_future(ONE)
    new = storage.manager.replace_current_with_future(ONE)
    assert storage.manager.cleaner.clean_offset(new) == clean_offset
    storage.clock.advance(5)
    assert storage.cleaner.stats.cleanings == 2
    assert (storage.clean_offset(new) or 0) > (clean_offset or 0)


def test_a_checkpoint_that_contradicts_the_log_is_given_up() -> None:
    storage = Storage()
    log = storage.log()
    fill(log, 50)
    directory = storage.manager.directory_of(log)
    for claim in (10_000, 3):
        directory.cleaner_offsets.write({ONE: claim})
        storage.manager.cleaner.load(directory)
        if claim == 3:
            log.delete_records_before(10)
        cleaning_ = storage.manager.begin_cleaning()
        assert cleaning_ is not None
        assert cleaning_.to_clean.first_dirty_offset == log.log_start_offset
        storage.manager.cleaner.abort(log)


def test_a_damaged_log_is_uncleanable_and_stays_as_it_is() -> None:
    storage = Storage()
    log = storage.log()
    fill(log, 50)
    file = storage.files.open(log.segments[1].path)
    byte = file.read_at(100, 1)
    file.write_at(100, bytes([byte[0] ^ 1]))
    sizes = [segment.size for segment in log.segments]
    storage.clock.advance(30)
    assert list(storage.manager.cleaner.uncleanable) == [log]
    assert [segment.size for segment in log.segments] == sizes
    assert storage.cleaner.stats.cleanings == 0
    assert log.failure is None


def test_a_disk_that_fails_takes_its_directory_offline_and_the_others_go_on() -> None:
    storage = Storage()
    one, two = storage.log(ONE), storage.log(TWO)
    assert storage.manager.directory_of(one) is not storage.manager.directory_of(two)
    fill(one, 50)
    fill(two, 50)
    bad = storage.manager.directory_of(one).path
    storage.files.fail = lambda operation, path: (
        OSError(errno.EIO, "broken")
        if operation == "write" and path.startswith(bad) and path.endswith(".cleaned")
        else None
    )
    storage.clock.advance(10)
    assert not storage.manager.directory_of(one).is_online
    assert storage.manager.cleaner.in_progress == {}
    assert storage.clean_offset(two) == two.segments.active.base_offset


def test_retention_of_a_compacted_log_waits_for_its_cleaning() -> None:
    config = cleaning.compacted(
        cleanup_policy="compact,delete", retention_ms=5000, file_delete_delay_ms=0
    )
    storage = Storage(config)
    log = storage.log()
    fill(log, 50)
    storage.begin()
    storage.clock._now += 10
    assert storage.manager.delete_old_segments([log]) == 0
    storage.clock.advance(10)
    assert log.log_start_offset > 0
    assert cleaning.read_committed(log) == []


def test_a_stop_ends_a_cleaning_and_leaves_a_clean_directory() -> None:
    storage = Storage()
    log = storage.log()
    fill(log, 50)
    table = cleaning.newest(cleaning.read_committed(log))
    storage.begin()
    stopped = storage.driver.stop()
    storage.clock.advance(1)
    stopped.result()
    storage.files.kill()
    again = Storage(files=storage.files)
    assert again.manager.directories[0].was_clean
    log = again.log()
    log.set_high_watermark(log.log_end_offset)
    assert cleaning.newest(cleaning.read_committed(log)) == table
    again.clock.advance(5)
    assert again.cleaner.stats.cleanings == 1


def test_a_disabled_cleaner_does_nothing_until_it_is_enabled() -> None:
    storage = Storage(settings=SETTINGS._replace(threads=0))
    fill(storage.log(), 50)
    storage.clock.advance(10)
    assert storage.cleaner.stats.cleanings == 0
    storage.cleaner.configure(SETTINGS)
    storage.clock.advance(10)
    assert storage.cleaner.stats.cleanings == 1


def test_the_settings_share_the_buffers_among_the_threads() -> None:
    settings = SETTINGS._replace(threads=2, dedupe_buffer_size=96, io_buffer_size=4000)
    assert settings.slots == 2
    assert settings.of_worker.buffer_size == 1000
    assert run(TURN, Storage().cleaner.stop()).done


class WontStart:
    """A worker whose process cannot be started."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def _refuse(self, _plan: object) -> Promise[Any]:
        refused: Promise[Any] = Promise(TURN)
        refused.fail(self._error)
        return refused

    build_map = clean = _refuse

    def abort(self) -> None:
        """Has nothing to end."""

    close = abort


@pytest.mark.parametrize(
    "error",
    [WorkerDied("no such program"), OSError(errno.EMFILE, "no descriptors"), MemoryError()],
)
def test_a_worker_that_does_not_start_is_tried_again_with_pauses(error: Exception) -> None:
    storage = Storage()
    log = storage.log()
    for number in range(60):
        cleaning.put(log, [(b"%d" % (number % 3), bytes(100))])
    begun: list[float] = []

    def start(_settings: WorkerSettings) -> WontStart:
        begun.append(storage.clock.monotonic())
        return WontStart(error)

    storage.cleaner._start_worker = start
    storage.clock.advance(60)
    assert 3 <= len(begun) <= 8
    assert begun[-1] - begun[-2] > 10
    assert len(storage.manager.online_directories) == 2
    assert not storage.manager.cleaner.uncleanable
    storage.cleaner._start_worker = storage._start_worker
    storage.clock.advance(120)
    assert storage.clean_offset(log)


def test_retention_and_cleaning_go_on_after_an_unexpected_error() -> None:
    storage = Storage()
    log = storage.log()
    for number in range(60):
        cleaning.put(log, [(b"%d" % (number % 3), bytes(100))])
    look = storage.manager.begin_cleaning

    def fails() -> None:
        raise ValueError("unexpected")

    storage.manager.begin_cleaning = fails  # type: ignore[method-assign]
    with pytest.raises(ValueError, match="unexpected"):
        storage.clock.advance(60)
    storage.manager.begin_cleaning = look  # type: ignore[method-assign]
    storage.clock.advance(60)
    assert storage.clean_offset(log)

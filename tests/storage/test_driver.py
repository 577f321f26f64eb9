"""What storage does by the clock, on a clock that the test moves."""

import errno

import pytest
from tests.storage import logs
from tests.storage.scheduler import ManualScheduler

from ottla.common.chance import Chance
from ottla.common.topic_partition import TopicPartition
from ottla.config.broker import BrokerConfig
from ottla.config.topic import TopicConfig
from ottla.storage.cleaning.driver import CleanerDriver, CleanerSettings
from ottla.storage.cleaning.worker import BackgroundWorker
from ottla.storage.driver import STOP_SECONDS, SYNC_SECONDS, Intervals, StorageDriver
from ottla.storage.log import Log
from ottla.storage.manager import LogManager
from ottla.storage.new_logs import ONE_BY_ONE_MAX
from ottla.testing.files import MemoryFilesystem

INTERVALS = Intervals(
    flush_check=1000,
    retention_check=5000,
    recovery_point_checkpoint=2000,
    log_start_checkpoint=2000,
    high_watermark_checkpoint=500,
    producer_expiration_check=5000,
    initial_delay=100,
)
CLEANER = CleanerSettings(
    is_enabled=True,
    threads=1,
    backoff_ms=1000,
    dedupe_buffer_size=1 << 20,
    load_factor=0.9,
    io_buffer_size=4096,
    io_max_bytes_per_second=1e300,
)
POINTS = f"{logs.ROOT}/recovery-point-offset-checkpoint"
MARKER = f"{logs.ROOT}/.kafka_cleanshutdown"


class Storage:
    def __init__(
        self,
        config: TopicConfig,
        files: MemoryFilesystem | None = None,
        paths: tuple[str, ...] = (logs.ROOT,),
    ) -> None:
        self.files = files or logs.filesystem()
        self.clock = ManualScheduler(logs.NOW)
        self.manager = LogManager(
            self.files,
            paths,
            clock=self.clock,
            chance=Chance(1),
            config_for=lambda _topic: config,
        )
        self.manager.start()
        cleaner = CleanerDriver(
            self.manager,
            self.files,
            self.clock,
            CLEANER,
            lambda worker: BackgroundWorker(self.files, self.clock, worker),
        )
        self.driver = StorageDriver(self.manager, self.clock, INTERVALS, cleaner)
        self.driver.start()

    def create(self, partition: int = 0) -> Log:
        return self.manager.get_or_create(TopicPartition("topic", partition), logs.TOPIC_ID)


def storage(**settings: object) -> Storage:
    return Storage(
        logs.settings(internal_segment_bytes=800, file_delete_delay_ms=10_000, **settings)
    )


def test_a_rolled_segment_is_flushed_in_the_background() -> None:
    disk = storage()
    log = disk.create()
    for _ in range(8):
        logs.append(log, bytes(100))
    assert len(log.segments) > 1
    assert log.recovery_point == 0
    disk.clock.advance(0.01)
    assert log.recovery_point == log.segments.active.base_offset


def test_a_log_is_flushed_when_it_is_due() -> None:
    disk = storage(flush_ms=3000)
    log = disk.create()
    logs.append(log, b"a")
    disk.clock.advance(2.5)
    assert log.recovery_point == 0
    disk.clock.advance(2)
    assert log.recovery_point == 1


def test_appends_go_on_while_a_flush_is_under_way() -> None:
    disk = storage(flush_ms=0)
    log = disk.create()
    disk.clock.advance(0.05)
    logs.append(log, b"a")
    disk.driver._flush_due()
    assert disk.clock.background == 1
    logs.append(log, b"b")
    disk.driver._flush_due()
    assert disk.clock.background == 1
    disk.clock.run_background()
    assert log.recovery_point == 1
    disk.clock.advance(1.2)
    assert log.recovery_point == 2


def test_recovery_points_are_checkpointed() -> None:
    disk = storage()
    log = disk.create()
    logs.append(log, b"a")
    log.flush(logs.NOW)
    assert disk.files.read(POINTS) == b"0\n0\n"
    disk.clock.advance(2.5)
    assert disk.files.read(POINTS) == b"0\n1\ntopic 0 1\n"


def test_high_watermarks_and_log_starts_are_checkpointed() -> None:
    disk = storage()
    log = disk.create()
    logs.append(log, b"a", b"b", b"c")
    log.set_high_watermark(3)
    log.delete_records_before(2)
    disk.clock.advance(3)
    assert disk.files.read(f"{logs.ROOT}/replication-offset-checkpoint") == b"0\n1\ntopic 0 3\n"
    assert disk.files.read(f"{logs.ROOT}/log-start-offset-checkpoint") == b"0\n1\ntopic 0 2\n"


def test_a_checkpoint_that_says_nothing_new_is_not_written() -> None:
    disk = storage()
    disk.create()
    disk.clock.advance(3)
    written: list[str] = []
    disk.files.after = lambda _operation, path: written.append(path)
    disk.clock.advance(10)
    assert written == []


def test_old_segments_go_and_their_files_later() -> None:
    disk = storage(retention_ms=1000)
    log = disk.create()
    for number in range(20):
        logs.append(log, bytes(100), timestamp=logs.NOW + number)
    log.set_high_watermark(20)
    disk.clock.advance(6)
    assert len(log.segments) == 1
    deleted = [name for name in disk.files.list_directory(log.directory) if "deleted" in name]
    assert deleted
    disk.clock.advance(11)
    assert not any("deleted" in name for name in disk.files.list_directory(log.directory))


def test_retention_gives_way_to_others_between_logs() -> None:
    disk = storage()
    for partition in range(250):
        disk.create(partition)
    disk.clock.advance(0.01)
    disk.driver._delete_old()
    assert "retention step" in disk.driver._timers
    disk.clock.advance(0.01)
    assert "retention step" not in disk.driver._timers


def test_a_deleted_topic_is_removed_when_its_time_has_come() -> None:
    disk = storage()
    disk.create()
    disk.manager.delete(logs.TOPIC)
    disk.clock.advance(9.9)
    assert any(name.endswith("-delete") for name in disk.files.list_directory(logs.ROOT))
    disk.clock.advance(0.2)
    assert not any(name.endswith("-delete") for name in disk.files.list_directory(logs.ROOT))


@pytest.mark.parametrize("count", [3, 40])
def test_whose_a_new_log_is_survives_a_power_loss(count: int) -> None:
    disk = storage()
    for partition in range(count):
        disk.create(partition)
    disk.clock.advance(0.01)
    disk.files.crash()
    for partition in range(count):
        path = f"{logs.ROOT}/topic-{partition}/partition.metadata"
        assert disk.files.size(path) == 43


def test_idle_producers_are_forgotten() -> None:
    disk = storage()
    log = disk.create()
    data = logs.batch([b"v"], producer_id=1, producer_epoch=0, sequence=0)
    logs.append_batch(log, data)
    disk.clock.advance(86_300)
    assert len(log.producers.producers) == 1
    disk.clock.advance(200)
    assert len(log.producers.producers) == 0


def test_a_failed_sync_in_the_background_takes_the_directory_offline() -> None:
    disk = storage(flush_ms=0)
    log = disk.create()
    disk.clock.advance(0.05)
    logs.append(log, b"a")

    def fail(operation: str, _path: str) -> OSError | None:
        return OSError(errno.EIO, "input/output error") if operation == "sync" else None

    disk.files.fail = fail
    disk.clock.advance(1.5)
    assert disk.manager.online_directories == []
    assert log.recovery_point == 0
    assert disk.manager.logs == {}


@pytest.mark.parametrize("name", ["replication-offset-checkpoint", "partition.metadata", "-delete"])
def test_any_other_failure_in_the_background_does_so_too(name: str) -> None:
    disk = storage()

    def fail(_operation: str, path: str) -> OSError | None:
        return OSError(errno.EIO, "input/output error") if name in path else None

    disk.create()
    if name == "-delete":
        disk.manager.delete(logs.TOPIC)
    disk.files.fail = fail
    disk.clock.advance(12)
    assert disk.manager.online_directories == []


def test_a_stop_waits_for_what_is_under_way() -> None:
    disk = storage(flush_ms=0)
    log = disk.create()
    disk.clock.advance(0.05)
    logs.append(log, b"a")
    disk.driver._flush_due()
    stopped = disk.driver.stop(broker_epoch=4)
    settled: list[None] = []
    stopped.when_done(lambda promise: settled.append(promise.result()))
    for _ in range(2):  # the flush, and the last sync
        assert settled == []
        disk.clock.run_background()
    assert settled == [None]
    marker = disk.files.read(f"{logs.ROOT}/.kafka_cleanshutdown")
    assert marker.startswith(b'{"version":0,"brokerEpoch":4,')
    disk.clock.advance(100)
    assert disk.clock.background == 0


def test_intervals_are_those_of_the_broker() -> None:
    config = BrokerConfig.from_properties(
        {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": "1@localhost:9093",
            "log.retention.check.interval.ms": "1234",
        }
    )
    intervals = Intervals.of(config)
    assert intervals.retention_check == 1234
    assert intervals.high_watermark_checkpoint == 5000
    assert intervals.flush_check == 1000


def test_a_wall_clock_that_goes_back_keeps_nothing_that_is_deleted() -> None:
    disk = storage()
    disk.create()
    disk.manager.delete(logs.TOPIC)
    disk.clock.skew_ms = -86_400_000
    disk.clock.advance(10.1)
    assert not any(name.endswith("-delete") for name in disk.files.list_directory(logs.ROOT))


def test_a_wall_clock_that_goes_back_keeps_no_flush() -> None:
    disk = storage(flush_ms=3000)
    log = disk.create()
    logs.append(log, b"a")
    disk.clock.skew_ms = -86_400_000
    disk.clock.advance(5)
    assert log.recovery_point == 1


def test_what_is_done_every_so_often_goes_on_after_an_unexpected_error() -> None:
    disk = storage(flush_ms=3000)
    log = disk.create()
    logs.append(log, b"a")
    find = disk.manager.logs_to_flush

    def fails() -> list[Log]:
        raise ValueError("unexpected")

    disk.manager.logs_to_flush = fails  # type: ignore[method-assign]
    with pytest.raises(ValueError, match="unexpected"):
        disk.clock.advance(5)
    disk.manager.logs_to_flush = find  # type: ignore[method-assign]
    disk.clock.advance(5)
    assert log.recovery_point == 1


@pytest.mark.parametrize("stopped", [False, True])
def test_work_for_which_there_is_no_thread_is_done_later(stopped: bool) -> None:
    disk = storage(flush_ms=1000)
    log = disk.create()
    disk.clock.advance(0.5)
    logs.append(log, b"a")
    disk.clock.has_threads = False
    asked = disk.driver.flush(log)
    disk.clock.advance(5)
    assert not asked.done
    assert log.recovery_point == 0
    if stopped:
        ended = disk.driver.stop(broker_epoch=4)
        disk.clock.advance(2)
        ended.result()
        assert disk.files.exists(MARKER)
        return
    disk.clock.has_threads = True
    disk.clock.advance(2)
    asked.result()
    assert log.recovery_point == 1
    disk.clock.advance(5)
    assert disk.files.read(POINTS) == b"0\n1\ntopic 0 1\n"


def test_a_stop_goes_without_a_disk_that_hangs(caplog: pytest.LogCaptureFixture) -> None:
    disk = storage(flush_ms=0)
    log = disk.create()
    disk.clock.advance(0.05)
    logs.append(log, b"a")
    disk.clock.hung = {logs.ROOT}
    disk.driver._flush_due()
    stopped = disk.driver.stop(broker_epoch=4)
    disk.clock.advance(STOP_SECONDS - 1)
    assert not stopped.done
    changes = disk.files.operations
    disk.clock.advance(1)
    stopped.result()
    # It may still be written to: nothing is written beside that, and it stays locked.
    assert disk.files.operations == changes
    assert not disk.files.exists(MARKER)
    assert disk.files.locks == {f"{logs.ROOT}/.lock"}
    assert "log directories do not answer, and are not closed" in caplog.messages


@pytest.mark.parametrize("count", [1, ONE_BY_ONE_MAX + 1])
def test_a_stop_goes_without_a_disk_that_begins_to_hang_with_it(count: int) -> None:
    """The last sync is done in the background too, and may take longer than other work."""
    for seconds in (SYNC_SECONDS - 1, SYNC_SECONDS):
        disk = storage()
        for number in range(count):
            partition = TopicPartition(logs.TOPIC.topic, number)
            logs.append(disk.manager.get_or_create(partition, logs.TOPIC_ID), b"a")
        disk.clock.advance(0.05)
        disk.clock.hung = {logs.ROOT}
        stopped = disk.driver.stop(broker_epoch=4)
        changes = disk.files.operations
        disk.clock.advance(seconds)
        assert disk.files.operations == changes
        assert stopped.done == (seconds == SYNC_SECONDS)
        disk.clock.hung = set()
        disk.clock.advance(0)
        stopped.result()
        assert disk.files.exists(MARKER) == (seconds < SYNC_SECONDS)


def test_a_stop_goes_without_a_cleaning_that_hangs() -> None:
    disk = storage(cleanup_policy="compact", min_cleanable_dirty_ratio=0)
    log = disk.create()
    for number in range(20):
        logs.append(log, bytes(100), timestamp=logs.NOW + number)
    log.set_high_watermark(log.log_end_offset)
    disk.clock.advance(0.9)
    disk.clock.hung = {logs.ROOT}
    disk.clock.advance(1)
    assert disk.driver.cleaner.directories == {logs.ROOT}
    stopped = disk.driver.stop()
    disk.clock.advance(STOP_SECONDS)
    stopped.result()
    assert not disk.files.exists(MARKER)


def test_of_a_directory_that_has_failed_nothing_is_removed() -> None:
    disk = storage()
    disk.create()
    disk.manager.delete(logs.TOPIC)
    disk.clock.advance(0.01)
    disk.manager.fail_directory(logs.ROOT, OSError(errno.EIO, "input/output error"))
    touched: list[str] = []
    disk.files.after = lambda operation, path: touched.append(f"{operation} {path}")
    disk.clock.advance(30)
    assert touched == []
    assert len(disk.manager.removals) == 0


def test_what_is_rolled_while_a_flush_is_under_way_is_flushed_behind_it() -> None:
    disk = storage()
    first, second = disk.create(0), disk.create(1)
    disk.clock.advance(0.01)
    for log in (first, second):
        logs.append(log, b"a")
        log.roll(logs.NOW)
        disk.clock.run_due()
        assert disk.clock.background == 1
    disk.clock.run_background()
    assert (first.recovery_point, second.recovery_point) == (1, 0)
    disk.clock.advance(0)
    assert second.recovery_point == 1


def test_the_start_of_a_copy_says_nothing_of_the_checkpoint_of_the_log() -> None:
    """What is below the start goes only when a crash cannot bring the start back."""
    disk = Storage(logs.settings(), paths=("/data/a", "/data/b"))
    log = disk.create()
    for _ in range(8):
        logs.append(log, bytes(100))
    log.set_high_watermark(8)
    copy = disk.manager.create_future(logs.TOPIC, "/data/b")
    assert disk.manager.copy_to_future(logs.TOPIC, 10_000)
    log.delete_records_before(5)
    assert disk.manager.copy_to_future(logs.TOPIC, 10_000)
    assert copy.log_start_offset == 5
    disk.clock.hung.add("/data/a")
    disk.clock.advance(5)
    assert log.saved_start_offset == 0
    disk.clock.hung.clear()
    disk.clock.advance(5)
    assert log.saved_start_offset == 5

"""All logs of a broker: directories, starts and stops, deletion, strays, moves, failure."""

import errno
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest
from tests.storage import logs
from tests.storage.scheduler import ManualScheduler

from ottla.common.chance import Chance
from ottla.common.errors import InconsistentTopicId, KafkaStorageError, LogDirNotFound
from ottla.common.topic_partition import TopicPartition
from ottla.config.topic import TopicConfig
from ottla.storage.checkpoints import MetaProperties
from ottla.storage.directories import (
    DirectoryKind,
    LogDirectory,
    LogDirFailed,
    directory_name,
    parse_directory_name,
)
from ottla.storage.files import DirectoryInUse, OsFilesystem
from ottla.storage.log import Log
from ottla.storage.manager import DuplicateLog, LogManager
from ottla.testing.files import MemoryFilesystem

A, B = "/data/a", "/data/b"
OTHER_ID = bytes(15) + b"\x77"
CONFIG = logs.settings(internal_segment_bytes=800, file_delete_delay_ms=60_000)


class Broker:
    """A manager that can be started again on the same disk."""

    def __init__(self, files: MemoryFilesystem, *paths: str) -> None:
        self.files = files
        self.paths = paths
        self.clock = ManualScheduler(logs.NOW)
        self.config = CONFIG
        self.manager = self.start()

    def start(self) -> LogManager:
        self.manager = LogManager(
            self.files,
            self.paths,
            clock=self.clock,
            chance=Chance(1),
            config_for=self._config_for,
        )
        self.manager.start()
        return self.manager

    def _config_for(self, _topic: str) -> TopicConfig:
        return self.config

    def restart(self, *, clean: bool = True) -> LogManager:
        if clean:
            self.manager.stop(broker_epoch=5)
        self.files.kill()
        return self.start()

    def create(self, partition: int = 0, topic_id: bytes = logs.TOPIC_ID) -> Log:
        return self.manager.get_or_create(TopicPartition("topic", partition), topic_id)


@pytest.fixture
def files() -> MemoryFilesystem:
    return logs.filesystem()


@pytest.fixture
def broker(files: MemoryFilesystem) -> Broker:
    return Broker(files, A, B)


def paths_of(broker: Broker) -> dict[int, str]:
    return {tp.partition: log.directory for tp, log in sorted(broker.manager.logs.items())}


# Names


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("topic-0", (("topic", 0), DirectoryKind.CURRENT)),
        ("a-b-12", (("a-b", 12), DirectoryKind.CURRENT)),
        (f"t-1.{'0f' * 16}-delete", (("t", 1), DirectoryKind.DELETE)),
        (f"t.x-1.{'0f' * 16}-future", (("t.x", 1), DirectoryKind.FUTURE)),
        (f"t-1.{'0f' * 16}-stray", (("t", 1), DirectoryKind.STRAY)),
        ("topic", None),
        ("topic-", None),
        ("-1", None),
        ("topic-x", None),
        ("topic-1-delete", None),
        ("remote-log-index-cache", None),
    ],
)
def test_directories_are_known_by_their_names(
    name: str, parsed: tuple[tuple[str, int], DirectoryKind] | None
) -> None:
    assert parse_directory_name(name) == parsed


def test_a_long_name_is_cut_to_what_a_disk_takes() -> None:
    topic_partition = TopicPartition("t" * 249, 3)
    name = directory_name(topic_partition, DirectoryKind.DELETE, Chance(1))
    assert len(name) == 255
    assert parse_directory_name(name) == (("t" * 213, 3), DirectoryKind.DELETE)
    assert directory_name(topic_partition) == "t" * 249 + "-3"


# Start and stop


def test_partitions_go_where_there_are_the_fewest(broker: Broker) -> None:
    for partition in range(4):
        broker.create(partition)
    assert paths_of(broker) == {
        0: f"{A}/topic-0",
        1: f"{B}/topic-1",
        2: f"{A}/topic-2",
        3: f"{B}/topic-3",
    }


def test_a_clean_stop_leaves_everything_for_the_next_start(broker: Broker) -> None:
    log = broker.create()
    for number in range(20):
        logs.append(log, str(number).encode().ljust(100))
    log.set_high_watermark(15)
    log.delete_records_before(7)
    broker.create(1)
    manager = broker.restart()
    log = manager.logs[logs.TOPIC]
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (7, 15, 20)
    assert log.recovery_point == 20
    assert log.topic_id == logs.TOPIC_ID
    assert manager.previous_broker_epoch() == 5
    assert sorted(manager.logs) == [("topic", 0), ("topic", 1)]


def test_many_logs_are_closed_with_one_sync(files: MemoryFilesystem) -> None:
    broker = Broker(files, A)
    for partition in range(40):
        log = broker.create(partition)
        logs.append(log, f"value {partition}".encode(), epoch=partition)
    operations: list[str] = []
    files.after = lambda operation, _path: operations.append(operation)
    broker.manager.stop()
    assert operations.count("sync_all") == 2
    # Those of the checkpoints and the marker.
    assert operations.count("sync") <= 6
    files.after = lambda _operation, _path: None
    files.crash()
    manager = broker.start()
    assert manager.directories[0].was_clean
    for partition in range(40):
        log = manager.logs[TopicPartition("topic", partition)]
        assert logs.values_of(log) == {0: f"value {partition}".encode()}
        assert log.latest_epoch == partition


def test_after_a_kill_nothing_is_believed(broker: Broker) -> None:
    log = broker.create()
    logs.append(log, b"value")
    manager = broker.restart(clean=False)
    assert not manager.directories[0].was_clean
    assert manager.previous_broker_epoch() == -1
    log = manager.logs[logs.TOPIC]
    assert log.recovery_point == 0
    assert logs.values_of(log) == {0: b"value"}
    # The marker of a stop is good for one start only.
    broker.restart()
    assert not broker.restart(clean=False).directories[0].was_clean


def test_a_directory_belongs_to_one_broker(broker: Broker, files: MemoryFilesystem) -> None:
    with pytest.raises(DirectoryInUse):
        Broker(files, B)
    broker.manager.stop()
    Broker(files, B)


def test_a_directory_has_the_files_of_kafkas(broker: Broker, files: MemoryFilesystem) -> None:
    broker.create()
    broker.manager.stop(broker_epoch=9)
    assert files.list_directory(A) == [
        ".kafka_cleanshutdown",
        ".lock",
        "cleaner-offset-checkpoint",
        "log-start-offset-checkpoint",
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
        "topic-0",
    ]
    marker = files.read(f"{A}/.kafka_cleanshutdown")
    assert marker.startswith(b'{"version":0,"brokerEpoch":9,')
    assert files.read(f"{A}/recovery-point-offset-checkpoint") == b"0\n1\ntopic 0 0\n"
    assert files.read(f"{A}/log-start-offset-checkpoint") == b"0\n0\n"


def test_damaged_checkpoints_cost_time_only(broker: Broker, files: MemoryFilesystem) -> None:
    log = broker.create()
    for number in range(20):
        logs.append(log, str(number).encode().ljust(100))
    broker.manager.stop()
    for name in ("recovery-point", "log-start", "replication"):
        files.write(f"{A}/{name}-offset-checkpoint", b"damaged")
    files.remove(f"{A}/.kafka_cleanshutdown")
    files.kill()
    log = broker.start().logs[logs.TOPIC]
    assert len(logs.read_all(log)) == 20
    assert (log.recovery_point, log.high_watermark) == (0, 0)


def test_directories_are_found_by_their_ids(files: MemoryFilesystem) -> None:
    for path, number in ((A, 1), (B, 2)):
        files.make_directory(path)
        meta = MetaProperties("cluster", 1, bytes(15) + bytes([100 + number]))
        files.write(f"{path}/meta.properties", meta.encode())
    broker = Broker(files, A, B)
    second = broker.manager.directories[1]
    assert second.directory_id is not None
    assert broker.manager.directory_by_id(second.directory_id) is second
    assert broker.manager.directory_by_id(OTHER_ID) is None
    log = broker.manager.get_or_create(logs.TOPIC, logs.TOPIC_ID, directory_id=second.directory_id)
    assert log.directory == f"{B}/topic-0"


def test_a_preferred_directory_wins(broker: Broker) -> None:
    broker.manager.prefer_directory(logs.TOPIC, B)
    assert broker.create().directory == f"{B}/topic-0"
    with pytest.raises(LogDirNotFound):
        broker.manager.prefer_directory(logs.TOPIC, "/elsewhere")


def test_the_metadata_log_and_strangers_are_left_alone(
    broker: Broker, files: MemoryFilesystem
) -> None:
    files.make_directory(f"{A}/__cluster_metadata-0")
    files.make_directory(f"{A}/remote-log-index-cache")
    files.write(f"{A}/notes-1", b"a file")
    assert broker.restart().logs == {}


def test_another_topic_id_is_refused(broker: Broker) -> None:
    log = broker.create()
    assert broker.create() is log
    with pytest.raises(InconsistentTopicId):
        broker.create(topic_id=OTHER_ID)


def test_changed_settings_reach_the_logs_of_the_topic(broker: Broker) -> None:
    log = broker.create()
    broker.config = logs.settings(retention_ms=77)
    broker.manager.configure({"other"})
    assert log.config.retention_ms == -1
    broker.manager.configure({"topic"})
    assert log.config.retention_ms == 77


# Deletion


def test_a_deleted_log_goes_after_a_while(broker: Broker, files: MemoryFilesystem) -> None:
    logs.append(broker.create(), b"value")
    broker.manager.delete(logs.TOPIC)
    broker.manager.delete(TopicPartition("unknown", 1))
    (name,) = [name for name in files.list_directory(A) if name.endswith("-delete")]
    assert parse_directory_name(name) == (("topic", 0), DirectoryKind.DELETE)
    assert broker.manager.logs == {}
    broker.clock.advance(59.999)
    assert logs.remove_due(broker.manager) == 0
    broker.clock.advance(0.001)
    assert logs.remove_due(broker.manager) == 1
    assert not files.exists(f"{A}/{name}")


def test_a_deletion_goes_on_after_a_restart(broker: Broker, files: MemoryFilesystem) -> None:
    broker.create()
    broker.manager.delete(logs.TOPIC)
    manager = broker.restart(clean=False)
    assert manager.logs == {}
    assert logs.remove_due(manager) == 1
    assert not any("topic" in name for name in files.list_directory(A))


def test_a_topic_made_again_inherits_nothing(broker: Broker) -> None:
    log = broker.create()
    for _ in range(20):
        logs.append(log, bytes(100))
    log.set_high_watermark(20)
    log.delete_records_before(15)
    log.flush(logs.NOW)
    for directory in broker.manager.directories:
        broker.manager._write_checkpoints(directory)
    broker.manager.delete(logs.TOPIC)
    log = broker.create(topic_id=OTHER_ID)
    logs.append(log, b"new")
    manager = broker.restart(clean=False)
    log = manager.logs[logs.TOPIC]
    assert (log.log_start_offset, log.recovery_point) == (0, 0)
    assert logs.values_of(log) == {0: b"new"}


# Strays


def test_strays_are_found_at_the_start_set_aside_and_kept(
    broker: Broker, files: MemoryFilesystem
) -> None:
    broker.create()
    logs.append(broker.create(1, OTHER_ID), b"value")
    broker.manager.stop()
    manager = LogManager(
        broker.files,
        broker.paths,
        clock=broker.clock,
        chance=Chance(2),
        config_for=lambda _topic: CONFIG,
    )
    manager.start(is_stray=lambda log: log.topic_id == OTHER_ID)
    assert list(manager.logs) == [("topic", 0)]
    assert list(manager.strays.values()) == [("topic", 1)]
    (path,) = manager.strays
    assert parse_directory_name(path.rpartition("/")[2]) == (("topic", 1), DirectoryKind.STRAY)
    manager.stop()
    manager = broker.restart()
    assert manager.strays == {path: ("topic", 1)}
    assert list(manager.logs) == [("topic", 0)]
    assert len(manager.removals) == 0
    assert files.size(f"{path}/00000000000000000000.log") > 0


# Moves


def test_a_log_moves_to_another_directory_while_it_is_written(broker: Broker) -> None:
    manager = broker.manager
    log = broker.create()
    for number in range(20):
        logs.append(log, str(number).encode().ljust(100), epoch=number // 5)
    log.set_high_watermark(20)
    log.delete_records_before(3)
    future = manager.create_future(logs.TOPIC, B)
    assert parse_directory_name(future.directory.rpartition("/")[2]) == (
        logs.TOPIC,
        DirectoryKind.FUTURE,
    )
    steps = 0
    while not manager.copy_to_future(logs.TOPIC, 300):
        steps += 1
        if steps < 5:
            logs.append(log, b"while it moves", epoch=3)
    log.set_high_watermark(log.log_end_offset)
    expected = logs.values_of(log)
    assert manager.name_future(logs.TOPIC) == B
    assert manager.replace_current_with_future(logs.TOPIC) is future
    assert manager.logs[logs.TOPIC] is future
    assert manager.future_logs == {}
    assert future.directory == f"{B}/topic-0"
    assert logs.values_of(future) == expected
    assert (future.log_start_offset, future.high_watermark) == (3, 24)
    assert future.epochs.entries == log.epochs.entries
    log = broker.restart().logs[logs.TOPIC]
    assert logs.values_of(log) == expected


def test_a_move_begun_is_there_after_a_restart_and_may_be_given_up(broker: Broker) -> None:
    log = broker.create()
    logs.append(log, b"value")
    broker.manager.create_future(logs.TOPIC, B)
    broker.manager.copy_to_future(logs.TOPIC, 100)
    manager = broker.restart()
    assert logs.values_of(manager.future_logs[logs.TOPIC]) == {0: b"value"}
    manager.abandon_future(logs.TOPIC)
    assert manager.future_logs == {}
    assert len(manager.removals) == 1
    assert logs.values_of(manager.logs[logs.TOPIC]) == {0: b"value"}


def test_what_the_current_log_loses_its_copy_loses_too(broker: Broker) -> None:
    log = broker.create()
    logs.append(log, b"a")
    logs.append(log, b"b")
    future = broker.manager.create_future(logs.TOPIC, B)
    assert not broker.manager.copy_to_future(logs.TOPIC, 1)
    assert broker.manager.copy_to_future(logs.TOPIC, 1)
    log.truncate_to(1, logs.NOW)
    logs.append(log, b"c", epoch=1)
    assert broker.manager.copy_to_future(logs.TOPIC, 1000)
    assert logs.values_of(future) == {0: b"a", 1: b"c"}


def test_of_two_copies_the_one_that_has_all_is_kept(
    broker: Broker, files: MemoryFilesystem
) -> None:
    def fill(directory: str, values: list[tuple[bytes, int]]) -> None:
        log = logs.open_log(files, CONFIG, directory=f"{directory}/topic-0")
        for value, epoch in values:
            logs.append(log, value, epoch=epoch)
        log.close(logs.NOW)

    broker.manager.stop()
    fill(A, [(b"a", 0)])
    fill(B, [(b"a", 0), (b"b", 1)])
    manager = broker.start()
    assert logs.values_of(manager.logs[logs.TOPIC]) == {0: b"a", 1: b"b"}
    assert len(manager.removals) == 1
    manager.stop()
    fill(A, [(b"a", 0), (b"x", 2)])
    with pytest.raises(DuplicateLog):
        broker.start()


def test_a_disk_that_fails_while_one_of_two_copies_goes_fails_alone(
    broker: Broker, files: MemoryFilesystem
) -> None:
    broker.create(1)
    broker.create(2)
    broker.manager.stop()
    for directory, count in ((A, 1), (B, 2)):
        log = logs.open_log(files, CONFIG, directory=f"{directory}/topic-0")
        for _ in range(count):
            logs.append(log, b"a")
        log.close(logs.NOW)
    files.fail = failing(f"{A}/topic-0", "rename")
    manager = broker.start()
    assert [directory.path for directory in manager.online_directories] == [B]
    assert paths_of(broker) == {0: f"{B}/topic-0", 2: f"{B}/topic-2"}


def test_a_claim_is_lowered_before_a_log_that_was_cut_grows_again(
    broker: Broker, files: MemoryFilesystem
) -> None:
    """A crash came between the cut and the checkpoint."""
    log = broker.create()
    for number in range(10):
        logs.append(log, str(number).encode().ljust(100))
    log.set_high_watermark(10)
    log.flush(logs.NOW)
    broker.manager.stop()
    files.remove(f"{A}/.kafka_cleanshutdown")
    files.kill()
    cut = logs.open_log(files, CONFIG, directory=f"{A}/topic-0", recovery_point=10, clean=False)
    cut.truncate_to(4, logs.NOW)
    files.kill()
    broker.start()
    directory = LogDirectory(files, A)
    directory.read_checkpoints()
    assert directory.recovery_points.claim(logs.TOPIC) == 4
    assert directory.high_watermarks.claim(logs.TOPIC) == 4


# Failure


def failing(prefix: str, *operations: str) -> Callable[[str, str], OSError | None]:
    def fail(operation: str, path: str) -> OSError | None:
        if path.startswith(prefix) and (not operations or operation in operations):
            return OSError(errno.EIO, "input/output error", path)
        return None

    return fail


def test_a_directory_that_fails_takes_its_logs_and_no_others(
    broker: Broker, files: MemoryFilesystem
) -> None:
    told: list[tuple[str, list[TopicPartition]]] = []

    def tell(directory: LogDirectory, lost: list[TopicPartition]) -> None:
        told.append((directory.path, lost))

    broker.manager.on_directory_failed = tell
    lost, kept = broker.create(0), broker.create(1)
    logs.append(lost, b"a")
    logs.append(kept, b"b")
    files.fail = failing(A)
    with pytest.raises(LogDirFailed) as failure:
        logs.append(lost, b"c")
    assert failure.value.code.name == "KAFKA_STORAGE_ERROR"
    assert told == [(A, [TopicPartition("topic", 0)])]
    assert list(broker.manager.logs) == [("topic", 1)]
    logs.append(kept, b"d")
    assert broker.create(2).directory == f"{B}/topic-2"
    with pytest.raises(KafkaStorageError):
        broker.manager.get_or_create(TopicPartition("topic", 0), logs.TOPIC_ID, is_new=False)
    broker.manager.stop()
    files.fail = lambda _operation, _path: None
    files.kill()
    manager = broker.start()
    assert [directory.was_clean for directory in manager.directories] == [False, True]
    assert logs.values_of(manager.logs[TopicPartition("topic", 0)]) == {0: b"a"}


def test_a_directory_that_cannot_be_read_is_offline_from_the_start(
    broker: Broker, files: MemoryFilesystem
) -> None:
    broker.create(0)
    broker.create(1)
    broker.manager.stop()
    files.kill()
    files.fail = failing(f"{A}/topic-0")
    manager = broker.start()
    assert [directory.path for directory in manager.online_directories] == [B]
    assert list(manager.logs) == [("topic", 1)]
    assert manager.directories[0].failure is not None


def test_a_directory_that_fails_at_the_stop_is_not_marked_clean(
    broker: Broker, files: MemoryFilesystem
) -> None:
    logs.append(broker.create(0), b"a")
    logs.append(broker.create(1), b"b")
    files.fail = failing(A, "sync")
    broker.manager.stop()
    files.fail = lambda _operation, _path: None
    assert not files.exists(f"{A}/.kafka_cleanshutdown")
    assert files.exists(f"{B}/.kafka_cleanshutdown")


def test_without_a_directory_nothing_is_made(files: MemoryFilesystem) -> None:
    broker = Broker(files, A)
    broker.manager.fail_directory(A, OSError(errno.EIO, "input/output error"))
    with pytest.raises(KafkaStorageError):
        broker.create()


# On a real disk


def test_the_same_on_the_file_system_of_the_machine(tmp_path: Path) -> None:
    def start() -> LogManager:
        manager = LogManager(
            OsFilesystem(),
            [str(tmp_path / "a"), str(tmp_path / "b")],
            clock=ManualScheduler(logs.NOW),
            chance=Chance(1),
            config_for=lambda _topic: CONFIG,
            open_files_max=2,
        )
        manager.start()
        return manager

    others = len(list(Path("/proc/self/fd").iterdir()))
    manager = start()
    expected: dict[int, bytes] = {}
    for clean in (True, False, True):
        log = manager.get_or_create(logs.TOPIC, logs.TOPIC_ID)
        for _ in range(40):
            number = len(expected)
            expected[number] = str(number).encode().ljust(100)
            logs.append(log, expected[number])
        assert len(log.segments) > 6
        assert logs.values_of(log) == expected
        assert len(list(Path("/proc/self/fd").iterdir())) < others + 30
        if clean:
            manager.stop(broker_epoch=1)
        else:
            manager.abandon()
        manager = start()
        assert manager.directories[0].was_clean == clean
    assert logs.values_of(manager.logs[logs.TOPIC]) == expected
    manager.stop()


def test_a_new_log_goes_where_there_are_the_fewest_however_they_came_and_went(
    broker: Broker,
) -> None:
    manager = broker.manager
    chance = Chance(7)
    for step in range(200):
        which = TopicPartition("topic", chance.below(12))
        act = chance.below(4)
        if act < 2:
            manager.get_or_create(which, logs.TOPIC_ID)
        elif act == 2:
            manager.delete(which)
        elif which in manager.logs and which not in manager.future_logs:
            path = manager.directory_of(manager.logs[which]).path
            manager.create_future(which, B if path == A else A)
            if step % 2:
                manager.copy_to_future(which, 1 << 20)
                manager.replace_current_with_future(which)
            else:
                manager.abandon_future(which)
        counted = {path: manager.logs.counts[path] for path in (A, B)}
        found = [manager.directory_of(log).path for log in manager.logs.values()]
        assert counted == {path: found.count(path) for path in (A, B)}
        assert sum(manager.future_logs.counts.values()) == len(manager.future_logs)
    manager.fail_directory(A, OSError(errno.EIO, "failed"))
    assert manager.logs.counts[A] == 0


def test_where_a_new_log_goes_costs_the_same_however_many_there_are(broker: Broker) -> None:
    manager = broker.manager
    made = iter(range(1_000))

    def calls() -> int:
        """How many functions are called to make a log."""
        which = TopicPartition("topic", next(made))
        count = 0

        def called(_frame: FrameType, event: str, _argument: object) -> None:
            nonlocal count
            count += event == "call"

        sys.setprofile(called)
        try:
            manager.get_or_create(which, logs.TOPIC_ID)
        finally:
            sys.setprofile(None)
        return count

    few = [calls() for _ in range(20)][-1]
    many = [calls() for _ in range(200)][-1]
    assert many < few + 100


def test_a_corrupt_swap_file_takes_its_directory_offline_and_no_other(
    broker: Broker, files: MemoryFilesystem
) -> None:
    for partition in range(2):
        log = broker.manager.get_or_create(TopicPartition("topic", partition), logs.TOPIC_ID)
        logs.append(log, b"value")
    bad = broker.manager.logs[TopicPartition("topic", 0)]
    files.write(f"{bad.directory}/{0:020d}.log.swap", bytes(100))
    manager = broker.restart(clean=False)
    assert [directory.is_online for directory in manager.directories] == [False, True]
    assert list(manager.logs) == [TopicPartition("topic", 1)]

"""A process that has no descriptor left: what needs one is refused, and no disk is blamed."""

import errno
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.storage import cleaning, logs
from tests.storage.test_driver import Storage, storage

from ottla.common.errors import ErrorCode
from ottla.common.topic_partition import TopicPartition
from ottla.storage.directories import LogDirFailed, LogUnavailable
from ottla.storage.files import OsFilesystem, is_disks
from ottla.storage.log import Log
from ottla.storage.opening import open_log


def none_left(
    disk: Storage, is_meant: Callable[[str, str], bool], number: int = errno.EMFILE
) -> None:
    def fail(operation: str, path: str) -> OSError | None:
        return OSError(number, "injected", path) if is_meant(operation, path) else None

    disk.files.fail = fail


def give_back(disk: Storage) -> None:
    disk.files.fail = lambda _operation, _path: None


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_an_append_that_cannot_roll_is_refused_and_comes_later(number: int) -> None:
    disk = storage()
    log = disk.create()
    while log.segments.active.size < 500:
        logs.append(log, bytes(100))
    kept = log.log_end_offset
    none_left(disk, lambda operation, path: operation == "open" and path.endswith(".log"), number)
    for _ in range(3):
        with pytest.raises(LogUnavailable) as refused:
            logs.append(log, bytes(400))
        assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert log.log_end_offset == kept
    assert log.failure is None
    assert disk.manager.online_directories
    give_back(disk)
    logs.append(log, b"later")
    assert log.log_end_offset == kept + 1


@pytest.mark.parametrize("is_clean", [False, True])
@pytest.mark.parametrize("part", [".log", ".index", ".timeindex"])
def test_what_a_refused_roll_has_begun_does_not_end_the_log(part: str, is_clean: bool) -> None:
    """A smaller append goes to the old segment after that; the next start must find all of it."""
    disk = storage()
    log = disk.create()
    while log.segments.active.size < 500:
        logs.append(log, bytes(100))
    none_left(
        disk,
        lambda operation, path: (
            operation == "open" and path.endswith(f"{log.log_end_offset:020d}{part}")
        ),
    )
    with pytest.raises(LogUnavailable):
        logs.append(log, bytes(300))
    give_back(disk)
    logs.append(log, b"small")
    assert len(log.segments) == 1
    end = log.log_end_offset
    if is_clean:
        disk.manager.stop()
    disk.files.kill()
    assert Storage(logs.settings(), disk.files).manager.logs[logs.TOPIC].log_end_offset == end


def test_a_log_that_cannot_be_made_is_made_later() -> None:
    disk = storage()
    none_left(disk, lambda operation, path: operation == "open" and path.endswith(".timeindex"))
    with pytest.raises(LogUnavailable):
        disk.create()
    assert disk.manager.logs == {}
    assert disk.manager.online_directories
    give_back(disk)
    logs.append(disk.create(), b"value")


def checkpoint(disk: Storage, log: Log) -> None:
    log.set_high_watermark(1)
    disk.driver._high_watermarks()


def removal(disk: Storage, _log: Log) -> None:
    disk.manager.delete(logs.TOPIC)
    disk.clock.advance(10)


def new_log(disk: Storage, _log: Log) -> None:
    disk.create(1)


def flush(disk: Storage, log: Log) -> None:
    logs.append(log, b"another")
    disk.driver.flush(log)


def test_a_flush_that_was_asked_for_is_promised_until_the_log_is_gone() -> None:
    """What waits for it would be told of a failure that is none, and nobody would ask again."""
    disk = storage()
    log = disk.create()
    logs.append(log, b"value")
    disk.clock.advance(0.01)
    none_left(disk, lambda operation, _path: operation == "sync_directory")
    asked = disk.driver.flush(log)
    disk.clock.advance(5)
    told = [asked.done]
    give_back(disk)
    disk.clock.advance(5)
    assert [*told, asked.done] == [False, True]
    asked.result()
    assert log.recovery_point == 1


@pytest.mark.parametrize("begin", [checkpoint, removal, new_log, flush])
def test_work_in_the_background_is_tried_again(begin: Callable[[Storage, Log], None]) -> None:
    disk = storage(flush_ms=100)
    log = disk.create()
    logs.append(log, b"value")
    disk.clock.advance(0.01)
    none_left(
        disk,
        lambda operation, path: (
            operation in ("sync_directory", "remove_directory")
            or (operation == "open" and path.endswith(".tmp"))
        ),
    )
    begin(disk, log)
    disk.clock.advance(5)
    assert disk.manager.directories[0].is_online
    give_back(disk)
    disk.clock.advance(5)
    names = disk.files.list_directory(logs.ROOT)
    disk.files.crash()
    if begin is removal:
        assert not any(name.endswith("-delete") for name in names)
    elif begin is new_log:
        assert disk.files.read(f"{logs.ROOT}/topic-1/partition.metadata")
    elif begin is checkpoint:
        data = disk.files.read(f"{logs.ROOT}/replication-offset-checkpoint")
        assert b"topic 0 1" in data
    else:
        assert log.recovery_point == log.log_end_offset


def test_a_new_log_in_a_directory_that_is_counted_short_leaves_nothing_behind() -> None:
    disk = storage()
    none_left(disk, lambda operation, path: operation == "open" and path.endswith(".log"))
    with pytest.raises(LogUnavailable):
        disk.manager.get_or_create(TopicPartition("topic", 7), logs.TOPIC_ID)
    assert not disk.files.exists(f"{logs.ROOT}/topic-7")


def test_readers_of_old_segments_leave_the_reserve_to_what_has_no_way_back() -> None:
    disk = storage()
    log = disk.create()
    while len(log.segments) < 5:
        logs.append(log, bytes(100))
    log.set_high_watermark(log.log_end_offset)
    for segment in log.segments:
        if segment is not log.segments.active:
            segment.let_go()
    none_left(disk, lambda operation, _path: operation == "keep open")
    for segment in list(log.segments)[:-1]:
        with pytest.raises(LogUnavailable):
            logs.read_bytes(log, segment.base_offset)
    kept = log.segments[1].base_offset + 1
    assert log.truncate_to(kept, logs.NOW)
    assert log.log_end_offset == kept
    assert disk.manager.online_directories
    give_back(disk)
    assert len(logs.read_all(log)) == kept


def test_the_metadata_log_has_the_reserve() -> None:
    """One that stands alone, without which nothing goes on."""
    files = logs.filesystem()
    log = open_log(
        files,
        logs.DIRECTORY,
        topic_partition=logs.TOPIC,
        topic_id=logs.TOPIC_ID,
        config=logs.settings(internal_segment_bytes=800),
        now_ms=logs.NOW,
    )
    files.fail = lambda operation, path: (
        OSError(errno.EMFILE, "injected", path) if operation == "keep open" else None
    )
    while len(log.segments) < 5:
        logs.append(log, bytes(100))
    log.segments[0].let_go()
    assert logs.read_bytes(log, 0)


def test_a_log_whose_name_has_claims_is_made_later_too() -> None:
    disk = storage()
    logs.append(disk.create(), b"value")
    disk.clock.advance(5)
    disk.manager.logs[logs.TOPIC].flush(logs.NOW)
    disk.clock.advance(5)
    disk.manager.delete(logs.TOPIC)
    none_left(disk, lambda operation, path: operation == "open" and "checkpoint" in path)
    with pytest.raises(LogUnavailable):
        disk.create()
    assert disk.manager.online_directories
    give_back(disk)
    logs.append(disk.create(), b"value")


@pytest.mark.parametrize("number", [errno.ENOMEM, errno.EAGAIN, errno.EIO])
def test_a_sync_that_fails_is_the_disks_whatever_it_says(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one would succeed, although pages were dropped."""

    def fail(_descriptor: int) -> None:
        raise OSError(number, "injected")

    files = OsFilesystem()
    file = files.open(str(tmp_path / "file"), create=True)
    monkeypatch.setattr("ottla.storage.files._sync_data", fail)
    monkeypatch.setattr("os.fsync", fail)
    for sync in (file.sync, lambda: files.sync_directory(str(tmp_path))):
        with pytest.raises(OSError, match="injected") as failed:
            sync()
        assert is_disks(failed.value)


def test_whose_errors_they_are() -> None:
    assert is_disks(OSError(errno.EIO, ""))
    assert is_disks(OSError(errno.ENOSPC, ""))
    assert is_disks(OSError(errno.EROFS, ""))
    assert not is_disks(OSError(errno.EMFILE, ""))


RESERVE = """
import errno, os, resource, sys
from ottla.storage.files import OsFilesystem
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
files, root = OsFilesystem(reserve=4), sys.argv[1]
files.write(f"{root}/a", b"a")
taken = []
try:
    while True:
        taken.append(os.open(os.devnull, os.O_RDONLY))
except OSError as error:
    assert error.errno == errno.EMFILE
for _ in range(10):
    assert files.read(f"{root}/a") == b"a"
    files.write_atomically(f"{root}/b", b"b")
    files.sync_directory(root)
held = [files.open(f"{root}/a") for _ in range(4)]
for open_one in (lambda: files.open(f"{root}/a"), lambda: files.open(f"{root}/a", stays=True)):
    try:
        open_one()
    except OSError as error:
        assert error.errno == errno.EMFILE
    else:
        raise AssertionError
for descriptor in taken[:8]:
    os.close(descriptor)
held.clear()
files.sync_directory(root)
assert len(files._reserve) == 4
"""


def test_a_reserve_is_for_what_is_open_for_a_moment(tmp_path: object) -> None:
    subprocess.run([sys.executable, "-c", RESERVE, str(tmp_path)], check=True)


def test_a_follower_that_has_written_a_marker_without_its_meaning_goes_no_further() -> None:
    """The batch is there, the aborted transaction is noted nowhere: it cannot come again."""
    leader, follower = storage(), storage()
    source, log = leader.create(), follower.create()
    begun = logs.batch([b"v"], producer_id=7, producer_epoch=0, sequence=0, transactional=True)
    logs.append_batch(source, begun)
    cleaning.end_transaction(source, 7, 0, commit=False)
    data = source.read_bytes(0, 1 << 20)
    none_left(follower, lambda operation, path: operation == "open" and ".txnindex" in path)
    with pytest.raises(LogDirFailed):
        log.append_as_follower(data, now_ms=logs.NOW)
    assert log.failure is not None
    assert follower.manager.online_directories == []


def test_a_follower_that_has_written_nothing_goes_on() -> None:
    leader, follower = storage(), storage()
    source, log = leader.create(), follower.create()
    logs.append(source, b"v")
    none_left(follower, lambda operation, path: operation == "keep open" and ".log" in path)
    data = source.read_bytes(0, 1 << 20)
    with pytest.raises(LogUnavailable):
        log.append_as_follower(data, now_ms=logs.NOW)
    give_back(follower)
    assert log.append_as_follower(data, now_ms=logs.NOW).last_offset == 0

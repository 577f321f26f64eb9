"""A process that has no descriptor left: what needs one is refused, and no disk is blamed."""

import errno
import subprocess
import sys
from collections.abc import Callable

import pytest
from tests.storage import logs
from tests.storage.test_driver import Storage, storage

from ottla.common.errors import ErrorCode
from ottla.common.topic_partition import TopicPartition
from ottla.storage.directories import LogUnavailable
from ottla.storage.files import is_disks
from ottla.storage.log import Log


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


@pytest.mark.parametrize("part", [".log", ".index", ".timeindex"])
def test_what_a_refused_roll_has_begun_does_not_end_the_log(part: str) -> None:
    """A smaller append goes to the old segment after that; a crash must find all of it."""
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
    disk.files.crash()
    names = disk.files.list_directory(logs.ROOT)
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

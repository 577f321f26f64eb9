"""Work in the background for a log that is deleted, made again or replaced before it ends.

Whatever was begun, or is asked for too late, the disk is well: no directory goes offline by it, and
a log that has the same name afterwards is whole.
"""

from collections.abc import Callable

import pytest
from tests.replication.test_log_moves import B, Moving
from tests.storage import logs
from tests.storage.cleaning import put
from tests.storage.test_driver import Storage

from ottla.common.errors import KafkaStorageError
from ottla.storage.directories import Retired
from ottla.storage.log import Log
from ottla.storage.opening import open_log

OTHER_ID = bytes(range(1, 17))
HOUR_MS = 3_600_000


def asked(disk: Storage, log: Log) -> None:
    """A flush is under way, and another one waits for it."""
    disk.driver.flush(log)
    disk.clock.run_due()
    logs.append(log, b"more")
    disk.driver.flush(log)


def due(disk: Storage, _log: Log) -> None:
    disk.driver._flush_due()


def rolled(disk: Storage, log: Log) -> None:
    for _ in range(20):
        logs.append(log, bytes(100))
    disk.clock.run_due()


def new(disk: Storage, _log: Log) -> None:
    disk.clock.run_due()


def checkpoints(disk: Storage, log: Log) -> None:
    log.flush(logs.NOW)
    disk.driver._recovery_points()
    disk.driver._high_watermarks()


def expired(_disk: Storage, log: Log) -> None:
    """Its oldest segments bear the suffix of deleted files."""
    for _ in range(20):
        logs.append(log, bytes(100))
    log.set_high_watermark(log.log_end_offset)
    assert log.delete_old_segments(logs.NOW + HOUR_MS)


def cleaned(disk: Storage, log: Log) -> None:
    for number in range(60):
        put(log, [(b"%d" % (number % 3), bytes(100))])
    disk.driver.cleaner._look()
    assert disk.manager.cleaner.in_progress


def storage(delay_ms: int, *, compacted: bool, flush_ms: int = 0) -> Storage:
    return Storage(
        logs.settings(
            internal_segment_bytes=800,
            file_delete_delay_ms=delay_ms,
            flush_ms=flush_ms,
            retention_ms=60_000,
            cleanup_policy="compact" if compacted else "delete",
            min_cleanable_dirty_ratio=0.0,
        )
    )


@pytest.mark.parametrize("turns", [0, 1, 2, 3])
@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("delay_ms", [0, 1, 60_000])
@pytest.mark.parametrize("begin", [asked, due, rolled, new, checkpoints, expired, cleaned])
def test_work_for_a_log_that_goes_leaves_its_directory_well(
    begin: Callable[[Storage, Log], None], delay_ms: int, again: bool, turns: int
) -> None:
    disk = storage(delay_ms, compacted=begin is cleaned)
    log = disk.create()
    if begin is not new:
        disk.clock.advance()
    logs.append(log, b"value")
    begin(disk, log)
    for _ in range(turns):
        disk.clock.run_background()
        disk.clock.run_due()
    disk.manager.delete(logs.TOPIC)
    disk.driver._remove()
    if again:
        log = disk.manager.get_or_create(logs.TOPIC, OTHER_ID)
        logs.append(log, b"another")
    disk.clock.advance(5)
    assert disk.manager.directories[0].failure is None
    if again:
        assert log.recovery_point == 1
        disk.files.crash()
        assert disk.files.read(f"{log.directory}/partition.metadata")


def test_a_flush_that_is_asked_for_too_late_is_refused() -> None:
    disk = storage(0, compacted=False)
    log = disk.create()
    logs.append(log, b"value")
    begun = disk.driver.flush(log)
    disk.clock.run_due()
    disk.manager.delete(logs.TOPIC)
    late = disk.driver.flush(log)
    disk.clock.advance(1)
    for promise in (begun, late):
        with pytest.raises(KafkaStorageError, match="was deleted or replaced"):
            promise.result()
    assert isinstance(log.failure, Retired)
    assert disk.manager.directories[0].is_online


@pytest.mark.parametrize("delay_ms", [0, 60_000])
@pytest.mark.parametrize("done", [0, 1])
def test_a_partition_that_is_deleted_while_it_moves(done: int, delay_ms: int) -> None:
    """While its copy is flushed, and while that gets its name."""
    moving = Moving(file_delete_delay_ms=delay_ms)
    logs.append(moving.log, b"value")
    moving.moves.move(logs.TOPIC, B)
    for _ in range(done):
        while not moving.clock.background:
            moving.clock.run_due()
        moving.clock.run_background()
    while not moving.clock.background:
        moving.clock.run_due()
    moving.manager.delete(logs.TOPIC)
    logs.remove_due(moving.manager)
    moving.settle()
    assert len(moving.moves) == 0
    assert len(moving.manager.online_directories) == 2


def test_a_flush_of_a_log_that_is_replaced_is_that_of_its_copy() -> None:
    disk = storage(0, compacted=False, flush_ms=HOUR_MS)
    log = disk.create()
    logs.append(log, b"value")
    flushed = disk.driver.flush(log)
    copy = open_log(
        disk.files,
        f"{logs.ROOT}/topic-0.{'0' * 32}-future",
        topic_partition=logs.TOPIC,
        topic_id=logs.TOPIC_ID,
        config=log.config,
        now_ms=logs.NOW,
    )
    disk.manager.future_logs[logs.TOPIC] = copy
    assert disk.manager.copy_to_future(logs.TOPIC, 1 << 20)
    disk.manager.replace_current_with_future(logs.TOPIC)
    disk.clock.advance(1)
    assert flushed.result() is None
    assert copy.recovery_point == 1


def test_a_log_of_the_same_name_takes_no_high_watermark_of_the_one_before() -> None:
    """A kill before the next checkpoint, and a follower would show what is not committed."""
    disk = Storage(logs.settings())
    log = disk.create()
    logs.append(log, b"a", b"b", b"c")
    log.set_high_watermark(3)
    disk.driver._high_watermarks()
    disk.clock.advance(5)
    checkpoint = disk.manager.online_directories[0].high_watermarks
    assert checkpoint.read() == {logs.TOPIC: 3}
    disk.manager.delete(logs.TOPIC)
    logs.append(disk.create(), b"d", b"e")
    assert logs.TOPIC not in checkpoint.read()

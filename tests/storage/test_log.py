"""What a log does with appends, reads, rolls and flushes, case by case."""

import errno

import pytest
from tests.storage import logs

from ottla.common.chance import Chance
from ottla.common.errors import (
    CorruptMessage,
    InconsistentTopicId,
    InvalidRecord,
    OffsetOutOfRange,
    RecordListTooLarge,
)
from ottla.records.rules import AppendOrigin
from ottla.storage.directories import LogDirFailed
from ottla.storage.log import Log
from ottla.storage.results import UnexpectedAppendOffset
from ottla.storage.segments import segment_limits
from ottla.testing.files import MemoryFilesystem

DAY_MS = 86_400_000


@pytest.fixture
def files() -> MemoryFilesystem:
    return logs.filesystem()


def names(files: MemoryFilesystem) -> list[str]:
    return files.list_directory(logs.DIRECTORY)


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def test_a_new_log_has_the_files_of_a_new_partition(files: MemoryFilesystem) -> None:
    logs.open_log(files)
    assert names(files) == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "leader-epoch-checkpoint",
        "partition.metadata",
    ]
    assert files.read(f"{logs.DIRECTORY}/partition.metadata") == (
        b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    )


def test_batches_get_the_next_offsets_and_the_leader_epoch(files: MemoryFilesystem) -> None:
    log = logs.open_log(files)
    first = logs.append(log, b"a", b"b", epoch=3)
    second = logs.append(log, b"c", epoch=3)
    assert (first.first_offset, first.last_offset, first.record_count) == (0, 1, 2)
    assert (second.first_offset, second.last_offset) == (2, 2)
    assert logs.values_of(log) == {0: b"a", 1: b"b", 2: b"c"}
    assert log.latest_epoch == 3
    assert logs.offset_for_timestamp(log, 0) == (logs.NOW, 0, 3)


def test_the_file_has_the_bytes_that_were_numbered_in_place(files: MemoryFilesystem) -> None:
    log = logs.open_log(files)
    frame = bytearray(b"head") + logs.batch([b"value"]) + b"tail"
    log.append_as_leader(memoryview(frame), 4, len(frame) - 4, leader_epoch=9, now_ms=logs.NOW)
    assert files.read(f"{logs.DIRECTORY}/00000000000000000000.log") == frame[4:-4]


def test_a_refused_batch_leaves_no_trace(files: MemoryFilesystem) -> None:
    log = logs.open_log(files)
    damaged = logs.batch([b"value"])
    damaged[-1] ^= 1
    with pytest.raises(CorruptMessage):
        logs.append_batch(log, damaged)
    with pytest.raises(InvalidRecord):
        logs.append_batch(log, logs.batch([b"value"], base_offset=5))
    assert log.log_end_offset == 0
    assert log.latest_epoch == -1
    assert files.size(f"{logs.DIRECTORY}/00000000000000000000.log") == 0


def test_a_batch_larger_than_a_segment_is_refused(files: MemoryFilesystem) -> None:
    log = logs.open_log(files, logs.settings(internal_segment_bytes=500))
    with pytest.raises(RecordListTooLarge):
        logs.append(log, bytes(500))
    assert log.log_end_offset == 0


# Rolling


def test_a_segment_rolls_when_the_next_batch_does_not_fit(files: MemoryFilesystem) -> None:
    size = len(logs.batch([bytes(100)]))
    log = logs.open_log(files, logs.settings(internal_segment_bytes=2 * size))
    for _ in range(5):
        logs.append(log, bytes(100))
    assert bases(log) == [0, 2, 4]
    assert [segment.size for segment in log.segments] == [2 * size, 2 * size, size]


def test_a_segment_rolls_by_the_age_of_its_first_batch(files: MemoryFilesystem) -> None:
    log = logs.open_log(files, logs.settings(segment_ms=1000))
    logs.append(log, b"a", timestamp=logs.NOW)
    logs.append(log, b"b", timestamp=logs.NOW + 1000)
    assert bases(log) == [0]
    logs.append(log, b"c", timestamp=logs.NOW + 1001)
    assert bases(log) == [0, 2]


def test_a_segment_without_timestamps_rolls_by_the_clock(files: MemoryFilesystem) -> None:
    log = logs.open_log(files, logs.settings(segment_ms=1000))
    logs.append(log, b"a", timestamp=-1)
    logs.append(log, b"b", timestamp=-1, now_ms=logs.NOW + 1000)
    assert bases(log) == [0]
    logs.append(log, b"c", timestamp=-1, now_ms=logs.NOW + 1001)
    assert bases(log) == [0, 2]


def test_a_segment_rolls_when_an_index_is_full(files: MemoryFilesystem) -> None:
    log = logs.open_log(files, logs.settings(index_interval_bytes=0, segment_index_bytes=48))
    for _ in range(9):
        logs.append(log, b"a")
    # The first batch has no entry, then six fit.
    assert bases(log) == [0, 7]
    for time in range(1, 9):
        logs.append(log, b"a", timestamp=logs.NOW + time)
    # The time index holds four, and keeps the last place for the end of the segment.
    assert bases(log) == [0, 7, 11, 15]


def test_a_segment_rolls_when_an_offset_would_not_fit_its_index(files: MemoryFilesystem) -> None:
    log = logs.open_log(files)
    logs.append(log, b"a")
    far = (1 << 31) - 1
    log.append_as_follower(bytes(logs.batch([b"b"], base_offset=far)), now_ms=logs.NOW)
    assert bases(log) == [0]
    log.append_as_follower(bytes(logs.batch([b"c"], base_offset=far + 1)), now_ms=logs.NOW)
    assert bases(log) == [0, far + 1]
    log.append_as_follower(bytes(logs.batch([b"d"], base_offset=3 * far)), now_ms=logs.NOW)
    assert bases(log) == [0, far + 1, 3 * far]
    assert logs.values_of(log) == {0: b"a", far: b"b", far + 1: b"c", 3 * far: b"d"}


def test_an_empty_segment_is_not_rolled(files: MemoryFilesystem) -> None:
    log = logs.open_log(files)
    log.roll(logs.NOW)
    assert bases(log) == [0]
    logs.append(log, b"a")
    log.roll(logs.NOW)
    log.roll(logs.NOW)
    assert bases(log) == [0, 1]


def test_a_rolled_segment_has_its_indexes_and_a_snapshot_on_disk(files: MemoryFilesystem) -> None:
    log = logs.open_log(files, logs.settings(index_interval_bytes=0))
    for time in (5, 3, 8):
        logs.append(log, b"a", timestamp=logs.NOW + time)
    assert files.size(f"{logs.DIRECTORY}/00000000000000000000.index") == 0
    log.roll(logs.NOW)
    size = len(logs.batch([b"a"]))
    index = files.read(f"{logs.DIRECTORY}/00000000000000000000.index")
    assert index == b"".join(n.to_bytes(4, "big") for n in (1, size, 2, 2 * size))
    time_index = files.read(f"{logs.DIRECTORY}/00000000000000000000.timeindex")
    assert time_index == b"".join(
        (logs.NOW + time).to_bytes(8, "big") + offset.to_bytes(4, "big")
        for time, offset in ((5, 0), (8, 2))
    )
    assert "00000000000000000003.snapshot" in names(files)


def test_segments_do_not_all_roll_at_once(files: MemoryFilesystem) -> None:
    config = logs.settings(segment_ms=1000, segment_jitter_ms=500)
    ages = {segment_limits(config, Chance(seed)).age_max_ms for seed in range(50)}
    assert len(ages) > 20
    assert all(500 < age <= 1000 for age in ages)
    assert segment_limits(config, None).age_max_ms == 1000
    assert segment_limits(logs.settings(segment_ms=1000), Chance(1)).age_max_ms == 1000


def test_changed_settings_hold_for_the_next_append(files: MemoryFilesystem) -> None:
    log = logs.open_log(files)
    logs.append(log, bytes(100))
    log.configure(logs.settings(internal_segment_bytes=200, max_message_bytes=190))
    logs.append(log, bytes(100))
    assert bases(log) == [0, 1]


# Reading


def test_a_reader_gets_the_whole_batch_that_has_its_offset(files: MemoryFilesystem) -> None:
    log = logs.open_log(files)
    logs.append(log, b"a", b"b", b"c")
    logs.append(log, b"d")
    found = logs.records_of(logs.read_bytes(log, 1))
    assert [record.offset for record in found] == [0, 1, 2, 3]


@pytest.mark.parametrize("offset", [-1, 4, 100])
def test_an_offset_outside_the_log_is_out_of_range(files: MemoryFilesystem, offset: int) -> None:
    log = logs.open_log(files)
    logs.append(log, b"a", b"b", b"c")
    with pytest.raises(OffsetOutOfRange):
        logs.read_bytes(log, offset)
    assert logs.read_bytes(log, 3) == b""


def test_only_whole_batches_below_the_bound_are_read(files: MemoryFilesystem) -> None:
    log = logs.open_log(files)
    for _ in range(4):
        logs.append(log, b"a", b"b")
    for upper in range(9):
        found = logs.records_of(logs.read_bytes(log, 0, upper=upper))
        assert len(found) == upper - upper % 2


@pytest.mark.parametrize("size", [60, 5000])
def test_a_read_is_cut_between_batches(files: MemoryFilesystem, size: int) -> None:
    log = logs.open_log(files, logs.settings(internal_segment_bytes=1 << 20))
    one = len(logs.batch([bytes(size)]))
    for _ in range(30):
        logs.append(log, bytes(size))
    for wanted in range(1, 30):
        for extra in (0, 1, one - 1):
            fetched = log.read(3, wanted * one + extra, upper_bound_offset=30, at_least_one=False)
            assert fetched.size == min(wanted, 27) * one
            assert fetched.next_offset == 3 + min(wanted, 27)


def test_the_first_batch_is_given_however_large_it_is(files: MemoryFilesystem) -> None:
    log = logs.open_log(files)
    logs.append(log, bytes(1000))
    logs.append(log, b"b")
    assert len(logs.records_of(logs.read_bytes(log, 0, max_bytes=10))) == 1
    assert logs.read_bytes(log, 0, max_bytes=10, at_least_one=False) == b""


def test_a_reader_that_goes_on_needs_no_search(files: MemoryFilesystem) -> None:
    log = logs.open_log(files)
    for _ in range(10):
        logs.append(log, b"a")
    assert log.read(0, 1 << 20, upper_bound_offset=10, at_least_one=True).next_offset == 10
    logs.append(log, b"b")
    reads: list[str] = []

    def record(operation: str, _path: str) -> OSError | None:
        reads.append(operation)
        return None

    files.fail = record
    fetched = log.read(10, 1 << 20, upper_bound_offset=11, at_least_one=True)
    assert reads == []
    assert fetched.region is not None
    assert logs.records_of(fetched.region.read())[0].value == b"b"


def test_a_reader_at_the_end_of_a_segment_goes_on_in_the_next(files: MemoryFilesystem) -> None:
    log = logs.open_log(files)
    logs.append(log, b"a")
    log.read(0, 1 << 20, upper_bound_offset=1, at_least_one=True)
    log.roll(logs.NOW)
    logs.append(log, b"b")
    assert logs.records_of(logs.read_bytes(log, 1))[0].value == b"b"


def test_a_region_outlives_its_segment(files: MemoryFilesystem) -> None:
    log = logs.open_log(files)
    logs.append(log, b"a")
    fetched = log.read(0, 1 << 20, upper_bound_offset=1, at_least_one=True)
    log.set_high_watermark(1)
    log.roll(logs.NOW)
    log.delete_records_before(1)
    assert log.delete_old_segments(logs.NOW) == 1
    assert fetched.region is not None
    assert logs.records_of(fetched.region.read())[0].value == b"a"


def test_remembered_places_are_bounded(files: MemoryFilesystem) -> None:
    log = logs.open_log(files, logs.settings(internal_segment_bytes=1 << 20))
    for _ in range(100):
        logs.append(log, b"a")
    for offset in range(100):
        log.read(offset, 1, upper_bound_offset=100, at_least_one=True)
    assert len(log._reader._places) <= 32


# Time


def test_the_first_record_not_older_is_found_inside_a_batch(files: MemoryFilesystem) -> None:
    log = logs.open_log(files)
    times = [logs.NOW + time for time in (10, 40, 20)]
    logs.append_batch(log, logs.batch([b"a", b"b", b"c"], timestamps=times), epoch=7)
    logs.append(log, b"d", timestamp=logs.NOW + 30)
    assert logs.offset_for_timestamp(log, logs.NOW + 11) == (logs.NOW + 40, 1, 7)
    assert logs.offset_for_timestamp(log, logs.NOW + 41) is None


def test_the_record_with_the_largest_timestamp_is_found(files: MemoryFilesystem) -> None:
    log = logs.open_log(files)
    assert log.offset_of_max_timestamp() is None
    times = [logs.NOW + time for time in (10, 40, 40)]
    logs.append_batch(log, logs.batch([b"a", b"b", b"c"], timestamps=times))
    log.roll(logs.NOW)
    logs.append(log, b"d", timestamp=logs.NOW + 30)
    assert log.offset_of_max_timestamp() == (logs.NOW + 40, 1, 0)


def test_append_time_is_the_time_of_every_record(files: MemoryFilesystem) -> None:
    log = logs.open_log(files, logs.settings(message_timestamp_type="LogAppendTime"))
    info = logs.append(log, b"a", b"b", timestamp=5)
    assert info.append_time == logs.NOW
    assert [record.timestamp for record in logs.read_all(log)] == [logs.NOW] * 2
    assert logs.offset_for_timestamp(log, logs.NOW) == (logs.NOW, 0, 0)


# Followers and other origins


def test_a_follower_takes_the_offsets_and_epochs_of_its_leader(files: MemoryFilesystem) -> None:
    log = logs.open_log(files)
    data = bytes(
        logs.batch([b"a", b"b"], base_offset=10, leader_epoch=2)
        + logs.batch([b"c"], base_offset=15, leader_epoch=4)
    )
    info = log.append_as_follower(data, now_ms=logs.NOW)
    assert (info.first_offset, info.last_offset, info.record_count) == (10, 15, 3)
    assert log.log_end_offset == 16
    assert logs.values_of(log) == {10: b"a", 11: b"b", 15: b"c"}
    assert [tuple(entry) for entry in log.epochs.entries] == [(2, 10), (4, 15)]


def test_a_follower_refuses_offsets_that_it_has(files: MemoryFilesystem) -> None:
    log = logs.open_log(files)
    logs.append(log, b"a", b"b")
    with pytest.raises(UnexpectedAppendOffset) as refusal:
        log.append_as_follower(bytes(logs.batch([b"x"], base_offset=1)), now_ms=logs.NOW)
    assert (refusal.value.first_offset, refusal.value.last_offset) == (1, 1)


def test_a_follower_leaves_out_batches_of_a_later_leader(files: MemoryFilesystem) -> None:
    log = logs.open_log(files)
    data = bytes(
        logs.batch([b"a"], base_offset=0, leader_epoch=2)
        + logs.batch([b"b"], base_offset=1, leader_epoch=3)
    )
    log.append_as_follower(data, now_ms=logs.NOW, leader_epoch=2)
    assert logs.values_of(log) == {0: b"a"}
    log.append_as_follower(data[len(data) // 2 :], now_ms=logs.NOW, leader_epoch=2)
    assert log.log_end_offset == 1


def test_a_raft_leader_sets_offsets_itself(files: MemoryFilesystem) -> None:
    log = logs.open_log(files)
    data = logs.batch([b"a"], base_offset=0, leader_epoch=5) + logs.batch(
        [b"b"], base_offset=1, leader_epoch=5
    )
    log.append_as_leader(
        data, 0, len(data), leader_epoch=5, now_ms=logs.NOW, origin=AppendOrigin.RAFT_LEADER
    )
    assert logs.values_of(log) == {0: b"a", 1: b"b"}


# Flushing


def test_a_flush_moves_the_recovery_point_only_when_it_was_run(files: MemoryFilesystem) -> None:
    log = logs.open_log(files)
    logs.append(log, b"a")
    flush = log.prepare_flush()
    assert flush is not None
    logs.append(log, b"b")
    assert log.recovery_point == 0
    assert log.prepare_flush() is None
    flush.run()
    log.flushed(flush, logs.NOW)
    assert log.recovery_point == 1
    log.flush(logs.NOW)
    assert log.recovery_point == 2


def test_a_flush_that_a_truncation_overtook_does_not_count(files: MemoryFilesystem) -> None:
    log = logs.open_log(files)
    logs.append(log, b"a")
    logs.append(log, b"b")
    flush = log.prepare_flush()
    assert flush is not None
    log.truncate_to(1, logs.NOW)
    logs.append(log, b"c", epoch=1)
    flush.run()
    log.flushed(flush, logs.NOW)
    assert log.recovery_point == 0
    assert files.read(f"{logs.DIRECTORY}/leader-epoch-checkpoint") == b"0\n1\n0 0\n"
    log.flush(logs.NOW)
    assert log.recovery_point == 2
    assert files.read(f"{logs.DIRECTORY}/leader-epoch-checkpoint") == b"0\n2\n0 0\n1 1\n"


def test_a_flush_of_a_log_that_was_renamed_writes_nothing(files: MemoryFilesystem) -> None:
    log = logs.open_log(files)
    logs.append(log, b"a")
    flush = log.prepare_flush()
    assert flush is not None
    log.rename_directory("elsewhere-0")
    other = logs.open_log(files)
    flush.run()
    log.flushed(flush, logs.NOW)
    assert log.recovery_point == 0
    assert files.read(f"{logs.DIRECTORY}/leader-epoch-checkpoint") == b""
    log.flush(logs.NOW)
    assert log.recovery_point == 1
    assert logs.values_of(log) == {0: b"a"}
    assert logs.values_of(other) == {}


def test_a_flush_of_a_directory_that_is_gone_is_a_failure(files: MemoryFilesystem) -> None:
    log = logs.open_log(files)
    logs.append(log, b"a")
    files.remove_directory(logs.DIRECTORY)
    with pytest.raises(LogDirFailed):
        log.flush(logs.NOW)
    assert log.recovery_point == 0


def test_flush_messages_wants_a_flush_before_a_client_hears_of_it(
    files: MemoryFilesystem,
) -> None:
    log = logs.open_log(files, logs.settings(flush_messages=3))
    logs.append(log, b"a", b"b")
    assert not log.is_flush_due
    info = logs.append(log, b"c")
    assert (info.first_offset, info.is_flush_due, log.due_offset) == (2, True, 2)
    log.flush(logs.NOW)
    assert (log.recovery_point, log.is_flush_due) == (3, False)
    files.crash()
    assert logs.values_of(logs.open_log(files, clean=False)) == {0: b"a", 1: b"b", 2: b"c"}


def test_while_a_flush_is_under_way_batches_are_synced_all_the_same(
    files: MemoryFilesystem,
) -> None:
    log = logs.open_log(files, logs.settings(flush_messages=2))
    logs.append(log, b"a")
    log.flush(logs.NOW)
    logs.append(log, b"b")
    flush = log.prepare_flush()
    assert flush is not None
    assert logs.append(log, b"c").is_flush_due
    log.flush(logs.NOW)
    files.crash()
    assert logs.values_of(logs.open_log(files, clean=False)) == {0: b"a", 1: b"b", 2: b"c"}


def test_a_log_that_nobody_touched_is_closed_without_a_write(files: MemoryFilesystem) -> None:
    log = logs.open_log(files)
    logs.append(log, b"a")
    log.close(logs.NOW)
    log = logs.open_log(files)
    assert logs.values_of(log) == {0: b"a"}
    assert not log.is_dirty
    before = files.operations
    log.close(logs.NOW)
    assert files.operations == before


def test_a_clean_stop_leaves_whole_indexes_even_if_all_was_flushed(
    files: MemoryFilesystem,
) -> None:
    log = logs.open_log(files)
    for _ in range(10):
        logs.append(log, bytes(100))
    log.flush(logs.NOW)
    log.close(logs.NOW)
    files.crash()
    assert files.size(f"{logs.DIRECTORY}/00000000000000000000.index") > 0
    assert files.size(f"{logs.DIRECTORY}/00000000000000000000.timeindex") == 12
    assert files.exists(f"{logs.DIRECTORY}/00000000000000000010.snapshot")


# Failure


@pytest.mark.parametrize("operation", ["write", "sync", "rename", "create"])
def test_a_log_whose_disk_failed_refuses_everything(
    files: MemoryFilesystem, operation: str
) -> None:
    log = logs.open_log(files)
    logs.append(log, b"a")
    log.set_high_watermark(1)

    def fail(asked: str, _path: str) -> OSError | None:
        wanted = "open" if operation == "create" else operation
        return OSError(errno.EIO, "input/output error") if asked == wanted else None

    files.fail = fail
    with pytest.raises(LogDirFailed) as failure:
        if operation == "write":
            logs.append(log, b"b")
        elif operation == "sync":
            log.flush(logs.NOW)
        else:
            log.roll(logs.NOW)
            log.delete_records_before(1)
            log.delete_old_segments(logs.NOW)
    assert failure.value.directory == logs.ROOT
    files.fail = lambda _operation, _path: None
    assert log.recovery_point == 0
    for attempt in (
        lambda: logs.append(log, b"c"),
        lambda: logs.read_bytes(log, 0),
        lambda: log.flush(logs.NOW),
        lambda: log.close(logs.NOW),
    ):
        with pytest.raises(LogDirFailed):
            attempt()


def test_a_failed_background_sync_ends_the_log(files: MemoryFilesystem) -> None:
    log = logs.open_log(files)
    logs.append(log, b"a")
    flush = log.prepare_flush()
    assert flush is not None
    with pytest.raises(LogDirFailed):
        log.flushed(flush, logs.NOW, OSError(errno.EIO, "input/output error"))
    assert log.recovery_point == 0
    with pytest.raises(LogDirFailed):
        logs.append(log, b"b")


def test_a_full_disk_fails_the_append_and_loses_nothing_else(files: MemoryFilesystem) -> None:
    log = logs.open_log(files)
    logs.append(log, b"a")
    log.flush(logs.NOW)
    files.capacity = 400
    with pytest.raises(LogDirFailed):
        logs.append(log, bytes(400))
    files.capacity = 1 << 20
    files.kill()
    log = logs.open_log(files, recovery_point=1, clean=False)
    assert logs.values_of(log) == {0: b"a"}


# Identity


def test_another_topic_id_is_refused(files: MemoryFilesystem) -> None:
    log = logs.open_log(files)
    log.assign_topic_id(logs.TOPIC_ID)
    with pytest.raises(InconsistentTopicId):
        log.assign_topic_id(bytes(15) + b"\x05")


def test_a_damaged_topic_id_is_written_anew(files: MemoryFilesystem) -> None:
    logs.open_log(files)
    files.write(f"{logs.DIRECTORY}/partition.metadata", b"")
    assert logs.open_log(files).topic_id == logs.TOPIC_ID
    assert logs.open_log(files).topic_id == logs.TOPIC_ID

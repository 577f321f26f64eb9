"""Which segments go: cases of the pure rule, and what a log makes of it."""

from typing import NamedTuple

import pytest
from tests.storage import logs

from ottla.common.errors import OffsetOutOfRange
from ottla.storage.log import Log
from ottla.storage.retention import count_expired
from ottla.testing.files import MemoryFilesystem


class Old(NamedTuple):
    base_offset: int
    size: int
    age_ms: int

    def known_largest_timestamp(self) -> int:
        return logs.NOW - self.age_ms


SEGMENTS = [Old(0, 100, 5000), Old(10, 100, 4000), Old(20, 100, 3000), Old(30, 50, 2000)]


def count(
    segments: list[Old] = SEGMENTS,
    *,
    log_start: int = 0,
    high_watermark: int = 40,
    end: int = 40,
    size: int = -1,
    age_ms: int = -1,
    copied_to: int | None = None,
) -> int:
    return count_expired(
        segments,
        log_start_offset=log_start,
        high_watermark=high_watermark,
        log_end_offset=end,
        retention_bytes=size,
        retention_ms=age_ms,
        now_ms=logs.NOW,
        copied_to=copied_to,
    )


@pytest.mark.parametrize(("copied_to", "gone"), [(0, 0), (9, 0), (10, 1), (39, 3), (40, 4)])
def test_what_has_no_copy_yet_stays(copied_to: int, gone: int) -> None:
    assert count(size=0, age_ms=0, copied_to=copied_to) == gone


def test_what_was_deleted_needs_no_copy() -> None:
    assert count(log_start=20, copied_to=0) == 2


def test_without_limits_all_stay() -> None:
    assert count() == 0


@pytest.mark.parametrize(("log_start", "gone"), [(9, 0), (10, 1), (29, 2), (30, 3), (40, 3)])
def test_segments_below_the_log_start_go(log_start: int, gone: int) -> None:
    assert count(log_start=log_start) == gone


@pytest.mark.parametrize(
    ("size", "gone"), [(350, 0), (251, 0), (250, 1), (150, 2), (50, 3), (0, 4)]
)
def test_the_oldest_go_while_enough_is_left(size: int, gone: int) -> None:
    assert count(size=size) == gone


@pytest.mark.parametrize(("age_ms", "gone"), [(5000, 0), (4999, 1), (3999, 2), (2000, 3), (0, 4)])
def test_the_old_go(age_ms: int, gone: int) -> None:
    assert count(age_ms=age_ms) == gone


def test_a_younger_segment_protects_what_comes_after_it() -> None:
    segments = [Old(0, 1, 10), Old(1, 1, 5000), Old(2, 1, 5000)]
    assert count(segments, age_ms=100, high_watermark=3, end=3) == 0


@pytest.mark.parametrize(("high_watermark", "gone"), [(9, 0), (10, 1), (39, 3), (40, 4)])
def test_nothing_goes_at_or_above_the_high_watermark(high_watermark: int, gone: int) -> None:
    assert count(age_ms=0, high_watermark=high_watermark) == gone


def test_an_empty_active_segment_stays() -> None:
    assert count([Old(0, 100, 5000), Old(10, 0, 5000)], age_ms=0, end=10, high_watermark=10) == 1


# On a log


@pytest.fixture
def files() -> MemoryFilesystem:
    return logs.filesystem()


def filled(files: MemoryFilesystem, **settings: object) -> Log:
    log = logs.open_log(files, logs.settings(internal_segment_bytes=700, **settings))
    for number in range(20):
        logs.append(log, bytes(100), timestamp=logs.NOW + number)
    log.set_high_watermark(20)
    return log


def test_old_segments_go_and_the_log_begins_later(files: MemoryFilesystem) -> None:
    log = filled(files, retention_ms=1000)
    assert log.delete_old_segments(logs.NOW + 1000) == 0
    bases = [segment.base_offset for segment in log.segments]
    assert log.delete_old_segments(logs.NOW + 1000 + bases[2]) == 2
    assert log.log_start_offset == bases[2]
    with pytest.raises(OffsetOutOfRange):
        logs.read_bytes(log, bases[2] - 1)
    assert min(logs.values_of(log)) == bases[2]


def test_when_all_is_old_a_new_segment_begins(files: MemoryFilesystem) -> None:
    log = filled(files, retention_ms=1000)
    log.delete_old_segments(logs.NOW + 10_000)
    assert [segment.base_offset for segment in log.segments] == [20]
    assert (log.log_start_offset, log.log_end_offset) == (20, 20)
    assert logs.append(log, b"more").first_offset == 20
    log.close(logs.NOW)
    assert logs.values_of(logs.open_log(files)) == {20: b"more"}


def test_size_is_kept_just_above_its_bound(files: MemoryFilesystem) -> None:
    log = filled(files, retention_bytes=1500)
    log.delete_old_segments(logs.NOW)
    assert 1500 <= log.size() < 1500 + 700


def test_a_compacted_topic_keeps_its_old_segments(files: MemoryFilesystem) -> None:
    log = filled(files, retention_ms=1, cleanup_policy="compact")
    assert log.delete_old_segments(logs.NOW + 10_000) == 0
    log.delete_records_before(10)
    assert log.delete_old_segments(logs.NOW + 10_000) > 0
    assert log.log_start_offset == 10


def test_records_without_time_are_as_old_as_their_file(files: MemoryFilesystem) -> None:
    files.now_ms = logs.NOW
    log = logs.open_log(files, logs.settings(retention_ms=1000))
    logs.append(log, b"a", timestamp=-1)
    log.roll(logs.NOW)
    log.set_high_watermark(1)
    assert log.delete_old_segments(logs.NOW + 1000) == 0
    assert log.delete_old_segments(logs.NOW + 1001) == 1


def test_the_time_of_a_closed_segment_is_known_after_a_restart(files: MemoryFilesystem) -> None:
    log = filled(files, retention_ms=1000)
    bases = [segment.base_offset for segment in log.segments]
    log.close(logs.NOW)
    log = logs.open_log(files, log.config)  # type: ignore[arg-type]
    log.set_high_watermark(20)
    assert log.delete_old_segments(logs.NOW + 1000 + bases[1]) == 1


def test_deleted_files_go_by_another_name_first(files: MemoryFilesystem) -> None:
    renamed: list[str] = []

    def record(operation: str, path: str) -> None:
        if operation in ("rename", "remove"):
            renamed.append(f"{operation} {path.rpartition('/')[2]}")

    log = filled(files)
    log.delete_records_before(6)
    files.after = record
    assert log.delete_old_segments(logs.NOW) == 1
    first = "0" * 20
    assert renamed == [
        f"rename {first}.log.deleted",
        f"rename {first}.index.deleted",
        f"rename {first}.timeindex.deleted",
        f"remove {first}.log.deleted",
        f"remove {first}.index.deleted",
        f"remove {first}.timeindex.deleted",
    ]


# DeleteRecords


def test_records_are_deleted_up_to_the_high_watermark_only(files: MemoryFilesystem) -> None:
    log = filled(files)
    log.set_high_watermark(15)
    with pytest.raises(OffsetOutOfRange):
        log.delete_records_before(16)
    assert log.delete_records_before(15)
    assert not log.delete_records_before(14)
    assert log.log_start_offset == 15


def test_the_first_epoch_begins_with_the_log(files: MemoryFilesystem) -> None:
    log = logs.open_log(files)
    for epoch in range(5):
        logs.append(log, b"a", b"b", epoch=epoch)
    log.set_high_watermark(10)
    log.delete_records_before(5)
    assert [tuple(entry) for entry in log.epochs.entries] == [(2, 5), (3, 6), (4, 8)]


# Truncation


def test_a_log_is_truncated_to_whole_batches(files: MemoryFilesystem) -> None:
    log = logs.open_log(files)
    logs.append(log, b"a", b"b")
    logs.append(log, b"c", b"d")
    log.set_high_watermark(4)
    assert log.truncate_to(3, logs.NOW)
    assert log.log_end_offset == 2
    assert log.high_watermark == 2
    assert logs.values_of(log) == {0: b"a", 1: b"b"}
    assert logs.append(log, b"e").first_offset == 2
    assert logs.values_of(log) == {0: b"a", 1: b"b", 2: b"e"}


def test_what_comes_after_a_truncation_within_a_batch_outlives_a_kill(
    files: MemoryFilesystem,
) -> None:
    """Seed 8880: with a gap in its place the recovery took what came later for damage."""
    log = logs.open_log(files)
    logs.append(log, b"a", b"b")
    logs.append(log, b"c", b"d")
    log.truncate_to(3, logs.NOW)
    logs.append(log, b"e")
    reopened = logs.open_log(files.after_kill())
    assert logs.values_of(reopened) == {0: b"a", 1: b"b", 2: b"e"}


def test_truncation_behind_the_end_forgets_only_epochs(files: MemoryFilesystem) -> None:
    log = logs.open_log(files)
    logs.append(log, b"a", epoch=1)
    log.begin_leader_epoch(2)
    assert not log.truncate_to(1, logs.NOW)
    assert log.latest_epoch == 1
    assert log.log_end_offset == 1


def test_truncation_before_the_start_begins_anew(files: MemoryFilesystem) -> None:
    log = filled(files)
    log.delete_records_before(10)
    log.delete_old_segments(logs.NOW)
    first = log.segments[0].base_offset
    assert log.truncate_to(first - 1, logs.NOW)
    assert (log.log_start_offset, log.log_end_offset) == (first - 1, first - 1)
    assert logs.append(log, b"x").first_offset == first - 1


def test_time_is_forgotten_with_the_records(files: MemoryFilesystem) -> None:
    log = logs.open_log(files, logs.settings(index_interval_bytes=0))
    for time in (10, 30, 20):
        logs.append(log, b"a", timestamp=logs.NOW + time)
    log.truncate_to(1, logs.NOW)
    assert log.offset_of_max_timestamp() == (logs.NOW + 10, 0, 0)
    logs.append(log, b"b", timestamp=logs.NOW + 15)
    assert log.offset_of_max_timestamp() == (logs.NOW + 15, 1, 0)
    log.truncate_to(0, logs.NOW)
    assert log.offset_of_max_timestamp() is None


def test_what_was_given_up_stays_so_after_a_power_loss(files: MemoryFilesystem) -> None:
    log = logs.open_log(files)
    # Batches of a time before there were epochs.
    log.append_as_follower(bytes(logs.batch([b"a"], leader_epoch=-1)), now_ms=logs.NOW)
    log.flush(logs.NOW)
    log.truncate_fully_and_start_at(5, logs.NOW)
    files.crash()
    log = logs.open_log(files, clean=False)
    assert (log.log_start_offset, log.log_end_offset) == (5, 5)

"""Which snapshots go, and when the next one is due."""

from errno import ENOSPC

import pytest

from ottla.raft.snapshots import (
    Snapshot,
    SnapshotId,
    SnapshotRetention,
    SnapshotSchedule,
    SnapshotStore,
    snapshots_to_remove,
)
from ottla.testing.files import MemoryFilesystem

SNAPSHOTS = [Snapshot(SnapshotId(n * 100, 1), 10, n * 1000) for n in range(1, 5)]


def removed(bytes_max: int, age_max_ms: int, now_ms: int = 4000) -> list[int]:
    found = snapshots_to_remove(
        SNAPSHOTS,
        log_bytes=100,
        now_ms=now_ms,
        retention=SnapshotRetention(bytes_max, age_max_ms),
    )
    return [snapshot_id.end_offset for snapshot_id in found]


def test_the_oldest_go_until_the_rest_fits() -> None:
    assert removed(140, -1) == []
    assert removed(139, -1) == [100]
    assert removed(120, -1) == [100, 200]


def test_the_newest_stays_whatever_the_bound() -> None:
    assert removed(0, -1) == [100, 200, 300]
    assert removed(-1, 0, now_ms=99_999) == [100, 200, 300]


def test_too_old_is_by_the_last_record_contained() -> None:
    assert removed(-1, 2000) == [100]
    assert removed(-1, 2999) == [100]
    assert removed(-1, 3000) == []


def test_without_bounds_all_stay() -> None:
    assert removed(-1, -1, now_ms=1 << 50) == []


def test_a_snapshot_is_due_after_so_many_bytes() -> None:
    schedule = SnapshotSchedule(100, 0, now=0.0)
    schedule.appended(99)
    assert not schedule.is_due(1e9)
    schedule.appended(1)
    assert schedule.is_due(0.0)
    schedule.taken(1.0)
    assert not schedule.is_due(1.0)


def test_a_snapshot_is_due_after_some_time_if_there_is_anything_new() -> None:
    schedule = SnapshotSchedule(100, 60_000, now=0.0)
    assert not schedule.is_due(61.0)
    schedule.appended(1)
    assert not schedule.is_due(59.0)
    assert schedule.is_due(61.0)


def test_the_name_of_a_snapshot_is_that_of_kafka() -> None:
    assert SnapshotId(13, 1).file_name == "00000000000000000013-0000000001.checkpoint"


def test_the_directory_is_listed_once_for_each_change() -> None:
    files = MemoryFilesystem()
    files.make_directory("/log")
    listings = []

    def listed(operation: str, _path: str) -> None:
        if operation == "list":
            listings.append(operation)

    files.fail = listed
    store = SnapshotStore(files, "/log")
    first, second = SnapshotId(100, 1), SnapshotId(200, 2)
    assert [store.ids(), store.ids()] == [[], []]
    assert len(listings) == 1
    store.write(second, [b"two"])
    store.write(first, [b"one"])
    assert [store.ids(), store.ids()] == [[first, second], [first, second]]
    assert len(listings) == 2
    store.remove(first)
    store.write_chunk(SnapshotId(300, 3), 0, b"three")
    assert store.ids() == [second]
    store.install_download(SnapshotId(300, 3))
    assert store.latest() == SnapshotId(300, 3)
    assert len(listings) == 4


@pytest.mark.parametrize("failing", ["write", "sync", "rename"])
def test_a_snapshot_that_cannot_be_written_leaves_nothing_behind(failing: str) -> None:
    files = MemoryFilesystem()
    files.make_directory("/log")
    files.fail = lambda operation, _path: OSError(ENOSPC, "full") if operation == failing else None
    with pytest.raises(OSError, match="full"):
        SnapshotStore(files, "/log").write(SnapshotId(100, 1), [b"one"])
    files.fail = lambda _operation, _path: None
    assert files.list_directory("/log") == []

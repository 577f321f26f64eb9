"""What reads much of a segment does not run on the loop: counted in bytes, not in time."""

from collections.abc import Callable

import pytest
from tests.storage import logs, old_logs
from tests.storage.old_logs import Shape, Written
from tests.storage.test_driver import Storage

from ottla.common.errors import OffsetNotAvailable
from ottla.storage.log import Log
from ottla.storage.segment import SEARCH_MAX
from ottla.testing.files import MemoryFile, MemoryFilesystem
from ottla.tiered.driver.local_log import closed_segment

BATCHES = 600
VALUE = bytes(8000)
LITTLE = SEARCH_MAX
"""Some windows of an inspection, and far less than a segment."""
CONFIG = logs.settings(internal_segment_bytes=1 << 30, retention_ms=1000)

Stamp = Callable[[int], int]


class CountedFile(MemoryFile):
    def read_at(self, position: int, size: int) -> bytes:
        data = super().read_at(position, size)
        if self.files.is_on_loop:
            self.files.read_on_loop += len(data)
        return data

    files: "CountedFilesystem"


class CountedFilesystem(MemoryFilesystem):
    """Counts what is read while ``is_on_loop``."""

    is_on_loop = True
    read_on_loop = 0

    def open(self, path: str, *, create: bool = False, stays: bool = False) -> CountedFile:
        super().open(path, create=create, stays=stays)
        file = CountedFile(self, path, self._inode(path))
        file.files = self
        return file


class Disk:
    """A broker's storage over segments that are far larger than what may be searched at once."""

    def __init__(
        self, stamp: Stamp, *, segments: int = 2, by_record: bool = True, magic: int = 2
    ) -> None:
        self.files = CountedFilesystem()
        self.files.make_directory(logs.ROOT)
        pieces = old_logs.pieces(
            [
                Shape(magic, 0, [(b"k", VALUE, stamp(number)), (b"k", b"", -1)], None)
                for number in range(segments * BATCHES)
            ]
        )
        self.segments: list[Written] = old_logs.write(
            self.files, pieces, BATCHES, by_record=by_record
        )
        self.files.write(f"{logs.ROOT}/.kafka_cleanshutdown", b'{"version":0,"brokerEpoch":-1}')

    def start(self) -> Log:
        self.storage = Storage(CONFIG, self.files)
        log = self.storage.manager.get_or_create(logs.TOPIC, logs.TOPIC_ID)
        log.set_high_watermark(log.log_end_offset)
        self.files.read_on_loop = 0
        return log

    def run_background(self) -> None:
        """All that waits for a thread, and then what the loop makes of it."""
        self.storage.clock.run_due()
        self.files.is_on_loop = False
        self.storage.clock.run_background()
        self.files.is_on_loop = True
        self.storage.clock.run_due()


def newer(number: int) -> int:
    return logs.NOW + number


def timeless(_number: int) -> int:
    return -1


@pytest.mark.parametrize("magic", [1, 2])
def test_indexes_of_older_kafkas_cost_no_scan(magic: int) -> None:
    """Their entries have the offset of a record within its batch, up to Kafka 3.6."""
    disk = Disk(newer, magic=magic)
    log = disk.start()
    assert log.delete_old_segments(logs.NOW + BATCHES + 1000) == 1
    found = logs.offset_for_timestamp(log, logs.NOW + BATCHES + 7)
    assert found is not None
    assert found.timestamp == logs.NOW + BATCHES + 7
    assert 0 < disk.files.read_on_loop < LITTLE
    assert not disk.storage.manager.doubted


@pytest.mark.parametrize("magic", [0, 2])
def test_records_without_timestamps_cost_no_scan(magic: int) -> None:
    disk = Disk(timeless, magic=magic)
    log = disk.start()
    assert log.delete_old_segments(logs.NOW) == 0  # the files are newer
    assert logs.offset_for_timestamp(log, logs.NOW + old_logs.MODIFIED_MS + 1) is None
    assert 0 < disk.files.read_on_loop < LITTLE
    assert log.delete_old_segments(logs.NOW + old_logs.MODIFIED_MS + 1001) == 2
    assert disk.files.read_on_loop < LITTLE


def test_a_fetch_without_an_index_waits_for_one() -> None:
    disk = Disk(newer)
    first = disk.segments[0]
    before = disk.files.read(f"{first.name}.index")
    disk.files.write(f"{first.name}.index", b"")
    log = disk.start()
    offset = BATCHES  # in the middle of it
    with pytest.raises(OffsetNotAvailable):
        logs.read_bytes(log, offset, max_bytes=1000)
    assert disk.files.read_on_loop < 2 * SEARCH_MAX
    disk.run_background()
    disk.files.read_on_loop = 0
    assert logs.read_bytes(log, offset, max_bytes=1000) == first.pieces[offset // 2].data
    assert disk.files.read_on_loop < LITTLE
    assert disk.files.read(f"{first.name}.index") == before


def test_the_broker_itself_waits_for_an_index_too() -> None:
    """Coordinators that load, and logs that move, ask again."""
    disk = Disk(newer)
    first = disk.segments[0]
    disk.files.write(f"{first.name}.index", b"")
    log = disk.start()
    with pytest.raises(OffsetNotAvailable):
        log.read_bytes(BATCHES, 1000)
    assert disk.files.read_on_loop < 2 * SEARCH_MAX
    disk.run_background()
    assert log.read_bytes(BATCHES, 1000) == first.pieces[BATCHES // 2].data


@pytest.mark.parametrize("part", [".index", ".timeindex"])
def test_what_misleads_in_the_last_segment_is_made_anew_before_an_append(part: str) -> None:
    disk = Disk(newer)
    last = disk.segments[-1]
    whole = disk.files.read(f"{last.name}{part}")
    disk.files.write(f"{last.name}{part}", b"\1" * 12 if part == ".timeindex" else bytes(8))
    log = disk.start()  # that is not done on the loop of a broker
    assert disk.files.read(f"{last.name}{part}") != b"\1" * 12
    logs.append(log, b"v", timestamp=newer(5000))
    assert 0 < disk.files.read_on_loop < LITTLE
    assert log.segments.active.largest_timestamp() == newer(5000)
    assert len(whole) > 12


@pytest.mark.parametrize("way", ["misleads", "torn"])
def test_the_copy_of_a_segment_to_the_tier_waits_for_its_indexes(way: str) -> None:
    disk = Disk(newer)
    first = disk.segments[0]
    log = disk.start()
    before = disk.files.read(f"{first.name}.timeindex")
    if way == "torn":  # when it is known what it should end with
        assert log.segments[0].largest_timestamp() == first.max_timestamp
    disk.files.write(f"{first.name}.timeindex", bytes(12 if way == "misleads" else 13))
    with pytest.raises(OffsetNotAvailable):
        closed_segment(log, 0)
    assert disk.files.read_on_loop < LITTLE
    disk.run_background()
    assert closed_segment(log, 0).largest_timestamp() == first.max_timestamp
    assert disk.files.read(f"{first.name}.timeindex") == first.indexes()[1] != before


def test_what_retention_cannot_tell_yet_stays_until_it_can() -> None:
    disk = Disk(newer)
    first = disk.segments[0]
    before = disk.files.read(f"{first.name}.timeindex")
    disk.files.write(f"{first.name}.timeindex", bytes(12) + before[:-1] + b"?")
    log = disk.start()
    now_ms = logs.NOW + BATCHES + 1000
    assert log.delete_old_segments(now_ms) == 0
    with pytest.raises(OffsetNotAvailable):
        logs.offset_for_timestamp(log, logs.NOW)
    assert disk.files.read_on_loop < LITTLE
    disk.run_background()
    assert disk.files.read(f"{first.name}.timeindex") == first.indexes()[1]
    assert log.delete_old_segments(now_ms) == 1
    assert disk.files.read_on_loop < LITTLE


def test_a_search_by_time_reads_elsewhere() -> None:
    """Nothing that has an entry grows, up to the last record of all."""
    last = BATCHES - 1
    disk = Disk(lambda number: logs.NOW + 5 if number == last else logs.NOW - number, segments=1)
    log = disk.start()
    search = log.next_time_search(logs.NOW + 1)
    assert search is not None
    assert disk.files.read_on_loop < LITTLE
    disk.files.is_on_loop = False
    found = search.run()
    assert found is not None
    assert found.offset == 2 * last
    assert log.next_time_search(logs.NOW + 1, search) is None
    assert disk.files.read_on_loop < LITTLE


@pytest.mark.parametrize("way", ["deleted", "truncated"])
def test_a_segment_that_goes_meanwhile_gets_no_indexes(way: str) -> None:
    disk = Disk(newer)
    first = disk.segments[0]
    disk.files.write(f"{first.name}.index", b"")
    log = disk.start()
    with pytest.raises(OffsetNotAvailable):
        logs.read_bytes(log, BATCHES, max_bytes=1000)
    disk.storage.clock.run_due()
    if way == "deleted":
        disk.storage.manager.delete(logs.TOPIC)
    else:
        log.truncate_to(10, logs.NOW)
    disk.run_background()
    assert [each.is_online for each in disk.storage.manager.directories] == [True]
    if way == "truncated":
        assert log.log_end_offset == 10
        assert len(logs.read_all(log)) == 10

"""Indexes that are made anew elsewhere, and searches that run there, while the log goes on."""

import struct

import pytest
from tests.storage import cleaning, logs
from tests.storage.test_driver import Storage
from tests.turns import TURN

from ottla.common.chance import Chance
from ottla.common.errors import CorruptMessage, OffsetNotAvailable, RecordListTooLarge
from ottla.common.promise import run
from ottla.records.batch import batches
from ottla.storage import offset_index, time_index
from ottla.storage.file_records import headers, places
from ottla.storage.log import Log
from ottla.storage.segment import Segment
from ottla.storage.time_search import TimestampAndOffset, find_by_time

SIZE = 100
TIMES = 12


class Disk:
    """A broker's storage with one log of several segments, opened again after a clean stop."""

    def __init__(self, count: int = 40, interval: int = 0) -> None:
        self.config = logs.settings(
            internal_segment_bytes=2000, index_interval_bytes=interval, retention_ms=1000
        )
        self.files = logs.filesystem()
        self.start()
        for number in range(count):
            self.append(number)
        self.storage.manager.stop()
        self.start()

    def start(self) -> None:
        self.storage = Storage(self.config, self.files)
        self.log: Log = self.storage.manager.get_or_create(logs.TOPIC, logs.TOPIC_ID)
        self.log.set_high_watermark(self.log.log_end_offset)
        self.storage.clock.advance(0)

    def append(self, number: int, size: int = SIZE) -> None:
        logs.append(self.log, bytes(size), timestamp=logs.NOW + number)

    def mislead(self, segment: Segment) -> None:
        """Let the offset index lead elsewhere, and a reader find that."""
        path = segment.offset_index.path
        right = self.files.read(path)
        self.files.write(path, offset_index.ENTRY.pack(1, 1 << 24) + right[8:])
        with pytest.raises(OffsetNotAvailable):
            segment.find(segment.base_offset + 1)

    def begin_rebuild(self, segment: Segment) -> None:
        self.mislead(segment)
        self.storage.clock.run_due()
        assert self.storage.clock.background == 1


def check_indexes(segment: Segment) -> None:
    """Each entry leads to its batch, and the last ones to the last batches."""
    found = {place.position: place for place in places(segment.file, 0, segment.size)}
    entries = segment.offset_index.all()
    assert entries
    for relative, position in entries:
        assert found[position].last_offset == segment.base_offset + relative
    assert segment.size - entries[-1][1] < 4 * SIZE
    by_offset = {
        header.last_offset: header.max_timestamp
        for _, header in headers(segment.file, 0, segment.size)
    }
    times = segment.time_index.all()
    for timestamp, relative in times:
        assert by_offset[segment.base_offset + relative] == timestamp
    assert times[-1][0] == max(by_offset.values()) == segment.largest_timestamp()


def test_a_batch_that_is_damaged_puts_no_search_off_for_ever() -> None:
    """The header is sound, and an entry of each new time index leads to it."""
    disk = Disk()
    segment = disk.log.segments[0]
    data = bytearray(disk.files.read(segment.path))
    at, size = list(batches(bytes(data)))[5]
    data[at + size - 1] ^= 1
    disk.storage.manager.stop()
    disk.files.write(segment.path, bytes(data))
    disk.start()

    def find(timestamp: int) -> TimestampAndOffset | None:
        search = run(TURN, find_by_time(disk.log, timestamp, disk.storage.clock))
        disk.storage.clock.advance(0)
        return search.result()

    with pytest.raises(OffsetNotAvailable):
        find(logs.NOW + 5)
    with pytest.raises(CorruptMessage):
        find(logs.NOW + 5)
    assert find(logs.NOW + 4) == (logs.NOW + 4, 4, 0)
    assert find(logs.NOW + 7) == (logs.NOW + 7, 7, 0)
    assert not disk.storage.manager.doubted


MAX_TIMESTAMP = 35 + 7
"""Of a batch: the last byte of it."""


@pytest.mark.parametrize("count", [8, 40])
@pytest.mark.parametrize("damage", ["zeros", "zeros and a torn index", *range(4)])
def test_how_new_damaged_batches_are_is_not_known(count: int, damage: str | int) -> None:
    """The last two batches of the first segment, or a bit of the time in the last one's header."""
    disk = Disk(count)
    path = disk.log.segments[0].path
    disk.storage.manager.stop()
    data = bytearray(disk.files.read(path))
    found = list(batches(bytes(data)))
    if isinstance(damage, int):
        data[found[-1][0] + MAX_TIMESTAMP] ^= 1 << damage
    else:
        data[found[-2][0] :] = bytes(len(data) - found[-2][0])
    if damage == "zeros and a torn index":
        disk.files.write(path.replace(".log", ".index"), b"torn")
    disk.files.write(path, bytes(data))
    newest = logs.NOW + len(found) - 1
    for _ in range(2):  # what was found out is not forgotten with a restart
        disk.start()
        with pytest.raises(CorruptMessage):
            found_by_time(disk, newest)
        assert found_by_time(disk, newest - 2) == (newest - 2, len(found) - 3, 0)
        if count > len(found):
            with pytest.raises(CorruptMessage):
                found_by_time(disk, newest + 1)  # perhaps the last one is as new as that
        disk.storage.manager.stop()


def test_behind_damaged_batches_side_by_side_the_next_sound_one_is_found() -> None:
    """Without any index: their lengths lead there."""
    disk = Disk()
    segment = disk.log.segments[0]
    disk.storage.manager.stop()
    data = bytearray(disk.files.read(segment.path))
    for at, size in list(batches(bytes(data)))[3:7]:
        data[at + size - 1] ^= 1
    disk.files.write(segment.path, bytes(data))
    disk.files.write(segment.offset_index.path, b"")
    disk.start()
    assert found_by_time(disk, logs.NOW + 7) == (logs.NOW + 7, 7, 0)
    assert logs.records_of(logs.read_bytes(disk.log, 7))[0].offset == 7
    for offset in range(3, 7):
        with pytest.raises(CorruptMessage):
            logs.read_bytes(disk.log, offset)


def test_behind_batches_without_lengths_the_index_leads_on() -> None:
    disk = Disk()
    segment = disk.log.segments[0]
    disk.storage.manager.stop()
    data = bytearray(disk.files.read(segment.path))
    found = list(batches(bytes(data)))
    data[found[3][0] : found[5][0]] = bytes(found[5][0] - found[3][0])
    disk.files.write(segment.path, bytes(data))
    disk.start()
    with pytest.raises(OffsetNotAvailable):
        logs.read_bytes(disk.log, 4)  # an entry leads there; the new index has none
    for _ in range(2):
        assert logs.records_of(logs.read_bytes(disk.log, 5))[0].offset == 5
        disk.storage.clock.advance(0)
    with pytest.raises(CorruptMessage):
        logs.read_bytes(disk.log, 4)


def found_by_time(disk: Disk, timestamp: int) -> TimestampAndOffset | None:
    """The answer to the last of those that ask again while an index is made anew."""
    for _ in range(3):
        search = run(TURN, find_by_time(disk.log, timestamp, disk.storage.clock))
        disk.storage.clock.advance(0)
        try:
            return search.result()
        except OffsetNotAvailable:
            continue
    return pytest.fail("a search is put off for ever")


def test_other_batches_of_the_same_size_get_no_stale_indexes() -> None:
    disk = Disk()
    segment = disk.log.segments[0]
    size, end = segment.size, disk.log.segments[1].base_offset
    disk.mislead(segment)
    rebuild = disk.log.prepare_rebuild(segment)
    assert rebuild is not None
    rebuild.run_aside()
    disk.log.truncate_to(end - 4, logs.NOW)
    for more, number in ((20, 100), (-20, 200), (0, 300), (0, 400)):
        disk.append(number, SIZE + more)
    assert segment.find(1) is not None
    disk.log.roll(logs.NOW)
    assert segment.size == size
    disk.log.rebuilt(segment, rebuild, None)
    check_indexes(segment)
    assert not any(name.endswith(".rebuilt") for name in disk.files.list_directory(logs.DIRECTORY))


def test_a_segment_that_has_grown_gets_no_stale_indexes() -> None:
    disk = Disk()
    segment = disk.log.segments.active
    disk.begin_rebuild(segment)
    disk.append(500, 10)
    assert segment.find(segment.base_offset + 1) is not None
    disk.log.roll(logs.NOW)
    disk.storage.clock.advance(0)
    check_indexes(segment)


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_a_segment_that_is_appended_to_has_its_indexes_in_memory(when: str) -> None:
    """A refused append has opened it; the next one looks into no file."""
    disk = Disk()
    segment = disk.log.segments.active
    if when == "before":
        disk.mislead(segment)
    else:
        disk.begin_rebuild(segment)
    with pytest.raises(RecordListTooLarge):
        logs.append_batch(disk.log, logs.batch([bytes(5000)]))
    assert segment.active
    if when == "before":
        disk.storage.clock.run_due()
        assert disk.storage.clock.background == 0
    disk.storage.clock.advance(0)
    touched: list[str] = []

    def note(_operation: str, path: str) -> None:
        touched.append(path)

    disk.files.fail = note
    disk.append(700, 0)
    assert touched == [segment.path]
    disk.log.roll(logs.NOW)
    assert segment.time_index.last_entry() == (logs.NOW + 700, 40)


def test_behind_a_length_that_leads_beyond_the_file_there_are_batches() -> None:
    disk = Disk()
    segment = disk.log.segments[0]
    data = bytearray(disk.files.read(segment.path))
    at, _ = list(batches(bytes(data)))[5]
    data[at + 9] ^= 0x10
    disk.storage.manager.stop()
    disk.files.write(segment.path, bytes(data))
    disk.files.write(segment.time_index.path, bytes(TIMES))
    disk.start()
    segment = disk.log.segments[0]
    last = disk.log.segments[1].base_offset - 1
    assert segment.known_largest_timestamp() is None
    disk.storage.clock.advance(0)
    assert segment.known_largest_timestamp() == logs.NOW + last
    assert logs.offset_for_timestamp(disk.log, logs.NOW + last) == (logs.NOW + last, last, 0)


def test_retention_does_not_believe_a_time_index_that_was_cut() -> None:
    disk = Disk()
    segment = disk.log.segments[0]
    whole = disk.files.read(segment.time_index.path)
    disk.files.write(segment.time_index.path, whole[: 2 * TIMES])
    now_ms = logs.NOW + 1005
    assert disk.log.delete_old_segments(now_ms) == 0
    disk.storage.clock.advance(0)
    assert disk.files.read(segment.time_index.path) == whole
    assert disk.log.delete_old_segments(now_ms) == 0
    assert logs.offset_for_timestamp(disk.log, logs.NOW + 9) == (logs.NOW + 9, 9, 0)


def test_an_entry_that_is_the_last_after_a_truncation_is_looked_at() -> None:
    disk = Disk()
    segment = disk.log.segments[0]
    times = bytearray(disk.files.read(segment.time_index.path))
    struct.pack_into(">q", times, 4 * TIMES, logs.NOW + 1_000_000)
    disk.files.write(segment.time_index.path, bytes(times))
    assert time_index.ENTRY.unpack_from(times, 4 * TIMES)[1] == 5
    disk.log.truncate_to(6, logs.NOW)
    assert segment.largest_timestamp() == logs.NOW + 5


def test_power_that_is_lost_meanwhile_leaves_whole_indexes() -> None:
    disk = Disk()
    segment = disk.log.segments[0]
    paths = segment.index_paths()
    right = [disk.files.read(path) for path in paths]
    disk.begin_rebuild(segment)
    wrong = [disk.files.read(path) for path in paths]
    for path in paths:
        disk.files.open(path).sync()
    seen: list[list[bytes]] = []

    def look(_operation: str, _path: str) -> None:
        for seed in range(6):
            left = disk.files.after_crash(Chance(seed))
            seen.append([left.read(path) for path in paths])

    disk.files.after = look
    disk.storage.clock.advance(0)
    assert len(seen) > 30
    for offsets, times in seen:
        assert offsets in (right[0], wrong[0])
        assert times in (right[1], wrong[1])
    assert [disk.files.read(path) for path in paths] == right


def test_what_a_crash_left_of_new_indexes_goes() -> None:
    disk = Disk()
    path = disk.log.segments[0].offset_index.path + ".rebuilt"
    disk.storage.manager.stop()
    disk.files.write(path, b"half")
    disk.start()
    assert not disk.files.exists(path)


def test_a_log_that_is_renamed_meanwhile_is_not_given_up() -> None:
    disk = Disk()
    segment = disk.log.segments[0]
    disk.begin_rebuild(segment)
    disk.log.rename_directory("topic-1")
    disk.storage.clock.advance(0)
    assert disk.log.failure is None
    with pytest.raises(OffsetNotAvailable):
        segment.find(1)
    disk.storage.clock.advance(0)
    place = segment.find(1)
    assert place is not None
    assert place.base_offset == 1


def test_an_index_that_somebody_removes_is_made_anew_before_it_is_appended_to() -> None:
    disk = Disk()
    segment = disk.log.segments[0]
    disk.files.remove(segment.offset_index.path)
    disk.log.truncate_to(6, logs.NOW)
    disk.append(50)
    disk.log.roll(logs.NOW)
    check_indexes(segment)


def test_readers_that_ask_meanwhile_have_it_made_once() -> None:
    disk = Disk()
    segment = disk.log.segments[0]
    disk.begin_rebuild(segment)
    with pytest.raises(OffsetNotAvailable):
        segment.find(1)
    disk.storage.clock.run_background()
    disk.storage.clock.run_due()
    assert disk.storage.clock.background == 0
    assert segment.find(1) is not None


def test_a_search_goes_on_behind_what_it_has_searched() -> None:
    """Segments are merged while it is in the first of them: the rest has another base offset."""
    files = logs.filesystem()
    storage = Storage(cleaning.compacted(min_cleanable_dirty_ratio=0), files)
    log = storage.manager.get_or_create(logs.TOPIC, logs.TOPIC_ID)
    cleaning.put(log, [(b"first", bytes(60))])
    for number in range(30):
        cleaning.put(log, [(b"%d" % (number % 3), bytes(60))], now_ms=logs.NOW + number % 10)
    wanted = logs.NOW + 50
    later = cleaning.put(log, [(b"later", b"")], now_ms=wanted)
    log.roll(logs.NOW)
    cleaning.put(log, [(b"k", b"")])
    cleaning.clean(files, log, None, logs.NOW)
    segment, count = log.segments[0], len(log.segments)
    assert segment.size
    assert count > 3
    segment._max_known, segment.max_timestamp = True, wanted  # so it is searched in vain
    search = run(TURN, find_by_time(log, wanted, storage.clock))
    assert not search.done
    cleaning.clean(files, log, None, logs.NOW)
    assert len(log.segments) < count
    assert later not in log.segments.base_offsets
    storage.clock.advance(0)
    found = search.result()
    assert found is not None
    assert (found.timestamp, found.offset) == (wanted, later)


def test_a_search_of_what_is_truncated_meanwhile_begins_anew() -> None:
    disk = Disk()
    wanted = logs.NOW + 39
    search = run(TURN, find_by_time(disk.log, wanted, disk.storage.clock))
    disk.storage.clock.run_due()
    disk.log.truncate_to(30, logs.NOW)
    disk.append(70, 30)
    disk.storage.clock.advance(0)
    found = search.result()
    assert found is not None
    assert (found.timestamp, found.offset) == (logs.NOW + 70, 30)


def test_a_search_waits_for_no_other_directory() -> None:
    disk = Disk()
    clock = disk.storage.clock
    clock.lanes.clear()
    run(clock.turn, find_by_time(disk.log, logs.NOW + 3, clock))
    assert clock.lanes == [logs.ROOT]

"""What was not written by this life of the broker is looked at before it is served, once."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.storage import logs

from ottla.common.errors import CorruptMessage
from ottla.records.batch import HEADER_SIZE, batches, read_header
from ottla.storage.inspection import Damage
from ottla.storage.listener import StandsAlone
from ottla.storage.log import Log
from ottla.storage.open_files import OpenFiles
from ottla.storage.opening import open_log
from ottla.storage.stretches import STRETCHES_MAX, Stretches
from ottla.storage.verification import PIECE_BYTES, Verify
from ottla.testing.files import MemoryFilesystem

BATCHES = 40
SETTINGS = logs.settings(internal_segment_bytes=1500)
SIZE = len(logs.batch([bytes(40)] * 2))


class Told(StandsAlone):
    """Keeps what a log tells of damage."""

    def __init__(self, files: MemoryFilesystem) -> None:
        super().__init__(files)
        self.damages: list[tuple[str, Damage]] = []

    def damaged(self, path: str, damage: Damage) -> None:
        self.damages.append((path.rpartition("/")[2], damage))


class Disk:
    """A closed log of forty batches of two records each, and what is read of its segments."""

    def __init__(self) -> None:
        self.files = logs.filesystem()
        log = logs.open_log(self.files, SETTINGS)
        for number in range(BATCHES):
            logs.append(log, *[str(number).encode().ljust(40)] * 2, timestamp=logs.NOW + number)
        self.first = log.segments[0].path
        self.per_segment = log.segments[0].size // SIZE
        log.close(logs.NOW)
        self.told = Told(self.files)
        self.reads = 0

    def damage(self, batch: int, position: int, bit: int = 0) -> None:
        file = self.files.open(self.first)
        at = batch * SIZE + position
        file.write_at(at, bytes([file.read_at(at, 1)[0] ^ (1 << bit)]))

    def open(self, verify: Verify = Verify.ONCE) -> Log:
        log = open_log(
            self.files,
            logs.DIRECTORY,
            topic_partition=logs.TOPIC,
            topic_id=logs.TOPIC_ID,
            config=SETTINGS,
            now_ms=logs.NOW,
            recovery_point=2 * BATCHES,
            open_files=OpenFiles(3),
            listener=self.told,
            verify=verify,
        )
        log.set_high_watermark(log.log_end_offset)
        self.files.fail = self._count
        return log

    def _count(self, operation: str, path: str) -> None:
        self.reads += operation == "read" and path.endswith(".log")


def served(log: Log, offset: int, max_bytes: int = 10_000) -> list[int]:
    """The offsets that a reader gets, whether they are right or not."""
    data = logs.read_bytes(log, offset, max_bytes=max_bytes)
    found = [read_header(data, position) for position, _ in batches(data)]
    return [o for header in found for o in range(header.base_offset, header.last_offset + 1)]


@pytest.fixture
def disk() -> Disk:
    return Disk()


def test_a_read_ends_before_a_damaged_batch(disk: Disk) -> None:
    disk.damage(3, HEADER_SIZE)
    log = disk.open()
    assert served(log, 0) == list(range(6))
    for offset in (6, 7):
        with pytest.raises(CorruptMessage, match="position"):
            served(log, offset)
    assert served(log, 8)[:2] == [8, 9]


def test_damage_is_told_of_once_with_its_place(disk: Disk) -> None:
    disk.damage(3, HEADER_SIZE)
    log = disk.open()
    for _ in range(3):
        with pytest.raises(CorruptMessage):
            served(log, 6)
    name = disk.first.rpartition("/")[2]
    assert disk.told.damages == [(name, Damage(3 * SIZE, 4 * SIZE, 6))]


@pytest.mark.parametrize("position", range(HEADER_SIZE + 10))
def test_every_byte_of_a_batch_has_a_witness(disk: Disk, position: int) -> None:
    for bit in (0, 5):
        disk.damage(4, position, bit)
        log = disk.open()
        assert served(log, 0) == list(range(8))
        with pytest.raises(CorruptMessage):
            served(log, 8)
        assert served(log, 10)[0] == 10
        disk.damage(4, position, bit)


def test_behind_the_damaged_end_of_a_segment_the_next_one_is_read(disk: Disk) -> None:
    disk.damage(disk.per_segment - 1, HEADER_SIZE)
    log = disk.open()
    second = log.segments[1].base_offset
    with pytest.raises(CorruptMessage):
        served(log, second - 1)
    assert served(log, second)[0] == second


def test_a_batch_too_far_from_its_segment_is_damaged_and_in_no_index(disk: Disk) -> None:
    """Its last one, which has no next one to contradict it; indexes hold 32 bits."""
    last = disk.per_segment - 1
    disk.damage(last, 3, bit=1)
    segment = disk.open().segments[0]
    segment.rebuild_indexes()
    offsets = [place.base_offset for place, _ in segment.sound_batches()]
    assert offsets == list(range(0, 2 * last, 2))


def test_a_second_reader_pays_nothing(disk: Disk) -> None:
    log = disk.open()
    assert len(logs.read_all(log)) == 2 * BATCHES
    first = log.segments[0]
    assert first.sound_from == 0
    log._reader.forget_places()
    disk.reads = 0
    fetched = log.read(0, 10_000, upper_bound_offset=80, at_least_one=True)
    assert fetched.size == first.size
    assert disk.reads <= 1


def test_a_reader_elsewhere_begins_at_the_nearest_entry_of_the_index(disk: Disk) -> None:
    log = disk.open()
    first = log.segments[0]
    assert served(log, first.size // SIZE * 2 - 2)[0] == first.size // SIZE * 2 - 2
    assert 0 < first.sound_from < first.size


def test_what_this_life_has_written_is_not_looked_at(disk: Disk) -> None:
    log = disk.open()
    logs.append(log, b"new", epoch=1)
    assert served(log, 80) == [80]
    logs.append(log, b"newer", epoch=1)
    disk.reads = 0
    assert served(log, 81) == [81]
    assert disk.reads == 1, "only the reader itself has read"


def test_always_looks_again_at_closed_segments(disk: Disk) -> None:
    log = disk.open(Verify.ALWAYS)
    assert served(log, 0)[-1] == 2 * disk.per_segment - 1
    disk.damage(2, HEADER_SIZE)
    assert served(log, 0)[-1] == 3
    for number in range(20):
        logs.append(log, str(number).encode().ljust(40), epoch=1)
    path = log.segments[-2].path
    file = disk.files.open(path)
    file.write_at(HEADER_SIZE + 3, bytes([file.read_at(HEADER_SIZE + 3, 1)[0] ^ 4]))
    with pytest.raises(CorruptMessage):
        served(log, log.segments[-2].base_offset)


def test_once_does_not_look_again(disk: Disk) -> None:
    log = disk.open()
    served(log, 0)
    disk.damage(2, HEADER_SIZE)
    assert served(log, 0)[-1] == 2 * disk.per_segment - 1


def test_never_looks_at_nothing(disk: Disk) -> None:
    disk.damage(2, HEADER_SIZE + 20)
    log = disk.open(Verify.NEVER)
    assert len(served(log, 0)) == 2 * disk.per_segment


def test_one_read_looks_at_a_piece_only() -> None:
    files = logs.filesystem()
    config = logs.settings(internal_segment_bytes=8 << 20, max_message_bytes=1 << 20)
    log = logs.open_log(files, config)
    for _ in range(40):
        logs.append(log, bytes(100_000))
    log.close(logs.NOW)
    log = logs.open_log(files, config)
    fetched = log.read(0, 8 << 20, upper_bound_offset=40, at_least_one=True)
    assert PIECE_BYTES <= fetched.size < PIECE_BYTES + 110_000
    assert len(logs.read_all(log, max_bytes=8 << 20)) == 40
    assert log.read(0, 8 << 20, upper_bound_offset=40, at_least_one=True).next_offset == 40


def test_a_time_is_not_looked_up_across_damage(disk: Disk) -> None:
    disk.damage(5, HEADER_SIZE)
    log = disk.open()
    found = logs.offset_for_timestamp(log, logs.NOW + 4)
    assert found is not None
    assert found.offset == 8
    with pytest.raises(CorruptMessage):
        logs.offset_for_timestamp(log, logs.NOW + 5)
    found = logs.offset_for_timestamp(log, logs.NOW + 30)
    assert found is not None
    assert found.offset == 60


def test_an_upper_bound_holds_while_bytes_are_looked_at(disk: Disk) -> None:
    log = disk.open()
    for upper in range(1, 20):
        data = logs.read_bytes(log, 0, upper=upper)
        assert len(data) == upper // 2 * SIZE


def test_old_messages_have_a_checksum_of_their_own(disk: Disk) -> None:
    body = b"\x00\x00" + b"\xff" * 4 + (5).to_bytes(4, "big") + b"hello"
    message = zlib.crc32(body).to_bytes(4, "big") + body
    data = b"".join(
        o.to_bytes(8, "big") + len(message).to_bytes(4, "big") + message for o in (0, 1)
    )
    for at, expected in ((None, [0, 1]), (20, []), (len(data) - 1, [0])):
        files = logs.filesystem()
        logs.open_log(files).close(logs.NOW)
        path = f"{logs.DIRECTORY}/{0:020d}.log"
        changed = bytearray(data)
        if at is not None:
            changed[at] ^= 1
        files.write(path, bytes(changed))
        log = logs.open_log(files, recovery_point=2)
        if not expected:
            with pytest.raises(CorruptMessage):
                log.read(0, 1000, upper_bound_offset=2, at_least_one=True)
        else:
            fetched = log.read(0, 1000, upper_bound_offset=2, at_least_one=True)
            assert fetched.size == len(expected) * len(data) // 2


@given(st.lists(st.integers(0, 60), unique=True))
def test_stretches_are_what_was_added(order: list[int]) -> None:
    stretches = Stretches()
    added: set[int] = set()
    for unit in order:
        stretches.add(unit * 10, unit * 10 + 10, unit + 1)
        added.add(unit)
        for each in range(61):
            found = stretches.reaching(each * 10 + 5)
            assert (found is not None) == (each in added)
            if found is not None:
                assert found.next_offset * 10 == found.end
                assert found.end // 10 not in added


def test_not_too_many_stretches_are_kept() -> None:
    stretches = Stretches()
    for number in range(2 * STRETCHES_MAX):
        stretches.add(number * 10, number * 10 + 1 + number % 5, number)
    assert len(stretches) == STRETCHES_MAX

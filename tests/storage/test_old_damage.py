"""Damage to logs of magic 0, 1 and 2: what is sound stays, and nothing wrong takes its place.

A compressed message of magic 0 or 1 bears the offset of its last record, and no checksum covers it:
only its neighbours, and what it wraps, say whether it is right.
"""

from collections.abc import Iterator
from typing import NamedTuple

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.records.old_messages import Old, message, wrapper
from tests.storage import logs, old_logs
from tests.storage.old_logs import LOGS, Piece, Shape, Written

from ottla.common.errors import CorruptMessage
from ottla.records.batch import LENGTH_POSITION, LOG_OVERHEAD, MAGIC
from ottla.records.compression import DECOMPRESSED_MAX, GZIP
from ottla.records.record import Record
from ottla.storage.log import Log
from ottla.testing.files import MemoryFilesystem

CONFIG = logs.settings(internal_segment_bytes=1 << 20, retention_ms=-1)
COMPACTED = logs.settings(internal_segment_bytes=1 << 20, cleanup_policy="compact")
KINDS = [(0, 0), (0, GZIP), (1, 0), (1, GZIP), (2, 0), (2, GZIP)]
OLD_KINDS = [kind for kind in KINDS if kind[0] < MAGIC]
PER_SEGMENT = 3


def shape(kind: tuple[int, int], count: int) -> Shape:
    values: list[tuple[bytes, bytes | None, int]] = [
        (b"a", b"%d" % number * 20, logs.NOW + number) for number in range(count)
    ]
    return Shape(*kind, values, None)


def mixed(kind: tuple[int, int], neighbour: tuple[int, int]) -> list[Piece]:
    """Three segments; in each the first, the one in the middle or the last is of ``kind``."""
    shapes = [
        shape(kind if at % 4 == 0 else neighbour, 1 + (at * 3) % 4) for at in range(3 * PER_SEGMENT)
    ]
    return old_logs.pieces(shapes)


class Disk(NamedTuple):
    """A log on a disk, of which some bytes are about to be others."""

    files: MemoryFilesystem
    found: list[Piece]
    segments: list[Written]

    @classmethod
    def of(cls, found: list[Piece], size: int) -> "Disk":
        files = logs.filesystem()
        return cls(files, found, old_logs.write(files, found, size, by_record=False))

    @property
    def end(self) -> int:
        return self.found[-1].last_offset + 1

    def places(self) -> Iterator[tuple[Written, int, Piece]]:
        for segment in self.segments:
            position = 0
            for piece in segment.pieces:
                yield segment, position, piece
                position += len(piece.data)

    def copy(self, name: str, data: bytes) -> MemoryFilesystem:
        """The same files, with other batches in one of them."""
        files = logs.filesystem()
        files.make_directory(logs.DIRECTORY)
        for each in self.files.list_directory(logs.DIRECTORY):
            path = f"{logs.DIRECTORY}/{each}"
            files.write(path, data if path == f"{name}.log" else self.files.read(path))
        return files

    def open(self, files: MemoryFilesystem, *, clean: bool) -> Log:
        return logs.open_log(files, CONFIG, clean=clean, recovery_point=self.end if clean else 0)


def changed(data: bytes, position: int, mask: int) -> bytes:
    return data[:position] + bytes([data[position] ^ mask]) + data[position + 1 :]


def flipped(segment: Written, position: int, bit: int) -> bytes:
    """The segment, with one bit of the offset of a batch another."""
    return changed(segment.data, position + 7 - bit // 8, 1 << bit % 8)


def read_at(log: Log, offset: int) -> list[Record] | None:
    """The records of the batch that has ``offset``; None when it is refused."""
    try:
        data = logs.read_bytes(log, offset, max_bytes=1)
    except CorruptMessage:
        return None
    return logs.records_of(data)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("neighbour", OLD_KINDS)
def test_no_bit_of_an_offset_can_be_another_after_an_unclean_stop(
    kind: tuple[int, int], neighbour: tuple[int, int]
) -> None:
    """Whichever it is, the log ends before the batch that has it, and not earlier."""
    disk = Disk.of(mixed(kind, neighbour), PER_SEGMENT)
    for segment, position, piece in disk.places():
        for bit in range(64):
            files = disk.copy(segment.name, flipped(segment, position, bit))
            log = disk.open(files, clean=False)
            first = piece.records[0].offset
            assert log.log_end_offset == first, (first, bit)
            kept = [record for record in old_logs.all_records(disk.found) if record.offset < first]
            assert logs.read_all(log) == kept


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("neighbour", OLD_KINDS)
def test_no_bit_of_an_offset_can_be_another_after_a_clean_stop(
    kind: tuple[int, int], neighbour: tuple[int, int]
) -> None:
    """The batch that has it is refused, and every other is served."""
    disk = Disk.of(mixed(kind, neighbour), PER_SEGMENT)
    for segment, position, damaged in disk.places():
        for bit in (*range(6), 8, 30, 31, 40, 62, 63):
            files = disk.copy(segment.name, flipped(segment, position, bit))
            log = disk.open(files, clean=True)
            assert log.log_end_offset == disk.end
            for piece in disk.found:
                for record in piece.records:
                    read = read_at(log, record.offset)
                    wanted = None if piece is damaged else piece.records
                    assert read == wanted, (damaged.last_offset, bit, record.offset)


class Damage(NamedTuple):
    """To one segment of a log: a byte that is another, or an end that is gone or zeros."""

    kind: str
    segment: Written
    data: bytes


@st.composite
def damages(draw: st.DrawFn, disk: Disk) -> Damage:
    kind = draw(st.sampled_from(["byte", "cut", "zeros"]))
    if kind != "byte":
        segment = disk.segments[-1]
        kept = draw(st.integers(0, len(segment.data)))
        left = bytes(len(segment.data) - kept) if kind == "zeros" else b""
        return Damage(kind, segment, segment.data[:kept] + left)
    segment, position, piece = draw(st.sampled_from(list(disk.places())))
    at = draw(st.integers(0, LOG_OVERHEAD - 1) | st.integers(0, len(piece.data) - 1))
    if at < LOG_OVERHEAD:  # what no checksum covers: one bit is what witnesses stand up to
        mask = 1 << draw(st.integers(0, 7))
    else:
        mask = draw(st.integers(1, 255))
    data = changed(segment.data, position + at, mask)
    if LENGTH_POSITION <= at < LOG_OVERHEAD:
        length = int.from_bytes(data[position + LENGTH_POSITION : position + LOG_OVERHEAD], "big")
        ends = [place + len(other.data) for _, place, other in disk.places()]
        assume(position + LOG_OVERHEAD + length not in ends)  # what lies between is not looked for
    return Damage(kind, segment, data)


def is_whole(disk: Disk, damage: Damage, piece: Piece) -> bool:
    for segment, position, each in disk.places():
        if each is piece:
            data = damage.data if segment is damage.segment else segment.data
            return data[position : position + len(piece.data)] == piece.data
    raise AssertionError


@given(LOGS, st.integers(1, 6), st.data())
def test_after_an_unclean_stop_a_damaged_log_is_the_beginning_of_what_was_written(
    shapes: list[Shape], size: int, data: st.DataObject
) -> None:
    disk = Disk.of(old_logs.pieces(shapes), size)
    damage = data.draw(damages(disk))
    log = disk.open(disk.copy(damage.segment.name, damage.data), clean=False)
    whole: list[Piece] = []
    for piece in disk.found:
        if not is_whole(disk, damage, piece):
            break
        whole.append(piece)
    kept, read = old_logs.all_records(whole), logs.read_all(log)
    assert read[: len(kept)] == kept
    # Beyond lie batches of which only the epoch is another.
    assert read == old_logs.all_records(disk.found)[: len(read)]
    assert log.log_end_offset == (read[-1].offset + 1 if read else 0)


@given(LOGS, st.integers(1, 6), st.data())
def test_after_a_clean_stop_every_batch_that_is_whole_can_be_read(
    shapes: list[Shape], size: int, data: st.DataObject
) -> None:
    disk = Disk.of(old_logs.pieces(shapes), size)
    damage = data.draw(damages(disk))
    log = disk.open(disk.copy(damage.segment.name, damage.data), clean=True)
    assert log.log_end_offset == disk.end or damage.kind == "cut"
    for piece in disk.found:
        for record in piece.records:
            if record.offset >= log.log_end_offset:
                assert not is_whole(disk, damage, piece)
                continue
            read = read_at(log, record.offset)
            assert read == piece.records or (read is None and not is_whole(disk, damage, piece)), (
                record.offset
            )


def on_disk(*batches: bytes) -> MemoryFilesystem:
    """One segment from offset 0 on."""
    files = logs.filesystem()
    files.make_directory(logs.DIRECTORY)
    files.write(f"{logs.DIRECTORY}/{0:020d}.log", b"".join(batches))
    return files


def plain(offset: int) -> bytes:
    return bytes(logs.batch([b"v"], base_offset=offset))


def with_offset(batch: bytes, offset: int) -> bytes:
    return offset.to_bytes(8, "big", signed=True) + batch[8:]


@pytest.mark.parametrize("magic", [0, 1])
def test_where_gaps_are_usual_a_wrapper_overlaps_none_and_leads_nowhere_far(magic: int) -> None:
    """Compaction has left 0, 1, 8 to 11 (in part), 16 and 20."""
    first = wrapper(magic, GZIP, [Old(0), Old(1)])
    second = wrapper(magic, GZIP, [Old(8), Old(9), Old(11)])
    third = wrapper(magic, GZIP, [Old(16), Old(20)])
    log = logs.open_log(on_disk(first, second, third), COMPACTED, clean=False)
    assert log.log_end_offset == 21
    for bit in range(64):
        offset = 11 ^ (1 << bit)
        if magic and offset in (9, 10, 15):
            continue  # within the gaps: nothing bears witness
        changed = with_offset(second, offset if offset < 1 << 63 else offset - (1 << 64))
        log = logs.open_log(on_disk(first, changed, third), COMPACTED, clean=False)
        assert log.log_end_offset == 2, bit


def test_a_gap_costs_nothing_when_only_the_batch_behind_it_goes_back() -> None:
    batches = [plain(0), plain(5), with_offset(plain(6), 0)]
    for config in (CONFIG, COMPACTED):
        log = logs.open_log(on_disk(*batches), config, clean=False)
        assert log.log_end_offset == 6
        log = logs.open_log(on_disk(*batches), config, recovery_point=7)
        assert read_at(log, 5) == logs.records_of(batches[1])
        assert read_at(log, 6) is None


def test_a_batch_does_not_reach_into_the_next_segment() -> None:
    """A gap of 3 before it stands for itself; 11, with one bit more, does not fit."""
    for offset, end in ((4, 6), (12, 1)):
        files = on_disk(plain(0), plain(offset))
        files.write(f"{logs.DIRECTORY}/{5:020d}.log", plain(5))
        assert logs.open_log(files, CONFIG, clean=False).log_end_offset == end


@pytest.mark.parametrize("offset", range(10))
def test_a_truncated_log_ends_behind_what_its_file_holds(offset: int) -> None:
    """Whatever a wrapper claims: this one goes back behind the message before it."""
    before, strange = message(1, Old(5)), wrapper(1, GZIP, [Old(3), Old(8)])
    log = logs.open_log(logs.filesystem(), CONFIG)
    log.append_as_follower(before, now_ms=logs.NOW)
    log.append_as_follower(strange, now_ms=logs.NOW)
    assert log.log_end_offset == 9
    log.truncate_to(offset, logs.NOW)
    if offset <= 5:
        end, size = offset, 0
    elif offset < 9:
        end, size = 6, len(before)
    else:
        end, size = 9, len(before + strange)
    assert (log.log_end_offset, log.segments.active.size) == (end, size)


def test_a_truncation_into_a_large_wrapper_ends_before_it() -> None:
    """It unpacks to more than readers are served of one batch."""
    large = wrapper(1, GZIP, [Old(0, value=bytes(DECOMPRESSED_MAX)), Old(1)])
    log = logs.open_log(on_disk(large), CONFIG, recovery_point=2)
    assert log.log_end_offset == 2
    log.truncate_to(1, logs.NOW)
    assert (log.log_end_offset, log.segments.active.size) == (0, 0)


@pytest.mark.parametrize("bit", range(32))
def test_no_bit_of_a_length_hides_what_stands_behind(bit: int) -> None:
    changed = bytearray(plain(0))
    changed[11 - bit // 8] ^= 1 << bit % 8
    log = logs.open_log(on_disk(bytes(changed), plain(1)), CONFIG, recovery_point=2)
    assert read_at(log, 0) is None
    assert read_at(log, 1) == logs.records_of(plain(1))

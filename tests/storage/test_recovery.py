"""What opening a log makes of damaged, missing and left-over files."""

import pytest
from tests.storage import logs

from ottla.common.chance import Chance
from ottla.common.errors import ApiError, CorruptMessage
from ottla.storage.log import Log
from ottla.storage.sound_headers import headers_from
from ottla.testing.files import MemoryFilesystem

KINDS = (".log", ".index", ".timeindex", ".snapshot", "leader-epoch-checkpoint")
SETTINGS = logs.settings(internal_segment_bytes=1500, index_interval_bytes=200)


@pytest.fixture
def files() -> MemoryFilesystem:
    return logs.filesystem()


def path(name: str) -> str:
    return f"{logs.DIRECTORY}/{name}"


def filled(files: MemoryFilesystem, count: int = 40) -> Log:
    """A log of several segments, each batch by a producer of its own."""
    log = logs.open_log(files, SETTINGS)
    for number in range(count):
        data = logs.batch(
            [f"{number}".encode().ljust(40, b".")] * 2,
            timestamps=[logs.NOW + number, logs.NOW + number + 3],
            producer_id=number,
            producer_epoch=0,
            sequence=0,
        )
        logs.append_batch(log, data, epoch=number // 10)
    assert len(log.segments) > 3
    return log


def closed(files: MemoryFilesystem) -> dict[str, bytes]:
    """The same, closed cleanly; the files by name."""
    filled(files).close(logs.NOW)
    return contents(files)


def contents(files: MemoryFilesystem) -> dict[str, bytes]:
    return {name: files.read(path(name)) for name in files.list_directory(logs.DIRECTORY)}


def flip(files: MemoryFilesystem, name: str, position: int, bit: int = 0) -> None:
    file = files.open(path(name))
    byte = file.read_at(position, 1)[0] ^ (1 << bit)
    file.write_at(position, bytes([byte]))


def indexes(names: dict[str, bytes]) -> list[str]:
    return [name for name in names if name.endswith("index")]


def test_a_clean_start_reads_no_batch_of_closed_segments(files: MemoryFilesystem) -> None:
    closed(files)
    opened: list[str] = []

    def record(operation: str, path: str) -> OSError | None:
        if operation == "open":
            opened.append(path)
        return None

    files.fail = record
    log = logs.open_log(files, SETTINGS)
    assert log.log_end_offset == 80
    active = log.segments.active.path
    assert [each for each in opened if each.endswith(".log")] == [active]


def test_a_missing_index_is_rebuilt_after_a_clean_stop(files: MemoryFilesystem) -> None:
    before = closed(files)
    for name in indexes(before):
        files.remove(path(name))
        log = logs.open_log(files, SETTINGS)
        assert len(logs.read_all(log)) == 80
        assert contents(files) == before, name


def test_an_index_that_vanishes_while_it_is_in_use_costs_time_only(
    files: MemoryFilesystem,
) -> None:
    before = closed(files)
    log = logs.open_log(files, SETTINGS)
    expected = logs.read_all(log)
    for name in indexes(before):
        files.remove(path(name))
    log = logs.open_log(files, SETTINGS)
    for name in indexes(before):
        files.remove(path(name))
    assert logs.read_all(log) == expected
    assert logs.offset_for_timestamp(log, logs.NOW + 20) == (logs.NOW + 20, 35, 1)


def test_a_rebuilt_index_is_on_disk_at_once(files: MemoryFilesystem) -> None:
    before = closed(files)
    files.sync_directory(logs.DIRECTORY)
    for name in indexes(before):
        files.write(path(name), b"x")
    logs.open_log(files, SETTINGS)
    files.crash()
    assert contents(files) == before


def test_an_index_that_cannot_be_one_is_rebuilt(files: MemoryFilesystem) -> None:
    before = closed(files)
    for name in indexes(before):
        files.open(path(name)).write_at(len(before[name]), b"\0\0\0")
        logs.open_log(files, SETTINGS)
        assert contents(files) == before, name


def test_an_index_without_a_segment_is_removed(files: MemoryFilesystem) -> None:
    before = closed(files)
    for suffix in ("index", "timeindex", "txnindex"):
        files.write(path(f"00000000000000000007.{suffix}"), b"")
    logs.open_log(files, SETTINGS)
    assert contents(files) == before


@pytest.mark.parametrize("seed", range(10))
def test_an_index_that_misleads_is_found_out_when_it_is_used(
    files: MemoryFilesystem, seed: int
) -> None:
    before = closed(files)
    chance = Chance(seed)
    truth = logs.open_log(files, SETTINGS)
    expected = [logs.offset_for_timestamp(truth, logs.NOW + time) for time in range(45)]
    for name in indexes(before):
        if before[name]:
            for _ in range(3):
                flip(files, name, chance.below(len(before[name])), chance.below(8))
    log = logs.open_log(files, SETTINGS)
    for offset in range(80):
        assert (
            logs.records_of(logs.read_bytes(log, offset, max_bytes=1))[0].offset == offset // 2 * 2
        )
    assert [logs.offset_for_timestamp(log, logs.NOW + time) for time in range(45)] == expected


def test_a_log_is_cut_before_the_first_damaged_batch(files: MemoryFilesystem) -> None:
    log = filled(files)
    second = log.segments[1]
    size = len(logs.batch([bytes(40)] * 2))
    files.kill()
    flip(files, second.path.rpartition("/")[2], 2 * size + 80)
    log = logs.open_log(files, SETTINGS, clean=False)
    assert log.log_end_offset == second.base_offset + 4
    assert len(log.segments) == 2
    assert sorted(log.producers.producers) == list(range(log.log_end_offset // 2))
    assert log.latest_epoch == (log.log_end_offset // 2 - 1) // 10
    assert len(logs.read_all(log)) == log.log_end_offset


def test_only_what_lies_behind_the_recovery_point_is_looked_at(files: MemoryFilesystem) -> None:
    log = filled(files)
    first, second = log.segments[0], log.segments[1]
    files.kill()
    flip(files, first.path.rpartition("/")[2], 100)
    log = logs.open_log(files, SETTINGS, clean=False, recovery_point=second.base_offset)
    assert log.log_end_offset == 80
    with pytest.raises(ApiError):
        logs.read_all(log)


def test_a_flipped_bit_is_never_served() -> None:
    disk = logs.filesystem()
    expected = logs.read_all(filled(disk, 28))
    names = [name for name, data in contents(disk).items() if data and name.endswith(KINDS)]
    for seed in range(300):
        files = disk.after_kill()
        chance = Chance(seed)
        name = chance.choose(names)
        flip(files, name, chance.below(len(files.read(path(name)))), chance.below(8))
        log = logs.open_log(files, SETTINGS, clean=False)
        found = logs.read_all(log)
        assert found == expected[: len(found)]
        assert len(found) == len(expected) or name.endswith(".log")
        logs.append(log, b"more", epoch=50)
        assert logs.read_all(log)[:-1] == found


def test_a_batch_that_goes_back_to_an_older_epoch_ends_the_log(files: MemoryFilesystem) -> None:
    log = logs.open_log(files)
    data = logs.batch([b"a"], base_offset=0, leader_epoch=4)
    data += logs.batch([b"b"], base_offset=1, leader_epoch=3)
    files.open(log.segments.active.path).write_at(0, data)
    log = logs.open_log(files, clean=False)
    assert logs.values_of(log) == {0: b"a"}


def test_a_batch_whose_offsets_go_back_ends_the_log(files: MemoryFilesystem) -> None:
    log = logs.open_log(files)
    data = logs.batch([b"a", b"b"], base_offset=0) + logs.batch([b"c"], base_offset=1)
    files.open(log.segments.active.path).write_at(0, data)
    log = logs.open_log(files, clean=False)
    assert logs.values_of(log) == {0: b"a", 1: b"b"}


def test_where_the_end_of_a_segment_is_lost_the_next_one_goes(files: MemoryFilesystem) -> None:
    log = filled(files)
    second = log.segments[1]
    size = len(logs.batch([bytes(40)] * 2))
    files.kill()
    files.open(second.path).truncate(size)
    log = logs.open_log(files, SETTINGS, clean=False)
    assert log.log_end_offset == second.base_offset + 2
    assert len(log.segments) == 2


def test_a_compacted_log_may_have_gaps_between_segments(files: MemoryFilesystem) -> None:
    log = filled(files)
    second = log.segments[1]
    size = len(logs.batch([bytes(40)] * 2))
    files.kill()
    files.open(second.path).truncate(size)
    config = logs.settings(cleanup_policy="compact", internal_segment_bytes=1500)
    log = logs.open_log(files, config, clean=False)
    assert log.log_end_offset == 80


def with_gaps(files: MemoryFilesystem, *gaps: int) -> Log:
    """A copy of what was compacted once, or what Kafka leaves when it truncates within a batch."""
    log = logs.open_log(files, SETTINGS)
    for gap in gaps:
        data = logs.batch([b"x" * 40] * 2, base_offset=log.log_end_offset + gap, leader_epoch=0)
        log.append_as_follower(data, now_ms=logs.NOW)
    return log


def test_a_gap_within_a_segment_is_not_taken_for_a_loss(files: MemoryFilesystem) -> None:
    log = with_gaps(files, *(number % 5 for number in range(40)), 3)
    assert len(log.segments) > 2
    assert logs.values_of(logs.open_log(files, SETTINGS, clean=False)) == logs.values_of(log)


def test_behind_a_gap_that_one_bit_could_make_the_last_batch_goes(files: MemoryFilesystem) -> None:
    log = with_gaps(files, 0, 0, 4)
    assert log.log_end_offset == 10
    assert logs.open_log(files, SETTINGS, clean=False).log_end_offset == 4


def test_no_bit_of_a_base_offset_can_be_another(files: MemoryFilesystem) -> None:
    """Whichever it is, the log ends before the batch that has it."""
    log = filled(files)
    whole = contents(files)
    values = logs.values_of(log)
    for segment in log.segments:
        name = f"{segment.base_offset:020d}.log"
        every = list(headers_from(segment, segment.base_offset))
        for position, header in [*every[:-1:3], every[-1]]:
            for bit in range(64):
                changed = bytearray(whole[name])
                changed[position + 7 - bit // 8] ^= 1 << bit % 8
                crashed = logs.filesystem()
                crashed.make_directory(logs.DIRECTORY)
                for each, data in (whole | {name: bytes(changed)}).items():
                    crashed.write(path(each), data)
                again = logs.open_log(crashed, SETTINGS, clean=False)
                assert again.log_end_offset == header.base_offset, (name, position, bit)
                expected = {each: v for each, v in values.items() if each < header.base_offset}
                assert logs.values_of(again) == expected


def test_damaged_epochs_are_found_in_the_batches(files: MemoryFilesystem) -> None:
    before = closed(files)
    epochs = "leader-epoch-checkpoint"
    assert before[epochs] == b"0\n4\n0 0\n1 20\n2 40\n3 60\n"
    for damaged in (b"0\n4\n0 0\n1 20\n", b"rubbish", b"1\n0\n", b"0\n1\n0\n"):
        files.write(path(epochs), damaged)
        log = logs.open_log(files, SETTINGS)
        assert [tuple(entry) for entry in log.epochs.entries] == [(0, 0), (1, 20), (2, 40), (3, 60)]


def test_a_damaged_snapshot_is_replaced_by_an_older_one(files: MemoryFilesystem) -> None:
    before = closed(files)
    newest = max(name for name in before if name.endswith(".snapshot"))
    assert newest == "00000000000000000080.snapshot"
    flip(files, newest, 20)
    log = logs.open_log(files, SETTINGS)
    assert sorted(log.producers.producers) == list(range(40))
    for name in before:
        if name.endswith(".snapshot"):
            files.remove(path(name))
    log = logs.open_log(files, SETTINGS)
    assert sorted(log.producers.producers) == list(range(40))


def test_a_damaged_end_of_a_clean_log_is_refused_and_not_cut_off(files: MemoryFilesystem) -> None:
    closed(files)
    active = max(n for n in contents(files) if n.endswith(".log"))
    size = len(logs.batch([bytes(40)] * 2))
    flip(files, active, files.size(path(active)) - size + 8, bit=7)
    log = logs.open_log(files, SETTINGS, recovery_point=80)
    assert log.log_end_offset == 80
    logs.append(log, b"more", epoch=9)
    assert logs.read_bytes(log, 76)
    with pytest.raises(CorruptMessage):
        log.read(78, 1000, upper_bound_offset=81, at_least_one=True)
    assert logs.records_of(logs.read_bytes(log, 80))[0].value == b"more"


def test_a_log_that_ends_before_its_start_begins_anew(files: MemoryFilesystem) -> None:
    closed(files)
    log = logs.open_log(files, SETTINGS, log_start_offset=1000)
    assert (log.log_start_offset, log.log_end_offset) == (1000, 1000)
    assert [segment.base_offset for segment in log.segments] == [1000]
    assert log.producers.producers == {}
    assert log.latest_epoch == -1


def test_left_over_files_of_a_deletion_are_removed(files: MemoryFilesystem) -> None:
    before = closed(files)
    for name in ("00000000000000000000.log.deleted", "00000000000000000000.snapshot.deleted"):
        files.write(path(name), b"x")
    files.write(path("00000000000000000000-0000000001.checkpoint.deleted"), b"raft's")
    logs.open_log(files, SETTINGS)
    assert set(contents(files)) - set(before) == {
        "00000000000000000000-0000000001.checkpoint.deleted"
    }


def test_a_cleaning_that_was_not_finished_is_undone(files: MemoryFilesystem) -> None:
    before = closed(files)
    for suffix in ("log", "index", "timeindex"):
        files.write(path(f"00000000000000000000.{suffix}.cleaned"), b"x")
        files.write(path(f"00000000000000000000.{suffix}.swap"), b"x")
    logs.open_log(files, SETTINGS)
    assert contents(files) == before


def test_a_swap_that_was_begun_is_finished(files: MemoryFilesystem) -> None:
    closed(files)
    log = logs.open_log(files, SETTINGS)
    second = log.segments[1]
    third = log.segments[2].base_offset
    kept = logs.read_bytes(log, second.base_offset, max_bytes=1)
    name = f"{second.base_offset:020d}"
    last = files.read(second.path)[-len(kept) :]
    files.write(path(f"{name}.log.swap"), last)
    files.write(path(f"{name}.index.swap"), b"")
    files.write(path(f"{name}.timeindex.swap"), b"")
    files.remove(path(f"{name}.timeindex"))
    log = logs.open_log(files, SETTINGS)
    assert files.read(path(f"{name}.log")) == last
    found = [record.offset for record in logs.read_all(log)]
    assert found == [*range(second.base_offset), third - 2, third - 1, *range(third, 80)]


def test_other_files_in_the_directory_are_left_alone(files: MemoryFilesystem) -> None:
    closed(files)
    for name in ("quorum-state", "00000000000000000005-0000000001.checkpoint", "notes.log"):
        files.write(path(name), b"x")
    log = logs.open_log(files, SETTINGS)
    assert log.log_end_offset == 80
    assert {"quorum-state", "notes.log"} <= set(contents(files))


def test_a_log_that_lost_whole_batches_after_a_clean_stop_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A file that was cut between two batches is as whole as any other."""
    files = logs.filesystem()
    log = logs.open_log(files)
    sizes = []
    for number in range(3):
        logs.append(log, b"%d" % number)
        sizes.append(log.segments.active.size)
    log.close(logs.NOW)
    logs.open_log(files, recovery_point=3).close(logs.NOW)
    assert not caplog.records
    files.open(log.segments[0].path).truncate(sizes[1])
    log = logs.open_log(files, recovery_point=3)
    assert log.log_end_offset == 2
    (told,) = caplog.records
    assert "records are lost" in told.getMessage()
    log.close(logs.NOW)
    caplog.clear()
    logs.open_log(files, recovery_point=2)
    assert not caplog.records

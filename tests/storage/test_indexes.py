"""Offset, time and transaction index: their entries, their look-ups in memory and on disk."""

from bisect import bisect_right

from hypothesis import given
from hypothesis import strategies as st

from ottla.storage.files import Filesystem
from ottla.storage.offset_index import OffsetIndex
from ottla.storage.time_index import TimeIndex
from ottla.storage.transaction_index import AbortedTransaction, TransactionIndex
from ottla.testing.files import MemoryFilesystem

PATH = "/d/00000000000000001000.index"
BASE = 1000


def disk() -> Filesystem:
    files = MemoryFilesystem()
    files.make_directory("/d")
    files.write(PATH, b"")
    return files


increasing = st.lists(st.tuples(st.integers(1, 50), st.integers(1, 5000)), max_size=40)


def running(steps: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Entries that grow in both numbers."""
    entries, first, second = [], 0, 0
    for step, other in steps:
        first, second = first + step, second + other
        entries.append((first, second))
    return entries


@given(increasing, st.integers(0, 2100))
def test_an_offset_is_found_the_same_in_memory_and_on_disk(
    steps: list[tuple[int, int]], asked: int
) -> None:
    files = disk()
    index = OffsetIndex(files, PATH, BASE, 1 << 20)
    entries = [(BASE + offset, position) for offset, position in running(steps)]
    for offset, position in entries:
        index.append(offset, position)
    number = bisect_right(entries, (BASE + asked, 1 << 40))
    expected = entries[number - 1] if number else None
    by_position = [entry for entry in entries if entry[1] <= asked]
    for _ in range(2):
        assert index.lookup(BASE + asked) == expected
        assert index.lookup_position(asked) == (by_position[-1] if by_position else None)
        assert index.last_entry() == (entries[-1] if entries else None)
        assert index.size == 8 * len(entries)
        index.save()
    assert [(BASE + offset, position) for offset, position in index.all()] == entries


@given(increasing, st.integers(0, 2100))
def test_truncation_keeps_the_entries_below(steps: list[tuple[int, int]], offset: int) -> None:
    index = OffsetIndex(disk(), PATH, BASE, 1 << 20)
    entries = running(steps)
    for relative, position in entries:
        index.append(BASE + relative, position)
    index.truncate_to(BASE + offset)
    assert index.all() == [entry for entry in entries if entry[0] < offset]


@given(st.lists(st.integers(-1, 60), max_size=40), st.integers(-1, 60))
def test_a_time_index_keeps_only_growing_timestamps(times: list[int], asked: int) -> None:
    index = TimeIndex(disk(), PATH, BASE, 1 << 20)
    entries: list[tuple[int, int]] = []
    for number, time in enumerate(times):
        index.maybe_append(time, BASE + number)
        if time > (entries[-1][0] if entries else -1):
            entries.append((time, BASE + number))
    below = [entry for entry in entries if entry[0] <= asked]
    for _ in range(2):
        assert index.lookup(asked) == (below[-1] if below else None)
        assert index.last_entry() == (entries[-1] if entries else None)
        index.save()
    index.truncate_to(BASE + 10)
    kept = [entry for entry in entries if entry[1] < BASE + 10]
    assert index.last_entry() == (kept[-1] if kept else None)


def test_entries_are_big_endian_and_relative() -> None:
    files = disk()
    offsets = OffsetIndex(files, PATH, BASE, 1 << 20)
    offsets.append(BASE + 258, 3)
    offsets.save()
    assert files.read(PATH) == bytes.fromhex("00000102 00000003")
    times = TimeIndex(files, PATH, BASE, 1 << 20)
    times.reset()
    times.maybe_append(259, BASE + 4)
    times.save()
    assert files.read(PATH) == bytes.fromhex("0000000000000103 00000004")


def test_an_index_is_full_at_whole_entries() -> None:
    offsets = OffsetIndex(disk(), PATH, BASE, 23)
    offsets.append(BASE, 0)
    assert not offsets.is_full()
    offsets.append(BASE + 1, 1)
    assert offsets.is_full()
    times = TimeIndex(disk(), PATH, BASE, 40)
    times.maybe_append(1, BASE)
    assert not times.is_full()
    times.maybe_append(2, BASE)
    assert times.is_full()


def test_a_file_with_half_an_entry_is_no_index() -> None:
    files = disk()
    index = OffsetIndex(files, PATH, BASE, 1 << 20)
    assert index.has_whole_entries()
    files.write(PATH, bytes(9))
    assert not index.has_whole_entries()
    files.remove(PATH)
    assert not index.has_whole_entries()


def test_a_transaction_index_has_a_file_only_when_it_has_entries() -> None:
    files = disk()
    path = "/d/00000000000000001000.txnindex"
    index = TransactionIndex(files, path, BASE)
    assert index.entries == []
    assert not files.exists(path)
    assert index.is_sound()
    first = AbortedTransaction(1, BASE, BASE + 5, BASE + 6)
    second = AbortedTransaction(2, BASE + 1, BASE + 7, BASE + 8)
    index.append(first)
    index.append(second)
    assert files.size(path) == 68
    index.drop()
    assert index.entries == [first, second]
    index.truncate_to(BASE + 7)
    assert TransactionIndex(files, path, BASE).entries == [first]
    index.reset()
    assert TransactionIndex(files, path, BASE).entries == []


def test_a_transaction_index_that_cannot_be_one_is_not_sound() -> None:
    files = disk()
    path = "/d/00000000000000001000.txnindex"
    index = TransactionIndex(files, path, BASE)
    index.append(AbortedTransaction(1, BASE, BASE + 5, BASE + 6))
    sound = files.read(path)
    for damaged in (sound[:-1], b"\1" + sound[1:], sound[:18] + bytes(8) + sound[26:]):
        files.write(path, damaged)
        assert not index.is_sound()

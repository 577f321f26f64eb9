"""Epochs and where they begin: KIP-101 and KIP-279."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.storage.leader_epochs import UNDEFINED_EPOCH, EpochEntry, LeaderEpochs


def epochs(*entries: tuple[int, int]) -> LeaderEpochs:
    return LeaderEpochs([EpochEntry(*entry) for entry in entries])


def test_the_latest_epoch_ends_with_the_log() -> None:
    assert epochs((2, 0), (4, 10)).end_offset_for(4, 30) == (4, 30)


def test_an_earlier_epoch_ends_where_the_next_begins() -> None:
    assert epochs((2, 0), (4, 10), (7, 25)).end_offset_for(4, 30) == (4, 25)


def test_an_unknown_epoch_in_between_gives_the_one_below() -> None:
    # KIP-279: a follower that knows an epoch which the leader never saw must find common ground.
    assert epochs((2, 0), (4, 10), (7, 25)).end_offset_for(5, 30) == (4, 25)


def test_an_epoch_before_all_has_nothing_in_common() -> None:
    assert epochs((2, 5), (4, 10)).end_offset_for(1, 30) == (1, 5)


def test_an_epoch_above_all_is_unknown() -> None:
    assert epochs((2, 0)).end_offset_for(3, 30) == (-1, -1)
    assert epochs().end_offset_for(0, 30) == (-1, -1)
    assert epochs((2, 0)).end_offset_for(UNDEFINED_EPOCH, 30) == (-1, -1)


def test_the_same_epoch_again_changes_nothing() -> None:
    cache = epochs((2, 0), (4, 10))
    cache.assign(4, 20)
    assert cache.entries == [(2, 0), (4, 10)]
    assert not cache.dirty


def test_entries_that_contradict_a_new_one_go() -> None:
    cache = epochs((2, 0), (4, 10), (7, 25))
    cache.assign(8, 10)
    assert cache.entries == [(2, 0), (8, 10)]
    assert cache.dirty


def test_an_epoch_without_records_gives_way_to_the_next() -> None:
    cache = epochs((2, 0), (4, 10))
    cache.assign(5, 10)
    assert cache.entries == [(2, 0), (5, 10)]


def test_truncation_at_the_end_forgets_later_epochs() -> None:
    cache = epochs((2, 0), (4, 10), (7, 25))
    cache.truncate_from_end(25)
    assert cache.entries == [(2, 0), (4, 10)]
    assert cache.latest_epoch == 4
    cache.truncate_from_end(0)
    assert cache.latest_epoch == UNDEFINED_EPOCH


def test_truncation_at_the_start_keeps_the_epoch_of_the_first_record() -> None:
    cache = epochs((2, 0), (4, 10), (7, 25))
    cache.truncate_from_start(12)
    assert cache.entries == [(4, 12), (7, 25)]
    assert cache.epoch_for_offset(12) == 4
    assert cache.epoch_for_offset(11) == UNDEFINED_EPOCH
    cache.truncate_from_start(25)
    assert cache.entries == [(7, 25)]


def test_the_epoch_below_is_found() -> None:
    cache = epochs((2, 0), (4, 10))
    assert [cache.previous_epoch(epoch) for epoch in (5, 4, 3, 2)] == [4, 2, 2, -1]
    assert cache.earliest() == (2, 0)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5)), max_size=12), st.data())
def test_any_history_agrees_with_the_epoch_of_each_record(
    history: list[tuple[int, int]], data: st.DataObject
) -> None:
    """``history``: by how much the epoch rises, and how many records it then has."""
    cache, epoch = LeaderEpochs(), 0
    records: list[int] = []
    for rise, count in history:
        epoch += rise
        cache.assign(epoch, len(records))
        records += [epoch] * count
    start = data.draw(st.integers(0, len(records)))
    end = data.draw(st.integers(start, len(records)))
    cache.truncate_from_end(end)
    cache.truncate_from_start(start)
    records = records[:end]
    for offset in range(start, end):
        assert cache.epoch_for_offset(offset) == records[offset]
    for asked in range(epoch + 2):
        found = cache.end_offset_for(asked, end)
        if asked in records[start:]:
            last = max(offset for offset in range(start, end) if records[offset] == asked)
            assert found == (asked, last + 1)
    assert cache.entries == sorted(set(cache.entries))
    assert len({entry.epoch for entry in cache.entries}) == len(cache.entries)

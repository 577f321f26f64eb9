"""What a partition's remote segments are after any history of records."""

from hypothesis import given
from hypothesis import strategies as st
from tests.tiered.histories import (
    DELETED,
    DELETING,
    FINISHED,
    PARTITION,
    STARTED,
    segment,
    segment_id,
    update,
)

from ottla.tiered.cache import SegmentCache
from ottla.tiered.expiration import SegmentRemoval, expiration
from ottla.tiered.lineage import Lineage
from ottla.tiered.log_view import LogView
from ottla.tiered.machine import RemotePartition
from ottla.tiered.segments import (
    IF_UNFINISHED,
    IF_UNUSED,
    NEXT_STATES,
    RemoteLogSegment,
    SegmentState,
)


def cache_of(*segments: RemoteLogSegment) -> SegmentCache:
    """All of them copied, in this order."""
    cache = SegmentCache()
    for each in segments:
        assert cache.replay(each)
        finished = update(0, FINISHED)._replace(segment_id=each.segment_id)
        assert cache.replay(finished)
    return cache


def found(cache: SegmentCache, lineage: Lineage, start: int = 0) -> list[tuple[bytes, int, int]]:
    return [
        (each.segment.segment_id[-1:], each.start_offset, each.end_offset)
        for each in cache.extents(lineage, start)
    ]


ONE, TWO, THREE = (segment_id(number)[-1:] for number in (1, 2, 3))


def test_a_segment_counts_only_while_its_copy_is_finished_and_its_removal_not_begun() -> None:
    cache = SegmentCache()
    assert cache.replay(segment(1, 0, 99))
    assert cache.find(0, 50) is None
    assert cache.replay(update(1, FINISHED))
    assert cache.find(0, 50) == cache.get(segment_id(1))
    assert cache.replay(update(1, DELETING))
    assert cache.find(0, 50) is None
    assert [each.state for each in cache] == [DELETING]
    assert cache.replay(update(1, DELETED))
    assert len(cache) == 0
    assert cache.highest_offset_for_epoch(0) == 99


@given(st.lists(st.sampled_from(SegmentState), max_size=8))
def test_only_transitions_that_kafka_knows_are_taken(states: list[SegmentState]) -> None:
    cache = SegmentCache()
    state: SegmentState | None = None
    for told in states:
        record = segment(1, 0, 9) if told is STARTED else update(1, told)
        allowed = told is state or told in NEXT_STATES[state]
        assert cache.replay(record) == allowed
        if allowed:
            state = None if told is DELETED else told
        known = cache.get(segment_id(1))
        assert (None if known is None else known.state) == state


def test_a_segment_cannot_begin_its_life_finished() -> None:
    assert not SegmentCache().replay(segment(1, 0, 9)._replace(state=FINISHED))


def test_a_larger_copy_takes_the_place_of_a_smaller_one() -> None:
    cache = cache_of(segment(1, 0, 100), segment(2, 0, 200))
    assert found(cache, Lineage.of([(0, 0)], 300)) == [(TWO, 0, 200)]
    assert not cache.is_referenced(segment(1, 0, 100))
    assert cache.is_referenced(segment(2, 0, 200))


def test_an_overlapping_copy_has_its_offsets_and_the_older_one_the_rest() -> None:
    cache = cache_of(segment(1, 10, 90), segment(2, 50, 120))
    assert found(cache, Lineage.of([(0, 0)], 300)) == [(ONE, 10, 49), (TWO, 50, 120)]


def test_a_rewritten_segment_takes_the_place_of_those_it_was_made_of() -> None:
    cache = cache_of(segment(1, 0, 99), segment(2, 100, 199), segment(3, 200, 299))
    assert cache.replay(segment(4, 0, 199))
    assert found(cache, Lineage.of([(0, 0)], 300))[0] == (ONE, 0, 99)
    assert cache.replay(update(4, FINISHED))
    assert found(cache, Lineage.of([(0, 0)], 300)) == [
        (segment_id(4)[-1:], 0, 199),
        (THREE, 200, 299),
    ]
    assert not cache.is_referenced(segment(1, 0, 99))
    assert not cache.is_referenced(segment(2, 100, 199))


def test_what_an_unclean_election_forgot_is_not_found() -> None:
    cache = cache_of(segment(1, 0, 49), segment(2, 50, 99, {0: 50, 1: 70}))
    forgotten = Lineage.of([(0, 0), (2, 60)], 200)
    assert found(cache, forgotten) == [(ONE, 0, 49), (TWO, 50, 59)]
    assert found(cache, Lineage.of([(0, 0), (1, 70)], 200))[-1] == (TWO, 70, 99)


def test_a_gap_is_passed_over_and_seen() -> None:
    cache = cache_of(segment(1, 0, 49), segment(2, 100, 149, {3: 100}))
    assert found(cache, Lineage.of([(0, 0), (3, 80)], 200), 20) == [(ONE, 20, 49), (TWO, 100, 149)]


def test_nothing_at_or_behind_the_end_of_the_log_is_found() -> None:
    cache = cache_of(segment(1, 0, 49))
    assert found(cache, Lineage.of([(0, 0)], 30)) == [(ONE, 0, 29)]
    assert cache.extent(Lineage.of([(0, 0)], 30), 30) is None


def test_an_epoch_without_records_is_passed_over() -> None:
    cache = cache_of(segment(1, 0, 49, {0: 0, 1: 20, 2: 20}))
    assert cache.find(1, 20) is None
    assert cache.find(2, 20) is not None


@given(
    st.lists(
        st.tuples(st.integers(0, 60), st.integers(0, 30), st.booleans()), min_size=1, max_size=12
    )
)
def test_each_offset_belongs_to_the_last_finished_segment_that_has_it(
    history: list[tuple[int, int, bool]],
) -> None:
    cache = SegmentCache()
    kept: list[tuple[bytes, range]] = []
    held: set[int] = set()
    for number, (start, size, is_removed) in enumerate(history):
        cache.replay(segment(number, start, start + size))
        cache.replay(update(number, FINISHED))
        offsets = range(start, start + size + 1)
        held |= set(offsets)
        if is_removed:
            cache.replay(update(number, DELETING))
        else:
            kept.append((segment_id(number), offsets))
    owners = {offset: owner for owner, offsets in kept for offset in offsets}
    for offset in range(95):
        one = cache.find(0, offset)
        assert (None if one is None else one.segment_id) == owners.get(offset)
    for extent in cache.extents(Lineage.of([(0, 0)], 95)):
        span = range(extent.start_offset, extent.end_offset + 1)
        assert {owners[offset] for offset in span} == {extent.segment.segment_id}
    assert {each.segment_id for each in cache if cache.is_referenced(each)} == set(owners.values())
    for offset in range(95):
        last = cache.last_removed(Lineage.of([(0, 0)], 95), offset, offset)
        assert (last == offset) == (offset in held and offset not in owners)


def test_a_removal_has_no_effect_where_its_condition_does_not_hold() -> None:
    """Its teller did not know of a record that came into the log before it."""
    cache = cache_of(segment(1, 0, 9), segment(2, 0, 9))
    unfinished = update(2, DELETING)._replace(custom_metadata=IF_UNFINISHED)
    unused = update(2, DELETING)._replace(custom_metadata=IF_UNUSED)
    assert not cache.replay(unfinished)
    assert not cache.replay(unused)
    assert cache.find(0, 5) == cache.get(segment_id(2))
    assert cache.replay(update(1, DELETING)._replace(custom_metadata=IF_UNUSED))
    assert cache.replay(segment(3, 10, 19))
    assert cache.replay(update(3, DELETING)._replace(custom_metadata=IF_UNFINISHED))


def test_what_was_decided_is_due_only_while_it_is_as_it_was() -> None:
    remote = RemotePartition(PARTITION)
    first, second = segment(1, 0, 9), segment(2, 0, 9)
    assert remote.replay(first)
    begun = SegmentRemoval(first, IF_UNFINISHED)
    assert remote.is_due(begun, set())
    assert not remote.is_due(begun, {first.segment_id})
    assert remote.replay(update(1, FINISHED))
    assert not remote.is_due(begun, set()), "another leader has finished it"
    finished = remote.segments.get(first.segment_id)
    assert finished is not None
    assert not remote.is_due(SegmentRemoval(finished, IF_UNUSED), set())
    assert remote.replay(second)
    assert remote.replay(update(2, FINISHED))
    assert remote.is_due(SegmentRemoval(finished, IF_UNUSED), set())
    assert not remote.is_due(SegmentRemoval(segment(3, 0, 9), IF_UNFINISHED), set()), "it is gone"


def test_retention_by_size_counts_what_two_copies_have_once() -> None:
    copies = [segment(number, 50 * number, 50 * number + 99, size=1000) for number in range(3)]
    view = LogView(
        start_offset=0,
        local_start_offset=200,
        end_offset=200,
        last_stable_offset=200,
        lineage=Lineage.of([(0, 0)], 200),
        segments=(),
        active_size=0,
        retention_ms=-1,
        retention_bytes=2000,
    )
    cache = cache_of(*copies)
    assert expiration(cache, view, 0, set()).log_start_offset == 0
    less = view._replace(retention_bytes=1500)
    assert expiration(cache, less, 0, set()).log_start_offset == 50

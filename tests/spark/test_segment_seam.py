"""Where files and broker meet: every offset once, and only what the leader's history has."""

from itertools import pairwise

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.spark.source.ranges import OffsetRange
from ottla.spark.source.segment_files import LocalSegment
from ottla.spark.source.segment_placement import divergence, fill
from ottla.spark.source.segments import Placement, SegmentRange, Stretch, split_past_brokers
from ottla.storage.leader_epochs import EpochEntry, LeaderEpochs
from ottla.tiered.lineage import Lineage

FILE = LocalSegment("d", 0, 0, 0, (0, 0))


@st.composite
def stretches(draw: st.DrawFn) -> list[Stretch]:
    borders = sorted(draw(st.sets(st.integers(0, 60), max_size=14)))
    pairs = list(zip(borders[::2], borders[1::2], strict=False))
    return [Stretch(start, end, FILE, 10) for start, end in pairs]


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    first=stretches(),
    second=stretches(),
    ends=st.tuples(st.integers(0, 60), st.integers(0, 60)).map(sorted),
    bounds=st.tuples(st.integers(0, 60), st.integers(0, 60)).map(sorted),
    epochs=st.sets(st.integers(0, 60), max_size=4).map(sorted),
)
def test_the_parts_of_a_range_follow_each_other_without_gap_or_overlap(
    first: list[Stretch],
    second: list[Stretch],
    ends: list[int],
    bounds: list[int],
    epochs: list[int],
) -> None:
    filled = fill(first, second)
    assert all(before.end <= after.start for before, after in pairwise(filled))
    owned = {offset for each in (*first, *second) for offset in range(each.start, each.end)}
    assert {offset for each in filled for offset in range(each.start, each.end)} == owned
    lineage = Lineage.of(enumerate(epochs), bounds[1])
    wanted = OffsetRange("t", bytes(16), 0, *ends)
    parts = split_past_brokers(wanted, Placement(lineage, bounds[0], tuple(filled)))
    assert [offset for part in parts for offset in range(part.start, part.end)] == [*range(*ends)]
    for part in parts:
        if isinstance(part, SegmentRange):
            assert owned.issuperset(range(part.start, part.end))
            assert bounds[0] <= part.start < part.end <= bounds[1]
            for offset in range(part.start, part.end):
                assert part.epoch_at(offset) == lineage.epoch_at(offset) is not None


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    ours=st.sets(st.integers(0, 30), min_size=1, max_size=4).map(sorted),
    theirs=st.sets(st.integers(0, 30), max_size=4).map(sorted),
    skip=st.integers(0, 2),
    start=st.integers(0, 30),
)
def test_a_replica_is_believed_up_to_where_its_epochs_differ(
    ours: list[int], theirs: list[int], skip: int, start: int
) -> None:
    lineage = Lineage.of(enumerate(ours), 40)
    entries = [EpochEntry(epoch + skip, offset) for epoch, offset in enumerate(theirs)]
    told = divergence(entries, lineage, start)
    known = LeaderEpochs(entries)
    differ = [
        offset
        for offset in range(start, 40)
        if known.epoch_for_offset(offset) != lineage.epoch_at(offset)
    ]
    assert min(told, 40) == min(differ, default=40)

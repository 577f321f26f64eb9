"""Mappings of offsets: what is written is read again, and groups that go by them miss nothing."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.common.errors import CorruptMessage
from ottla.spark.jobs.offset_mapping import Placed, Reach, cut_over, reach, read_again

PARTITIONS = 3


def placed(source: int, offsets: list[int], partition: int, offset: int) -> Placed:
    return Placed(source, np.array(offsets, np.int64), partition, offset)


def test_a_mapping_is_readable_and_comes_back_as_it_was() -> None:
    batch = placed(0, [17, 18, 20], 3, 40)
    assert batch.encode() == (
        b'{"source_partition":0,"source_offset":17,"deltas":[1,2],"partition":3,"offset":40}'
    )
    again = Placed.decode(batch.encode())
    assert again.source_offsets.tolist() == [17, 18, 20]
    assert again._replace(source_offsets=batch.source_offsets) == batch


@pytest.mark.parametrize("value", [b"", b"{}", b"[1]", b'{"deltas":["x"]}'])
def test_what_is_no_mapping_is_refused(value: bytes) -> None:
    with pytest.raises(CorruptMessage):
        Placed.decode(value)


@st.composite
def copies(draw: st.DrawFn) -> tuple[dict[int, list[Placed]], dict[int, int]]:
    """Two source partitions, copied batch by batch in any order of each other, with gaps."""
    ends = dict.fromkeys(range(PARTITIONS), 0)
    positions = {0: 0, 1: 0}
    found: dict[int, list[Placed]] = {0: [], 1: []}
    for _ in range(draw(st.integers(0, 12))):
        source = draw(st.integers(0, 1))
        partition = draw(st.integers(0, PARTITIONS - 1))
        offsets = []
        for gap in draw(st.lists(st.integers(0, 3), min_size=1, max_size=5)):
            offsets.append(positions[source] + gap)
            positions[source] = offsets[-1] + 1
        start = ends[partition] + draw(st.integers(0, 2))
        found[source].append(placed(source, offsets, partition, start))
        ends[partition] = start + len(offsets)
    committed = {each: draw(st.integers(0, positions[each] + 1)) for each in found}
    return found, committed


@given(copies())
def test_a_group_goes_on_at_the_first_record_that_it_has_not_read(
    history: tuple[dict[int, list[Placed]], dict[int, int]],
) -> None:
    found, committed = history
    starts = cut_over((reach(found[each], committed[each]) for each in found), PARTITIONS)
    again: dict[int, int] = dict.fromkeys(range(PARTITIONS), 0)
    for source, batches in found.items():
        for partition, number in read_again(batches, committed[source], starts).items():
            again[partition] += number
    for partition in range(PARTITIONS):
        records = {
            each.offset + at: int(offset) >= committed[source]
            for source, batches in found.items()
            for each in batches
            if each.partition == partition
            for at, offset in enumerate(each.source_offsets)
        }
        unread = [offset for offset, is_unread in records.items() if is_unread]
        behind = max(records, default=-1) + 1
        assert starts[partition] == min(unread, default=behind)
        known = [offset for offset in records if offset not in unread]
        assert again[partition] == sum(offset >= starts[partition] for offset in known)


def test_where_all_was_read_it_goes_on_behind_the_copy() -> None:
    assert reach([placed(0, [1, 2], 1, 7)], 3) == {1: Reach(None, 9)}
    assert cut_over([{1: Reach(None, 9)}], 2) == {0: 0, 1: 9}

"""A set of offsets as ranges is a set of offsets."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.tiered.offsets import Offsets, Range

RANGES = st.tuples(st.integers(0, 40), st.integers(0, 15)).map(
    lambda drawn: Range(drawn[0], drawn[0] + drawn[1])
)


@given(st.lists(st.tuples(st.booleans(), RANGES), max_size=20), RANGES)
def test_ranges_are_a_set(changes: list[tuple[bool, Range]], within: Range) -> None:
    offsets, model = Offsets(), set[int]()
    for is_added, each in changes:
        members = set(range(each.start, each.end + 1))
        if is_added:
            offsets.add(each)
            model |= members
        else:
            offsets.discard(each)
            model -= members
    for offset in range(60):
        assert (offsets.last_within(Range(offset, offset)) == offset) == (offset in model)
    inside = model & set(range(within.start, within.end + 1))
    assert offsets.last_within(within) == max(inside, default=None)
    for one, other in zip(offsets._ranges, offsets._ranges[1:], strict=False):
        assert one.end + 1 < other.start

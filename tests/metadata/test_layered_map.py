"""A map as a row of changes makes it, beside a dictionary that is copied for each of them."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.metadata.layered_map import COPIED_MAX, LayeredMap, changed_map

MANY = 10_000

changes = st.lists(
    st.tuples(
        st.dictionaries(st.integers(0, 300), st.integers(0, 9), max_size=5),
        st.sets(st.integers(0, 300), max_size=4),
        st.booleans(),
    ),
    max_size=60,
)


def filled(size: int) -> Mapping[int, int]:
    return changed_map({}, dict.fromkeys(range(size), 0))


@given(size=st.integers(0, 2 * COPIED_MAX), row=changes)
def test_it_is_a_dictionary_with_its_order_whatever_was_before(size: int, row: Any) -> None:
    made, model = filled(size), dict.fromkeys(range(size), 0)
    for changed, asked, is_read in row:
        earlier, was = made, dict(model)
        gone = {key: None for key in sorted(asked) if key in model}
        for key in gone:
            del model[key]
        model.update(changed)
        made = changed_map(made, changed, gone)
        assert len(made) == len(model)
        for key in range(301):
            assert (key in made) == (key in model)
            assert made.get(key) == model.get(key)
            assert made.get(key, -1) == model.get(key, -1)
        if is_read:  # it is laid into one, or else goes on in layers
            assert list(made.items()) == list(model.items())
            assert list(made.values()) == list(model.values())
        assert earlier == was
    assert list(made) == list(model)
    assert list(made.keys()) == list(model)
    assert made == model
    for key in range(301):
        if key in model:
            assert made[key] == model[key]
        else:
            with pytest.raises(KeyError):
                made[key]


def test_a_change_copies_no_more_than_the_root_of_all_entries() -> None:
    made = changed_map(filled(MANY), {0: 1})
    copied = laid = 0
    for number in range(1, 1_001):
        assert isinstance(made, LayeredMap)
        before = made._layers.below
        made = changed_map(made, {number: 1}, {MANY - number: None})
        assert isinstance(made, LayeredMap)
        if made._layers.below is before:
            copied += len(made._layers.above) + len(made._layers.gone)
        else:
            laid += 1
    assert laid <= 1_000 * 2 / MANY**0.5 + 1  # a dictionary would be copied 1,000 times
    assert copied <= 1_000 * MANY**0.5
    assert made == {
        **dict.fromkeys(range(1001), 1),
        **dict.fromkeys(range(1001, MANY - 1000), 0),
    }


def test_few_entries_are_a_plain_dictionary() -> None:
    assert type(changed_map(filled(COPIED_MAX), {-1: 1})) is dict
    assert type(changed_map(filled(COPIED_MAX + 1), {-1: 1})) is LayeredMap

"""Dictionaries that go back: each step is compared with plain copies."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.coordinator.timeline import Timeline, TimelineDict


def a_dictionary() -> tuple[Timeline, TimelineDict[str, int]]:
    timeline = Timeline()
    dictionary: TimelineDict[str, int] = TimelineDict(timeline)
    return timeline, dictionary


def test_what_is_loaded_before_the_timeline_begins_is_committed() -> None:
    timeline, dictionary = a_dictionary()
    dictionary["a"] = 1
    timeline.begin()
    assert dictionary.committed("a") == 1
    timeline.revert(0)
    assert dictionary.get("a") == 1


def test_a_change_is_seen_at_once_but_is_committed_only_with_its_write() -> None:
    timeline, dictionary = a_dictionary()
    timeline.begin()
    dictionary["a"] = 1
    assert dictionary.get("a") == 1
    assert dictionary.committed("a") is None
    assert dictionary.committed_items() == []
    timeline.commit(timeline.seal())
    assert dictionary.committed("a") == 1


def test_a_failed_write_takes_later_ones_with_it() -> None:
    timeline, dictionary = a_dictionary()
    dictionary["a"] = 1
    timeline.begin()
    dictionary["a"] = 2
    first = timeline.seal()
    dictionary["a"] = 3
    dictionary["b"] = 4
    second = timeline.seal()
    dictionary.pop("a")
    timeline.revert(second)
    assert dictionary.items() == [("a", 2)]
    timeline.revert(first)
    assert dictionary.items() == [("a", 1)]


def test_a_dictionary_that_came_with_a_failed_write_goes_with_it() -> None:
    timeline = Timeline()
    outer: TimelineDict[str, TimelineDict[str, int]] = TimelineDict(timeline)
    timeline.begin()
    inner: TimelineDict[str, int] = TimelineDict(timeline)
    outer["x"] = inner
    inner["a"] = 1
    timeline.revert(timeline.open_layer)
    assert "x" not in outer


Step = tuple[str, str, int]
steps = st.lists(
    st.tuples(
        st.sampled_from(["set", "pop", "seal", "commit", "revert"]),
        st.sampled_from("abc"),
        st.integers(0, 9),
    ),
    max_size=40,
)


@given(steps)
def test_committed_and_reverted_states_are_those_of_copies(steps: list[Step]) -> None:
    timeline, dictionary = a_dictionary()
    timeline.begin()
    copies: dict[int, dict[str, int]] = {timeline.open_layer: {}}
    """The state before each write that is not committed."""
    for action, key, value in steps:
        if action == "set":
            dictionary[key] = value
        elif action == "pop":
            dictionary.pop(key)
        elif action == "seal":
            timeline.seal()
            copies[timeline.open_layer] = dict(dictionary.items())
        elif action == "commit" and len(copies) > 1:
            oldest = min(copies)
            timeline.commit(oldest)
            del copies[oldest]
        elif action == "revert":
            target = sorted(copies)[value % len(copies)]
            before = copies[target]
            timeline.revert(target)
            assert dict(dictionary.items()) == before
            copies = {layer: copy for layer, copy in copies.items() if layer < target}
            copies[timeline.open_layer] = before
        committed = copies[min(copies)]
        assert dict(dictionary.committed_items()) == committed
        assert {key: dictionary.committed(key) for key in "abc"} == {
            key: committed.get(key) for key in "abc"
        }
        differ = {key for key in "abc" if dictionary.get(key) != committed.get(key)}
        assert differ <= dictionary.uncommitted()
        if not any(layer.changes for layer in timeline.layers):
            assert not dictionary.uncommitted()

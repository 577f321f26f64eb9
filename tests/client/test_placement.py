"""Plans of reassignments: whatever the cluster is like, they keep what they promise."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.placement import NotPlaceable, Placement, changes
from ottla.common.topic_partition import TopicPartition

Assignment = dict[TopicPartition, list[int]]


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Assignment, dict[int, str | None]]:
    count = draw(st.integers(1, 7))
    racks = {
        broker: draw(st.sampled_from(["a", "b", "c"])) if draw(st.booleans()) else None
        for broker in range(1, count + 1)
    }
    if draw(st.booleans()):
        racks = {broker: rack or "a" for broker, rack in racks.items()}
    brokers = st.lists(st.sampled_from(sorted(racks)), min_size=1, max_size=4, unique=True)
    partitions = [
        TopicPartition(topic, partition)
        for topic in ("x", "y")
        for partition in range(draw(st.integers(0, 8)))
    ]
    return {partition: draw(brokers) for partition in partitions}, dict(racks)


@given(clusters(), st.data())
def test_a_plan_names_distinct_brokers_of_those_allowed_and_keeps_the_number_of_copies(
    cluster: tuple[Assignment, dict[int, str | None]], data: st.DataObject
) -> None:
    current, racks = cluster
    allowed = data.draw(st.sets(st.sampled_from(sorted(racks)), min_size=1))
    factor = data.draw(st.none() | st.integers(1, 4))
    placement = Placement(current, racks, allowed)
    needed = factor or max((len(each) for each in current.values()), default=1)
    if current and needed > len(allowed):
        with pytest.raises(NotPlaceable, match=f"{len(allowed)} brokers"):
            placement.plan(current, replication_factor=factor)
        return
    planned = placement.plan(current, replication_factor=factor)
    assert planned.keys() == current.keys()
    for partition, replicas in planned.items():
        assert len(set(replicas)) == len(replicas) == (factor or len(current[partition]))
        assert set(replicas) <= allowed
        if all(racks[broker] is not None for broker in allowed):
            spread = len({racks[broker] for broker in replicas})
            assert spread == min(len(replicas), len({racks[broker] for broker in allowed}))


@given(clusters())
def test_what_was_planned_needs_no_second_plan(
    cluster: tuple[Assignment, dict[int, str | None]],
) -> None:
    current, racks = cluster
    first = Placement(current, racks, racks).plan(current)
    assert changes(first, Placement(first, racks, racks).plan(first)) == []


@given(st.lists(st.lists(st.integers(1, 5), min_size=1, max_size=3, unique=True), max_size=20))
def test_one_topic_without_racks_ends_even(assignment: list[list[int]]) -> None:
    current = {TopicPartition("x", at): each for at, each in enumerate(assignment)}
    planned = Placement(current, {}, range(1, 6)).plan(current)
    held = Counter(broker for replicas in planned.values() for broker in replicas)
    loads = [held[broker] for broker in range(1, 6)]
    assert max(loads) - min(loads) <= 1


@given(clusters(), st.data())
def test_emptying_a_broker_moves_only_what_is_on_it(
    cluster: tuple[Assignment, dict[int, str | None]], data: st.DataObject
) -> None:
    current, racks = cluster
    emptied = data.draw(st.sampled_from(sorted(racks)))
    held = [partition for partition, replicas in current.items() if emptied in replicas]
    if any(len(current[partition]) >= len(racks) for partition in held):
        return
    planned = Placement(current, racks, set(racks) - {emptied}).plan(held, balance=False)
    racked = all(racks[broker] is not None for broker in racks if broker != emptied)
    for move in changes(current, planned):
        assert emptied not in move.after
        assert racked or len(move.adding) == 1


def test_new_brokers_get_their_share_and_the_rest_stays() -> None:
    current = {TopicPartition("x", at): [1, 2] for at in range(6)}
    planned = Placement(current, {}, [1, 2, 3]).plan(current)
    copied = sum(len(move.adding) for move in changes(current, planned))
    assert copied == 4, "a third of twelve"
    leads = Counter(replicas[0] for replicas in planned.values())
    assert max(leads.values()) == 2


def test_more_copies_lie_in_racks_that_have_none() -> None:
    current = {TopicPartition("x", 0): [1]}
    racks = {1: "a", 2: "a", 3: "b", 4: "c"}
    planned = Placement(current, racks, racks).plan(current, replication_factor=3)
    assert sorted(planned[TopicPartition("x", 0)]) == [1, 3, 4]
    assert Placement(current, racks, racks).plan(current, replication_factor=1) == current

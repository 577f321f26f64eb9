"""Replicas are spread over racks and brokers, and every partition can have a leader at once."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.common.chance import Chance
from ottla.common.errors import InvalidReplicationFactor
from ottla.metadata.placement import UsableBroker, place_replicas


def place(
    brokers: list[UsableBroker], partitions: int, factor: int, seed: int = 1
) -> list[list[int]]:
    return place_replicas(
        brokers, partitions=partitions, replication_factor=factor, chance=Chance(seed)
    )


def brokers_of(*racks: str | None) -> list[UsableBroker]:
    return [UsableBroker(node_id, rack, fenced=False) for node_id, rack in enumerate(racks)]


def test_one_broker_takes_everything() -> None:
    assert place(brokers_of(None), 3, 1) == [[0], [0], [0]]


def test_leaders_are_even_over_brokers_of_one_rack() -> None:
    placed = place(brokers_of(None, None, None), 9, 2)
    assert Counter(replicas[0] for replicas in placed) == {0: 3, 1: 3, 2: 3}


def test_replicas_of_a_partition_are_in_different_racks() -> None:
    brokers = brokers_of("a", "a", "b", "b", "c", "c")
    for replicas in place(brokers, 20, 3):
        assert {brokers[replica].rack for replica in replicas} == {"a", "b", "c"}


def test_a_fenced_broker_takes_followers_only() -> None:
    brokers = [UsableBroker(0, None, fenced=False), UsableBroker(1, None, fenced=True)]
    assert place(brokers, 2, 2) == [[0, 1], [0, 1]]


@pytest.mark.parametrize(
    ("brokers", "factor", "reason"),
    [
        (brokers_of(None), 0, "must be positive"),
        (brokers_of(None), 2, "only 1 broker"),
        ([], 1, "All brokers are currently fenced"),
        ([UsableBroker(0, None, fenced=True)], 1, "All brokers are currently fenced"),
    ],
)
def test_what_cannot_be_placed_is_refused(
    brokers: list[UsableBroker], factor: int, reason: str
) -> None:
    with pytest.raises(InvalidReplicationFactor, match=reason):
        place(brokers, 1, factor)


brokers_strategy = st.lists(
    st.tuples(st.sampled_from(["a", "b", "c", None]), st.booleans()), min_size=1, max_size=8
)


@given(brokers_strategy, st.integers(1, 20), st.integers(1, 8), st.integers(0, 1000))
def test_each_partition_has_that_many_different_replicas_and_a_leader(
    described: list[tuple[str | None, bool]], partitions: int, factor: int, seed: int
) -> None:
    brokers = [UsableBroker(i, rack, fenced) for i, (rack, fenced) in enumerate(described)]
    alive = {broker.node_id for broker in brokers if not broker.fenced}
    if factor > len(brokers) or not alive:
        return
    placed = place(brokers, partitions, factor, seed)
    assert len(placed) == partitions
    for replicas in placed:
        assert len(set(replicas)) == factor
        assert replicas[0] in alive
    assert placed == place(brokers, partitions, factor, seed)


@given(
    racks=st.integers(1, 4),
    size=st.integers(1, 5),
    factor=st.integers(1, 4),
    times=st.integers(1, 3),
    seed=st.integers(0, 1000),
)
def test_every_broker_of_equal_racks_leads_and_follows_as_often_as_every_other(
    racks: int, size: int, factor: int, times: int, seed: int
) -> None:
    """By Kafka's own turns only one of three brokers in each of three racks would ever lead."""
    brokers = brokers_of(*(f"rack-{each % racks}" for each in range(racks * size)))
    if factor > racks:
        return
    placed = place(brokers, racks * size * size * times, factor, seed)
    led = Counter(replicas[0] for replicas in placed)
    followed = Counter(replica for replicas in placed for replica in replicas[1:])
    assert led == {broker.node_id: size * times for broker in brokers}
    assert set(followed.values()) <= {size * times * (factor - 1)}
    for replicas in placed:
        assert len({brokers[replica].rack for replica in replicas}) == factor
    few = place(brokers, racks * size, factor, seed)
    assert {replicas[0] for replicas in few} == {broker.node_id for broker in brokers}


def test_the_load_of_a_broker_that_dies_goes_to_several() -> None:
    brokers = brokers_of("a", "b", "a", "b", "a", "b")
    placed = place(brokers, 18, 2)
    for broker in brokers:
        heirs = {replicas[1] for replicas in placed if replicas[0] == broker.node_id}
        assert len(heirs) == 3

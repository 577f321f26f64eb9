"""The assignors: each partition has one owner who wants it, loads are even, what can stays."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from ottla.coordinator.group.assignors import range as range_assignor
from ottla.coordinator.group.assignors import uniform as uniform_assignor
from ottla.coordinator.group.assignors.specification import (
    GroupSpecification,
    MemberSpecification,
    Partitions,
)

TOPICS = [bytes([number]) * 16 for number in range(1, 5)]
COUNTS = st.fixed_dictionaries({topic_id: st.integers(1, 9) for topic_id in TOPICS})
SUBSCRIPTIONS = st.frozensets(st.sampled_from(TOPICS), min_size=1)
NAMES = [f"member-{number}" for number in range(7)]


@st.composite
def groups(draw: st.DrawFn, *, alike: bool = False) -> GroupSpecification:
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
    shared = draw(SUBSCRIPTIONS)
    members = {
        name: MemberSpecification(shared if alike else draw(SUBSCRIPTIONS)) for name in names
    }
    return specification(members, draw(COUNTS))


def specification(
    members: dict[str, MemberSpecification], counts: dict[bytes, int]
) -> GroupSpecification:
    wanted = {topic_id for member in members.values() for topic_id in member.topic_ids}
    return GroupSpecification(members, {topic_id: counts[topic_id] for topic_id in wanted})


def with_assignment(
    group: GroupSpecification, assigned: dict[str, Partitions]
) -> GroupSpecification:
    members = {
        name: member._replace(assigned=assigned.get(name, {}))
        for name, member in group.members.items()
    }
    return group._replace(members=members)


def owners(assigned: dict[str, Partitions]) -> dict[tuple[bytes, int], str]:
    found = {}
    for name, topics in assigned.items():
        for topic_id, partitions in topics.items():
            assert partitions, "a topic without partitions is not in an assignment"
            for partition in partitions:
                assert (topic_id, partition) not in found, "two owners"
                found[topic_id, partition] = name
    return found


def check_complete(group: GroupSpecification, assigned: dict[str, Partitions]) -> None:
    assert set(assigned) == set(group.members)
    found = owners(assigned)
    assert set(found) == {
        (topic_id, partition)
        for topic_id, count in group.partition_counts.items()
        for partition in range(count)
    }
    for (topic_id, _), name in found.items():
        assert topic_id in group.members[name].topic_ids


@given(groups())
def test_every_partition_has_one_owner_who_wants_it(group: GroupSpecification) -> None:
    for assign in (range_assignor.assign, uniform_assignor.assign):
        check_complete(group, assign(group))


@given(groups())
def test_uniform_leaves_no_move_that_would_help(group: GroupSpecification) -> None:
    found = owners(uniform_assignor.assign(group))
    load = Counter(found.values())
    for (topic_id, _), name in found.items():
        for other, member in group.members.items():
            if topic_id in member.topic_ids:
                assert load[name] - load[other] <= 1


@given(groups(alike=True))
def test_uniform_is_even_among_equals(group: GroupSpecification) -> None:
    load = [sum(map(len, topics.values())) for topics in uniform_assignor.assign(group).values()]
    assert max(load) - min(load) <= 1


@given(groups())
def test_nothing_moves_where_nothing_has_changed(group: GroupSpecification) -> None:
    for assign in (range_assignor.assign, uniform_assignor.assign):
        first = assign(group)
        assert assign(with_assignment(group, first)) == first


@given(groups(alike=True), st.data())
def test_uniform_moves_no_more_than_balance_asks_for(
    group: GroupSpecification, data: st.DataObject
) -> None:
    before = uniform_assignor.assign(group)
    gone = data.draw(st.sampled_from(sorted(group.members)))
    left = {name: member for name, member in group.members.items() if name != gone}
    topic_ids = next(iter(group.members.values())).topic_ids
    newcomer = data.draw(st.booleans())
    if newcomer or not left:
        left["newcomer"] = MemberSpecification(topic_ids)
    changed = with_assignment(group._replace(members=left), before)
    after = owners(uniform_assignor.assign(changed))
    kept = {key: name for key, name in owners(before).items() if name in left}
    load = Counter(kept.values())
    quota, extra = divmod(len(after), len(left))
    ordered = sorted(left, key=lambda name: (-load[name], name))
    allowed = {name: quota + (index < extra) for index, name in enumerate(ordered)}
    must_move = sum(max(0, load[name] - allowed[name]) for name in left)
    assert sum(after[key] != name for key, name in kept.items()) == must_move


def test_range_gives_neighbours_and_cuts_equal_topics_alike() -> None:
    members = {name: MemberSpecification(frozenset(TOPICS[:2])) for name in ("a", "b", "c")}
    assigned = range_assignor.assign(specification(members, dict.fromkeys(TOPICS, 7)))
    assert [assigned[name][TOPICS[0]] for name in "abc"] == [{0, 1, 2}, {3, 4}, {5, 6}]
    assert all(assigned[name][TOPICS[0]] == assigned[name][TOPICS[1]] for name in "abc")


def test_range_puts_static_members_first_by_their_instances() -> None:
    topics = frozenset(TOPICS[:1])
    members = {
        "a": MemberSpecification(topics),
        "y": MemberSpecification(topics, instance_id="2"),
        "z": MemberSpecification(topics, instance_id="1"),
    }
    assigned = range_assignor.assign(specification(members, dict.fromkeys(TOPICS, 3)))
    assert [assigned[name][TOPICS[0]] for name in "zya"] == [{0}, {1}, {2}]


def test_a_partition_that_is_gone_and_one_that_two_claim_are_put_right() -> None:
    topics = frozenset(TOPICS[:1])
    claimed = {TOPICS[0]: frozenset({0, 1, 9})}
    members = {name: MemberSpecification(topics, assigned=claimed) for name in "ab"}
    group = specification(members, dict.fromkeys(TOPICS, 4))
    check_complete(group, uniform_assignor.assign(group))

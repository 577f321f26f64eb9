"""Describing, listing and deleting groups, and which partition a group belongs to."""

import pytest
from tests.coordinator.coordinator import GROUP, Coordinator, Member, settle, subscription

from ottla.common.errors import CoordinatorNotAvailable, ErrorCode
from ottla.coordinator.partitioner import partition_of


@pytest.mark.parametrize(
    ("group_id", "partition"),
    [("", 0), ("c", 49), ("g", 3), ("g2", 43), ("polygenelubricants", 0)],
)
def test_a_group_falls_into_the_partition_that_java_would_choose(
    group_id: str, partition: int
) -> None:
    assert partition_of(group_id, 50) == partition


def test_letters_beyond_the_basic_plane_count_as_javas_two_units() -> None:
    assert partition_of("\U0001f600", 50) == (0xD83D * 31 + 0xDE00) % 50


def test_a_hash_that_is_negative_loses_its_sign() -> None:
    value = 0
    for letter in b"negative-hash-1":
        value = (31 * value + letter) & 0xFFFFFFFF
    signed = value - (1 << 32) if value >= 1 << 31 else value
    assert partition_of("negative-hash-1", 50) == abs(signed) % 50


def test_a_stable_group_is_described_with_what_its_members_have(coordinator: Coordinator) -> None:
    member = Member(coordinator, "client")
    settle(coordinator, member)
    (group,) = coordinator.service.describe([GROUP], 6)
    assert (group.group_state, group.protocol_type, group.protocol_data) == (
        "Stable",
        "consumer",
        "range",
    )
    (described,) = group.members
    assert described.member_id == member.member_id
    assert (described.client_id, described.client_host) == ("client", "/127.0.0.1")
    assert described.member_metadata == subscription("topic")
    assert described.member_assignment == b"client"


def test_while_it_rebalances_members_are_described_without_what_they_had(
    coordinator: Coordinator,
) -> None:
    member = Member(coordinator, "client")
    settle(coordinator, member)
    Member(coordinator, "b").join()
    (group,) = coordinator.service.describe([GROUP], 6)
    assert (group.group_state, group.protocol_data) == ("PreparingRebalance", "")
    assert {each.member_metadata for each in group.members} == {b""}
    assert {each.member_assignment for each in group.members} == {b""}


def test_a_group_that_is_not_there_is_dead_or_since_version_6_not_found(
    coordinator: Coordinator,
) -> None:
    (old,) = coordinator.service.describe(["nope"], 5)
    assert (old.error_code, old.error_message, old.group_state) == (0, None, "Dead")
    (new,) = coordinator.service.describe(["nope"], 6)
    assert (new.error_code, new.error_message) == (69, "Group nope not found.")


def test_groups_are_listed_by_state_and_type_in_any_case(coordinator: Coordinator) -> None:
    settle(coordinator, Member(coordinator, "a"))
    coordinator.commit_offset(1, group_id="simple")
    coordinator.turn()

    def listed(states: list[str], types: list[str]) -> set[str]:
        return {each.group_id for each in coordinator.service.list_groups(states, types)}

    assert listed([], []) == {GROUP, "simple"}
    assert listed(["STABLE"], []) == {GROUP}
    assert listed(["empty", "stable"], ["Classic"]) == {GROUP, "simple"}
    assert listed([], ["consumer"]) == set()
    assert listed(["bogus"], []) == set()


def test_only_empty_groups_are_deleted_and_their_offsets_go_with_them(
    coordinator: Coordinator,
) -> None:
    member = Member(coordinator, "a")
    settle(coordinator, member)
    coordinator.commit_offset(1, group_id="simple")
    coordinator.turn()
    results = coordinator.ask(coordinator.service.delete([GROUP, "simple", "nope", "simple"]))
    assert {each.group_id: each.error_code for each in results} == {
        GROUP: ErrorCode.NON_EMPTY_GROUP,
        "simple": ErrorCode.NONE,
        "nope": ErrorCode.GROUP_ID_NOT_FOUND,
    }
    assert len(results) == 3
    coordinator.crash()
    assert coordinator.state("simple") == "Dead"
    assert coordinator.committed("simple") is None
    member.leave()
    coordinator.ask(coordinator.service.delete([GROUP]))
    assert coordinator.state() == "Dead"


def test_a_coordinator_that_has_stopped_says_so(coordinator: Coordinator) -> None:
    coordinator.service.stop()
    (described,) = coordinator.service.describe([GROUP], 5)
    assert described.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert coordinator.service.list_groups() == []
    with pytest.raises(CoordinatorNotAvailable):
        coordinator.commit_offset(1).result()
    (deleted,) = coordinator.ask(coordinator.service.delete([GROUP]))
    assert deleted.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_the_partitions_of_others_are_asked_elsewhere(coordinator: Coordinator) -> None:
    coordinator.service.resigned(coordinator.service.partition_for(GROUP))
    (described,) = coordinator.service.describe([GROUP], 5)
    assert described.error_code == ErrorCode.NOT_COORDINATOR
    assert Member(coordinator, "a").heartbeat() == ErrorCode.NOT_COORDINATOR

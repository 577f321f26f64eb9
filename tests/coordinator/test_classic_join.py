"""JoinGroup to classic groups: ids, delays, protocols, sizes, and what a rebalance does."""

import pytest
from tests.coordinator.coordinator import (
    GROUP,
    Coordinator,
    Member,
    assign,
    settle,
    subscription,
)
from tests.observability.lines import lines

from ottla.common.errors import ErrorCode
from ottla.coordinator.group.settings import GroupSettings


def codes(*members: Member) -> list[int]:
    return [-2 if member.joined is None else member.joined.error_code for member in members]


def test_the_first_members_wait_for_others_before_the_first_generation(
    coordinator: Coordinator,
) -> None:
    first, second = Member(coordinator, "a"), Member(coordinator, "b")
    first.join()
    coordinator.wait(2.9)
    assert first.joined is None
    second.join()
    coordinator.wait(0.2)
    assert first.joined is None, "the second has prolonged the delay"
    coordinator.wait(3)
    assert codes(first, second) == [0, 0]
    assert first.generation_id == second.generation_id == 1
    assert first.leads
    assert not second.leads


def test_the_delay_of_the_first_generation_is_bounded_by_the_rebalance_timeout(
    coordinator: Coordinator,
) -> None:
    members = []
    for number in range(10):
        member = Member(coordinator, f"m{number}", rebalance_timeout_ms=6_000)
        members.append(member)
        member.join()
        coordinator.wait(1)
        if members[0].joined is not None:
            break
    assert coordinator.scheduler.now == pytest.approx(6, abs=1)


def test_only_the_leader_hears_who_is_in_the_group(coordinator: Coordinator) -> None:
    first, second = Member(coordinator, "a"), Member(coordinator, "b")
    settle(coordinator, first, second)
    assert first.joined is not None
    assert second.joined is not None
    assert [each.member_id for each in first.joined.members] == [
        first.member_id,
        second.member_id,
    ]
    assert first.joined.members[0].metadata == subscription("topic")
    assert second.joined.members == []
    assert first.joined.protocol_type == second.joined.protocol_type == "consumer"
    assert first.joined.protocol_name == second.joined.protocol_name == "range"


def test_a_dynamic_member_must_come_back_with_the_id_that_it_is_given(
    coordinator: Coordinator,
) -> None:
    """KIP-394."""
    member = Member(coordinator, "client")
    response = member.send_join().result()
    assert response.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert response.member_id.startswith("client-")
    assert len(response.member_id) == len("client-") + 36
    assert coordinator.state() == "Empty"
    member.member_id = response.member_id
    assert not member.send_join().done
    assert coordinator.state() == "PreparingRebalance"


def test_a_client_with_a_name_of_any_length_gets_an_id_that_can_be_written(
    coordinator: Coordinator,
) -> None:
    member = Member(coordinator, "\U0001f600" * 8_191)
    settle(coordinator, member)
    assert len(member.member_id.encode()) < 1 << 15
    coordinator.crash()
    assert member.heartbeat() == ErrorCode.NONE


def test_clients_before_version_4_join_at_once(coordinator: Coordinator) -> None:
    member = Member(coordinator, "old", version=3)
    assert not member.send_join().done
    assert coordinator.state() == "PreparingRebalance"


def test_an_id_that_nobody_comes_back_with_is_forgotten(coordinator: Coordinator) -> None:
    member = Member(coordinator, "client")
    member.member_id = member.send_join().result().member_id
    coordinator.wait(11)
    assert member.send_join().result().error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_waits_for_an_id_that_was_just_handed_out(coordinator: Coordinator) -> None:
    first, second = Member(coordinator, "a"), Member(coordinator, "b")
    settle(coordinator, first)
    second.member_id = second.send_join().result().member_id
    first.join()
    coordinator.turn()
    assert coordinator.state() == "PreparingRebalance"
    second.join()
    coordinator.turn()
    assert codes(first, second) == [0, 0]


def test_a_member_id_that_nobody_gave_out_is_unknown(coordinator: Coordinator) -> None:
    stranger = Member(coordinator, "x")
    stranger.member_id = "x-1"
    assert stranger.send_join().result().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    settle(coordinator, Member(coordinator, "a"))
    response = stranger.send_join().result()
    assert response.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert response.member_id == "x-1"
    assert response.protocol_name is None


def test_a_group_without_an_id_and_sessions_out_of_bounds_are_refused(
    coordinator: Coordinator,
) -> None:
    unnamed = Member(coordinator, "a", group_id="")
    assert unnamed.send_join().result().error_code == ErrorCode.INVALID_GROUP_ID
    for timeout_ms in (5_999, 1_800_001):
        member = Member(coordinator, "a", session_timeout_ms=timeout_ms)
        assert member.send_join().result().error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    assert coordinator.records() == []


def test_a_member_without_type_or_protocols_is_refused_and_makes_no_group(
    coordinator: Coordinator,
) -> None:
    untyped = Member(coordinator, "a", protocol_type="")
    assert untyped.send_join().result().error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    coordinator.turn()
    assert coordinator.group() is None


def test_a_member_of_another_type_or_without_a_common_protocol_is_refused(
    coordinator: Coordinator,
) -> None:
    settle(coordinator, Member(coordinator, "a"))
    other_type = Member(coordinator, "b", protocol_type="connect")
    assert other_type.send_join().result().error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    stranger = Member(coordinator, "b", protocols={"own": b""})
    assert stranger.send_join().result().error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert coordinator.state() == "Stable"


def test_the_protocol_is_the_one_that_most_members_like_best_among_the_common_ones(
    coordinator: Coordinator,
) -> None:
    metadata = subscription("topic")
    members = [
        Member(coordinator, "a", protocols=dict.fromkeys(["sticky", "range", "own"], metadata)),
        Member(coordinator, "b", protocols=dict.fromkeys(["range", "sticky"], metadata)),
        Member(coordinator, "c", protocols=dict.fromkeys(["own", "range", "sticky"], metadata)),
    ]
    settle(coordinator, *members)
    assert {member.joined.protocol_name for member in members if member.joined} == {"range"}


def test_who_does_not_join_within_the_rebalance_timeout_is_out(
    coordinator: Coordinator, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "ottla.coordinator.group")
    first = Member(coordinator, "a", session_timeout_ms=600_000)
    second = Member(coordinator, "b", session_timeout_ms=600_000)
    settle(coordinator, first, second)
    first.join()
    coordinator.wait(59)
    assert coordinator.state() == "PreparingRebalance"
    coordinator.wait(2)
    assert coordinator.state() == "CompletingRebalance"
    assert first.joined is not None
    assert [each.member_id for each in first.joined.members] == [first.member_id]
    assert second.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    assert lines(caplog) == [
        f'INFO member fenced member={second.member_id} group=group reason="no JoinGroup in time"'
    ]


def test_a_leader_that_does_not_come_back_is_replaced(coordinator: Coordinator) -> None:
    leader = Member(coordinator, "a", session_timeout_ms=600_000)
    other = Member(coordinator, "b", session_timeout_ms=600_000)
    settle(coordinator, leader, other)
    other.protocols = {"range": subscription("topic", "more")}
    other.join()
    coordinator.wait(61)
    assert other.leads
    assert other.generation_id == 2


def test_members_learn_of_a_rebalance_by_their_heartbeats(coordinator: Coordinator) -> None:
    first, second = Member(coordinator, "a"), Member(coordinator, "b")
    settle(coordinator, first)
    assert first.heartbeat() == ErrorCode.NONE
    second.join()
    assert first.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    first.join()
    coordinator.turn()
    assert codes(first, second) == [0, 0]
    assert first.generation_id == 2


def test_a_follower_that_only_missed_the_answer_is_told_again(coordinator: Coordinator) -> None:
    leader, follower = Member(coordinator, "a"), Member(coordinator, "b")
    settle(coordinator, leader, follower)
    again = follower.send_join()
    assert again.result().generation_id == 1
    assert coordinator.state() == "Stable"


def test_the_leader_of_a_stable_group_joins_to_have_a_rebalance(coordinator: Coordinator) -> None:
    leader, follower = Member(coordinator, "a"), Member(coordinator, "b")
    settle(coordinator, leader, follower)
    assert not leader.send_join().done
    assert coordinator.state() == "PreparingRebalance"


def test_a_member_with_another_subscription_starts_a_rebalance(coordinator: Coordinator) -> None:
    leader, follower = Member(coordinator, "a"), Member(coordinator, "b")
    settle(coordinator, leader, follower)
    follower.protocols = {"range": subscription("other")}
    assert not follower.send_join().done
    assert coordinator.state() == "PreparingRebalance"


def test_a_member_may_ask_again_while_the_leader_assigns(coordinator: Coordinator) -> None:
    leader, follower = Member(coordinator, "a"), Member(coordinator, "b")
    leader.join()
    follower.join()
    coordinator.wait(10)
    assert coordinator.state() == "CompletingRebalance"
    again = leader.send_join().result()
    assert again.generation_id == 1
    assert len(again.members) == 2
    follower.protocols = {"range": subscription("other")}
    assert not follower.send_join().done
    assert coordinator.state() == "PreparingRebalance"


def test_a_request_that_is_sent_twice_leaves_nobody_waiting_for_ever(
    coordinator: Coordinator,
) -> None:
    leader = Member(coordinator, "a")
    settle(coordinator, leader, Member(coordinator, "b"))
    first = leader.send_join()
    second = leader.send_join()
    assert first.result().error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert not second.done


def test_a_full_group_takes_nobody_else() -> None:
    coordinator = Coordinator(GroupSettings(size_max=2))
    first, second, third = (Member(coordinator, name) for name in "abc")
    settle(coordinator, first, second)
    assert third.send_join().result().error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert first.heartbeat() == ErrorCode.NONE


def test_while_it_rebalances_a_full_group_takes_those_who_come_first() -> None:
    coordinator = Coordinator(GroupSettings(size_max=2))
    members = [Member(coordinator, name) for name in "abcd"]
    for member in members:
        member.join()
    coordinator.wait(10)
    assert codes(*members) == [0, 0, 81, 81]


def test_a_group_that_was_loaded_over_its_size_sheds_members() -> None:
    coordinator = Coordinator()
    members = [Member(coordinator, name) for name in "abc"]
    settle(coordinator, *members)
    coordinator.settings = GroupSettings(size_max=2)
    coordinator.crash()
    assert coordinator.state() == "PreparingRebalance"
    for member in members:
        member.join()
    coordinator.wait(70)
    assert sorted(codes(*members)) == [0, 0, 81]


def test_a_new_member_that_gave_up_is_dropped_after_five_minutes(coordinator: Coordinator) -> None:
    member = Member(coordinator, "a", session_timeout_ms=1_000_000, rebalance_timeout_ms=10**6)
    ghost = Member(coordinator, "ghost", session_timeout_ms=1_000_000, version=3)
    settle(coordinator, member)
    waiting = ghost.send_join()
    coordinator.wait(299)
    assert not waiting.done
    coordinator.wait(2)
    assert waiting.result().error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_begins_with_a_record_of_its_own_so_that_it_stays(
    coordinator: Coordinator,
) -> None:
    Member(coordinator, "a").send_join()
    coordinator.turn()
    (record,) = coordinator.records()
    assert "members=[]" in repr(record.value)
    coordinator.crash()
    assert coordinator.state() == "Empty"


def test_each_generation_is_greater_than_the_one_before_also_over_a_restart(
    coordinator: Coordinator,
) -> None:
    member = Member(coordinator, "a")
    settle(coordinator, member)
    assert member.generation_id == 1
    coordinator.crash()
    assert member.heartbeat() == ErrorCode.NONE
    member.join()
    coordinator.turn()
    assign(coordinator, member)
    assert member.generation_id == 2
    assert coordinator.service.describe([GROUP], 5)[0].group_state == "Stable"

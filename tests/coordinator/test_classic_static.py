"""Static members (KIP-345): they come back under a new id, and their former selves are fenced."""

import pytest
from tests.coordinator.coordinator import Coordinator, Member, assign, settle, subscription

from ottla.common.errors import ErrorCode, FencedInstanceId, NotEnoughReplicas
from ottla.protocol.generated.group_records import GroupMetadataValue


@pytest.fixture
def pair(coordinator: Coordinator) -> tuple[Member, Member]:
    """A leader and a follower, both static."""
    leader = Member(coordinator, "a", instance_id="A")
    follower = Member(coordinator, "b", instance_id="B")
    settle(coordinator, leader, follower)
    assert leader.leads
    return leader, follower


def returned(member: Member, version: int = 9) -> Member:
    """The same instance after a restart: it has forgotten its member id."""
    return Member(
        member.coordinator,
        member.name,
        instance_id=member.instance_id,
        protocols=member.protocols,
        version=version,
    )


def test_a_static_member_is_named_after_its_instance_and_needs_no_second_request(
    coordinator: Coordinator,
) -> None:
    member = Member(coordinator, "client", instance_id="instance")
    assert not member.send_join().done
    coordinator.wait(5)
    (described,) = coordinator.service.describe(["group"], 5)
    assert described.members[0].member_id.startswith("instance-")
    assert described.members[0].group_instance_id == "instance"


def test_a_follower_that_comes_back_goes_on_without_a_rebalance(
    coordinator: Coordinator, pair: tuple[Member, Member]
) -> None:
    leader, follower = pair
    again = returned(follower)
    again.join()
    coordinator.turn()
    assert coordinator.state() == "Stable"
    assert again.joined is not None
    assert again.generation_id == 1
    assert again.joined.leader == leader.member_id
    assert not again.joined.skip_assignment
    assert again.sync().result().assignment == b"b"
    assert leader.heartbeat() == ErrorCode.NONE


def test_a_leader_that_comes_back_is_told_to_skip_the_assignment(
    coordinator: Coordinator, pair: tuple[Member, Member]
) -> None:
    """KIP-814."""
    again = returned(pair[0])
    again.join()
    coordinator.turn()
    assert again.leads
    assert again.joined is not None
    assert again.joined.skip_assignment
    assert len(again.joined.members) == 2
    assert again.sync().result().assignment == b"a"


def test_an_older_client_that_led_is_told_that_its_former_self_leads(
    coordinator: Coordinator, pair: tuple[Member, Member]
) -> None:
    leader, _ = pair
    again = returned(leader, version=8)
    again.join()
    coordinator.turn()
    assert again.joined is not None
    assert again.joined.leader == leader.member_id
    assert again.member_id != leader.member_id
    assert again.joined.members == []
    assert not again.joined.skip_assignment


def test_the_former_self_is_fenced_in_all_that_it_does(
    coordinator: Coordinator, pair: tuple[Member, Member]
) -> None:
    _, follower = pair
    returned(follower).join()
    coordinator.turn()
    assert follower.heartbeat() == ErrorCode.FENCED_INSTANCE_ID
    with pytest.raises(FencedInstanceId):
        follower.sync().result()
    assert follower.send_join().result().error_code == ErrorCode.FENCED_INSTANCE_ID
    with pytest.raises(FencedInstanceId):
        follower.commit(5).result()
    assert follower.leave().members[0].error_code == ErrorCode.FENCED_INSTANCE_ID


def test_a_former_self_that_still_waits_is_told_at_once(coordinator: Coordinator) -> None:
    first = Member(coordinator, "a", instance_id="A")
    waiting = first.send_join()
    again = returned(first)
    again.join()
    assert waiting.result().error_code == ErrorCode.FENCED_INSTANCE_ID
    coordinator.wait(5)
    assert again.generation_id == 1


def test_the_new_id_is_stored_before_it_is_told(
    coordinator: Coordinator, pair: tuple[Member, Member]
) -> None:
    coordinator.log.hold = True
    again = returned(pair[1])
    waiting = again.join()
    coordinator.turn()
    assert not waiting.done
    coordinator.commit_log()
    assert waiting.result().error_code == ErrorCode.NONE
    value = coordinator.records()[-1].value
    assert isinstance(value, GroupMetadataValue)
    assert {each.member_id: each.assignment for each in value.members} == {
        pair[0].member_id: b"a",
        again.member_id: b"b",
    }
    coordinator.crash()
    assert again.heartbeat() == ErrorCode.NONE


def test_when_the_new_id_cannot_be_stored_the_former_self_goes_on(
    coordinator: Coordinator, pair: tuple[Member, Member]
) -> None:
    _, follower = pair
    coordinator.log.refuse = NotEnoughReplicas()
    again = returned(follower)
    refused = again.send_join()
    coordinator.turn()
    assert refused.result().error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert follower.heartbeat() == ErrorCode.NONE


def test_a_static_member_with_other_protocols_has_the_group_rebalance_if_they_change_the_choice(
    coordinator: Coordinator,
) -> None:
    both = dict.fromkeys(["range", "sticky"], subscription("topic"))
    leader = Member(coordinator, "a", instance_id="A", protocols=both)
    follower = Member(coordinator, "b", instance_id="B", protocols=both)
    settle(coordinator, leader, follower)
    again = returned(follower)
    again.protocols = {"sticky": subscription("topic")}
    again.join()
    assert coordinator.state() == "PreparingRebalance"
    leader.join()
    coordinator.turn()
    assert again.joined is not None
    assert again.joined.protocol_name == "sticky"


def test_who_comes_back_while_the_leader_assigns_has_all_join_again(
    coordinator: Coordinator,
) -> None:
    leader = Member(coordinator, "a", instance_id="A")
    follower = Member(coordinator, "b", instance_id="B")
    leader.join()
    follower.join()
    coordinator.wait(7)
    assert coordinator.state() == "CompletingRebalance"
    again = returned(follower)
    again.join()
    assert coordinator.state() == "PreparingRebalance"
    leader.join()
    coordinator.turn()
    assign(coordinator, leader, again)
    assert again.assignment == b"b"
    assert again.generation_id == 2


def test_static_members_that_miss_a_rebalance_stay_until_their_session_is_over(
    coordinator: Coordinator,
) -> None:
    leader = Member(coordinator, "a", instance_id="A", session_timeout_ms=200_000)
    follower = Member(coordinator, "b", instance_id="B", session_timeout_ms=200_000)
    settle(coordinator, leader, follower)
    leader.join()
    coordinator.wait(61)
    assert coordinator.state() == "CompletingRebalance"
    assert leader.joined is not None
    assert len(leader.joined.members) == 2


def test_a_group_of_which_nobody_joins_waits_for_sessions_to_end(
    coordinator: Coordinator,
) -> None:
    first = Member(coordinator, "a", instance_id="A", session_timeout_ms=100_000)
    second = Member(coordinator, "b", instance_id="B", session_timeout_ms=100_000)
    settle(coordinator, first, second)
    second.leave()
    coordinator.wait(61)
    assert coordinator.state() == "PreparingRebalance"
    coordinator.wait(100)
    assert coordinator.state() == "Empty"


def test_a_static_member_that_is_silent_for_its_session_is_out(
    coordinator: Coordinator, pair: tuple[Member, Member]
) -> None:
    leader, follower = pair
    for _ in range(4):
        coordinator.wait(3)
        leader.heartbeat()
    assert follower.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    assert leader.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS

"""SyncGroup, Heartbeat and LeaveGroup: assignments, sessions, and members that go."""

import pytest
from tests.coordinator.coordinator import (
    GROUP,
    Coordinator,
    Member,
    assign,
    leave,
    settle,
)

from ottla.common.errors import (
    ApiError,
    ErrorCode,
    NotEnoughReplicas,
    RebalanceInProgress,
    UnknownMemberId,
)
from ottla.common.promise import Promise
from ottla.protocol.generated.group_records import GroupMetadataValue
from ottla.protocol.generated.sync_group import SyncGroupRequest, SyncGroupResponse


def error_of(promise: Promise[SyncGroupResponse]) -> int:
    try:
        return promise.result().error_code
    except ApiError as error:
        return error.code


def joined(coordinator: Coordinator, *names: str) -> list[Member]:
    """Members of a generation whose leader has not assigned yet."""
    members = [Member(coordinator, name) for name in names]
    for member in members:
        member.join()
    coordinator.wait(10)
    return members


def test_followers_wait_for_the_leader_and_each_gets_its_own(coordinator: Coordinator) -> None:
    leader, follower = joined(coordinator, "a", "b")
    waiting = follower.sync()
    coordinator.turn()
    assert not waiting.done
    leader.sync({leader.member_id: b"A", follower.member_id: b"B"})
    coordinator.turn()
    assert leader.assignment == b"A"
    assert follower.assignment == b"B"
    assert coordinator.state() == "Stable"


def test_an_assignment_is_told_only_when_it_is_stored(coordinator: Coordinator) -> None:
    (leader,) = joined(coordinator, "a")
    coordinator.log.hold = True
    waiting = leader.sync({leader.member_id: b"A"})
    coordinator.turn()
    assert not waiting.done
    assert coordinator.state() == "CompletingRebalance"
    coordinator.commit_log()
    assert waiting.result().assignment == b"A"
    assert coordinator.state() == "Stable"


def test_an_assignment_that_cannot_be_stored_is_told_to_nobody(coordinator: Coordinator) -> None:
    leader, follower = joined(coordinator, "a", "b")
    coordinator.log.refuse = NotEnoughReplicas()
    waiting = [follower.sync(), leader.sync({leader.member_id: b"A"})]
    coordinator.turn()
    assert [error_of(each) for each in waiting] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2
    assert coordinator.state() == "PreparingRebalance"
    coordinator.log.refuse = None
    leader.join()
    follower.join()
    coordinator.turn()
    assign(coordinator, leader, follower)
    assert leader.assignment == b"a"
    assert follower.generation_id == 2


def test_who_comes_while_an_assignment_is_being_stored_makes_it_void(
    coordinator: Coordinator,
) -> None:
    (leader,) = joined(coordinator, "a")
    coordinator.log.hold = True
    waiting = leader.sync({leader.member_id: b"A"})
    coordinator.turn()
    Member(coordinator, "b", version=3).join()
    assert error_of(waiting) == ErrorCode.REBALANCE_IN_PROGRESS
    coordinator.commit_log()
    assert coordinator.state() == "PreparingRebalance"
    assert leader.assignment is None


def test_an_assignment_that_is_stored_too_late_is_not_that_of_the_next_generation(
    coordinator: Coordinator,
) -> None:
    (leader,) = joined(coordinator, "a")
    coordinator.log.hold = True
    leader.sync({leader.member_id: b"old"})
    coordinator.turn()
    other = Member(coordinator, "b", version=3)
    other.join()
    leader.join()
    coordinator.turn()
    assert leader.generation_id == 2
    waiting = leader.sync({leader.member_id: b"new"})
    coordinator.commit_log()
    assert not waiting.done, "the assignment of the first generation was stored"
    coordinator.turn()
    coordinator.commit_log()
    assert waiting.result().assignment == b"new"


def test_a_member_that_the_leader_forgot_gets_an_empty_assignment(
    coordinator: Coordinator,
) -> None:
    leader, follower = joined(coordinator, "a", "b")
    leader.sync({leader.member_id: b"A"})
    follower.sync()
    coordinator.turn()
    assert follower.assignment == b""


def test_the_record_of_a_generation_holds_all_that_a_new_coordinator_needs(
    coordinator: Coordinator,
) -> None:
    leader, follower = Member(coordinator, "a"), Member(coordinator, "b", instance_id="i")
    settle(coordinator, leader, follower)
    value = coordinator.records()[-1].value
    assert isinstance(value, GroupMetadataValue)
    assert (value.protocol_type, value.protocol, value.generation) == ("consumer", "range", 1)
    assert value.leader == leader.member_id
    assert [(each.member_id, each.assignment) for each in value.members] == [
        (leader.member_id, b"a"),
        (follower.member_id, b"b"),
    ]
    assert value.members[1].group_instance_id == "i"
    assert value.members[0].client_host == "/127.0.0.1"


def test_members_go_on_after_a_restart_of_the_coordinator(coordinator: Coordinator) -> None:
    leader, follower = Member(coordinator, "a"), Member(coordinator, "b")
    settle(coordinator, leader, follower)
    coordinator.crash()
    assert leader.heartbeat() == follower.heartbeat() == ErrorCode.NONE
    assert follower.sync().result().assignment == b"b"


def test_a_generation_whose_assignment_was_not_stored_is_forgotten_by_a_restart(
    coordinator: Coordinator,
) -> None:
    leader, follower = joined(coordinator, "a", "b")
    coordinator.crash()
    assert leader.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    assert error_of(follower.sync()) == ErrorCode.UNKNOWN_MEMBER_ID


def test_requests_of_another_generation_or_protocol_are_refused(coordinator: Coordinator) -> None:
    member = Member(coordinator, "a")
    settle(coordinator, member)
    member.generation_id = 7
    assert member.heartbeat() == ErrorCode.ILLEGAL_GENERATION
    assert error_of(member.sync()) == ErrorCode.ILLEGAL_GENERATION
    request = SyncGroupRequest(
        group_id=GROUP, member_id=member.member_id, generation_id=1, protocol_name="sticky"
    )
    refused = coordinator.service.sync(request)
    assert error_of(refused) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_nobody_syncs_while_members_still_join(coordinator: Coordinator) -> None:
    member = Member(coordinator, "a")
    settle(coordinator, member)
    Member(coordinator, "b").join()
    with pytest.raises(RebalanceInProgress):
        member.sync().result()


def test_who_does_not_sync_in_time_is_out_and_the_others_join_again(
    coordinator: Coordinator,
) -> None:
    leader, lazy = joined(coordinator, "a", "b")
    leader.sync({leader.member_id: b"A"})
    for _ in range(31):
        coordinator.wait(2)
        leader.heartbeat()
        lazy.heartbeat()
    assert lazy.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    assert leader.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_silent_member_is_out_when_its_session_is_over(coordinator: Coordinator) -> None:
    silent, loud = Member(coordinator, "a"), Member(coordinator, "b")
    settle(coordinator, silent, loud)
    for _ in range(3):
        coordinator.wait(3)
        assert loud.heartbeat() == ErrorCode.NONE
    coordinator.wait(1.5)
    assert loud.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    loud.join()
    coordinator.turn()
    assert loud.leads
    assert loud.joined is not None
    assert len(loud.joined.members) == 1


def test_a_commit_of_offsets_is_a_sign_of_life(coordinator: Coordinator) -> None:
    member = Member(coordinator, "a")
    settle(coordinator, member)
    for offset in range(5):
        coordinator.wait(6)
        member.commit(offset)
        coordinator.turn()
    assert member.heartbeat() == ErrorCode.NONE


def test_a_member_that_waits_for_us_need_not_send_heartbeats(coordinator: Coordinator) -> None:
    leader, follower = joined(coordinator, "a", "b")
    waiting = follower.sync()
    for _ in range(10):
        coordinator.wait(5)
        leader.heartbeat()
    assert not waiting.done
    leader.sync({follower.member_id: b"B"})
    coordinator.turn()
    assert follower.assignment == b"B"


def test_a_group_whose_last_member_leaves_is_empty_and_says_so_in_the_log(
    coordinator: Coordinator,
) -> None:
    member = Member(coordinator, "a")
    settle(coordinator, member)
    (answer,) = member.leave().members
    assert answer.error_code == ErrorCode.NONE
    assert coordinator.state() == "Empty"
    coordinator.crash()
    assert coordinator.state() == "Empty"
    group = coordinator.group()
    assert group is not None
    assert (group.generation_id, group.protocol_type) == (2, "consumer")


def test_a_member_that_leaves_lets_the_others_rebalance_at_once(coordinator: Coordinator) -> None:
    first, second = Member(coordinator, "a"), Member(coordinator, "b")
    settle(coordinator, first, second)
    first.leave()
    assert second.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    second.join()
    coordinator.turn()
    assert second.leads
    assert first.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_leaves_while_it_waits_is_answered(coordinator: Coordinator) -> None:
    leader, follower = joined(coordinator, "a", "b")
    waiting = follower.sync()
    follower.leave()
    assert error_of(waiting) == ErrorCode.UNKNOWN_MEMBER_ID
    joining = leader.send_join()
    assert not joining.done or joining.result().error_code == ErrorCode.NONE


def test_several_members_leave_at_once_each_with_its_own_answer(coordinator: Coordinator) -> None:
    dynamic = Member(coordinator, "a")
    static = Member(coordinator, "b", instance_id="i")
    settle(coordinator, dynamic, static)
    pending = Member(coordinator, "c").send_join().result().member_id
    answers = leave(
        coordinator,
        GROUP,
        (dynamic.member_id, None),
        ("", "i"),
        (pending, None),
        ("stranger", None),
        ("", "j"),
        ("", None),
    ).members
    assert [answer.error_code for answer in answers] == [0, 0, 0, 25, 25, 25]
    assert coordinator.state() == "Empty"


def test_nobody_leaves_a_group_that_is_not_there(coordinator: Coordinator) -> None:
    with pytest.raises(UnknownMemberId):
        leave(coordinator, "nowhere", ("m", None))


def test_when_the_coordinator_moves_all_who_wait_are_told(coordinator: Coordinator) -> None:
    leader, follower = joined(coordinator, "a", "b")
    syncing = follower.sync()
    partition = coordinator.service.partition_for(GROUP)
    coordinator.service.resigned(partition, 1)
    assert error_of(syncing) == ErrorCode.NOT_COORDINATOR
    assert leader.heartbeat() == ErrorCode.NOT_COORDINATOR
    coordinator.service.elected(partition, 2)
    coordinator.turn()
    joining = leader.send_join()
    assert joining.result().error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_while_a_coordinator_loads_heartbeats_are_taken_and_others_wait() -> None:
    coordinator = Coordinator()
    member = Member(coordinator, "a")
    settle(coordinator, member)
    for _ in range(300):
        member.commit(1)
        coordinator.turn()
    partition = coordinator.service.partition_for(GROUP)
    coordinator.service.resigned(partition, 1)
    coordinator.service.runtime._outside = (  # one batch at a time, so that it takes turns
        coordinator.service.runtime._outside._replace(load_bytes=1)
    )
    coordinator.service.elected(partition, 2)
    assert coordinator.service.runtime.state(partition) is not None
    loading = member.sync()
    assert error_of(loading) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert member.heartbeat() == ErrorCode.NONE

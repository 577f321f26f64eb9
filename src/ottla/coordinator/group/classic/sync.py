"""SyncGroup and Heartbeat to a classic group.

The leader's SyncGroup carries the assignment of everybody. It is stored first, and told to the
members only when it is committed: a coordinator that takes over knows what they were told. When
that takes too long, the members are sent away, and all begin again.
"""

from ottla.common.errors import (
    ApiError,
    CoordinatorNotAvailable,
    ErrorCode,
    IllegalGeneration,
    InconsistentGroupProtocol,
    RebalanceInProgress,
    RequestTimedOut,
    UnknownMemberId,
)
from ottla.common.promise import Promise
from ottla.coordinator.group.classic.group import ClassicGroup, ClassicState
from ottla.coordinator.group.classic.member import ClassicMember
from ottla.coordinator.group.classic.rebalance import ClassicRebalance, Records, nothing
from ottla.coordinator.group.records import GroupRecord, group_record
from ottla.coordinator.runtime import client_error
from ottla.coordinator.shard import Outcome
from ottla.protocol.generated.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.generated.sync_group import SyncGroupRequest, SyncGroupResponse


class ClassicSync:
    def __init__(self, rebalance: ClassicRebalance) -> None:
        self._rebalance = rebalance

    def sync(
        self, request: SyncGroupRequest, answer: Promise[SyncGroupResponse], now_ms: int
    ) -> Outcome[GroupRecord, SyncGroupResponse | Promise[SyncGroupResponse]]:
        """The assignment; ``answer`` when that waits for the leader, or for it to be stored."""
        del now_ms
        group = self._group(request.group_id)
        if group.is_empty:
            raise UnknownMemberId
        member = _check(group, request.member_id, request.group_instance_id, request.generation_id)
        if _differ(request.protocol_type, group.protocol_type) or _differ(
            request.protocol_name, group.protocol_name
        ):
            raise InconsistentGroupProtocol
        match group.state:
            case ClassicState.PREPARING_REBALANCE:
                raise RebalanceInProgress
            case ClassicState.COMPLETING_REBALANCE:
                self._await_sync(member, answer)
                self._rebalance.synced(group, member.member_id)
                if group.leader_id == member.member_id:
                    return self._store(group, request).with_answer(answer)
            case _:
                self._rebalance.synced(group, member.member_id)
                return Outcome([], _assigned(group, member))
        return Outcome([], answer)

    def heartbeat(
        self, request: HeartbeatRequest, now_ms: int
    ) -> Outcome[GroupRecord, HeartbeatResponse]:
        del now_ms
        group = self._group(request.group_id)
        member = _check(group, request.member_id, request.group_instance_id, request.generation_id)
        self._rebalance.begin_session(group, member)
        if group.state is ClassicState.PREPARING_REBALANCE:
            return Outcome([], HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        return Outcome([], HeartbeatResponse())

    def _group(self, group_id: str) -> ClassicGroup:
        group = self._rebalance.find(group_id)
        if group is None:
            raise UnknownMemberId(f"Group {group_id} not found.")
        if group.state is ClassicState.DEAD:
            raise CoordinatorNotAvailable
        return group

    def _await_sync(self, member: ClassicMember, answer: Promise[SyncGroupResponse]) -> None:
        """An earlier request of the same member is given up."""
        again = SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
        self._rebalance.answer_sync(member, again)
        member.awaiting_sync = answer

    def _store(self, group: ClassicGroup, request: SyncGroupRequest) -> Records:
        assignments = {each.member_id: each.assignment for each in request.assignments}
        generation_id = group.generation_id

        def is_over() -> bool:
            """Whether somebody came or went meanwhile, and all must join again."""
            if group.generation_id != generation_id:
                return True
            return group.state is not ClassicState.COMPLETING_REBALANCE

        def time_is_up(now_ms: int) -> Records:
            if is_over():
                return nothing()
            self._rebalance.refuse_assignment(group, client_error(RequestTimedOut()).code)
            return self._rebalance.prepare(group, now_ms)

        def stored(error: ApiError | None, now_ms: int) -> None:
            if is_over():
                return
            if error is not None:
                self._rebalance.refuse_assignment(group, client_error(error).code)
                self._rebalance.prepare(group, now_ms)
                return
            for member in list(group.members.values()):
                member.assignment = assignments.get(member.member_id, b"")
            group.transition_to(ClassicState.STABLE, now_ms)
            for member in list(group.members.values()):
                if self._rebalance.answer_sync(member, _assigned(group, member)):
                    self._rebalance.begin_session(group, member)

        key, timeout_ms = ("stored", group.group_id), self._rebalance.commit_timeout_ms
        self._rebalance.timers.schedule(key, timeout_ms, time_is_up, lasts=True)
        record = group_record(group.group_id, group.to_record(assignments))
        return Outcome([record], None, stored)


def _check(
    group: ClassicGroup, member_id: str, instance_id: str | None, generation_id: int
) -> ClassicMember:
    member = group.check_member(member_id, instance_id)
    if generation_id != group.generation_id:
        raise IllegalGeneration
    return member


def _differ(asked: str | None, actual: str | None) -> bool:
    return asked is not None and actual is not None and asked != actual


def _assigned(group: ClassicGroup, member: ClassicMember) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=member.assignment,
    )

"""LeaveGroup: members go, of themselves or because an administrator names their instance."""

from ottla.common.errors import ApiError, CoordinatorNotAvailable, ErrorCode, UnknownMemberId
from ottla.coordinator.group.classic.group import ClassicGroup, ClassicState
from ottla.coordinator.group.classic.joining import UNKNOWN_MEMBER
from ottla.coordinator.group.classic.rebalance import ClassicRebalance, Records, nothing
from ottla.coordinator.group.records import GroupRecord
from ottla.coordinator.shard import Outcome
from ottla.protocol.generated.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)


class ClassicLeave:
    def __init__(self, rebalance: ClassicRebalance) -> None:
        self._rebalance = rebalance

    def leave(
        self, request: LeaveGroupRequest, now_ms: int
    ) -> Outcome[GroupRecord, LeaveGroupResponse]:
        group = self._rebalance.find(request.group_id)
        if group is None:
            raise UnknownMemberId(f"Group {request.group_id} not found.")
        if group.state is ClassicState.DEAD:
            raise CoordinatorNotAvailable
        responses = [self._leave(group, identity) for identity in request.members]
        records = nothing()
        if any(response.error_code == ErrorCode.NONE for response in responses):
            records = self._after(group, now_ms)
        answer = LeaveGroupResponse(members=responses)
        return Outcome(records.records, answer, records.stored)

    def _leave(self, group: ClassicGroup, identity: MemberIdentity) -> MemberResponse:
        response = MemberResponse(
            member_id=identity.member_id, group_instance_id=identity.group_instance_id
        )
        member_id = identity.member_id
        if member_id == UNKNOWN_MEMBER and identity.group_instance_id is not None:
            member_id = group.static_members.get(identity.group_instance_id, UNKNOWN_MEMBER)
        if member_id in group.pending_members:
            group.remove(member_id)
            self._rebalance.end_session(group, member_id)
            return response
        try:
            member = group.check_member(member_id, identity.group_instance_id)
        except ApiError as error:
            response.error_code = error.code
        else:
            self._rebalance.drop(group, member)
        return response

    def _after(self, group: ClassicGroup, now_ms: int) -> Records:
        if group.state in (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE):
            return self._rebalance.prepare(group, now_ms)
        return self._rebalance.complete_if_all_joined(group, now_ms)

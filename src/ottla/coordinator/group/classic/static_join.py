"""A static member comes back (KIP-345).

It joins without a member id, but with an instance id that is in the group: it takes the place of
its former self, which is fenced from then on. As long as the group is stable and would choose the
same protocol, nobody rebalances: the new id is stored, and the member goes on with its assignment.
"""

from typing import Final

from ottla.common.errors import ApiError, ErrorCode, RequestTimedOut
from ottla.coordinator.group.classic.group import ClassicGroup, ClassicState
from ottla.coordinator.group.classic.joining import Joining, join_refused
from ottla.coordinator.group.classic.member import ClassicMember
from ottla.coordinator.group.classic.rebalance import ClassicRebalance, Records, nothing
from ottla.coordinator.group.records import group_record
from ottla.coordinator.runtime import client_error
from ottla.coordinator.shard import Outcome, Stored
from ottla.observability.logging import logger
from ottla.protocol.generated.join_group import JoinGroupResponse
from ottla.protocol.generated.sync_group import SyncGroupResponse

log = logger(__name__)

SKIP_ASSIGNMENT_FROM: Final = 9
"""From this version on a leader can be told that it need not assign (KIP-814)."""


class ClassicStaticJoin:
    def __init__(self, rebalance: ClassicRebalance) -> None:
        self._rebalance = rebalance

    def replace(
        self, group: ClassicGroup, instance_id: str, member_id: str, joining: Joining
    ) -> Records:
        """Put the member under its new id in the place of its former self."""
        former_leader = group.leader_id
        former_id = group.static_members[instance_id]
        log.info(
            "member fenced",
            member=former_id,
            group=group.group_id,
            reason=f"replaced: another member with the instance id {instance_id}",
        )
        self._fence(group, group.members[former_id])
        member = group.replace_static(instance_id, member_id)
        undo = self._undo(group, member, former_id)
        joining.update(member)
        self._rebalance.begin_session(group, member)
        member.awaiting_join = joining.answer
        if group.state is ClassicState.COMPLETING_REBALANCE:
            # the leader is about to assign to the former id
            return self._rebalance.prepare(group, joining.now_ms)
        if group.state is ClassicState.PREPARING_REBALANCE:
            return self._rebalance.complete_if_all_joined(group, joining.now_ms)
        if group.select_protocol() != group.protocol_name:
            return self._rebalance.prepare(group, joining.now_ms)

        def stored(error: ApiError | None, now_ms: int) -> None:
            if group.members.get(member_id) is not member:
                return
            if error is not None:
                undo(error, now_ms)
            elif group.state is ClassicState.STABLE:
                response = self._welcome(group, member, former_leader, joining.caller.version)
                self._rebalance.answer_join(member, response)

        def time_is_up(_now_ms: int) -> Records:
            """It may come again, while its new id is not committed."""
            if member.awaiting_join is joining.answer:
                code = client_error(RequestTimedOut()).code
                self._rebalance.answer_join(member, join_refused(code, member_id))
            return nothing()

        key, timeout_ms = ("stored", group.group_id, member_id), self._rebalance.commit_timeout_ms
        self._rebalance.timers.schedule(key, timeout_ms, time_is_up, lasts=True)
        assignments = {each.member_id: each.assignment for each in group.members.values()}
        record = group_record(group.group_id, group.to_record(assignments))
        return Outcome([record], None, stored)

    def _fence(self, group: ClassicGroup, member: ClassicMember) -> None:
        """Tell the former self, if it still waits somewhere, that another one is here."""
        code = ErrorCode.FENCED_INSTANCE_ID
        self._rebalance.answer_join(member, join_refused(code, member.member_id))
        self._rebalance.answer_sync(member, SyncGroupResponse(error_code=code))
        self._rebalance.end_session(group, member.member_id)

    def _undo(self, group: ClassicGroup, member: ClassicMember, former_id: str) -> Stored:
        """What is to be done when the new id cannot be stored: the member is as it was."""
        protocols = member.protocols
        rebalance_timeout_ms = member.rebalance_timeout_ms
        session_timeout_ms = member.session_timeout_ms

        def undo(error: ApiError | None, _now_ms: int) -> None:
            assert error is not None
            assert member.instance_id is not None
            self._rebalance.end_session(group, member.member_id)
            group.replace_static(member.instance_id, former_id)
            member.protocols = protocols
            member.rebalance_timeout_ms = rebalance_timeout_ms
            member.session_timeout_ms = session_timeout_ms
            self._rebalance.begin_session(group, member)
            self._rebalance.answer_join(member, join_refused(client_error(error).code))

        return undo

    def _welcome(
        self, group: ClassicGroup, member: ClassicMember, former_leader: str | None, version: int
    ) -> JoinGroupResponse:
        """The generation that it is in. If it leads, it must not assign again.

        Clients that cannot be told so are told that the leader is somebody else.
        """
        is_leader = group.leader_id == member.member_id
        if version >= SKIP_ASSIGNMENT_FROM:
            return self._rebalance.joined(group, member, skip_assignment=is_leader)
        response = self._rebalance.joined(group, member)
        response.leader = former_leader or ""
        response.members = []
        return response

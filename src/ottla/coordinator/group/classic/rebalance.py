"""How a classic group gets from one generation to the next.

1. ``prepare``: members must join again. An empty group waits a while for its first members
   (``group.initial.rebalance.delay.ms``), any other until all have joined or the longest rebalance
   timeout of its members is over.
2. ``complete_join``: a member that has not joined is out, unless it is static; a protocol is
   chosen, and everybody learns the generation, the leader also the members.
3. The leader's SyncGroup brings the assignment (see ``sync``). A member without SyncGroup within
   the rebalance timeout is out, and the group begins again.

All that a rebalance changes lives in memory, and so do its timers: they last when a write fails.
What is stored is its end: an assignment, or that the group is empty now.
"""

from ottla.common.errors import ErrorCode
from ottla.common.promise import Promise
from ottla.coordinator.group.classic.group import ClassicGroup, ClassicState
from ottla.coordinator.group.classic.joining import join_refused
from ottla.coordinator.group.classic.member import ClassicMember
from ottla.coordinator.group.group import Group
from ottla.coordinator.group.records import GroupRecord, group_record
from ottla.coordinator.group.settings import GroupSettings
from ottla.coordinator.partition import Action
from ottla.coordinator.shard import Outcome
from ottla.coordinator.timeline import TimelineDict
from ottla.coordinator.timers import Timers
from ottla.observability.logging import logger
from ottla.protocol.generated.join_group import JoinGroupResponse
from ottla.protocol.generated.sync_group import SyncGroupResponse

log = logger(__name__)

Records = Outcome[GroupRecord, None]


def nothing() -> Records:
    return Outcome([], None)


class ClassicRebalance:
    def __init__(
        self,
        groups: TimelineDict[str, Group],
        timers: Timers[Action],
        settings: GroupSettings,
    ) -> None:
        self.groups = groups
        self.timers = timers
        self.settings = settings

    @property
    def commit_timeout_ms(self) -> int:
        """How long somebody may wait until what was decided is committed."""
        return self.settings.offsets_commit_timeout_ms

    def find(self, group_id: str) -> ClassicGroup | None:
        group = self.groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    # From stable to joining

    def prepare_or_complete(self, group: ClassicGroup, now_ms: int) -> Records:
        """Somebody came, went or changed."""
        if group.can_rebalance:
            return self.prepare(group, now_ms)
        return self.complete_if_all_joined(group, now_ms)

    def prepare(self, group: ClassicGroup, now_ms: int) -> Records:
        if group.state is ClassicState.COMPLETING_REBALANCE:
            self.refuse_assignment(group, ErrorCode.REBALANCE_IN_PROGRESS)
        group.pending_sync.clear()
        self.timers.cancel(("sync", group.group_id))
        is_first = group.is_empty
        group.transition_to(ClassicState.PREPARING_REBALANCE, now_ms)
        if is_first:
            delay_ms = self.settings.initial_rebalance_delay_ms
            remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
            self._wait_for_first_members(group, delay_ms, remaining_ms)
            return nothing()
        if group.all_have_joined:
            return self.complete_join(group, now_ms)
        self._wait_for_members(group)
        return nothing()

    def begin_again(self, group: ClassicGroup, now_ms: int) -> None:
        """Members that must join were sent away, and the group's timers may be gone."""
        if group.state is ClassicState.PREPARING_REBALANCE:
            self._wait_for_members(group)
        elif group.can_rebalance and not group.is_empty:
            self.prepare(group, now_ms)

    def _wait_for_first_members(
        self, group: ClassicGroup, delay_ms: int, remaining_ms: int
    ) -> None:
        group_id = group.group_id

        def delay_is_over(now_ms: int) -> Records:
            current = self._joining(group_id)
            if current is None:
                return nothing()
            if not current.new_member_added or remaining_ms == 0:
                return self.complete_join(current, now_ms)
            current.new_member_added = False
            next_ms = min(self.settings.initial_rebalance_delay_ms, remaining_ms)
            self._wait_for_first_members(current, next_ms, max(remaining_ms - delay_ms, 0))
            return nothing()

        self.timers.schedule(("join", group_id), delay_ms, delay_is_over, lasts=True)

    def _wait_for_members(self, group: ClassicGroup) -> None:
        group_id = group.group_id

        def time_is_up(now_ms: int) -> Records:
            current = self._joining(group_id)
            return nothing() if current is None else self.complete_join(current, now_ms)

        timeout_ms = group.rebalance_timeout_ms
        self.timers.schedule(("join", group_id), timeout_ms, time_is_up, lasts=True)

    def _joining(self, group_id: str) -> ClassicGroup | None:
        group = self.find(group_id)
        if group is None or group.state is not ClassicState.PREPARING_REBALANCE:
            return None
        return group

    # From joining to the next generation

    def complete_if_all_joined(self, group: ClassicGroup, now_ms: int) -> Records:
        """Not so for the first members of a group, whose delay must pass."""
        if (
            group.state is ClassicState.PREPARING_REBALANCE
            and group.previous_state is not ClassicState.EMPTY
            and group.all_have_joined
        ):
            return self.complete_join(group, now_ms)
        return nothing()

    def complete_join(self, group: ClassicGroup, now_ms: int) -> Records:
        self.timers.cancel(("join", group.group_id))
        late = [
            member.member_id
            for member in group.members.values()
            if member.awaiting_join is None and not member.is_static
        ]
        _tell_of_fenced(group.group_id, late, "no JoinGroup in time")
        for member_id in late:
            group.remove(member_id)
            self.end_session(group, member_id)
        if group.members and not group.elect_leader_that_joined():
            # only static members are left, and none has joined: their sessions decide
            self._wait_for_members(group)
            return nothing()
        group.begin_generation(now_ms)
        if group.is_empty:
            # nobody waits for this to be stored: if it is not, the old members time out again
            record = group_record(group.group_id, group.to_record({}))
            return Outcome([record], None, lambda _error, _now_ms: None)
        group.pending_sync.update(group.members)
        self._wait_for_sync(group)
        for member in list(group.members.values()):
            self.begin_session(group, member)
            member.is_new = False
            self.answer_join(member, self.joined(group, member))
        return nothing()

    def joined(
        self, group: ClassicGroup, member: ClassicMember, *, skip_assignment: bool = False
    ) -> JoinGroupResponse:
        """The current generation, as ``member`` is told; the leader also hears who is in it."""
        response = JoinGroupResponse(
            member_id=member.member_id,
            generation_id=group.generation_id,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol_name,
            leader=group.leader_id or "",
            skip_assignment=skip_assignment,
        )
        if group.leader_id == member.member_id:
            assert group.protocol_name is not None
            response.members = [
                each.for_leader(group.protocol_name) for each in group.members.values()
            ]
        return response

    def _wait_for_sync(self, group: ClassicGroup) -> None:
        group_id, generation_id = group.group_id, group.generation_id

        def time_is_up(now_ms: int) -> Records:
            current = self.find(group_id)
            if current is None or current.generation_id != generation_id:
                return nothing()
            if not current.can_rebalance or not current.pending_sync:
                return nothing()
            _tell_of_fenced(group_id, list(current.pending_sync), "no SyncGroup in time")
            for member_id in list(current.pending_sync):
                current.remove(member_id)
                self.end_session(current, member_id)
            return self.prepare(current, now_ms)

        timeout_ms = group.rebalance_timeout_ms
        self.timers.schedule(("sync", group_id), timeout_ms, time_is_up, lasts=True)

    def synced(self, group: ClassicGroup, member_id: str) -> None:
        group.pending_sync.discard(member_id)
        if not group.pending_sync:
            self.timers.cancel(("sync", group.group_id))

    # Answers that waited

    def answer_join(self, member: ClassicMember, response: JoinGroupResponse) -> None:
        promise, member.awaiting_join = member.awaiting_join, None
        if promise is not None:
            promise.fulfil(response)

    def answer_sync(self, member: ClassicMember, response: SyncGroupResponse) -> bool:
        promise, member.awaiting_sync = member.awaiting_sync, None
        if promise is not None:
            promise.fulfil(response)
        return promise is not None

    def refuse_assignment(self, group: ClassicGroup, error: ErrorCode) -> None:
        for member in list(group.members.values()):
            member.assignment = b""
            if self.answer_sync(member, SyncGroupResponse(error_code=error)):
                self.begin_session(group, member)

    def await_join(self, member: ClassicMember, promise: Promise[JoinGroupResponse]) -> None:
        """Answer ``member`` when the rebalance is over; an earlier request of its is given up."""
        again = join_refused(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id)
        self.answer_join(member, again)
        member.awaiting_join = promise

    # Sessions

    def begin_session(
        self, group: ClassicGroup, member: ClassicMember, timeout_ms: int | None = None
    ) -> None:
        """Count the session of ``member`` from now on."""
        if timeout_ms is None:
            timeout_ms = member.session_timeout_ms
        self.watch_session(group, member.member_id, timeout_ms)

    def watch_session(self, group: ClassicGroup, member_id: str, timeout_ms: int) -> None:
        group_id = group.group_id
        self.timers.schedule(
            ("session", group_id, member_id),
            timeout_ms,
            lambda now_ms: self._session_is_over(group_id, member_id, now_ms),
            lasts=True,
        )

    def end_session(self, group: ClassicGroup, member_id: str) -> None:
        self.timers.cancel(("session", group.group_id, member_id))

    def _session_is_over(self, group_id: str, member_id: str, now_ms: int) -> Records:
        group = self.find(group_id)
        if group is None or group.state is ClassicState.DEAD:
            return nothing()
        if member_id in group.pending_members:
            group.remove(member_id)
            return self._complete_after_removal(group, now_ms)
        member = group.members.get(member_id)
        if member is None or member.is_excused:
            return nothing()
        _tell_of_fenced(group_id, [member_id], "session expired")
        self.drop(group, member)
        return self.after_removal(group, now_ms)

    # Groups and members that go

    def dissolve(self, group: ClassicGroup, error: ErrorCode, now_ms: int) -> None:
        """The group is not there any more: members that wait in it must come again."""
        group.transition_to(ClassicState.DEAD, now_ms)
        self.timers.cancel(("join", group.group_id))
        self.timers.cancel(("sync", group.group_id))
        for member_id in [*group.members, *group.pending_members]:
            self.end_session(group, member_id)
        for member in list(group.members.values()):
            self.answer_join(member, join_refused(error, member.member_id))
            self.answer_sync(member, SyncGroupResponse(error_code=error))

    def drop(self, group: ClassicGroup, member: ClassicMember) -> None:
        """Remove ``member``; if it still waits for us, it may come back as a new one."""
        self.answer_join(member, join_refused(ErrorCode.UNKNOWN_MEMBER_ID))
        self.answer_sync(member, SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        group.remove(member.member_id)
        self.end_session(group, member.member_id)

    def after_removal(self, group: ClassicGroup, now_ms: int) -> Records:
        if group.state in (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE):
            return self.prepare(group, now_ms)
        return self._complete_after_removal(group, now_ms)

    def _complete_after_removal(self, group: ClassicGroup, now_ms: int) -> Records:
        if group.state is ClassicState.PREPARING_REBALANCE and group.all_have_joined:
            return self.complete_join(group, now_ms)
        return nothing()


def _tell_of_fenced(group_id: str, members: list[str], reason: str) -> None:
    fenced = [{"member": each, "group": group_id, "reason": reason} for each in members]
    log.changes("member fenced", fenced, group=group_id, reason=reason)

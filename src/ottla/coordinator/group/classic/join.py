"""JoinGroup to a classic group: who may come in, and under which id.

A dynamic member that has no id yet is given one and must come back with it (KIP-394), so that a
client which never hears our answer does not leave a ghost in the group. A static member that comes
back without its member id is known by its instance id: see ``static_join``.
"""

from typing import Final

from ottla.common.chance import Chance
from ottla.common.errors import ApiError, ErrorCode
from ottla.common.identifiers import random_uuid
from ottla.coordinator.group.classic.group import ClassicGroup, ClassicState
from ottla.coordinator.group.classic.joining import (
    UNKNOWN_MEMBER,
    Joined,
    Joining,
    join_refused,
    refuse,
)
from ottla.coordinator.group.classic.member import ClassicMember
from ottla.coordinator.group.classic.rebalance import ClassicRebalance
from ottla.coordinator.group.classic.static_join import ClassicStaticJoin
from ottla.coordinator.group.records import group_record
from ottla.coordinator.group.settings import NEW_MEMBER_JOIN_TIMEOUT_MS
from ottla.coordinator.runtime import client_error
from ottla.coordinator.shard import Outcome

KNOWN_MEMBER_ID_FROM: Final = 4
"""From this version on a dynamic member must come back with the id that it was given."""

_NAME_MAX: Final = 8_000
"""So much of a client's name goes into a member id that it still is a string of the protocol."""


class ClassicJoin:
    def __init__(self, rebalance: ClassicRebalance, chance: Chance) -> None:
        self._rebalance = rebalance
        self._static = ClassicStaticJoin(rebalance)
        self._chance = chance

    def join(self, joining: Joining) -> Joined:
        """Let a member in; the answer may wait until the group has its next generation."""
        groups = self._rebalance.groups
        group_id, member_id = joining.request.group_id, joining.request.member_id
        group = groups.get(group_id)
        is_new_group = group is None and member_id == UNKNOWN_MEMBER
        if is_new_group:
            group = ClassicGroup(group_id, joining.now_ms)
        if group is None:
            return refuse(ErrorCode.UNKNOWN_MEMBER_ID, member_id)
        if not isinstance(group, ClassicGroup):
            return refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if not self._has_room(group, member_id):
            group.remove(member_id)
            self._rebalance.end_session(group, member_id)
            return refuse(ErrorCode.GROUP_MAX_SIZE_REACHED)
        if not group.supports(joining.request.protocol_type, joining.protocols):
            return refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id)
        if is_new_group:
            groups[group_id] = group
            return self._store_new(group, joining, self._join_new(group, joining))
        if member_id == UNKNOWN_MEMBER:
            return self._join_new(group, joining)
        return self._join_existing(group, joining)

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        size_max = self._rebalance.settings.size_max
        member = group.members.get(member_id)
        match group.state:
            case ClassicState.EMPTY | ClassicState.DEAD:
                return True
            case ClassicState.PREPARING_REBALANCE:
                # members that wait count, not all members: so the last to rejoin a group that has
                # become too large are the ones that are turned away
                if member is not None and member.awaiting_join is not None:
                    return True
                return len(group.awaiting_join) < size_max
            case ClassicState.COMPLETING_REBALANCE | ClassicState.STABLE:
                return member is not None or len(group.members) < size_max

    def _store_new(self, group: ClassicGroup, joining: Joining, joined: Joined) -> Joined:
        """Write that the group exists, so that it does not vanish with the next failed write."""

        def stored(error: ApiError | None, _now_ms: int) -> None:
            if error is None:
                return
            code = client_error(error).code
            for member in group.awaiting_join:
                self._rebalance.answer_join(member, join_refused(code, member.member_id))

        empty = ClassicGroup(group.group_id, joining.now_ms)
        record = group_record(group.group_id, empty.to_record({}))
        return Outcome([record], joined.answer, stored)

    def _join_new(self, group: ClassicGroup, joining: Joining) -> Joined:
        instance_id = joining.request.group_instance_id
        name = joining.caller.client_id if instance_id is None else instance_id
        member_id = f"{name[:_NAME_MAX]}-{_uuid_text(random_uuid(self._chance))}"
        if instance_id is not None and instance_id in group.static_members:
            return joining.waits(self._static.replace(group, instance_id, member_id, joining))
        if instance_id is None and joining.caller.version >= KNOWN_MEMBER_ID_FROM:
            group.pending_members.add(member_id)
            self._rebalance.watch_session(group, member_id, joining.request.session_timeout_ms)
            return refuse(ErrorCode.MEMBER_ID_REQUIRED, member_id)
        return self._add(group, member_id, joining)

    def _add(self, group: ClassicGroup, member_id: str, joining: Joining) -> Joined:
        request = joining.request
        member = ClassicMember(
            member_id=member_id,
            instance_id=request.group_instance_id,
            client_id=joining.caller.client_id,
            client_host=joining.caller.client_host,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            protocols=joining.protocols,
        )
        member.is_new = True
        member.awaiting_join = joining.answer
        if (
            group.state is ClassicState.PREPARING_REBALANCE
            and group.previous_state is ClassicState.EMPTY
        ):
            group.new_member_added = True
        group.add(member, request.protocol_type)
        # it cannot send heartbeats while it waits, so its session cannot count yet; but a client
        # that gave up and came again as somebody else must not stay here for ever
        self._rebalance.begin_session(group, member, NEW_MEMBER_JOIN_TIMEOUT_MS)
        return joining.waits(self._rebalance.prepare_or_complete(group, joining.now_ms))

    def _join_existing(self, group: ClassicGroup, joining: Joining) -> Joined:
        request = joining.request
        if request.member_id in group.pending_members:
            return self._add(group, request.member_id, joining)
        try:
            member = group.check_member(request.member_id, request.group_instance_id)
        except ApiError as error:
            return refuse(error.code, request.member_id)
        if _only_missed_the_answer(group, member, joining.protocols):
            return Outcome([], self._rebalance.joined(group, member))
        joining.update(member)
        self._rebalance.await_join(member, joining.answer)
        return joining.waits(self._rebalance.prepare_or_complete(group, joining.now_ms))


def _only_missed_the_answer(
    group: ClassicGroup, member: ClassicMember, protocols: dict[str, bytes]
) -> bool:
    """Whether a member joins as it was, within a generation that it belongs to.

    The leader of a stable group joins to have a rebalance, e.g. for a topic's new partitions.
    """
    if group.state is ClassicState.STABLE and group.leader_id == member.member_id:
        return False
    return group.state is not ClassicState.PREPARING_REBALANCE and member.has_protocols(protocols)


def _uuid_text(value: bytes) -> str:
    text = value.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

"""A classic group: its members, its generation and its state.

    Empty ──join──▶ PreparingRebalance ──all joined, or time is up──▶ CompletingRebalance
      ▲                ▲         │ nobody joined                          │ the leader's assignment
      │                │         ▼                                        ▼ is stored
      │                └───── (Empty)         ◀──join, leave, expiry── Stable

Dead is a group that is gone from this coordinator. Generation, protocol, leader, members and their
assignments are stored when the leader's assignment comes, and when the group becomes empty; a
rebalance that is under way is not, and after a restart the members join anew.
"""

from collections.abc import Iterable
from enum import Enum
from typing import Final

from ottla.common.errors import (
    CoordinatorNotAvailable,
    FencedInstanceId,
    GroupIdNotFound,
    IllegalGeneration,
    NonEmptyGroup,
    ProtocolViolation,
    RebalanceInProgress,
    UnknownMemberId,
)
from ottla.coordinator.group.classic.member import ClassicMember
from ottla.coordinator.group.group import MEMBER_EPOCH_FROM, GroupType
from ottla.coordinator.group.records import GroupRecord, group_tombstone
from ottla.protocol.generated.consumer_protocol_subscription import ConsumerProtocolSubscription
from ottla.protocol.generated.group_records import GroupMetadataValue
from ottla.protocol.message import from_buffer

CONSUMER_PROTOCOL_TYPE: Final = "consumer"


class ClassicState(Enum):
    """By the names that DescribeGroups gives them."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_PREVIOUS: Final = {
    ClassicState.EMPTY: {ClassicState.PREPARING_REBALANCE},
    ClassicState.PREPARING_REBALANCE: {
        ClassicState.EMPTY,
        ClassicState.COMPLETING_REBALANCE,
        ClassicState.STABLE,
    },
    ClassicState.COMPLETING_REBALANCE: {ClassicState.PREPARING_REBALANCE},
    ClassicState.STABLE: {ClassicState.COMPLETING_REBALANCE},
    ClassicState.DEAD: set(ClassicState),
}


class ClassicGroup:
    def __init__(self, group_id: str, now_ms: int) -> None:
        self.group_id = group_id
        self.state = ClassicState.EMPTY
        self.previous_state = ClassicState.DEAD
        self.state_since_ms: int | None = now_ms
        self.generation_id = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, ClassicMember] = {}
        self.static_members: dict[str, str] = {}
        """Member ids by group instance id."""
        self.pending_members: set[str] = set()
        """Member ids that were given out and have not come back with a JoinGroup yet."""
        self.pending_sync: set[str] = set()
        """Members of this generation that have not sent SyncGroup."""
        self.new_member_added = False
        """Somebody came while the group waits for its first members: it waits a little longer."""
        self.subscribed_topics: frozenset[str] | None = None
        """All topics of all members; None when they are not consumers, or cannot be read."""

    @classmethod
    def from_record(cls, group_id: str, record: GroupMetadataValue) -> "ClassicGroup":
        since_ms = record.current_state_timestamp
        group = cls(group_id, since_ms)
        group.state_since_ms = None if since_ms == -1 else since_ms
        group.generation_id = record.generation
        group.protocol_type = record.protocol_type or None
        group.protocol_name = record.protocol
        group.leader_id = record.leader
        for member in record.members:
            group.add(ClassicMember.from_record(member, record.protocol), group.protocol_type)
        if group.members:
            group.state = ClassicState.STABLE
        group.subscribed_topics = group._topics_of_members()
        return group

    def to_record(self, assignments: dict[str, bytes]) -> GroupMetadataValue:
        """The group as it is stored, with ``assignments`` by member id."""
        return GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation_id,
            protocol=self.protocol_name,
            leader=self.leader_id,
            current_state_timestamp=-1 if self.state_since_ms is None else self.state_since_ms,
            members=[
                member.to_record(self.protocol_name, assignments.get(member.member_id, b""))
                for member in self.members.values()
            ],
        )

    # What it is

    @property
    def group_type(self) -> GroupType:
        return GroupType.CLASSIC

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def is_empty(self) -> bool:
        return self.state is ClassicState.EMPTY

    @property
    def is_of_consumers(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    @property
    def can_rebalance(self) -> bool:
        return self.state in _PREVIOUS[ClassicState.PREPARING_REBALANCE]

    @property
    def rebalance_timeout_ms(self) -> int:
        timeouts = (member.rebalance_timeout_ms for member in self.members.values())
        return max(timeouts, default=0)

    @property
    def awaiting_join(self) -> list[ClassicMember]:
        return [member for member in self.members.values() if member.awaiting_join is not None]

    @property
    def all_have_joined(self) -> bool:
        return not self.pending_members and len(self.awaiting_join) == len(self.members)

    def transition_to(self, state: ClassicState, now_ms: int) -> None:
        assert self.state in _PREVIOUS[state], (self.state, state)
        self.previous_state = self.state
        self.state = state
        self.state_since_ms = now_ms

    # Members

    def add(self, member: ClassicMember, protocol_type: str | None) -> None:
        if member.instance_id is not None:
            assert member.instance_id not in self.static_members
            self.static_members[member.instance_id] = member.member_id
        if not self.members:
            self.protocol_type = protocol_type
        assert self.protocol_type == protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self.pending_members.discard(member.member_id)

    def remove(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is not None and member.instance_id is not None:
            del self.static_members[member.instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.pending_members.discard(member_id)
        self.pending_sync.discard(member_id)

    def replace_static(self, instance_id: str, new_member_id: str) -> ClassicMember:
        """The instance has come back: it is the same member under a new id."""
        old_member_id = self.static_members[instance_id]
        member = self.members.pop(old_member_id)
        member.member_id = new_member_id
        self.members[new_member_id] = member
        self.static_members[instance_id] = new_member_id
        if self.leader_id == old_member_id:
            self.leader_id = new_member_id
        self.pending_sync.discard(old_member_id)
        return member

    def elect_leader_that_joined(self) -> bool:
        """Keep the leader if it has joined, else take one that has; False when nobody has."""
        leader = self.members.get(self.leader_id) if self.leader_id is not None else None
        if leader is None:
            return False
        if leader.awaiting_join is None:
            joined = self.awaiting_join
            if not joined:
                return False
            self.leader_id = joined[0].member_id
        return True

    def check_member(self, member_id: str, instance_id: str | None) -> ClassicMember:
        """The member, unless it is unknown or its instance is somebody else by now."""
        if instance_id is not None:
            existing = self.static_members.get(instance_id)
            if existing is None:
                raise UnknownMemberId
            if existing != member_id:
                raise FencedInstanceId
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberId
        return member

    # Protocols and generations

    def supports(self, protocol_type: str, protocols: Iterable[str]) -> bool:
        """Whether a member with these protocols could be one of this group."""
        if self.is_empty:
            return bool(protocol_type) and any(True for _ in protocols)
        common = self._common_protocols()
        return self.protocol_type == protocol_type and any(name in common for name in protocols)

    def select_protocol(self) -> str:
        """The one with most votes among those that all members know; of equals the first named."""
        candidates = self._common_protocols()
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = member.vote(candidates)
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=votes.__getitem__)

    def _common_protocols(self) -> set[str]:
        known = [set(member.protocols) for member in self.members.values()]
        return set.intersection(*known) if known else set()

    def begin_generation(self, now_ms: int) -> None:
        self.generation_id += 1
        self.pending_sync.clear()
        self.protocol_name = self.select_protocol() if self.members else None
        self.subscribed_topics = self._topics_of_members()
        if self.members:
            self.transition_to(ClassicState.COMPLETING_REBALANCE, now_ms)
        else:
            self.transition_to(ClassicState.EMPTY, now_ms)

    def _topics_of_members(self) -> frozenset[str] | None:
        if not self.is_of_consumers:
            return None
        topics: set[str] = set()
        try:
            for member in self.members.values():
                subscription = member.protocols[self.protocol_name or ""]
                # all versions begin as version 0 does, after their number
                parsed, _ = from_buffer(ConsumerProtocolSubscription, subscription, 2, 0)
                topics.update(parsed.topics)
        except ProtocolViolation:
            return None
        return frozenset(topics)

    # Offsets and deletion

    def check_offset_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation_id: int,
        version: int = MEMBER_EPOCH_FROM,
        *,
        is_transactional: bool = False,
    ) -> None:
        del version
        if self.state is ClassicState.DEAD:
            raise CoordinatorNotAvailable
        if generation_id < 0 and self.is_empty:
            return  # an admin client, or a consumer that assigns itself
        if generation_id >= 0 or member_id or instance_id is not None:
            self.check_member(member_id, instance_id)
            if generation_id != self.generation_id:
                raise IllegalGeneration
        elif not self.is_empty and not is_transactional:
            raise UnknownMemberId
        if self.state is ClassicState.COMPLETING_REBALANCE and not is_transactional:
            raise RebalanceInProgress

    def check_partition_commit(
        self, member_id: str, generation_id: int, topic: str, topic_id: bytes, partition: int
    ) -> None:
        """A member of this generation may commit what it likes."""

    def check_offset_fetch(self, member_id: str | None, epoch: int) -> None:
        """Anybody may ask."""
        del member_id, epoch
        if self.state is ClassicState.DEAD:
            raise GroupIdNotFound(f"Group {self.group_id} is in dead state.")

    def tombstones(self) -> list[GroupRecord]:
        return [group_tombstone(self.group_id)]

    def check_offset_delete(self) -> None:
        if self.state is ClassicState.DEAD:
            raise GroupIdNotFound(f"Group {self.group_id} is in dead state.")
        if not self.is_empty and not self.is_of_consumers:
            raise NonEmptyGroup

    def check_delete(self) -> None:
        if self.state is ClassicState.DEAD:
            raise GroupIdNotFound(f"Group {self.group_id} is in dead state.")
        if not self.is_empty:
            raise NonEmptyGroup

    def is_subscribed_to(self, topic: str) -> bool:
        if self.subscribed_topics is None:
            return self.is_of_consumers
        return topic in self.subscribed_topics

    def expiry_base_ms(self, commit_timestamp_ms: int) -> int | None:
        if self.protocol_type is None:
            return commit_timestamp_ms
        if self.is_empty:
            return commit_timestamp_ms if self.state_since_ms is None else self.state_since_ms
        if self.state is ClassicState.STABLE and self.subscribed_topics is not None:
            return commit_timestamp_ms
        return None

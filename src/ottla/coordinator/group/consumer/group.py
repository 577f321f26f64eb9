"""A consumer group: members, epochs and assignments, as its records have them.

    Empty ──somebody joins──▶ Assigning ──target assignment──▶ Reconciling ──all have it──▶ Stable
      ▲                           ▲                                                           │
      └──the last one goes        └────────────────somebody comes, goes or changes────────────┘

The *group epoch* grows with every change of members, subscriptions or topics. The *assignment
epoch* is the group epoch for which the target assignment was made. A *member epoch* is how far the
member has come. All state is in dictionaries of the timeline, so a write that fails takes it back.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from ottla.common.errors import (
    IllegalGeneration,
    NonEmptyGroup,
    StaleMemberEpoch,
    UnknownMemberId,
    UnsupportedVersion,
)
from ottla.coordinator.group.assignors.specification import NO_PARTITIONS, Partitions
from ottla.coordinator.group.consumer.member import LEAVE_EPOCH, ConsumerMember
from ottla.coordinator.group.consumer.records import removed_group
from ottla.coordinator.group.group import MEMBER_EPOCH_FROM, GroupType
from ottla.coordinator.group.records import GroupRecord
from ottla.coordinator.timeline import Timeline, TimelineDict
from ottla.metadata.topics import TopicsImage

EMPTY: Final = "Empty"
ASSIGNING: Final = "Assigning"
RECONCILING: Final = "Reconciling"
STABLE: Final = "Stable"

FIRST_EPOCH: Final = 1
"""Of a group that has no record yet: the epoch of its first assignment is the next."""


class ResolvedRegex(NamedTuple):
    topics: frozenset[str]
    version: int
    """The offset of the metadata in which it was looked for."""
    timestamp_ms: int


class ConsumerGroup:
    def __init__(self, group_id: str, timeline: Timeline) -> None:
        self.group_id = group_id
        self.members: TimelineDict[str, ConsumerMember] = TimelineDict(timeline)
        self.static_members: TimelineDict[str, str] = TimelineDict(timeline)
        """Member ids by instance id."""
        self.targets: TimelineDict[str, Partitions] = TimelineDict(timeline)
        self.owners: TimelineDict[tuple[bytes, int], str] = TimelineDict(timeline)
        """Who has a partition, or is giving it up."""
        self.regexes: TimelineDict[str, ResolvedRegex] = TimelineDict(timeline)
        self._topic_counts: TimelineDict[str, int] = TimelineDict(timeline)
        self._regex_counts: TimelineDict[str, int] = TimelineDict(timeline)
        self._assignor_counts: TimelineDict[str, int] = TimelineDict(timeline)
        self._numbers: TimelineDict[str, int] = TimelineDict(timeline)
        self.seen: tuple[TopicsImage, int] | None = None
        """The topics, and the group epoch, when the metadata hash was last compared."""

    # Numbers

    @property
    def epoch(self) -> int:
        return self._numbers.get("epoch") or FIRST_EPOCH

    @property
    def metadata_hash(self) -> int:
        return self._numbers.get("metadata hash") or 0

    @property
    def assignment_epoch(self) -> int:
        return self._numbers.get("assignment epoch") or FIRST_EPOCH

    @property
    def assignment_timestamp_ms(self) -> int:
        return self._numbers.get("assignment timestamp") or 0

    @property
    def has_old_metadata(self) -> bool:
        return bool(self._numbers.get("old metadata"))

    @property
    def committed_epoch(self) -> int:
        return self._numbers.committed("epoch") or FIRST_EPOCH

    @property
    def committed_assignment_epoch(self) -> int:
        return self._numbers.committed("assignment epoch") or FIRST_EPOCH

    def set_epoch(self, epoch: int, metadata_hash: int) -> None:
        self._numbers["epoch"] = epoch
        self._numbers["metadata hash"] = metadata_hash

    def set_assignment_epoch(self, epoch: int, timestamp_ms: int) -> None:
        self._numbers["assignment epoch"] = epoch
        self._numbers["assignment timestamp"] = timestamp_ms

    def set_old_metadata(self, present: int) -> None:
        self._numbers["old metadata"] = present

    # What every group is asked

    @property
    def group_type(self) -> GroupType:
        return GroupType.CONSUMER

    @property
    def protocol_type(self) -> str:
        return "consumer"

    @property
    def is_empty(self) -> bool:
        return not len(self.members)

    @property
    def state_name(self) -> str:
        """As far as it is committed."""
        members = [member for _, member in self.members.committed_items()]
        if not members:
            return EMPTY
        target = self.committed_assignment_epoch
        if self.committed_epoch > target:
            return ASSIGNING
        reconciled = all(member.is_reconciled_to(target) for member in members)
        return STABLE if reconciled else RECONCILING

    def check_offset_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation_id: int,
        version: int = MEMBER_EPOCH_FROM,
        *,
        is_transactional: bool = False,
    ) -> None:
        if generation_id < 0 and self.is_empty:
            return  # an admin client, or a consumer that assigns itself
        if is_transactional and generation_id == -1 and not member_id and instance_id is None:
            return
        member = self.member(member_id)
        if not member.is_classic and version < MEMBER_EPOCH_FROM:
            raise UnsupportedVersion(
                f"OffsetCommit version {MEMBER_EPOCH_FROM} or above must be used by members "
                "using the consumer group protocol"
            )
        if generation_id > member.epoch:
            raise _stale(member)(
                f"Received {_epoch_name(member)} {generation_id} is newer than current member "
                f"epoch {member.epoch}."
            )

    def check_partition_commit(
        self, member_id: str, generation_id: int, topic: str, topic_id: bytes, partition: int
    ) -> None:
        """A commit from an older epoch is good for what the member had then, and has still."""
        member = self.members.get(member_id)
        if member is None or generation_id < 0 or generation_id == member.epoch:
            return
        since = member.epoch_of(topic_id, partition)
        if since is None:
            raise _stale(member)(
                f"Partition {topic}-{partition} is not assigned or pending revocation for member."
            )
        if generation_id < since:
            raise _stale(member)(
                f"Received {_epoch_name(member)} {generation_id} is older than assignment epoch "
                f"{since} for partition {topic}-{partition}."
            )

    def check_offset_fetch(self, member_id: str | None, epoch: int) -> None:
        if member_id is None and epoch < 0:
            return
        member = self.members.committed(member_id or "")
        if member is None:
            raise UnknownMemberId(f"Member {member_id} is not a member of group {self.group_id}.")
        if epoch != member.epoch:
            raise _stale(member)(
                f"The received {_epoch_name(member)} {epoch} does not match the expected member "
                f"epoch {member.epoch}."
            )

    def check_offset_delete(self) -> None:
        """Nothing is refused as a whole; what is subscribed to is, one by one."""

    def check_delete(self) -> None:
        if not self.is_empty:
            raise NonEmptyGroup("The group is not empty.")

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self._topic_counts or any(
            topic in resolved.topics for resolved in self.regexes.values()
        )

    def expiry_base_ms(self, commit_timestamp_ms: int) -> int | None:
        return commit_timestamp_ms

    def tombstones(self) -> list[GroupRecord]:
        return removed_group(
            self.group_id,
            list(self.members),
            list(self.regexes),
            old_metadata=self.has_old_metadata,
        )

    # Members

    def member(self, member_id: str) -> ConsumerMember:
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberId(f"Member {member_id} is not a member of group {self.group_id}.")
        return member

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        if instance_id is None:
            return None
        member_id = self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def put(self, member: ConsumerMember) -> None:
        old = self.members.get(member.member_id)
        self._count(old, -1)
        self._count(member, +1)
        self._release(old)
        for key in member.owned():
            self.owners[key] = member.member_id
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        self.members[member.member_id] = member

    def remove(self, member_id: str) -> None:
        old = self.members.pop(member_id)
        self._count(old, -1)
        self._release(old)
        instance_id = None if old is None else old.instance_id
        if instance_id is not None and self.static_members.get(instance_id) == member_id:
            self.static_members.pop(instance_id)

    def _release(self, member: ConsumerMember | None) -> None:
        for key in [] if member is None else member.owned():
            if member is not None and self.owners.get(key) == member.member_id:
                self.owners.pop(key)

    def _count(self, member: ConsumerMember | None, by: int) -> None:
        if member is None:
            return
        for topic in sorted(member.subscribed_topics):
            _add(self._topic_counts, topic, by)
        if member.subscribed_regex:
            _add(self._regex_counts, member.subscribed_regex, by)
        if member.server_assignor is not None:
            _add(self._assignor_counts, member.server_assignor, by)

    def target_of(self, member: ConsumerMember) -> Partitions:
        """Its target, or that of the one whose place it takes."""
        former = self.static_member(member.instance_id)
        member_id = member.member_id if former is None else former.member_id
        return self.targets.get(member_id) or NO_PARTITIONS

    # Subscriptions

    def regex_count(self, expression: str) -> int:
        return self._regex_counts.get(expression) or 0

    @property
    def subscribed_regexes(self) -> list[str]:
        return list(self._regex_counts)

    @property
    def topics_by_name(self) -> list[str]:
        """All topics that a member names itself."""
        return list(self._topic_counts)

    def topics_with(self, old: ConsumerMember | None, new: ConsumerMember) -> set[str]:
        """All topics that anybody is subscribed to, once ``new`` stands in the place of ``old``."""
        topics = self.topics_without([] if old is None else [old])
        topics |= new.subscribed_topics
        resolved = self.regexes.get(new.subscribed_regex)
        return topics if resolved is None else topics | resolved.topics

    def topics_without(self, gone: Iterable[ConsumerMember]) -> set[str]:
        gone = list(gone)
        topics = set(self._topic_counts)
        for topic in {topic for member in gone for topic in member.subscribed_topics}:
            leaving = sum(topic in member.subscribed_topics for member in gone)
            if self._topic_counts.get(topic) == leaving:
                topics.discard(topic)
        for expression, resolved in self.regexes.items():
            leaving = sum(member.subscribed_regex == expression for member in gone)
            if self.regex_count(expression) > leaving:
                topics |= resolved.topics
        return topics

    def assignor_with(self, old: ConsumerMember | None, new: ConsumerMember) -> str | None:
        """The assignor that most members ask for; None when nobody asks for one."""
        counts = dict(self._assignor_counts.items())
        for member, by in ((old, -1), (new, +1)):
            if member is not None and member.server_assignor is not None:
                counts[member.server_assignor] = counts.get(member.server_assignor, 0) + by
        return _most(counts)

    @property
    def committed_assignor(self) -> str | None:
        return _most(dict(self._assignor_counts.committed_items()))

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """What it is subscribed to; an expression that is not resolved yet matches nothing."""
        resolved = self.regexes.get(member.subscribed_regex)
        topics = member.subscribed_topics
        return topics if resolved is None else topics | resolved.topics

    # Classic members

    def supports_classic(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether all classic members know one of these protocols."""
        if protocol_type != self.protocol_type:
            return False
        known = [
            {name for name, _ in member.classic.protocols}
            for member in self.members.values()
            if member.classic is not None
        ]
        return any(all(name in each for each in known) for name in names)

    def all_classic_but(self, gone: Iterable[ConsumerMember]) -> bool:
        """Whether only classic members are left, when at least one that is not goes."""
        going = {member.member_id: member for member in gone}
        if all(member.is_classic for member in going.values()):
            return False
        return all(
            member.is_classic or member.member_id in going for member in self.members.values()
        )

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Whether a partition of its target is still somebody else's."""
        target = self.targets.get(member.member_id) or NO_PARTITIONS
        return any(
            partition not in member.assigned.get(topic_id, {})
            and (topic_id, partition) in self.owners
            for topic_id, partitions in target.items()
            for partition in partitions
        )

    def reset_assignment(self, member_id: str) -> None:
        member = self.members.get(member_id)
        if member is not None and member.epoch != LEAVE_EPOCH:
            self.put(member.without_assignment())


def _add(counts: TimelineDict[str, int], key: str, by: int) -> None:
    count = (counts.get(key) or 0) + by
    if count > 0:
        counts[key] = count
    else:
        counts.pop(key)


def _most(counts: dict[str, int]) -> str | None:
    wanted = {name: count for name, count in counts.items() if count > 0}
    return max(sorted(wanted), key=wanted.__getitem__, default=None)


def _stale(member: ConsumerMember) -> type[IllegalGeneration | StaleMemberEpoch]:
    return IllegalGeneration if member.is_classic else StaleMemberEpoch


def _epoch_name(member: ConsumerMember) -> str:
    return "generation id" if member.is_classic else "member epoch"

"""What each record of a consumer group makes of the group.

Compaction may have removed older records, so nothing here relies on what should have come before:
a member can be known by its assignment alone, and a tombstone may speak of what is not there.
"""

from ottla.coordinator.group.classic.group import ClassicGroup
from ottla.coordinator.group.consumer.group import ConsumerGroup, ResolvedRegex
from ottla.coordinator.group.consumer.member import ConsumerMember
from ottla.coordinator.group.group import Group
from ottla.coordinator.timeline import Timeline, TimelineDict
from ottla.protocol.generated.group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from ottla.protocol.message import Message


class ConsumerReplay:
    def __init__(self, groups: TimelineDict[str, Group], timeline: Timeline) -> None:
        self._groups = groups
        self._timeline = timeline

    def replay(self, key: Message, value: Message | None) -> None:
        match key:
            case ConsumerGroupMetadataKey():
                self._epoch(key, value)
            case ConsumerGroupMemberMetadataKey():
                self._member(key, value)
            case ConsumerGroupTargetAssignmentMetadataKey():
                self._target_epoch(key, value)
            case ConsumerGroupTargetAssignmentMemberKey():
                self._target(key, value)
            case ConsumerGroupCurrentMemberAssignmentKey():
                self._assignment(key, value)
            case ConsumerGroupRegularExpressionKey():
                self._regex(key, value)
            case _:
                assert isinstance(key, ConsumerGroupPartitionMetadataKey)
                self._old_metadata(key, value)

    def _group(self, group_id: str) -> ConsumerGroup:
        """The group; a simple one, that only offsets had made, becomes a consumer group."""
        group = self._groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group
        assert group is None or (isinstance(group, ClassicGroup) and not group.members)
        fresh = ConsumerGroup(group_id, self._timeline)
        self._groups[group_id] = fresh
        return fresh

    def _known(self, group_id: str) -> ConsumerGroup | None:
        group = self._groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def _epoch(self, key: ConsumerGroupMetadataKey, value: Message | None) -> None:
        if value is None:
            if self._known(key.group_id) is not None:
                self._groups.pop(key.group_id)
            return
        assert isinstance(value, ConsumerGroupMetadataValue)
        self._group(key.group_id).set_epoch(value.epoch, value.metadata_hash)

    def _member(self, key: ConsumerGroupMemberMetadataKey, value: Message | None) -> None:
        if value is None:
            group = self._known(key.group_id)
            if group is not None:
                group.remove(key.member_id)
            return
        assert isinstance(value, ConsumerGroupMemberMetadataValue)
        group = self._group(key.group_id)
        member = group.members.get(key.member_id) or ConsumerMember(key.member_id)
        group.put(member.with_metadata(value))

    def _target_epoch(
        self, key: ConsumerGroupTargetAssignmentMetadataKey, value: Message | None
    ) -> None:
        if value is None:
            group = self._known(key.group_id)
            if group is not None:
                group.set_assignment_epoch(-1, 0)
            return
        assert isinstance(value, ConsumerGroupTargetAssignmentMetadataValue)
        group = self._group(key.group_id)
        group.set_assignment_epoch(value.assignment_epoch, value.assignment_timestamp)

    def _target(self, key: ConsumerGroupTargetAssignmentMemberKey, value: Message | None) -> None:
        if value is None:
            group = self._known(key.group_id)
            if group is not None:
                group.targets.pop(key.member_id)
            return
        assert isinstance(value, ConsumerGroupTargetAssignmentMemberValue)
        self._group(key.group_id).targets[key.member_id] = {
            topic.topic_id: frozenset(topic.partitions) for topic in value.topic_partitions
        }

    def _assignment(
        self, key: ConsumerGroupCurrentMemberAssignmentKey, value: Message | None
    ) -> None:
        if value is None:
            group = self._known(key.group_id)
            if group is not None:
                group.reset_assignment(key.member_id)
            return
        assert isinstance(value, ConsumerGroupCurrentMemberAssignmentValue)
        group = self._group(key.group_id)
        member = group.members.get(key.member_id) or ConsumerMember(key.member_id)
        group.put(member.with_assignment(value))

    def _regex(self, key: ConsumerGroupRegularExpressionKey, value: Message | None) -> None:
        if value is None:
            group = self._known(key.group_id)
            if group is not None:
                group.regexes.pop(key.regular_expression)
            return
        assert isinstance(value, ConsumerGroupRegularExpressionValue)
        self._group(key.group_id).regexes[key.regular_expression] = ResolvedRegex(
            frozenset(value.topics), value.version, value.timestamp
        )

    def _old_metadata(self, key: ConsumerGroupPartitionMetadataKey, value: Message | None) -> None:
        if value is not None or self._known(key.group_id) is not None:
            self._group(key.group_id).set_old_metadata(int(value is not None))

"""The records of consumer groups, and the order in which a group or a member is taken apart."""

from collections.abc import Iterable

from ottla.coordinator.group.assignors.specification import Partitions
from ottla.coordinator.group.consumer.member import ConsumerMember
from ottla.coordinator.group.records import GroupRecord
from ottla.protocol.generated.group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMemberValueTopicPartition,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)


def member_record(group_id: str, member: ConsumerMember) -> GroupRecord:
    key = ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id)
    return GroupRecord(key, member.metadata_value())


def member_tombstone(group_id: str, member_id: str) -> GroupRecord:
    return GroupRecord(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None)


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> GroupRecord:
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return GroupRecord(ConsumerGroupMetadataKey(group_id=group_id), value)


def epoch_tombstone(group_id: str) -> GroupRecord:
    return GroupRecord(ConsumerGroupMetadataKey(group_id=group_id), None)


def target_record(group_id: str, member_id: str, target: Partitions) -> GroupRecord:
    value = ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=[
            ConsumerGroupTargetAssignmentMemberValueTopicPartition(
                topic_id=topic_id, partitions=sorted(target[topic_id])
            )
            for topic_id in sorted(target)
        ]
    )
    key = ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    return GroupRecord(key, value)


def target_tombstone(group_id: str, member_id: str) -> GroupRecord:
    key = ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    return GroupRecord(key, None)


def target_epoch_record(group_id: str, epoch: int, timestamp_ms: int) -> GroupRecord:
    value = ConsumerGroupTargetAssignmentMetadataValue(
        assignment_epoch=epoch, assignment_timestamp=timestamp_ms
    )
    return GroupRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def target_epoch_tombstone(group_id: str) -> GroupRecord:
    return GroupRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None)


def assignment_record(group_id: str, member: ConsumerMember) -> GroupRecord:
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    return GroupRecord(key, member.assignment_value())


def assignment_tombstone(group_id: str, member_id: str) -> GroupRecord:
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)
    return GroupRecord(key, None)


def regex_record(
    group_id: str, expression: str, topics: Iterable[str], version: int, timestamp_ms: int
) -> GroupRecord:
    key = ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=expression)
    value = ConsumerGroupRegularExpressionValue(
        topics=sorted(topics), version=version, timestamp=timestamp_ms
    )
    return GroupRecord(key, value)


def regex_tombstone(group_id: str, expression: str) -> GroupRecord:
    key = ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=expression)
    return GroupRecord(key, None)


def old_metadata_tombstone(group_id: str) -> GroupRecord:
    """Of the topics' metadata that Kafka before 4.1 stored in the place of their hash."""
    return GroupRecord(ConsumerGroupPartitionMetadataKey(group_id=group_id), None)


def removed_member(group_id: str, member_id: str) -> list[GroupRecord]:
    """What it owns goes first, itself last: a reader of only a part sees a whole member."""
    return [
        assignment_tombstone(group_id, member_id),
        target_tombstone(group_id, member_id),
        member_tombstone(group_id, member_id),
    ]


def removed_group(
    group_id: str, member_ids: list[str], expressions: list[str], *, old_metadata: bool
) -> list[GroupRecord]:
    return [
        *(assignment_tombstone(group_id, member_id) for member_id in member_ids),
        *(target_tombstone(group_id, member_id) for member_id in member_ids),
        target_epoch_tombstone(group_id),
        *(member_tombstone(group_id, member_id) for member_id in member_ids),
        *(regex_tombstone(group_id, expression) for expression in expressions),
        *([old_metadata_tombstone(group_id)] if old_metadata else []),
        epoch_tombstone(group_id),
    ]

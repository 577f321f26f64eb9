"""The records of ``__consumer_offsets``: made here, and read back here.

A key begins with its kind (int16), a value with its version (int16); no value is a tombstone. What
is of a kind or version that we do not know is left alone: it is not for us, and stays in the log.
"""

from typing import Final, NamedTuple

from ottla.common.identifiers import ZERO_UUID
from ottla.coordinator.framing import PREFIX_SIZE, prefix_of, prefixed
from ottla.protocol.generated.group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from ottla.protocol.message import Message, from_bytes

NO_TIMESTAMP: Final = -1
NO_LEADER_EPOCH: Final = -1

_KINDS: Final[dict[int, tuple[type[Message], type[Message]]]] = {
    0: (OffsetCommitKey, OffsetCommitValue),  # as brokers before 0.9 wrote it
    1: (OffsetCommitKey, OffsetCommitValue),
    2: (GroupMetadataKey, GroupMetadataValue),
    3: (ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
    4: (ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue),
    5: (ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
    6: (ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue),
    7: (ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue),
    8: (ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue),
    16: (ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
}
_KEY_VERSION: Final = 0
_GROUP_METADATA_VERSION: Final = 3
_OFFSET_COMMIT_VERSION: Final = 4
_EXPIRING_OFFSET_COMMIT_VERSION: Final = 1
"""The only version that can say when an offset is to expire."""


class GroupRecord(NamedTuple):
    key: Message
    value: Message | None
    version: int = 0
    """Of the value."""


class OffsetAndMetadata(NamedTuple):
    """A committed offset."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = NO_TIMESTAMP
    topic_id: bytes = ZERO_UUID
    """Zero when it was committed before topics had ids."""
    record_offset: int = -1
    """Where it lies in the log: the later one of a transaction and a plain commit counts."""


def group_record(group_id: str, value: GroupMetadataValue) -> GroupRecord:
    return GroupRecord(GroupMetadataKey(group=group_id), value, _GROUP_METADATA_VERSION)


def group_tombstone(group_id: str) -> GroupRecord:
    return GroupRecord(GroupMetadataKey(group=group_id), None)


def offset_record(
    group_id: str, topic: str, partition: int, committed: OffsetAndMetadata
) -> GroupRecord:
    expires = committed.expire_timestamp_ms != NO_TIMESTAMP
    return GroupRecord(
        OffsetCommitKey(group=group_id, topic=topic, partition=partition),
        OffsetCommitValue(
            offset=committed.offset,
            leader_epoch=committed.leader_epoch,
            metadata=committed.metadata,
            commit_timestamp=committed.commit_timestamp_ms,
            expire_timestamp=committed.expire_timestamp_ms,
            topic_id=committed.topic_id,
        ),
        _EXPIRING_OFFSET_COMMIT_VERSION if expires else _OFFSET_COMMIT_VERSION,
    )


def offset_tombstone(group_id: str, topic: str, partition: int) -> GroupRecord:
    return GroupRecord(OffsetCommitKey(group=group_id, topic=topic, partition=partition), None)


def committed_offset(record_offset: int, value: OffsetCommitValue) -> OffsetAndMetadata:
    return OffsetAndMetadata(
        offset=value.offset,
        leader_epoch=value.leader_epoch,
        metadata=value.metadata,
        commit_timestamp_ms=value.commit_timestamp,
        expire_timestamp_ms=value.expire_timestamp,
        topic_id=value.topic_id,
        record_offset=record_offset,
    )


class GroupRecordFormat:
    def encode(self, record: GroupRecord) -> tuple[bytes, bytes | None]:
        key = prefixed(record.key.API_KEY, record.key, _KEY_VERSION)
        if record.value is None:
            return key, None
        return key, prefixed(record.version, record.value, record.version)

    def decode(self, key: bytes, value: bytes | None) -> GroupRecord | None:
        kind = _KINDS.get(prefix_of(key))
        if kind is None:
            return None
        key_class, value_class = kind
        decoded_key = from_bytes(key_class, key[PREFIX_SIZE:], _KEY_VERSION)
        if value is None:
            return GroupRecord(decoded_key, None)
        version = prefix_of(value)
        if not value_class.LOWEST_VERSION <= version <= value_class.HIGHEST_VERSION:
            return None
        return GroupRecord(
            decoded_key, from_bytes(value_class, value[PREFIX_SIZE:], version), version
        )

"""The records of ``__remote_log_metadata``: their framing, and the partition that each goes to.

A record has no key. Its value is a frame version (1), the number of the message and its version,
unsigned varints all, and the message, as in ``__cluster_metadata``. Whatever else stands there is
no record of this kind: :class:`ProtocolViolation`.
"""

from typing import Final

from ottla.common.errors import ProtocolViolation
from ottla.common.murmur import murmur2
from ottla.protocol.generated.remote_log_records import (
    RemoteLogSegmentMetadataRecord,
    RemoteLogSegmentMetadataRecordRemoteLogSegmentIdEntry,
    RemoteLogSegmentMetadataRecordSegmentLeaderEpochEntry,
    RemoteLogSegmentMetadataRecordTopicIdPartitionEntry,
    RemoteLogSegmentMetadataUpdateRecord,
    RemoteLogSegmentMetadataUpdateRecordRemoteLogSegmentIdEntry,
    RemoteLogSegmentMetadataUpdateRecordTopicIdPartitionEntry,
    RemotePartitionDeleteMetadataRecord,
    RemotePartitionDeleteMetadataRecordTopicIdPartitionEntry,
)
from ottla.protocol.message import Message, from_bytes, to_bytes
from ottla.protocol.primitives import read_uvarint
from ottla.tiered.segments import (
    DeleteState,
    EpochStart,
    PartitionDeletion,
    RemoteLogMetadata,
    RemoteLogSegment,
    SegmentState,
    SegmentUpdate,
    TopicIdPartition,
)

FRAME_VERSION: Final = 1
VERSION: Final = 0

_INT32: Final = 0xFFFFFFFF


def metadata_partition(partition: TopicIdPartition, count: int) -> int:
    """Which of ``count`` partitions of the topic tells of ``partition``: Kafka's choice."""
    most = int.from_bytes(partition.topic_id[:8], "big")
    least = int.from_bytes(partition.topic_id[8:], "big")
    hashed = 1
    for part in (_hash_of_long(least), _hash_of_long(most), partition.partition):
        hashed = (31 * hashed + part) & _INT32
    return (murmur2(hashed.to_bytes(4, "big")) & 0x7FFFFFFF) % count


def _hash_of_long(value: int) -> int:
    return (value ^ value >> 32) & _INT32


def encode(record: RemoteLogMetadata) -> bytes:
    """The value of a record."""
    if isinstance(record, RemoteLogSegment):
        return _framed(_segment_message(record))
    if isinstance(record, SegmentUpdate):
        return _framed(_update_message(record))
    return _framed(_deletion_message(record))


def _framed(message: Message) -> bytes:
    return bytes((FRAME_VERSION, message.API_KEY, VERSION)) + to_bytes(message, VERSION)


def decode(value: bytes) -> RemoteLogMetadata:
    try:
        frame_version, pos = read_uvarint(value, 0)
        key, pos = read_uvarint(value, pos)
        version, pos = read_uvarint(value, pos)
    except IndexError as error:
        raise ProtocolViolation("remote log metadata without a frame") from error
    if (frame_version, version) != (FRAME_VERSION, VERSION):
        raise ProtocolViolation(f"remote log metadata of versions {frame_version}, {version}")
    body = value[pos:]
    try:
        if key == RemoteLogSegmentMetadataRecord.API_KEY:
            return _segment(from_bytes(RemoteLogSegmentMetadataRecord, body, VERSION))
        if key == RemoteLogSegmentMetadataUpdateRecord.API_KEY:
            return _update(from_bytes(RemoteLogSegmentMetadataUpdateRecord, body, VERSION))
        if key == RemotePartitionDeleteMetadataRecord.API_KEY:
            return _deletion(from_bytes(RemotePartitionDeleteMetadataRecord, body, VERSION))
    except ValueError as error:  # a state of no meaning
        raise ProtocolViolation(str(error)) from error
    raise ProtocolViolation(f"remote log metadata of kind {key}")


# Segments


def _segment_message(segment: RemoteLogSegment) -> RemoteLogSegmentMetadataRecord:
    topic_id, topic, partition = segment.partition
    return RemoteLogSegmentMetadataRecord(
        remote_log_segment_id=RemoteLogSegmentMetadataRecordRemoteLogSegmentIdEntry(
            topic_id_partition=RemoteLogSegmentMetadataRecordTopicIdPartitionEntry(
                name=topic, id=topic_id, partition=partition
            ),
            id=segment.segment_id,
        ),
        start_offset=segment.start_offset,
        end_offset=segment.end_offset,
        broker_id=segment.broker_id,
        max_timestamp_ms=segment.max_timestamp_ms,
        event_timestamp_ms=segment.event_timestamp_ms,
        segment_leader_epochs=[
            RemoteLogSegmentMetadataRecordSegmentLeaderEpochEntry(leader_epoch=epoch, offset=offset)
            for epoch, offset in segment.leader_epochs
        ],
        segment_size_in_bytes=segment.size_in_bytes,
        custom_metadata=segment.custom_metadata,
        remote_log_segment_state=segment.state,
        txn_index_empty=segment.transaction_index_empty,
    )


def _segment(message: RemoteLogSegmentMetadataRecord) -> RemoteLogSegment:
    epochs = sorted(
        EpochStart(each.leader_epoch, each.offset) for each in message.segment_leader_epochs
    )
    if not epochs or not 0 <= message.start_offset <= message.end_offset:
        raise ProtocolViolation("a remote segment without offsets or leader epochs")
    owner = message.remote_log_segment_id.topic_id_partition
    return RemoteLogSegment(
        partition=TopicIdPartition(owner.id, owner.name, owner.partition),
        segment_id=message.remote_log_segment_id.id,
        start_offset=message.start_offset,
        end_offset=message.end_offset,
        max_timestamp_ms=message.max_timestamp_ms,
        broker_id=message.broker_id,
        event_timestamp_ms=message.event_timestamp_ms,
        size_in_bytes=message.segment_size_in_bytes,
        leader_epochs=tuple(epochs),
        state=SegmentState(message.remote_log_segment_state),
        custom_metadata=message.custom_metadata,
        transaction_index_empty=message.txn_index_empty,
    )


# Updates


def _update_message(update: SegmentUpdate) -> RemoteLogSegmentMetadataUpdateRecord:
    topic_id, topic, partition = update.partition
    return RemoteLogSegmentMetadataUpdateRecord(
        remote_log_segment_id=RemoteLogSegmentMetadataUpdateRecordRemoteLogSegmentIdEntry(
            topic_id_partition=RemoteLogSegmentMetadataUpdateRecordTopicIdPartitionEntry(
                name=topic, id=topic_id, partition=partition
            ),
            id=update.segment_id,
        ),
        broker_id=update.broker_id,
        event_timestamp_ms=update.event_timestamp_ms,
        custom_metadata=update.custom_metadata,
        remote_log_segment_state=update.state,
    )


def _update(message: RemoteLogSegmentMetadataUpdateRecord) -> SegmentUpdate:
    owner = message.remote_log_segment_id.topic_id_partition
    return SegmentUpdate(
        partition=TopicIdPartition(owner.id, owner.name, owner.partition),
        segment_id=message.remote_log_segment_id.id,
        state=SegmentState(message.remote_log_segment_state),
        event_timestamp_ms=message.event_timestamp_ms,
        broker_id=message.broker_id,
        custom_metadata=message.custom_metadata,
    )


# Deletions


def _deletion_message(deletion: PartitionDeletion) -> RemotePartitionDeleteMetadataRecord:
    topic_id, topic, partition = deletion.partition
    return RemotePartitionDeleteMetadataRecord(
        topic_id_partition=RemotePartitionDeleteMetadataRecordTopicIdPartitionEntry(
            name=topic, id=topic_id, partition=partition
        ),
        broker_id=deletion.broker_id,
        event_timestamp_ms=deletion.event_timestamp_ms,
        remote_partition_delete_state=deletion.state,
    )


def _deletion(message: RemotePartitionDeleteMetadataRecord) -> PartitionDeletion:
    owner = message.topic_id_partition
    return PartitionDeletion(
        partition=TopicIdPartition(owner.id, owner.name, owner.partition),
        state=DeleteState(message.remote_partition_delete_state),
        event_timestamp_ms=message.event_timestamp_ms,
        broker_id=message.broker_id,
    )

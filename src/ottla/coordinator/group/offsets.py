"""Committed offsets: who commits, who asks, and when they go.

Offsets belong to a group, whatever its kind. One that commits without being a group (a consumer
that assigns itself partitions, an admin client) becomes an empty one, a "simple group", by its
first offset. Offsets that were committed within a transaction are kept apart until its marker comes
(``pending``); a client that asks for stable offsets hears that they are not.

An offset expires when its retention is over, counted from when its group became empty, or from the
commit where the group goes on without its topic. A group that is empty and has no offsets goes too.
"""

from collections.abc import Iterable
from typing import Final, TypeVar

from ottla.common.errors import ErrorCode, GroupIdNotFound, IllegalGeneration, StaleMemberEpoch
from ottla.common.identifiers import ZERO_UUID
from ottla.common.topic_partition import TopicPartition
from ottla.coordinator.group.group import Group
from ottla.coordinator.group.records import (
    NO_TIMESTAMP,
    GroupRecord,
    OffsetAndMetadata,
    committed_offset,
    offset_record,
    offset_tombstone,
)
from ottla.coordinator.group.settings import GroupSettings
from ottla.coordinator.outside import ClusterTopics
from ottla.coordinator.shard import NO_PRODUCER_ID, Outcome
from ottla.coordinator.timeline import Timeline, TimelineDict
from ottla.protocol.generated.group_records import OffsetCommitKey, OffsetCommitValue
from ottla.protocol.generated.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.protocol.generated.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from ottla.protocol.generated.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

GROUP_ID_NOT_FOUND_FROM: Final = 9
"""From this version of OffsetCommit on a client can be told that its group is not there."""

V = TypeVar("V")

_TIMESTAMP_MAX: Final = 2**63 - 1
_NOBODY: Final[frozenset[int]] = frozenset()

_Offsets = TimelineDict[TopicPartition, OffsetAndMetadata]
_Producers = TimelineDict[TopicPartition, frozenset[int]]


class GroupOffsets:
    def __init__(
        self,
        groups: TimelineDict[str, Group],
        timeline: Timeline,
        settings: GroupSettings,
        topics: ClusterTopics,
    ) -> None:
        self._groups = groups
        self._topics = topics
        self._timeline = timeline
        self._settings = settings
        self._offsets: TimelineDict[str, _Offsets] = TimelineDict(timeline)
        self._pending: TimelineDict[int, TimelineDict[str, _Offsets]] = TimelineDict(timeline)
        """Of open transactions: by producer id, then as above."""
        self._open: TimelineDict[str, _Producers] = TimelineDict(timeline)
        """The same by group and partition: whose transactions have an offset for it."""

    # Requests

    def commit(
        self, request: OffsetCommitRequest, version: int, now_ms: int
    ) -> Outcome[GroupRecord, OffsetCommitResponse]:
        self._check_commit(request, version)
        expire_timestamp_ms = NO_TIMESTAMP
        if request.retention_time_ms != -1:
            expire_timestamp_ms = min(now_ms + request.retention_time_ms, _TIMESTAMP_MAX)
        response = OffsetCommitResponse()
        records = []
        for topic in request.topics:
            answer = OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id)
            response.topics.append(answer)
            for partition in topic.partitions:
                code = self._objection(partition)
                answer.partitions.append(
                    OffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=code
                    )
                )
                if code is not ErrorCode.NONE:
                    continue
                committed = OffsetAndMetadata(
                    offset=partition.committed_offset,
                    leader_epoch=partition.committed_leader_epoch,
                    metadata=partition.committed_metadata or "",
                    commit_timestamp_ms=now_ms,
                    expire_timestamp_ms=expire_timestamp_ms,
                    topic_id=topic.topic_id,
                )
                records.append(
                    offset_record(
                        request.group_id, topic.name, partition.partition_index, committed
                    )
                )
        return Outcome(records, response)

    def _check_commit(self, request: OffsetCommitRequest, version: int) -> None:
        group = self._groups.get(request.group_id)
        generation_id = request.generation_id_or_member_epoch
        if group is not None:
            group.check_offset_commit(
                request.member_id, request.group_instance_id, generation_id, version
            )
            for topic in request.topics:
                for each in topic.partitions:
                    group.check_partition_commit(
                        request.member_id,
                        generation_id,
                        topic.name,
                        topic.topic_id,
                        each.partition_index,
                    )
        elif generation_id >= 0:
            if version >= GROUP_ID_NOT_FOUND_FROM:
                raise GroupIdNotFound(f"Group {request.group_id} not found.")
            raise IllegalGeneration

    def commit_transactional(
        self, request: TxnOffsetCommitRequest, now_ms: int
    ) -> Outcome[GroupRecord, TxnOffsetCommitResponse]:
        """Offsets that count when the transaction commits that they are written in."""
        group = self._groups.get(request.group_id)
        if group is not None:
            self._check_transactional(group, request)
        elif request.generation_id >= 0:
            raise IllegalGeneration
        response = TxnOffsetCommitResponse()
        records = []
        for topic in request.topics:
            answer = TxnOffsetCommitResponseTopic(name=topic.name)
            response.topics.append(answer)
            for partition in topic.partitions:
                code = self._objection(partition)
                answer.partitions.append(
                    TxnOffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=code
                    )
                )
                if code is ErrorCode.NONE:
                    committed = OffsetAndMetadata(
                        offset=partition.committed_offset,
                        leader_epoch=partition.committed_leader_epoch,
                        metadata=partition.committed_metadata or "",
                        commit_timestamp_ms=now_ms,
                    )
                    index = partition.partition_index
                    records.append(offset_record(request.group_id, topic.name, index, committed))
        return Outcome(records, response)

    def _check_transactional(self, group: Group, request: TxnOffsetCommitRequest) -> None:
        """Producers know of no member epochs: a stale one is an illegal generation to them."""
        member_id, generation_id = request.member_id, request.generation_id
        by_name = self._topics.image.topics.by_name
        try:
            group.check_offset_commit(
                member_id, request.group_instance_id, generation_id, is_transactional=True
            )
            for topic in request.topics:
                image = by_name.get(topic.name)
                topic_id = ZERO_UUID if image is None else image.topic_id
                for each in topic.partitions:
                    group.check_partition_commit(
                        member_id, generation_id, topic.name, topic_id, each.partition_index
                    )
        except StaleMemberEpoch as error:
            raise IllegalGeneration(error.message) from None

    def _objection(
        self, partition: OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition
    ) -> ErrorCode:
        if len(partition.committed_metadata or "") > self._settings.offset_metadata_bytes_max:
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        return ErrorCode.NONE

    def delete(self, request: OffsetDeleteRequest) -> Outcome[GroupRecord, OffsetDeleteResponse]:
        group = self._groups.get(request.group_id)
        if group is None:
            raise GroupIdNotFound(f"Group {request.group_id} not found.")
        group.check_offset_delete()
        response = OffsetDeleteResponse()
        records = []
        for topic in request.topics:
            answer = OffsetDeleteResponseTopic(name=topic.name)
            response.topics.append(answer)
            subscribed = group.is_subscribed_to(topic.name)
            code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if subscribed else ErrorCode.NONE
            for partition in topic.partitions:
                index = partition.partition_index
                answer.partitions.append(
                    OffsetDeleteResponsePartition(partition_index=index, error_code=code)
                )
                if not subscribed and self._is_known(request.group_id, topic.name, index):
                    records.append(offset_tombstone(request.group_id, topic.name, index))
        return Outcome(records, response)

    # What is asked for

    def fetch(
        self, group_id: str, topic: str, topic_id: bytes, partition: int, *, stable: bool
    ) -> OffsetAndMetadata | ErrorCode:
        """The offset of one partition, or why there is none; NONE when nobody committed one.

        With ``stable``, also what is not committed to the log yet: the answer waits for it.
        """
        topic_partition = TopicPartition(topic, partition)
        if stable and self._is_pending(group_id, topic_partition):
            return ErrorCode.UNSTABLE_OFFSET_COMMIT
        if stable:
            offsets = self._offsets.get(group_id)
            committed = None if offsets is None else offsets.get(topic_partition)
        else:
            offsets = self._offsets.committed(group_id)
            committed = None if offsets is None else offsets.committed(topic_partition)
        if committed is None or _is_of_another_topic(committed.topic_id, topic_id):
            return ErrorCode.NONE
        return committed

    def topic_partitions(self, group_id: str, *, stable: bool) -> list[TopicPartition]:
        """Every partition for which the group has an offset."""
        offsets = self._offsets.get(group_id) if stable else self._offsets.committed(group_id)
        if offsets is None:
            return []
        return sorted(key for key, _ in (offsets.items() if stable else offsets.committed_items()))

    # What goes

    def delete_all(self, group_id: str) -> list[GroupRecord]:
        """Tombstones for all offsets of a group, those of open transactions too."""
        keys = {*(self._offsets.get(group_id) or ()), *(self._open.get(group_id) or ())}
        return [offset_tombstone(group_id, *key) for key in sorted(keys)]

    def delete_partitions(self, gone: Iterable[TopicPartition]) -> list[GroupRecord]:
        """Tombstones for all offsets of partitions that are no more."""
        gone = set(gone)
        found: set[tuple[str, TopicPartition]] = set()
        for group_id, offsets in self._offsets.items():
            found.update((group_id, key) for key in offsets if key in gone)
        for group_id, producers in self._open.items():
            found.update((group_id, key) for key in producers if key in gone)
        return [offset_tombstone(group_id, *key) for group_id, key in sorted(found)]

    def of_group(self, group_id: str) -> list[TopicPartition]:
        """Every partition for which the group has an offset, but for open transactions."""
        return list(self._offsets.get(group_id) or ())

    def expire(
        self, group: Group, keys: Iterable[TopicPartition], now_ms: int, records: list[GroupRecord]
    ) -> bool:
        """Add tombstones for what is due of ``keys``; whether no offset of the group is left."""
        offsets = self._offsets.get(group.group_id)
        due = 0
        for key in keys:
            committed = None if offsets is None else offsets.get(key)
            if committed is not None and self._is_due(group, key, committed, now_ms):
                records.append(offset_tombstone(group.group_id, *key))
                due += 1
        return due == (0 if offsets is None else len(offsets)) and group.group_id not in self._open

    def _is_due(
        self, group: Group, key: TopicPartition, committed: OffsetAndMetadata, now_ms: int
    ) -> bool:
        base_ms = group.expiry_base_ms(committed.commit_timestamp_ms)
        if base_ms is None:
            return False
        if committed.expire_timestamp_ms != NO_TIMESTAMP:
            is_over = now_ms >= committed.expire_timestamp_ms
        else:
            is_over = now_ms - base_ms >= self._settings.offsets_retention_ms
        if not is_over or self._is_pending(group.group_id, key):
            return False
        return not group.is_subscribed_to(key.topic)

    # Replay

    def replay(
        self,
        record_offset: int,
        producer_id: int,
        key: OffsetCommitKey,
        value: OffsetCommitValue | None,
    ) -> None:
        topic_partition = TopicPartition(key.topic, key.partition)
        if value is None:
            _remove(self._offsets, key.group, topic_partition)
            for producer in self._producers(key.group, topic_partition):
                _remove(self._pending.get(producer), key.group, topic_partition)
            _remove(self._open, key.group, topic_partition)
            return
        committed = committed_offset(record_offset, value)
        if producer_id == NO_PRODUCER_ID:
            self._put(self._offsets, key.group, topic_partition, committed)
            return
        by_group = self._pending.get(producer_id)
        if by_group is None:
            by_group = self._pending[producer_id] = TimelineDict(self._timeline)
        self._put(by_group, key.group, topic_partition, committed)
        self._note(key.group, topic_partition, producer_id)

    def replay_end_transaction(self, producer_id: int, *, committed: bool) -> None:
        pending = self._pending.pop(producer_id)
        if pending is None:
            return
        for group_id, offsets in pending.items():
            current = self._offsets.get(group_id)
            for key, offset in offsets.items():
                self._forget(group_id, key, producer_id)
                existing = None if current is None else current.get(key)
                # a plain commit that came later, but before the marker, is the newer one
                if committed and (
                    existing is None or offset.record_offset > existing.record_offset
                ):
                    self._put(self._offsets, group_id, key, offset)

    def _put(
        self,
        by_group: TimelineDict[str, _Offsets],
        group_id: str,
        key: TopicPartition,
        committed: OffsetAndMetadata,
    ) -> None:
        offsets = by_group.get(group_id)
        if offsets is None:
            offsets = by_group[group_id] = TimelineDict(self._timeline)
        offsets[key] = committed

    # Open transactions

    def _producers(self, group_id: str, key: TopicPartition) -> frozenset[int]:
        by_key = self._open.get(group_id)
        return _NOBODY if by_key is None else by_key.get(key) or _NOBODY

    def _note(self, group_id: str, key: TopicPartition, producer_id: int) -> None:
        by_key = self._open.get(group_id)
        if by_key is None:
            by_key = self._open[group_id] = TimelineDict(self._timeline)
        by_key[key] = self._producers(group_id, key) | {producer_id}

    def _forget(self, group_id: str, key: TopicPartition, producer_id: int) -> None:
        others = self._producers(group_id, key) - {producer_id}
        by_key = self._open.get(group_id)
        if others and by_key is not None:
            by_key[key] = others
        else:
            _remove(self._open, group_id, key)

    def _is_pending(self, group_id: str, key: TopicPartition) -> bool:
        by_key = self._open.get(group_id)
        return by_key is not None and key in by_key

    def _is_known(self, group_id: str, topic: str, partition: int) -> bool:
        key = TopicPartition(topic, partition)
        offsets = self._offsets.get(group_id)
        return (offsets is not None and key in offsets) or self._is_pending(group_id, key)


def _remove(
    by_group: TimelineDict[str, TimelineDict[TopicPartition, V]] | None,
    group_id: str,
    key: TopicPartition,
) -> None:
    """Without ``key``, and without the group when that was all it had."""
    values = None if by_group is None else by_group.get(group_id)
    if by_group is not None and values is not None:
        values.pop(key)
        if not len(values):
            by_group.pop(group_id)


def _is_of_another_topic(committed: bytes, asked: bytes) -> bool:
    """Whether the topic of that name was deleted and made anew since."""
    return ZERO_UUID not in (committed, asked) and committed != asked

"""The group coordinator of this broker: what the handlers ask.

A group belongs to the partition of ``__consumer_offsets`` that its id hashes to, and thus to the
broker that leads it. Every method asks the shard of that partition and turns what the runtime
refuses into what a client of that API understands.

Answers are promises where records may have to be committed first, or members to join. An ApiError
refuses the whole request; each of them is one that clients expect from a coordinator.
"""

from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Final, TypeVar

from ottla.common.chance import Chance
from ottla.common.environment import Scheduler
from ottla.common.errors import (
    ApiError,
    ErrorCode,
    InvalidGroupId,
    NotCoordinator,
    UnsupportedVersion,
)
from ottla.common.promise import Promise, fulfilled, run
from ottla.common.topic_partition import TopicPartition
from ottla.coordinator.group.classic.joining import Joining, join_refused
from ottla.coordinator.group.configs import GroupConfigs
from ottla.coordinator.group.consumer.heartbeat import check_request
from ottla.coordinator.group.deletions import OffsetDeletions
from ottla.coordinator.group.group import Caller, GroupType
from ottla.coordinator.group.records import GroupRecord, GroupRecordFormat, OffsetAndMetadata
from ottla.coordinator.group.settings import GroupSettings
from ottla.coordinator.group.shard import GroupShard
from ottla.coordinator.outside import (
    ClusterTopics,
    EndTransactionMarker,
    PartitionReader,
    PartitionWriter,
    Producer,
    RuntimeOutside,
    TransactionVerifier,
)
from ottla.coordinator.partition import Operation
from ottla.coordinator.partitioner import partition_of
from ottla.coordinator.runtime import CoordinatorRuntime, client_error
from ottla.coordinator.shard import Outcome
from ottla.protocol.generated.consumer_group_describe import (
    DescribedGroup as DescribedConsumerGroup,
)
from ottla.protocol.generated.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from ottla.protocol.generated.delete_groups import DeletableGroupResult
from ottla.protocol.generated.describe_groups import DescribedGroup
from ottla.protocol.generated.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.generated.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.protocol.generated.leave_group import LeaveGroupRequest, LeaveGroupResponse
from ottla.protocol.generated.list_groups import ListedGroup
from ottla.protocol.generated.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from ottla.protocol.generated.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from ottla.protocol.generated.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.protocol.generated.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)

T = TypeVar("T")

GROUP_METADATA_TOPIC: Final = "__consumer_offsets"
GROUP_VERSION: Final = "group.version"
"""The feature that brings consumer groups, from level 1 on."""

_BATCH_BYTES: Final = 64 * 1024
_LOAD_BYTES_MAX: Final = 256 * 1024
"""What is replayed in one turn of the loop, so that others are served while a log is loaded."""

OffsetsAsked = list[tuple[str, bytes, list[int]]]
"""Topic name, topic id and partitions."""
OffsetsFound = list[tuple[str, bytes, list[tuple[int, OffsetAndMetadata | ErrorCode]]]]
"""The same with the offset of each partition, or its error: NONE when there is no offset."""


class GroupService:
    def __init__(
        self,
        *,
        settings: GroupSettings,
        writer: PartitionWriter,
        reader: PartitionReader,
        scheduler: Scheduler,
        chance: Chance,
        topics: ClusterTopics,
        verifier: TransactionVerifier,
    ) -> None:
        self._settings = settings
        self._turn = scheduler.turn
        self._topics = topics
        self._verifier = verifier
        self._configs = configs = GroupConfigs(settings, topics)
        outside = RuntimeOutside(
            writer=writer,
            reader=reader,
            scheduler=scheduler,
            commit_timeout_ms=settings.offsets_commit_timeout_ms,
            load_bytes=min(settings.offsets_load_buffer_bytes, _LOAD_BYTES_MAX),
            batch_bytes=_BATCH_BYTES,
            base_sequence=0,
            compression=settings.offsets_topic_compression,
        )
        self.runtime: CoordinatorRuntime[GroupShard] = CoordinatorRuntime(
            GROUP_METADATA_TOPIC,
            outside,
            lambda timeline, timers: GroupShard(timeline, timers, configs, topics, chance),
            GroupRecordFormat(),
        )
        self._deletions = OffsetDeletions(self.runtime, scheduler, topics)

    def reconfigured(self, settings: GroupSettings) -> None:
        """The broker's settings have changed; of ours, those of consumer groups may."""
        self._configs.settings = settings

    # Leadership

    def elected(self, partition: int, leader_epoch: int) -> None:
        """This broker leads a partition of ``__consumer_offsets``; its log is open."""
        self.runtime.elected(partition, leader_epoch)

    def resigned(self, partition: int, leader_epoch: int | None = None) -> None:
        self.runtime.resigned(partition, leader_epoch)

    def stop(self) -> None:
        self.runtime.stop()

    def partition_for(self, group_id: str) -> int:
        count = self._topics.partition_count(GROUP_METADATA_TOPIC)
        return partition_of(group_id, count or self._settings.offsets_topic_partitions)

    def partitions_deleted(self, gone: Collection[TopicPartition]) -> None:
        """Topics were deleted: nobody has offsets in them any more."""
        for partition in self.runtime.partitions():
            self._deletions.add(partition, gone)

    # Membership

    def join(self, request: JoinGroupRequest, caller: Caller) -> Promise[JoinGroupResponse]:
        objection = self._objection(request)
        if objection is not ErrorCode.NONE:
            return fulfilled(self._turn, join_refused(objection, request.member_id))
        answer: Promise[JoinGroupResponse] = Promise(self._turn)
        return self._write_or_wait(
            request.group_id,
            lambda shard, now_ms: shard.join(Joining(request, caller, answer, now_ms)),
        )

    def _objection(self, request: JoinGroupRequest) -> ErrorCode:
        low, high = self._settings.session_timeout_ms_min, self._settings.session_timeout_ms_max
        if not request.group_id:
            return ErrorCode.INVALID_GROUP_ID
        if not low <= request.session_timeout_ms <= high:
            return ErrorCode.INVALID_SESSION_TIMEOUT
        return ErrorCode.NONE

    def sync(self, request: SyncGroupRequest) -> Promise[SyncGroupResponse]:
        _check_group_id(request.group_id)
        answer: Promise[SyncGroupResponse] = Promise(self._turn)
        return self._write_or_wait(
            request.group_id,
            lambda shard, now_ms: shard.sync(request, answer, now_ms),
        )

    async def heartbeat(self, request: HeartbeatRequest) -> HeartbeatResponse:
        _check_group_id(request.group_id)
        try:
            return await self._write(
                request.group_id, lambda shard, now_ms: shard.heartbeat(request, now_ms)
            )
        except ApiError as error:
            if error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                return HeartbeatResponse()  # the member is alive, and we shall know it soon
            raise

    async def leave(self, request: LeaveGroupRequest) -> LeaveGroupResponse:
        _check_group_id(request.group_id)
        return await self._write(
            request.group_id, lambda shard, now_ms: shard.leave(request, now_ms)
        )

    async def consumer_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, caller: Caller
    ) -> ConsumerGroupHeartbeatResponse:
        self._check_protocol()
        check_request(request, caller.version, self._settings.consumer_assignors)
        return await self._write(
            request.group_id,
            lambda shard, now_ms: shard.consumers.heartbeat(request, caller, now_ms),
        )

    def _check_protocol(self) -> None:
        """Consumer groups are there when the broker's settings and the features say so."""
        level = self._topics.image.features.level(GROUP_VERSION)
        if GroupType.CONSUMER.value not in self._settings.protocols or level < 1:
            raise UnsupportedVersion

    # Groups

    def describe_consumers(self, group_ids: Iterable[str]) -> list[DescribedConsumerGroup]:
        self._check_protocol()
        return [self._describe_consumer(group_id) for group_id in group_ids]

    def _describe_consumer(self, group_id: str) -> DescribedConsumerGroup:
        try:
            _check_group_id(group_id)
            return self._read(group_id, lambda shard: shard.describe_consumer(group_id))
        except ApiError as error:
            return DescribedConsumerGroup(
                group_id=group_id, error_code=error.code, error_message=error.message or None
            )

    def describe(self, group_ids: Iterable[str], version: int) -> list[DescribedGroup]:
        return [self._describe(group_id, version) for group_id in group_ids]

    def _describe(self, group_id: str, version: int) -> DescribedGroup:
        try:
            return self._read(group_id, lambda shard: shard.describe(group_id, version))
        except ApiError as error:
            return DescribedGroup(group_id=group_id, error_code=error.code)

    def list_groups(
        self, states: Collection[str] = (), types: Collection[str] = ()
    ) -> list[ListedGroup]:
        """All groups that this broker coordinates, in one of ``states`` and of one of ``types``."""
        states = {state.lower() for state in states}
        types = {group_type.lower() for group_type in types}
        groups: list[ListedGroup] = []
        for partition in self.runtime.partitions():
            try:
                groups += self.runtime.read(
                    partition, lambda shard: shard.list_groups(states, types)
                )
            except NotCoordinator:
                continue
        return groups

    async def delete(self, group_ids: Iterable[str]) -> list[DeletableGroupResult]:
        by_partition: dict[int, list[str]] = {}
        for group_id in dict.fromkeys(group_ids):
            by_partition.setdefault(self.partition_for(group_id), []).append(group_id)
        under_way = [
            (ids, self.runtime.write(partition, partial(_delete, ids)))
            for partition, ids in by_partition.items()
        ]
        results: list[DeletableGroupResult] = []
        for ids, deleted in under_way:
            try:
                results += await deleted
            except ApiError as error:
                code = client_error(error).code
                results += [DeletableGroupResult(group_id=each, error_code=code) for each in ids]
        return results

    # Offsets

    async def commit_offsets(
        self, request: OffsetCommitRequest, version: int
    ) -> OffsetCommitResponse:
        return await self._write(
            request.group_id,
            lambda shard, now_ms: shard.commit_offsets(request, version, now_ms),
        )

    async def commit_transactional_offsets(
        self, request: TxnOffsetCommitRequest, version: int
    ) -> TxnOffsetCommitResponse:
        """Write offsets within a transaction, once it is certain that the transaction is open."""
        _check_group_id(request.group_id)
        partition = self.partition_for(request.group_id)
        try:
            verification = await self._verifier.verify(
                GROUP_METADATA_TOPIC,
                partition,
                transactional_id=request.transactional_id,
                producer_id=request.producer_id,
                producer_epoch=request.producer_epoch,
                api_version=version,
            )
            return await self.runtime.write_transactional(
                partition,
                Producer(request.producer_id, request.producer_epoch, verification),
                lambda shard, now_ms: shard.offsets.commit_transactional(request, now_ms),
            )
        except ApiError as error:
            raise client_error(error) from None

    def complete_transaction(self, partition: int, marker: EndTransactionMarker) -> Promise[None]:
        """A transaction that may have offsets on ``partition`` has ended."""
        return self.runtime.complete_transaction(partition, marker)

    async def delete_offsets(self, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
        _check_group_id(request.group_id)
        return await self._write(
            request.group_id, lambda shard, _now_ms: shard.offsets.delete(request)
        )

    async def fetch_offsets(
        self,
        group_id: str,
        asked: OffsetsAsked | None,
        *,
        require_stable: bool,
        member_id: str | None = None,
        member_epoch: int = -1,
    ) -> OffsetsFound:
        """The offsets of what is ``asked``, or all of the group.

        With ``require_stable`` they are the newest, and the answer waits until these are
        committed; without, they are what is committed now.
        """

        def fetch(shard: GroupShard) -> OffsetsFound:
            group = shard.groups.committed(group_id)
            if group is not None:
                group.check_offset_fetch(member_id, member_epoch)
            return _fetch(shard, group_id, asked, stable=require_stable)

        if not require_stable:
            return self._read(group_id, fetch)
        partition = self.partition_for(group_id)
        try:
            return await self.runtime.write(
                partition, lambda shard, _now_ms: Outcome([], fetch(shard))
            )
        except ApiError as error:
            code = client_error(error).code
            if code is ErrorCode.COORDINATOR_NOT_AVAILABLE and code is not error.code:
                raise NotCoordinator from None  # older consumers do not try again on the other
            raise client_error(error) from None

    # The shard of a group

    async def _write(self, group_id: str, operation: Operation[GroupShard, T]) -> T:
        try:
            return await self.runtime.write(self.partition_for(group_id), operation)
        except ApiError as error:
            raise client_error(error) from None

    def _write_or_wait(
        self, group_id: str, operation: Operation[GroupShard, T | Promise[T]]
    ) -> Promise[T]:
        """The operation's answer; where that is a promise, its keeper decides about it alone.

        It also sorts out what happens when records are lost: others wait for them too.
        """
        kept: list[Promise[T]] = []

        def ask(shard: GroupShard, now_ms: int) -> Outcome[GroupRecord, T | Promise[T]]:
            outcome = operation(shard, now_ms)
            if isinstance(outcome.answer, Promise):
                kept.append(outcome.answer)
            return outcome

        written = self.runtime.write(self.partition_for(group_id), ask)
        return kept[0] if kept else run(self._turn, _answered(written))

    def _read(self, group_id: str, operation: Callable[[GroupShard], T]) -> T:
        return self.runtime.read(self.partition_for(group_id), operation)


async def _answered(written: Promise[T | Promise[T]]) -> T:
    try:
        answer = await written
    except ApiError as error:
        raise client_error(error) from None
    assert not isinstance(answer, Promise)
    return answer


def _fetch(
    shard: GroupShard, group_id: str, asked: OffsetsAsked | None, *, stable: bool
) -> OffsetsFound:
    if asked is None:
        by_topic: dict[str, list[int]] = {}
        for topic, partition in shard.offsets.topic_partitions(group_id, stable=stable):
            by_topic.setdefault(topic, []).append(partition)
        asked = [(topic, bytes(16), partitions) for topic, partitions in by_topic.items()]
    return [
        (
            topic,
            topic_id,
            [
                (each, shard.offsets.fetch(group_id, topic, topic_id, each, stable=stable))
                for each in partitions
            ],
        )
        for topic, topic_id, partitions in asked
    ]


def _check_group_id(group_id: str) -> None:
    if not group_id:
        raise InvalidGroupId


def _delete(
    group_ids: list[str], shard: GroupShard, _now_ms: int
) -> Outcome[GroupRecord, list[DeletableGroupResult]]:
    return shard.delete(group_ids)

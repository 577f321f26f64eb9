"""The groups of one partition of ``__consumer_offsets``: the state machine that the runtime runs.

Here the parts meet: classic groups, consumer groups, and the offsets of groups of every kind. What
a request of the classic protocol means depends on the kind of its group, and is sorted out here;
listing and deleting treat all groups alike.
"""

from collections.abc import Collection, Iterable
from typing import Final

from ottla.common.chance import Chance
from ottla.common.errors import ApiError, ErrorCode, GroupIdNotFound
from ottla.common.promise import Promise
from ottla.common.topic_partition import TopicPartition
from ottla.coordinator.group.classic.group import ClassicGroup, ClassicState
from ottla.coordinator.group.classic.join import ClassicJoin
from ottla.coordinator.group.classic.joining import Joined, Joining, join_refused
from ottla.coordinator.group.classic.leave import ClassicLeave
from ottla.coordinator.group.classic.rebalance import ClassicRebalance, Records
from ottla.coordinator.group.classic.sync import ClassicSync
from ottla.coordinator.group.configs import GroupConfigs
from ottla.coordinator.group.consumer.classic_members import ClassicMembers
from ottla.coordinator.group.consumer.context import ConsumerContext
from ottla.coordinator.group.consumer.description import describe_group
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.heartbeat import ConsumerHeartbeat
from ottla.coordinator.group.consumer.migration import Migration
from ottla.coordinator.group.consumer.replay import ConsumerReplay
from ottla.coordinator.group.consumer.sessions import Sessions
from ottla.coordinator.group.expiry import Expiry
from ottla.coordinator.group.group import Group
from ottla.coordinator.group.offsets import GroupOffsets
from ottla.coordinator.group.records import GroupRecord
from ottla.coordinator.outside import ClusterTopics
from ottla.coordinator.partition import Action
from ottla.coordinator.runtime import client_error
from ottla.coordinator.shard import Outcome
from ottla.coordinator.timeline import Timeline, TimelineDict
from ottla.coordinator.timers import Timers
from ottla.protocol.generated.consumer_group_describe import (
    DescribedGroup as DescribedConsumerGroup,
)
from ottla.protocol.generated.delete_groups import DeletableGroupResult
from ottla.protocol.generated.describe_groups import DescribedGroup
from ottla.protocol.generated.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from ottla.protocol.generated.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.generated.leave_group import LeaveGroupRequest, LeaveGroupResponse
from ottla.protocol.generated.list_groups import ListedGroup
from ottla.protocol.generated.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from ottla.protocol.generated.sync_group import SyncGroupRequest, SyncGroupResponse

NOT_FOUND_IS_AN_ERROR_FROM: Final = 6
"""From this version of DescribeGroups on a group that is not there is not called dead."""


class GroupShard:
    def __init__(
        self,
        timeline: Timeline,
        timers: Timers[Action],
        configs: GroupConfigs,
        topics: ClusterTopics,
        chance: Chance,
    ) -> None:
        self._timers = timers
        self._settings = settings = configs.settings
        self._dropped: list[Group] = []
        """What a failed write has taken away."""
        self.groups: TimelineDict[str, Group] = TimelineDict(timeline, self._dropped.append)
        self.offsets = GroupOffsets(self.groups, timeline, settings, topics)
        self._expiry = Expiry(
            self.groups, self.offsets, timers, settings.offsets_retention_check_interval_ms
        )
        self._rebalance = ClassicRebalance(self.groups, timers, settings)
        self._joins = ClassicJoin(self._rebalance, chance)
        self._syncs = ClassicSync(self._rebalance)
        self._leaves = ClassicLeave(self._rebalance)
        self._context = ConsumerContext(
            groups=self.groups,
            timeline=timeline,
            timers=timers,
            configs=configs,
            topics=topics,
            chance=chance,
        )
        migration = Migration(self._context, self._rebalance)
        self._sessions = Sessions(self._context, migration)
        self.consumers = ConsumerHeartbeat(self._context, self._sessions, migration)
        self._classic_members = ClassicMembers(
            self._context, self._sessions, migration, self.consumers
        )
        self._consumer_replay = ConsumerReplay(self.groups, timeline)

    # What the runtime asks

    def replay(self, offset: int, producer_id: int, record: GroupRecord) -> None:
        key, value = record.key, record.value
        if isinstance(key, OffsetCommitKey):
            assert value is None or isinstance(value, OffsetCommitValue)
            if value is not None and key.group not in self.groups:
                self.groups[key.group] = ClassicGroup(key.group, value.commit_timestamp)
            self.offsets.replay(offset, producer_id, key, value)
        elif isinstance(key, GroupMetadataKey):
            assert value is None or isinstance(value, GroupMetadataValue)
            if value is not None:
                self.groups[key.group] = ClassicGroup.from_record(key.group, value)
            elif isinstance(self.groups.get(key.group), ClassicGroup):
                self.groups.pop(key.group)
        else:
            self._consumer_replay.replay(key, value)

    def replay_end_transaction(self, producer_id: int, *, committed: bool) -> None:
        self.offsets.replay_end_transaction(producer_id, committed=committed)

    def reverted(self, error: ApiError, now_ms: int) -> None:
        """Of a group that never was, others have heard: members that wait in it come again."""
        dropped = self._dropped.copy()
        self._dropped.clear()
        code = client_error(error).code
        for group in dropped:
            if isinstance(group, ClassicGroup) and group.state is not ClassicState.DEAD:
                self._rebalance.dissolve(group, code, now_ms)
            current = self.groups.get(group.group_id)
            if current is not None and current is not group:
                self._begin_sessions(current)

    def _begin_sessions(self, group: Group) -> None:
        if isinstance(group, ClassicGroup):
            for member in group.members.values():
                self._rebalance.begin_session(group, member)
        elif isinstance(group, ConsumerGroup):
            self._sessions.load(group)

    def loaded(self, now_ms: int) -> None:
        for group in self.groups.values():
            self._begin_sessions(group)
            if isinstance(group, ClassicGroup) and len(group.members) > self._settings.size_max:
                self._rebalance.prepare(group, now_ms)
        self._expiry.schedule()

    def unloaded(self, now_ms: int) -> None:
        code = ErrorCode.NOT_COORDINATOR
        for group in self.groups.values():
            if isinstance(group, ClassicGroup):
                group.transition_to(ClassicState.DEAD, now_ms)
                for member in list(group.members.values()):
                    self._rebalance.answer_join(member, join_refused(code, member.member_id))
                    self._rebalance.answer_sync(member, SyncGroupResponse(error_code=code))

    def delete_partitions(self, gone: Iterable[TopicPartition]) -> Records:
        return Outcome(self.offsets.delete_partitions(gone), None, atomic=False)

    # The classic protocol, in classic groups and in consumer groups

    def join(self, joining: Joining) -> Joined:
        group = self.groups.get(joining.request.group_id)
        if isinstance(group, ConsumerGroup) and not group.is_empty:
            return self._classic_members.join(group, joining)
        if not isinstance(group, ConsumerGroup):
            return self._joins.join(joining)
        # nobody is left of the consumer group: it becomes a classic one, and keeps its offsets
        tombstones = group.tombstones()
        self.groups.pop(group.group_id)
        joined = self._joins.join(joining)
        if group.group_id not in self.groups:
            self.groups[group.group_id] = group
            return joined
        return Outcome([*tombstones, *joined.records], joined.answer, joined.stored)

    def sync(
        self, request: SyncGroupRequest, answer: Promise[SyncGroupResponse], now_ms: int
    ) -> Outcome[GroupRecord, SyncGroupResponse | Promise[SyncGroupResponse]]:
        group = self.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            return self._classic_members.sync(group, request)
        return self._syncs.sync(request, answer, now_ms)

    def heartbeat(
        self, request: HeartbeatRequest, now_ms: int
    ) -> Outcome[GroupRecord, HeartbeatResponse]:
        group = self.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            return self._classic_members.heartbeat(group, request)
        return self._syncs.heartbeat(request, now_ms)

    def leave(
        self, request: LeaveGroupRequest, now_ms: int
    ) -> Outcome[GroupRecord, LeaveGroupResponse]:
        group = self.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            return self._classic_members.leave(group, request)
        return self._leaves.leave(request, now_ms)

    # Requests for groups of every kind

    def commit_offsets(
        self, request: OffsetCommitRequest, version: int, now_ms: int
    ) -> Outcome[GroupRecord, OffsetCommitResponse]:
        outcome = self.offsets.commit(request, version, now_ms)
        group = self._rebalance.find(request.group_id)
        if group is not None and group.state is not ClassicState.COMPLETING_REBALANCE:
            member = group.members.get(request.member_id)
            if member is not None:
                self._rebalance.begin_session(group, member)  # a commit is a sign of life
        return outcome

    def delete(
        self, group_ids: Collection[str]
    ) -> Outcome[GroupRecord, list[DeletableGroupResult]]:
        results = []
        records: list[GroupRecord] = []
        for group_id in group_ids:
            result = DeletableGroupResult(group_id=group_id)
            results.append(result)
            try:
                group = self._group(group_id)
                group.check_delete()
            except ApiError as error:
                result.error_code = error.code
            else:
                records.extend(self.offsets.delete_all(group_id))
                records += group.tombstones()
        return Outcome(records, results, atomic=False)

    def describe_consumer(self, group_id: str) -> DescribedConsumerGroup:
        group = self.groups.committed(group_id)
        if not isinstance(group, ConsumerGroup):
            what = "not found" if group is None else "is not a consumer group"
            raise GroupIdNotFound(f"Group {group_id} {what}.")
        default = self._settings.consumer_assignors[0]
        return describe_group(group, default, self._context.image.topics)

    def describe(self, group_id: str, version: int) -> DescribedGroup:
        group = self.groups.committed(group_id)
        if not isinstance(group, ClassicGroup):
            described = DescribedGroup(group_id=group_id, group_state=ClassicState.DEAD.value)
            if version >= NOT_FOUND_IS_AN_ERROR_FROM:
                what = "not found" if group is None else "is not a classic group"
                described.error_code = ErrorCode.GROUP_ID_NOT_FOUND
                described.error_message = f"Group {group_id} {what}."
            return described
        protocol = group.protocol_name if group.state is ClassicState.STABLE else None
        return DescribedGroup(
            group_id=group_id,
            group_state=group.state_name,
            protocol_type=group.protocol_type or "",
            protocol_data=protocol or "",
            members=[member.describe(protocol) for member in group.members.values()],
        )

    def list_groups(self, states: Collection[str], types: Collection[str]) -> list[ListedGroup]:
        """Groups in one of ``states`` and of one of ``types``, in lower case; empty is all."""
        return [
            ListedGroup(
                group_id=group_id,
                protocol_type=group.protocol_type or "",
                group_state=group.state_name,
                group_type=group.group_type.value,
            )
            for group_id, group in self.groups.committed_items()
            if (not states or group.state_name.lower() in states)
            and (not types or group.group_type.value in types)
        ]

    def _group(self, group_id: str) -> Group:
        group = self.groups.get(group_id)
        if group is None:
            raise GroupIdNotFound(f"Group {group_id} not found.")
        return group

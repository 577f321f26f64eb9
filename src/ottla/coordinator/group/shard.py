"""The groups of one partition of ``__consumer_offsets``: the state machine that the runtime runs.

Here the parts meet: classic groups, and the offsets of groups of every kind. Describing, listing
and deleting treat all groups alike and are done here.
"""

from collections.abc import Collection, Iterable
from typing import Final

from ottla.common.chance import Chance
from ottla.common.errors import ApiError, ErrorCode, GroupIdNotFound
from ottla.common.topic_partition import TopicPartition
from ottla.coordinator.group.classic.group import ClassicGroup, ClassicState
from ottla.coordinator.group.classic.join import ClassicJoin
from ottla.coordinator.group.classic.joining import join_refused
from ottla.coordinator.group.classic.leave import ClassicLeave
from ottla.coordinator.group.classic.rebalance import ClassicRebalance, Records
from ottla.coordinator.group.classic.sync import ClassicSync
from ottla.coordinator.group.group import Group
from ottla.coordinator.group.offsets import GroupOffsets
from ottla.coordinator.group.records import GroupRecord, group_tombstone
from ottla.coordinator.group.settings import GroupSettings
from ottla.coordinator.partition import Action
from ottla.coordinator.shard import Outcome
from ottla.coordinator.timeline import Timeline, TimelineDict
from ottla.coordinator.timers import Timers
from ottla.protocol.generated.delete_groups import DeletableGroupResult
from ottla.protocol.generated.describe_groups import DescribedGroup
from ottla.protocol.generated.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from ottla.protocol.generated.list_groups import ListedGroup
from ottla.protocol.generated.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from ottla.protocol.generated.sync_group import SyncGroupResponse

NOT_FOUND_IS_AN_ERROR_FROM: Final = 6
"""From this version of DescribeGroups on a group that is not there is not called dead."""


class GroupShard:
    def __init__(
        self,
        timeline: Timeline,
        timers: Timers[Action],
        settings: GroupSettings,
        chance: Chance,
    ) -> None:
        self._timers = timers
        self._settings = settings
        self.groups: TimelineDict[str, Group] = TimelineDict(timeline)
        self.offsets = GroupOffsets(self.groups, timeline, settings)
        self._rebalance = ClassicRebalance(self.groups, timers, settings)
        self.joins = ClassicJoin(self._rebalance, chance)
        self.syncs = ClassicSync(self._rebalance)
        self.leaves = ClassicLeave(self._rebalance)

    # What the runtime asks

    def replay(self, offset: int, producer_id: int, record: GroupRecord) -> None:
        key, value = record.key, record.value
        if isinstance(key, OffsetCommitKey):
            assert value is None or isinstance(value, OffsetCommitValue)
            if value is not None and key.group not in self.groups:
                self.groups[key.group] = ClassicGroup(key.group, value.commit_timestamp)
            self.offsets.replay(offset, producer_id, key, value)
        else:
            assert isinstance(key, GroupMetadataKey)
            assert value is None or isinstance(value, GroupMetadataValue)
            if value is None:
                self.groups.pop(key.group)
            else:
                self.groups[key.group] = ClassicGroup.from_record(key.group, value)

    def replay_end_transaction(self, producer_id: int, *, committed: bool) -> None:
        self.offsets.replay_end_transaction(producer_id, committed=committed)

    def loaded(self, now_ms: int) -> None:
        for group in self.groups.values():
            if isinstance(group, ClassicGroup):
                for member in group.members.values():
                    self._rebalance.begin_session(group, member)
                if len(group.members) > self._settings.size_max:
                    self._rebalance.prepare(group, now_ms)
        self._schedule_expiry()

    def unloaded(self, now_ms: int) -> None:
        code = ErrorCode.NOT_COORDINATOR
        for group in self.groups.values():
            if isinstance(group, ClassicGroup):
                group.transition_to(ClassicState.DEAD, now_ms)
                for member in list(group.members.values()):
                    self._rebalance.answer_join(member, join_refused(code, member.member_id))
                    self._rebalance.answer_sync(member, SyncGroupResponse(error_code=code))

    # Expiry

    def _schedule_expiry(self) -> None:
        interval_ms = self._settings.offsets_retention_check_interval_ms
        self._timers.schedule("expiry", interval_ms, self.expire)

    def expire(self, now_ms: int) -> Records:
        """Drop the offsets whose time is over, and the groups that have nothing left."""
        self._schedule_expiry()
        records: list[GroupRecord] = []
        for group in self.groups.values():
            if self.offsets.expire(group, now_ms, records) and group.is_empty:
                records.append(group_tombstone(group.group_id))
        return Outcome(records, None, atomic=False)

    def delete_partitions(self, gone: Iterable[TopicPartition]) -> Records:
        return Outcome(self.offsets.delete_partitions(gone), None, atomic=False)

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
                self._group(group_id).check_delete()
            except ApiError as error:
                result.error_code = error.code
            else:
                records.extend(self.offsets.delete_all(group_id))
                records.append(group_tombstone(group_id))
        return Outcome(records, results, atomic=False)

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

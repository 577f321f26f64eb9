"""ConsumerGroupHeartbeat: a member joins, lives, tells what it has, and leaves.

A heartbeat does three things, each only where it has to:

1. It creates or updates the member; where its subscription, or a topic of the group, has changed,
   the group's epoch grows.
2. It makes a new target assignment, when the group's epoch is ahead of the last one.
3. It brings the member a step closer to its target (see ``reconciliation``).
"""

from dataclasses import replace
from typing import Final, TypeAlias

from ottla.common.errors import (
    FencedInstanceId,
    FencedMemberEpoch,
    GroupIdNotFound,
    GroupMaxSizeReached,
    InvalidRequest,
    UnknownMemberId,
    UnreleasedInstanceId,
    UnsupportedAssignor,
)
from ottla.common.identifiers import random_uuid, uuid_text
from ottla.coordinator.group.assignors.specification import Partitions
from ottla.coordinator.group.classic.group import ClassicGroup
from ottla.coordinator.group.consumer.context import ConsumerContext
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.member import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    NOTHING,
    STATIC_LEAVE_EPOCH,
    ConsumerMember,
    MemberState,
    is_subset,
    reported,
)
from ottla.coordinator.group.consumer.migration import Migration
from ottla.coordinator.group.consumer.reconciliation import Reconciliation
from ottla.coordinator.group.consumer.records import (
    assignment_record,
    epoch_record,
    member_record,
    old_metadata_tombstone,
    removed_member,
    target_record,
)
from ottla.coordinator.group.consumer.regexes import RegexChange, Regexes
from ottla.coordinator.group.consumer.sessions import Sessions
from ottla.coordinator.group.consumer.target import Target, update_target
from ottla.coordinator.group.group import Caller
from ottla.coordinator.group.records import GroupRecord, group_tombstone
from ottla.coordinator.shard import Outcome, Stored
from ottla.protocol.generated.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)

Beat: TypeAlias = Outcome[GroupRecord, ConsumerGroupHeartbeatResponse]

OWN_MEMBER_ID_FROM: Final = 1
"""From this version on a member chooses its own id."""


def check_request(
    request: ConsumerGroupHeartbeatRequest, version: int, assignors: tuple[str, ...]
) -> None:
    """Refuse what no group could answer."""
    epoch = request.member_epoch
    has_id = version >= OWN_MEMBER_ID_FROM or epoch > JOIN_EPOCH or epoch == LEAVE_EPOCH
    if has_id and not request.member_id.strip():
        raise InvalidRequest("MemberId can't be empty.")
    if not request.group_id.strip():
        raise InvalidRequest("GroupId can't be empty.")
    if request.instance_id is not None and not request.instance_id.strip():
        raise InvalidRequest("InstanceId can't be empty.")
    if request.rack_id is not None and not request.rack_id.strip():
        raise InvalidRequest("RackId can't be empty.")
    if epoch == JOIN_EPOCH:
        _check_join(request)
    elif epoch == STATIC_LEAVE_EPOCH:
        if request.instance_id is None:
            raise InvalidRequest("InstanceId can't be null.")
    elif epoch < LEAVE_EPOCH:
        raise InvalidRequest("MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise UnsupportedAssignor(
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: "
            f"{', '.join(assignors)}."
        )


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise InvalidRequest("RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or request.topic_partitions:
        raise InvalidRequest("TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise InvalidRequest(
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when "
            "(re-)joining."
        )


class ConsumerHeartbeat:
    def __init__(self, context: ConsumerContext, sessions: Sessions, migration: Migration) -> None:
        self._context = context
        self._sessions = sessions
        self._migration = migration
        self.regexes = Regexes(context)

    def heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, caller: Caller, now_ms: int
    ) -> Beat:
        if request.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
            return self._leave(request)
        records: list[GroupRecord] = []
        joins = request.member_epoch == JOIN_EPOCH
        group, stored = self._group(request.group_id, records, joins=joins)
        self.check_room(group, request.member_id)
        member = self._member(group, request, records, joins=joins)
        updated = _updated(member, request, caller)
        epoch, changed = self.update_member(group, member, updated, caller, now_ms, records)
        target = update_target(self._context, group, epoch, updated, now_ms, records)
        owned = None if request.topic_partitions is None else reported(request.topic_partitions)
        reconciled = self.reconcile(group, updated, target, owned, records, changed=changed)
        self._sessions.begin(group.group_id, updated.member_id)
        response = ConsumerGroupHeartbeatResponse(
            member_id=updated.member_id,
            member_epoch=reconciled.epoch,
            heartbeat_interval_ms=self._context.configs.of(group.group_id).heartbeat_interval_ms,
            assignment=None,
        )
        if joins or _is_full(request) or _has_other_partitions(member, reconciled):
            response.assignment = _assignment(reconciled)
        return Outcome(records, response, then=stored)

    # The group and the member

    def _group(
        self, group_id: str, records: list[GroupRecord], *, joins: bool
    ) -> tuple[ConsumerGroup, Stored | None]:
        group = self._context.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group, None
        if group is None and not joins:
            raise GroupIdNotFound(f"Consumer group {group_id} not found.")
        if group is None:
            return ConsumerGroup(group_id, self._context.timeline), None
        if not isinstance(group, ClassicGroup) or not joins:
            raise GroupIdNotFound(f"Group {group_id} is not a consumer group.")
        if group.is_empty:
            records.append(group_tombstone(group_id))
            return ConsumerGroup(group_id, self._context.timeline), None
        upgraded = self._migration.upgrade(group, records)
        self._sessions.load(upgraded)
        return upgraded, self._migration.upgraded(group)

    def check_room(self, group: ConsumerGroup, member_id: str) -> None:
        size_max = self._context.settings.consumer_size_max
        if len(group.members) >= size_max and member_id not in group.members:
            raise GroupMaxSizeReached(
                f"The consumer group has reached its maximum capacity of {size_max} members."
            )

    def _member(
        self,
        group: ConsumerGroup,
        request: ConsumerGroupHeartbeatRequest,
        records: list[GroupRecord],
        *,
        joins: bool,
    ) -> ConsumerMember:
        member_id = request.member_id or uuid_text(random_uuid(self._context.chance))
        instance_id = request.instance_id
        if instance_id is None:
            member = group.members.get(member_id)
            if member is None and joins:
                return ConsumerMember(member_id)
            member = group.member(member_id)
        elif joins:
            return self.join_static(group, member_id, instance_id, records, is_classic=False)
        else:
            member = static_member(group, member_id, instance_id)
        _check_epoch(member, request)
        return member

    def join_static(
        self,
        group: ConsumerGroup,
        member_id: str,
        instance_id: str,
        records: list[GroupRecord],
        *,
        is_classic: bool,
    ) -> ConsumerMember:
        """A static member is new, or takes the place of its former self, which must have left."""
        former = group.static_member(instance_id)
        if former is None:
            return group.members.get(member_id) or ConsumerMember(member_id)
        if not is_classic and not former.is_classic and former.epoch != STATIC_LEAVE_EPOCH:
            raise UnreleasedInstanceId(
                f"Static member {member_id} with instance id {instance_id} cannot join the group "
                f"because the instance id is owned by {former.member_id} member."
            )
        member = replace(former, member_id=member_id, epoch=0, previous_epoch=0)
        group_id = group.group_id
        records += removed_member(group_id, former.member_id)
        records.append(member_record(group_id, member))
        target = group.target_of(former)
        records.append(target_record(group_id, member_id, target))
        records.append(assignment_record(group_id, member))
        return member

    # Its subscription

    def update_member(
        self,
        group: ConsumerGroup,
        old: ConsumerMember,
        new: ConsumerMember,
        caller: Caller,
        now_ms: int,
        records: list[GroupRecord],
    ) -> tuple[int, bool]:
        """The group's epoch from now on, and whether the subscription of the member has changed."""
        if new != old:
            records.append(member_record(group.group_id, new))
        names_changed = new.subscribed_topics != old.subscribed_topics
        regex = self.regexes.update(group, old, new, caller, now_ms, records)
        epoch_grows = names_changed or regex is RegexChange.CHANGED_AND_RESOLVED
        epoch = group.epoch
        if epoch_grows or self._topics_may_have_changed(group):
            epoch = self._check_topics(group, new, records, epoch_grows=epoch_grows)
        return epoch, names_changed or regex is not RegexChange.NONE

    def _topics_may_have_changed(self, group: ConsumerGroup) -> bool:
        """Whether there is newer metadata, or the epoch that saw this one was not stored."""
        if group.seen is None:
            return True
        topics, epoch = group.seen
        return topics is not self._context.image.topics or group.epoch < epoch

    def _check_topics(
        self,
        group: ConsumerGroup,
        new: ConsumerMember,
        records: list[GroupRecord],
        *,
        epoch_grows: bool,
    ) -> int:
        former = group.members.get(new.member_id) or group.static_member(new.instance_id)
        metadata_hash = self._context.metadata_hash(group.topics_with(former, new))
        epoch = group.epoch
        if epoch_grows or metadata_hash != group.metadata_hash:
            epoch += 1
            records.append(epoch_record(group.group_id, epoch, metadata_hash))
        group.seen = (self._context.image.topics, epoch)
        if group.has_old_metadata:
            records.append(old_metadata_tombstone(group.group_id))
        return epoch

    # Its assignment

    def reconcile(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        target: Target,
        owned: Partitions | None,
        records: list[GroupRecord],
        *,
        changed: bool,
    ) -> ConsumerMember:
        if not changed and member.is_reconciled_to(target.epoch):
            return member
        reconciliation = Reconciliation(
            target=target.partitions,
            target_epoch=target.epoch,
            subscribed=self._context.topic_ids(group.topics_of(member)),
            is_owned=lambda topic_id, partition: (topic_id, partition) in group.owners,
            reported=owned,
        )
        reconciled = reconciliation.step(member, subscription_changed=changed)
        if reconciled == member:
            return member
        records.append(assignment_record(group.group_id, reconciled))
        if not reconciled.is_classic:
            if reconciled.state is MemberState.UNREVOKED_PARTITIONS:
                self._sessions.expect_revocation(group.group_id, reconciled)
            else:
                self._sessions.revoked(group.group_id, reconciled.member_id)
        return reconciled

    # Leaving

    def _leave(self, request: ConsumerGroupHeartbeatRequest) -> Beat:
        group = self._context.existing(request.group_id)
        response = ConsumerGroupHeartbeatResponse(
            member_id=request.member_id, member_epoch=request.member_epoch, assignment=None
        )
        if request.instance_id is None:
            member = group.member(request.member_id)
        else:
            member = static_member(group, request.member_id, request.instance_id)
            if request.member_epoch == STATIC_LEAVE_EPOCH:
                resting = replace(member, epoch=STATIC_LEAVE_EPOCH, revoking=NOTHING)
                return Outcome([assignment_record(group.group_id, resting)], response)
        return self._sessions.fence(group, [member], response)


def static_member(group: ConsumerGroup, member_id: str, instance_id: str) -> ConsumerMember:
    member = group.static_member(instance_id)
    if member is None:
        raise UnknownMemberId(f"Instance id {instance_id} is unknown.")
    if member.member_id != member_id:
        raise FencedInstanceId(
            f"Static member {member_id} with instance id {instance_id} was fenced by member "
            f"{member.member_id}."
        )
    return member


def _check_epoch(member: ConsumerMember, request: ConsumerGroupHeartbeatRequest) -> None:
    """The epoch must be the member's; the one before it, if our last answer may be lost."""
    epoch = request.member_epoch
    if epoch in (JOIN_EPOCH, member.epoch):
        return
    what = "greater"
    if epoch < member.epoch:
        owned = None if request.topic_partitions is None else reported(request.topic_partitions)
        if epoch == member.previous_epoch and is_subset(owned, member.assigned):
            return
        what = "smaller"
    raise FencedMemberEpoch(
        f"The consumer group member has a {what} member epoch ({epoch}) than the one known by the "
        f"group coordinator ({member.epoch}). The member must abandon all its partitions and "
        "rejoin."
    )


def _updated(
    member: ConsumerMember, request: ConsumerGroupHeartbeatRequest, caller: Caller
) -> ConsumerMember:
    """What the request says counts, and where it says nothing, what was known."""
    topics, regex = member.subscribed_topics, member.subscribed_regex
    if request.subscribed_topic_names is not None:
        topics = frozenset(request.subscribed_topic_names)
    if request.subscribed_topic_regex is not None:
        regex = request.subscribed_topic_regex
    timeout_ms = request.rebalance_timeout_ms
    return replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        server_assignor=request.server_assignor or member.server_assignor,
        subscribed_topics=topics,
        subscribed_regex=regex,
        client_id=caller.client_id,
        client_host=caller.client_host,
        classic=None,
    )


def _is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether the member says everything, as it does after an error: then it hears everything."""
    return (
        request.rebalance_timeout_ms != -1
        and (
            request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
        )
        and request.topic_partitions is not None
    )


def _has_other_partitions(old: ConsumerMember, new: ConsumerMember) -> bool:
    return {topic_id: set(each) for topic_id, each in old.assigned.items()} != {
        topic_id: set(each) for topic_id, each in new.assigned.items()
    }


def _assignment(member: ConsumerMember) -> Assignment:
    return Assignment(
        topic_partitions=[
            ConsumerGroupHeartbeatResponseTopicPartitions(
                topic_id=topic_id, partitions=sorted(member.assigned[topic_id])
            )
            for topic_id in sorted(member.assigned)
        ]
    )

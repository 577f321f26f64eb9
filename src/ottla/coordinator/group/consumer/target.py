"""The target assignment: who is to have what, once everybody has reached the group's epoch.

It is made when a heartbeat finds that the group epoch has grown beyond it, but not more often than
the assignment interval allows (KIP-1263): of twenty members that come within a second, most wait
for one assignment with all of them. Only the differences are written.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from ottla.coordinator.group.assignors import range as range_assignor
from ottla.coordinator.group.assignors import uniform as uniform_assignor
from ottla.coordinator.group.assignors.specification import (
    NO_PARTITIONS,
    Assign,
    GroupSpecification,
    MemberSpecification,
    Partitions,
)
from ottla.coordinator.group.consumer.context import ConsumerContext
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.member import ConsumerMember
from ottla.coordinator.group.consumer.records import target_epoch_record, target_record
from ottla.coordinator.group.records import GroupRecord

ASSIGNORS: Final[dict[str, Assign]] = {
    uniform_assignor.NAME: uniform_assignor.assign,
    range_assignor.NAME: range_assignor.assign,
}


class Target(NamedTuple):
    """What one member is to have, and the epoch of that."""

    epoch: int
    partitions: Partitions


def update_target(
    context: ConsumerContext,
    group: ConsumerGroup,
    epoch: int,
    member: ConsumerMember,
    now_ms: int,
    records: list[GroupRecord],
) -> Target:
    """The target of ``member``, which stands in the place of what the group has under its id."""
    if group.assignment_epoch >= epoch or not _may_assign(context, group, now_ms):
        return Target(group.assignment_epoch, group.target_of(member))
    old = group.members.get(member.member_id)
    former = group.static_member(member.instance_id)
    name = group.assignor_with(old or former, member) or context.settings.consumer_assignors[0]
    assigned = ASSIGNORS[name](_specification(context, group, member, former))
    for member_id, partitions in assigned.items():
        if partitions != group.targets.get(member_id):
            records.append(target_record(group.group_id, member_id, partitions))
    records.append(target_epoch_record(group.group_id, epoch, now_ms))
    return Target(epoch, assigned[member.member_id])


def _may_assign(context: ConsumerContext, group: ConsumerGroup, now_ms: int) -> bool:
    interval_ms = context.configs.of(group.group_id).assignment_interval_ms
    last_ms = group.assignment_timestamp_ms
    # By a clock that was set back, or is another broker's, the last may be in the future.
    return last_ms == 0 or interval_ms == 0 or not last_ms <= now_ms < last_ms + interval_ms


def _specification(
    context: ConsumerContext,
    group: ConsumerGroup,
    member: ConsumerMember,
    former: ConsumerMember | None,
) -> GroupSpecification:
    topic_ids: dict[tuple[frozenset[str], str], frozenset[bytes]] = {}

    def specify(each: ConsumerMember, assigned: Partitions) -> MemberSpecification:
        subscription = (each.subscribed_topics, each.subscribed_regex)
        if subscription not in topic_ids:
            topic_ids[subscription] = context.topic_ids(group.topics_of(each))
        return MemberSpecification(
            topic_ids[subscription], each.instance_id, each.rack_id, assigned
        )

    members = {
        each.member_id: specify(each, group.targets.get(each.member_id) or NO_PARTITIONS)
        for each in group.members.values()
    }
    if former is not None:
        members.pop(former.member_id)
    members[member.member_id] = specify(member, group.target_of(member))
    return GroupSpecification(members, _partition_counts(context, topic_ids.values()))


def _partition_counts(
    context: ConsumerContext, subscriptions: Iterable[frozenset[bytes]]
) -> dict[bytes, int]:
    by_id = context.image.topics.by_id
    wanted = sorted({topic_id for topic_ids in subscriptions for topic_id in topic_ids})
    return {topic_id: len(by_id[topic_id].partitions) for topic_id in wanted}

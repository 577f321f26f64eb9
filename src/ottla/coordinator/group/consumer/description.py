"""ConsumerGroupDescribe: a group as it is committed."""

from collections.abc import Iterable, Mapping
from typing import Final

from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.member import ConsumerMember
from ottla.metadata.topics import TopicsImage
from ottla.protocol.generated.consumer_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    TopicPartitions,
)

CONSUMER_MEMBER: Final = 1
CLASSIC_MEMBER: Final = 0


def describe_group(
    group: ConsumerGroup, default_assignor: str, topics: TopicsImage
) -> DescribedGroup:
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.committed_epoch,
        assignment_epoch=group.committed_assignment_epoch,
        assignor_name=group.committed_assignor or default_assignor,
        members=[_member(group, member, topics) for _, member in group.members.committed_items()],
    )


def _member(group: ConsumerGroup, member: ConsumerMember, topics: TopicsImage) -> Member:
    target = group.targets.committed(member.member_id) or {}
    owned: dict[bytes, list[int]] = {}
    for topic_id, partition in member.owned():  # what it gives up is still its own
        owned.setdefault(topic_id, []).append(partition)
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.subscribed_topics),
        subscribed_topic_regex=member.subscribed_regex,
        assignment=_assignment(owned, topics),
        target_assignment=_assignment(target, topics),
        member_type=CLASSIC_MEMBER if member.is_classic else CONSUMER_MEMBER,
    )


def _assignment(partitions: Mapping[bytes, Iterable[int]], topics: TopicsImage) -> Assignment:
    """Topics that are gone have no name to be told by."""
    return Assignment(
        topic_partitions=[
            TopicPartitions(
                topic_id=topic_id, topic_name=topic.name, partitions=sorted(partitions[topic_id])
            )
            for topic_id in sorted(partitions)
            if (topic := topics.by_id.get(topic_id)) is not None
        ]
    )

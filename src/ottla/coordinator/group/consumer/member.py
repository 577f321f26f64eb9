"""A member of a consumer group, as its records have it. Never changed: replaced by another.

``epoch`` says how far the member has come: it reaches the epoch of the target assignment when it
has given up all that it must. What it is still to give up is in ``revoking``; ``assigned`` is what
it may read. Each partition carries the epoch in which this member got it (KIP-1251): a commit from
an older epoch is good as long as the partition was already the member's then.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

from ottla.coordinator.group.assignors.specification import Partitions
from ottla.protocol.generated.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from ottla.protocol.generated.group_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupCurrentMemberAssignmentValueTopicPartitions,
    ConsumerGroupMemberMetadataValue,
)

Owned: TypeAlias = Mapping[bytes, Mapping[int, int]]
"""Partitions by topic id, each with the epoch in which it was given."""

NOTHING: Final[Owned] = {}
JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
STATIC_LEAVE_EPOCH: Final = -2
"""A static member that goes, and will be back."""
UNKNOWN_EPOCH: Final = -1


class MemberState(IntEnum):
    """By the numbers that records have for them."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    """It must give up partitions first."""
    UNRELEASED_PARTITIONS = 2
    """Others must give up partitions first."""
    UNKNOWN = 127


class ClassicClient(NamedTuple):
    """What is known of a member that speaks the classic protocol."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]

    @property
    def protocol_name(self) -> str:
        """What a member is told that the group has chosen: its own first one."""
        return self.protocols[0][0]


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    member_id: str
    epoch: int = 0
    previous_epoch: int = UNKNOWN_EPOCH
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    subscribed_topics: frozenset[str] = frozenset()
    subscribed_regex: str = ""
    server_assignor: str | None = None
    classic: ClassicClient | None = None
    assigned: Owned = field(default_factory=dict)
    revoking: Owned = field(default_factory=dict)

    @property
    def is_classic(self) -> bool:
        return self.classic is not None

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == epoch

    def epoch_of(self, topic_id: bytes, partition: int) -> int | None:
        """Since when the partition is, or until it is given up was, this member's; None if not."""
        for owned in (self.assigned, self.revoking):
            epoch = owned.get(topic_id, {}).get(partition)
            if epoch is not None:
                return epoch
        return None

    def owned(self) -> list[tuple[bytes, int]]:
        """Every partition that nobody else may have."""
        return [
            (topic_id, partition)
            for owned in (self.assigned, self.revoking)
            for topic_id, partitions in owned.items()
            for partition in partitions
        ]

    # Records

    def with_metadata(self, value: ConsumerGroupMemberMetadataValue) -> "ConsumerMember":
        classic = None
        known = value.classic_member_metadata
        if known is not None and known.supported_protocols:
            protocols = tuple((each.name, each.metadata) for each in known.supported_protocols)
            classic = ClassicClient(known.session_timeout_ms, protocols)
        return replace(
            self,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            subscribed_topics=frozenset(value.subscribed_topic_names),
            subscribed_regex=value.subscribed_topic_regex or "",
            server_assignor=value.server_assignor,
            classic=classic,
        )

    def metadata_value(self) -> ConsumerGroupMemberMetadataValue:
        classic = None
        if self.classic is not None:
            classic = ClassicMemberMetadata(
                session_timeout_ms=self.classic.session_timeout_ms,
                supported_protocols=[
                    ClassicProtocol(name=name, metadata=metadata)
                    for name, metadata in self.classic.protocols
                ],
            )
        return ConsumerGroupMemberMetadataValue(
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            subscribed_topic_names=sorted(self.subscribed_topics),
            subscribed_topic_regex=self.subscribed_regex,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            server_assignor=self.server_assignor,
            classic_member_metadata=classic,
        )

    def with_assignment(self, value: ConsumerGroupCurrentMemberAssignmentValue) -> "ConsumerMember":
        try:
            state = MemberState(value.state)
        except ValueError:
            state = MemberState.UNKNOWN
        return replace(
            self,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=state,
            assigned=_owned(value.assigned_partitions, value.member_epoch),
            revoking=_owned(value.partitions_pending_revocation, value.member_epoch),
        )

    def without_assignment(self) -> "ConsumerMember":
        """As it is when its assignment has a tombstone: it is about to go."""
        return replace(
            self,
            epoch=LEAVE_EPOCH,
            previous_epoch=LEAVE_EPOCH,
            assigned=NOTHING,
            revoking=NOTHING,
        )

    def assignment_value(self) -> ConsumerGroupCurrentMemberAssignmentValue:
        return ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=self.epoch,
            previous_member_epoch=self.previous_epoch,
            state=int(self.state),
            assigned_partitions=_topic_partitions(self.assigned),
            partitions_pending_revocation=_topic_partitions(self.revoking),
        )


def _owned(
    topics: Iterable[ConsumerGroupCurrentMemberAssignmentValueTopicPartitions], epoch: int
) -> Owned:
    """From a record; one that says nothing of epochs was written before there were any."""
    return {
        topic.topic_id: dict(
            zip(
                topic.partitions,
                topic.assignment_epochs or [epoch] * len(topic.partitions),
                strict=True,
            )
        )
        for topic in topics
    }


def _topic_partitions(
    owned: Owned,
) -> list[ConsumerGroupCurrentMemberAssignmentValueTopicPartitions]:
    return [
        ConsumerGroupCurrentMemberAssignmentValueTopicPartitions(
            topic_id=topic_id,
            partitions=sorted(owned[topic_id]),
            assignment_epochs=[owned[topic_id][each] for each in sorted(owned[topic_id])],
        )
        for topic_id in sorted(owned)
    ]


def reported(topics: Iterable[ConsumerGroupHeartbeatRequestTopicPartitions]) -> Partitions:
    """The partitions that a heartbeat says its member has."""
    found: dict[bytes, frozenset[int]] = {}
    for topic in topics:
        found[topic.topic_id] = found.get(topic.topic_id, frozenset()) | frozenset(topic.partitions)
    return found


def is_subset(owned: Partitions | None, assigned: Owned) -> bool:
    """Whether a member has nothing but what it was given; not when it does not say."""
    if owned is None:
        return False
    return all(
        partitions <= assigned.get(topic_id, {}).keys() for topic_id, partitions in owned.items()
    )

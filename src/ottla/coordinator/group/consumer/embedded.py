"""The consumer protocol that is embedded in the classic one: subscriptions and assignments.

They are bytes to the classic protocol, begin with a version, and name topics, not ids. Whatever is
wrong with them raises ProtocolViolation.
"""

from struct import error as StructError  # noqa: N812 - it is one
from struct import pack, unpack_from

from ottla.common.errors import ProtocolViolation
from ottla.coordinator.group.assignors.specification import Partitions
from ottla.metadata.topics import TopicsImage
from ottla.protocol.generated.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
)
from ottla.protocol.generated.consumer_protocol_assignment import (
    TopicPartition as AssignedTopic,
)
from ottla.protocol.generated.consumer_protocol_subscription import ConsumerProtocolSubscription
from ottla.protocol.message import from_buffer, to_bytes


class CustomAssignor(Exception):
    """An assignment carries data of an assignor that we know nothing of."""


def assignment_version(subscription: bytes) -> int:
    """The version in which the member speaks, or the highest that we know."""
    return min(_version(subscription), ConsumerProtocolAssignment.HIGHEST_VERSION)


def _version(data: bytes) -> int:
    try:
        (version,) = unpack_from(">h", data)
    except StructError:
        raise ProtocolViolation("an embedded protocol without a version") from None
    if version < 0:
        raise ProtocolViolation(f"an embedded protocol of version {version}")
    return int(version)


def read_subscription(data: bytes) -> ConsumerProtocolSubscription:
    """Of a later version we read what we know; the rest comes behind it."""
    version = min(_version(data), ConsumerProtocolSubscription.HIGHEST_VERSION)
    return from_buffer(ConsumerProtocolSubscription, data, 2, version)[0]


def read_assignment(data: bytes, topics: TopicsImage) -> Partitions:
    """The partitions of topics that still exist."""
    if not data:
        return {}
    version = min(_version(data), ConsumerProtocolAssignment.HIGHEST_VERSION)
    assignment = from_buffer(ConsumerProtocolAssignment, data, 2, version)[0]
    if assignment.user_data:
        raise CustomAssignor
    return {
        topic.topic_id: frozenset(each.partitions)
        for each in assignment.assigned_partitions
        if (topic := topics.by_name.get(each.topic)) is not None and each.partitions
    }


def owned_partitions(subscription: ConsumerProtocolSubscription, topics: TopicsImage) -> Partitions:
    """What a member says that it has when it joins."""
    return {
        topic.topic_id: frozenset(each.partitions)
        for each in subscription.owned_partitions
        if (topic := topics.by_name.get(each.topic)) is not None
    }


def assignment_bytes(partitions: Partitions, topics: TopicsImage, version: int) -> bytes:
    """With its version before it."""
    assigned = [
        AssignedTopic(topic=topic.name, partitions=sorted(partitions[topic_id]))
        for topic_id in sorted(partitions)
        if (topic := topics.by_id.get(topic_id)) is not None
    ]
    body = ConsumerProtocolAssignment(assigned_partitions=assigned)
    return pack(">h", version) + to_bytes(body, version)

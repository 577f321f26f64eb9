"""Throttles of replication while replicas move, as Apache's tool sets and clears them.

A rate on every broker that takes part, and on the topics the list of replicas that it holds for:
leaders' sides are the replicas that were there, followers' sides those that come.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ottla.client.admin import Admin
from ottla.client.descriptions import ConfigChange, ConfigOperation, ConfigResource, ResourceType
from ottla.client.placement import Move
from ottla.client.reassignments import Reassignment
from ottla.common.topic_partition import TopicPartition

RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
REPLICAS: Final = (
    "leader.replication.throttled.replicas",
    "follower.replication.throttled.replicas",
)

Changes = dict[ConfigResource, Sequence[ConfigChange]]


def with_ongoing(
    moves: Iterable[Move], ongoing: Mapping[TopicPartition, Reassignment]
) -> list[Move]:
    """The moves, seen from where replicas were before those that go on already."""
    merged = {
        partition: Move(
            partition,
            [each for each in going.replicas if each not in going.adding],
            [each for each in going.replicas if each not in going.removing],
        )
        for partition, going in ongoing.items()
    }
    for move in moves:
        before = merged[move.partition].before if move.partition in merged else move.before
        merged[move.partition] = Move(move.partition, before, move.after)
    return [merged[partition] for partition in sorted(merged)]


def throttle_changes(moves: Iterable[Move], rate: int) -> Changes:
    """Which settings hold the moves to so many bytes in a second."""
    brokers: set[int] = set()
    leaders: dict[str, list[str]] = {}
    followers: dict[str, list[str]] = {}
    for move in moves:
        topic, partition = move.partition
        brokers.update(move.before, move.after)
        leaders.setdefault(topic, []).extend(f"{partition}:{each}" for each in move.before)
        followers.setdefault(topic, []).extend(f"{partition}:{each}" for each in move.adding)
    changes: Changes = {
        ConfigResource(ResourceType.TOPIC, topic): [
            ConfigChange(name, ",".join(sides[topic]))
            for name, sides in zip(REPLICAS, (leaders, followers), strict=True)
            if sides[topic]
        ]
        for topic in sorted(leaders)
    }
    for broker in sorted(brokers):
        resource = ConfigResource(ResourceType.BROKER, str(broker))
        changes[resource] = [ConfigChange(name, str(rate)) for name in RATES]
    return changes


def clear_throttles(admin: Admin, topics: Iterable[str]) -> list[int]:
    """Take the throttles of these topics and of all brokers away; the brokers."""
    known = admin.cluster.refresh(None)
    brokers = sorted(known.brokers)
    changes: Changes = {
        ConfigResource(ResourceType.TOPIC, topic): _deleted(REPLICAS)
        for topic in sorted(set(topics))
        if topic in known.topics
    }
    for broker in brokers:
        changes[ConfigResource(ResourceType.BROKER, str(broker))] = _deleted(RATES)
    admin.alter_configs(changes)
    return brokers


def _deleted(names: Iterable[str]) -> list[ConfigChange]:
    return [ConfigChange(name, operation=ConfigOperation.DELETE) for name in names]

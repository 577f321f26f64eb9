"""What an assignor is told, and what it answers."""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

Partitions: TypeAlias = Mapping[bytes, frozenset[int]]
"""Partitions by topic id; a topic without any is not in it."""

NO_PARTITIONS: Final[Partitions] = {}


class MemberSpecification(NamedTuple):
    topic_ids: frozenset[bytes]
    """Of what it is subscribed to and what exists."""
    instance_id: str | None = None
    rack_id: str | None = None
    assigned: Partitions = NO_PARTITIONS
    """What it was to have so far."""


class GroupSpecification(NamedTuple):
    members: Mapping[str, MemberSpecification]
    partition_counts: Mapping[bytes, int]
    """Of every topic to which somebody is subscribed."""


Assign: TypeAlias = Callable[[GroupSpecification], dict[str, Partitions]]


def subscribers(group: GroupSpecification) -> dict[bytes, list[str]]:
    """The members of each topic, both in a fixed order."""
    found: dict[bytes, list[str]] = {topic_id: [] for topic_id in sorted(group.partition_counts)}
    for member_id in sorted(group.members):
        for topic_id in group.members[member_id].topic_ids:
            found[topic_id].append(member_id)
    return {topic_id: members for topic_id, members in found.items() if members}

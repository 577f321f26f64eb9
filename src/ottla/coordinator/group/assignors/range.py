"""The range assignor: of each topic, every subscriber has a run of neighbouring partitions.

Topics of the same size and with the same subscribers are cut alike, so that a member has the same
partitions of all of them and can join them. Static members come first, in the order of their
instance ids: they keep their place when they come back as another member.
"""

from typing import Final

from ottla.coordinator.group.assignors.specification import (
    GroupSpecification,
    Partitions,
    subscribers,
)

NAME: Final = "range"


def assign(group: GroupSpecification) -> dict[str, Partitions]:
    def place(member_id: str) -> tuple[bool, str]:
        instance_id = group.members[member_id].instance_id
        return (False, instance_id) if instance_id is not None else (True, member_id)

    assigned: dict[str, dict[bytes, frozenset[int]]] = {each: {} for each in group.members}
    for topic_id, members in subscribers(group).items():
        quota, extra = divmod(group.partition_counts[topic_id], len(members))
        start = 0
        for index, member_id in enumerate(sorted(members, key=place)):
            end = start + quota + (index < extra)
            if start < end:
                assigned[member_id][topic_id] = frozenset(range(start, end))
            start = end
    return dict(assigned)

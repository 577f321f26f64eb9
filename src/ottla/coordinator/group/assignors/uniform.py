"""The uniform assignor: everybody has as many partitions as the others, and keeps what it has.

Balance comes before keeping. With equal subscriptions no two members differ by more than one
partition; with different ones, no partition could go to a member that has two fewer than its owner
(after ``ROUNDS_MAX`` rounds this is only nearly so).

Among members that may have one more than the rest, those that have most already come first. Kafka
takes them in any order, and so moves a partition now and then that could have stayed.
"""

from heapq import heapify, heappop, heappush
from typing import Final

from ottla.coordinator.group.assignors.specification import (
    GroupSpecification,
    Partitions,
    subscribers,
)

NAME: Final = "uniform"
ROUNDS_MAX: Final = 16


def assign(group: GroupSpecification) -> dict[str, Partitions]:
    subscriptions = {member.topic_ids for member in group.members.values()}
    draft = _Draft(group)
    if len(subscriptions) == 1:
        draft.trim()
    draft.hand_out()
    if len(subscriptions) > 1:
        draft.balance()
    return draft.result()


class _Draft:
    def __init__(self, group: GroupSpecification) -> None:
        self._group = group
        self._subscribers = subscribers(group)
        self._owners: dict[bytes, dict[int, str]] = {topic_id: {} for topic_id in self._subscribers}
        self._load = dict.fromkeys(sorted(group.members), 0)
        for member_id in self._load:
            self._keep(member_id)

    def _keep(self, member_id: str) -> None:
        """Begin with what the member has, as far as it may still have it."""
        member = self._group.members[member_id]
        for topic_id in sorted(member.assigned):
            if topic_id not in member.topic_ids:
                continue
            owners = self._owners[topic_id]
            for partition in sorted(member.assigned[topic_id]):
                if partition < self._group.partition_counts[topic_id] and partition not in owners:
                    self._give(topic_id, partition, member_id)

    def _give(self, topic_id: bytes, partition: int, member_id: str) -> None:
        self._owners[topic_id][partition] = member_id
        self._load[member_id] += 1

    def trim(self) -> None:
        """Take away what is more than a fair share, where all have the same subscription."""
        total = sum(self._group.partition_counts[topic_id] for topic_id in self._subscribers)
        quota, extra = divmod(total, len(self._load))
        by_load = sorted(self._load, key=lambda member_id: (-self._load[member_id], member_id))
        quotas = {each: quota + (index < extra) for index, each in enumerate(by_load)}
        for topic_id in reversed(self._owners):
            owners = self._owners[topic_id]
            for partition in sorted(owners, reverse=True):
                member_id = owners[partition]
                if self._load[member_id] > quotas[member_id]:
                    del owners[partition]
                    self._load[member_id] -= 1

    def hand_out(self) -> None:
        """Give what nobody has to members that have least; crowded topics have the least choice."""
        for topic_id in sorted(self._subscribers, key=self._scarcity):
            owners = self._owners[topic_id]
            heap = [(self._load[each], each) for each in self._subscribers[topic_id]]
            heapify(heap)
            for partition in range(self._group.partition_counts[topic_id]):
                if partition not in owners:
                    load, member_id = heappop(heap)
                    self._give(topic_id, partition, member_id)
                    heappush(heap, (load + 1, member_id))

    def _scarcity(self, topic_id: bytes) -> tuple[float, int, bytes]:
        count = len(self._subscribers[topic_id])
        return (-self._group.partition_counts[topic_id] / count, count, topic_id)

    def balance(self) -> None:
        topics = [each for each in self._subscribers if len(self._subscribers[each]) > 1]
        topics.sort(key=self._scarcity)
        for _ in range(ROUNDS_MAX):
            if not sum(self._balance_topic(topic_id) for topic_id in topics):
                return

    def _balance_topic(self, topic_id: bytes) -> int:
        """Move partitions from the fullest to the emptiest member; return how many were moved."""
        owned: dict[str, list[int]] = {}
        for partition, member_id in sorted(self._owners[topic_id].items()):
            owned.setdefault(member_id, []).append(partition)
        least = [(self._load[each], each) for each in self._subscribers[topic_id]]
        most = [(-self._load[each], each) for each in owned]
        heapify(least)
        heapify(most)
        moved = 0
        while most:
            load, giver = most[0]
            if -load != self._load[giver] or not owned[giver]:
                heappop(most)
                if owned[giver] and -load > self._load[giver]:
                    heappush(most, (-self._load[giver], giver))
                continue
            while least[0][0] != self._load[least[0][1]]:
                _, stale = heappop(least)
                heappush(least, (self._load[stale], stale))
            taker = least[0][1]
            if self._load[giver] - self._load[taker] <= 1:
                break
            self._load[giver] -= 1
            self._give(topic_id, owned[giver].pop(), taker)
            moved += 1
        return moved

    def result(self) -> dict[str, Partitions]:
        found: dict[str, dict[bytes, set[int]]] = {member_id: {} for member_id in self._load}
        for topic_id, owners in self._owners.items():
            for partition, member_id in owners.items():
                found[member_id].setdefault(topic_id, set()).add(partition)
        return {
            member_id: {topic_id: frozenset(each) for topic_id, each in topics.items()}
            for member_id, topics in found.items()
        }

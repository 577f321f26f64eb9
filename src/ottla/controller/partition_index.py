"""Which partitions concern a broker, an election or a reassignment, without looking at all of them.

Made from an image, and then moved along with it: the work is that of what changed. Partitions are
named by topic id and index; they come in the order in which topics came into the index, so that
the same history makes the same records.
"""

from collections import Counter
from collections.abc import Iterator
from typing import TypeAlias

from ottla.metadata.topics import NO_LEADER, PartitionImage, TopicsDelta, TopicsImage

PartitionKey: TypeAlias = tuple[bytes, int]
"""Topic id and partition index."""


class PartitionSet:
    """Partitions by topic."""

    __slots__ = ("_topics",)

    def __init__(self) -> None:
        self._topics: dict[bytes, set[int]] = {}

    def __iter__(self) -> Iterator[PartitionKey]:
        for topic_id, partition_ids in self._topics.items():
            for partition_id in sorted(partition_ids):
                yield topic_id, partition_id

    def __bool__(self) -> bool:
        return bool(self._topics)

    def add(self, topic_id: bytes, partition_id: int) -> None:
        self._topics.setdefault(topic_id, set()).add(partition_id)

    def remove(self, topic_id: bytes, partition_id: int) -> None:
        partition_ids = self._topics[topic_id]
        partition_ids.remove(partition_id)
        if not partition_ids:
            del self._topics[topic_id]


_NONE = PartitionSet()


class PartitionIndex:
    """The partitions of one version of the topics; ``advance`` takes it to the next."""

    __slots__ = ("_elr", "_isr", "_led", "imbalanced", "leaderless", "reassigning")

    def __init__(self, topics: TopicsImage) -> None:
        self._isr: dict[int, PartitionSet] = {}
        self._elr: dict[int, PartitionSet] = {}
        self._led: Counter[int] = Counter()
        self.leaderless = PartitionSet()
        self.imbalanced = PartitionSet()
        """Those that are not led by their preferred replica."""
        self.reassigning = PartitionSet()
        for topic in topics:
            for partition_id, partition in topic.partitions.items():
                self._add(topic.topic_id, partition_id, partition)

    def in_isr(self, broker_id: int) -> PartitionSet:
        return self._isr.get(broker_id, _NONE)

    def in_elr(self, broker_id: int) -> PartitionSet:
        return self._elr.get(broker_id, _NONE)

    def leads(self, broker_id: int) -> bool:
        return self._led[broker_id] > 0

    def advance(self, delta: TopicsDelta) -> None:
        """Follow a change of the topics that this is the index of."""
        for topic_id, topic in delta.deleted.items():
            for partition_id, partition in topic.partitions.items():
                self._remove(topic_id, partition_id, partition)
        for topic_id, changed in delta.changed.items():
            for partition_id, partition in changed.changed.items():
                before = changed.before(partition_id)
                if before is not None:
                    self._remove(topic_id, partition_id, before)
                self._add(topic_id, partition_id, partition)

    def _add(self, topic_id: bytes, partition_id: int, partition: PartitionImage) -> None:
        self._led[partition.leader] += 1
        for broker_id in partition.isr:
            self._isr.setdefault(broker_id, PartitionSet()).add(topic_id, partition_id)
        for broker_id in partition.elr:
            self._elr.setdefault(broker_id, PartitionSet()).add(topic_id, partition_id)
        for partitions in self._kinds(partition):
            partitions.add(topic_id, partition_id)

    def _remove(self, topic_id: bytes, partition_id: int, partition: PartitionImage) -> None:
        self._led[partition.leader] -= 1
        for broker_id in partition.isr:
            self._isr[broker_id].remove(topic_id, partition_id)
        for broker_id in partition.elr:
            self._elr[broker_id].remove(topic_id, partition_id)
        for partitions in self._kinds(partition):
            partitions.remove(topic_id, partition_id)

    def _kinds(self, partition: PartitionImage) -> Iterator[PartitionSet]:
        if partition.leader == NO_LEADER:
            yield self.leaderless
        if partition.leader != partition.preferred_replica:
            yield self.imbalanced
        if partition.is_reassigning:
            yield self.reassigning

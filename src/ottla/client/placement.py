"""Where replicas should lie: spread over brokers and racks, with few moves.

Pure. A replica moves when its broker is not to hold it any more, when its rack has another one
while some rack has none, or when that makes the load more even: the sum of the squares of what each
broker holds, of everything and of the topic, must get smaller by it. Which replica comes first, and
so leads, is balanced afterwards, which moves nothing.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from ottla.common.topic_partition import TopicPartition

Assignment = dict[TopicPartition, list[int]]


class NotPlaceable(ValueError):
    """There are fewer brokers than replicas."""


class Placement:
    """One plan in the making: call :meth:`plan` once."""

    def __init__(
        self,
        current: Mapping[TopicPartition, Sequence[int]],
        racks: Mapping[int, str | None],
        brokers: Iterable[int],
    ) -> None:
        """``current`` is the whole cluster; ``brokers`` are those that may hold replicas."""
        self._current = current
        self._brokers = sorted(set(brokers))
        whole = all(racks.get(broker) is not None for broker in self._brokers)
        self._rack = {broker: racks.get(broker) if whole else None for broker in self._brokers}
        self._load = Counter(broker for replicas in current.values() for broker in replicas)
        self._topic_load = Counter(
            (partition.topic, broker) for partition, held in current.items() for broker in held
        )
        self._leads = Counter(replicas[0] for replicas in current.values() if replicas)
        self._planned: Assignment = {}

    def plan(
        self,
        partitions: Iterable[TopicPartition],
        *,
        replication_factor: int | None = None,
        balance: bool = True,
    ) -> Assignment:
        """New replicas of these partitions; without ``balance`` only what must move does."""
        for partition in sorted(partitions):
            held = list(self._current[partition])
            wanted = replication_factor or len(held)
            if wanted > len(self._brokers):
                raise NotPlaceable(
                    f"{partition} shall have {wanted} replicas and there are "
                    f"{len(self._brokers)} brokers for them"
                )
            self._planned[partition] = held
            self._keep_allowed(partition, wanted)
        for partition in self._planned:
            self._spread_racks(partition)
        if balance:
            self._repeat(self._even_out)
        self._repeat(self._even_out_leader)
        return self._planned

    def _repeat(self, improve: Callable[[TopicPartition], bool]) -> None:
        """Go round until nothing gets better; each step lowers a sum of squares, so it ends."""
        improved = True
        while improved:
            improved = sum(improve(partition) for partition in self._planned) > 0

    def _keep_allowed(self, partition: TopicPartition, wanted: int) -> None:
        """Shorten, replace those that may not stay where they stand, lengthen."""
        replicas = self._planned[partition]
        while len(replicas) > wanted:
            self._drop(partition)
        for broker in list(replicas):
            if broker not in self._rack:
                self._move(partition, broker, self._choose(partition))
        while len(replicas) < wanted:
            added = self._choose(partition)
            replicas.append(added)
            self._count(partition, added, 1)

    def _drop(self, partition: TopicPartition) -> None:
        """Part with one: of brokers that may not stay, of a rack that has two, of the fullest."""
        replicas = self._planned[partition]
        racks = Counter(self._rack.get(broker) for broker in replicas)
        leaves = max(
            replicas,
            key=lambda broker: (
                broker not in self._rack,
                broker != replicas[0],
                racks[self._rack.get(broker)],
                self._load[broker],
                broker,
            ),
        )
        if leaves == replicas[0]:
            self._leads[leaves] -= 1
            self._leads[replicas[1]] += 1
        replicas.remove(leaves)
        self._count(partition, leaves, -1)

    def _choose(self, partition: TopicPartition, *, rack_of: int | None = None) -> int:
        """The best broker for one more replica, seen without the one on ``rack_of``."""
        replicas = self._planned[partition]
        racks = Counter(self._rack.get(each) for each in replicas if each != rack_of)
        return min(
            (broker for broker in self._brokers if broker not in replicas),
            key=lambda broker: (
                racks[self._rack[broker]],
                self._topic_load[partition.topic, broker],
                self._load[broker],
                broker,
            ),
        )

    def _spread_racks(self, partition: TopicPartition) -> None:
        replicas = self._planned[partition]
        for broker in reversed(list(replicas)):
            same = [each for each in replicas if self._rack[each] == self._rack[broker]]
            if len(same) < 2 or len(replicas) == len(self._brokers):
                continue
            better = self._choose(partition, rack_of=broker)
            if all(self._rack[each] != self._rack[better] for each in replicas):
                self._move(partition, broker, better)

    def _even_out(self, partition: TopicPartition) -> bool:
        """Make the move that evens out most, if there is one."""
        replicas = self._planned[partition]
        best: tuple[int, int, int] | None = None
        for source in replicas:
            for target in self._brokers:
                if target in replicas or not self._keeps_racks(replicas, source, target):
                    continue
                gain = self._gain(partition.topic, source, target)
                if gain > 0 and (best is None or gain > best[0]):
                    best = gain, source, target
        if best is None:
            return False
        self._move(partition, best[1], best[2])
        return True

    def _gain(self, topic: str, source: int, target: int) -> int:
        """By how much half the sum of squares shrinks."""
        overall = self._load[source] - self._load[target] - 1
        return overall + self._topic_load[topic, source] - self._topic_load[topic, target] - 1

    def _keeps_racks(self, replicas: Sequence[int], source: int, target: int) -> bool:
        before = {self._rack[each] for each in replicas}
        after = {self._rack[target]} | {self._rack[each] for each in replicas if each != source}
        return len(after) >= len(before)

    def _even_out_leader(self, partition: TopicPartition) -> bool:
        replicas = self._planned[partition]
        first = replicas[0]
        other = min(replicas, key=lambda broker: (self._leads[broker], replicas.index(broker)))
        if self._leads[first] - self._leads[other] < 2:
            return False
        at = replicas.index(other)
        replicas[0], replicas[at] = other, first
        self._leads[first] -= 1
        self._leads[other] += 1
        return True

    def _move(self, partition: TopicPartition, source: int, target: int) -> None:
        replicas = self._planned[partition]
        at = replicas.index(source)
        replicas[at] = target
        self._count(partition, source, -1)
        self._count(partition, target, 1)
        if at == 0:
            self._leads[source] -= 1
            self._leads[target] += 1

    def _count(self, partition: TopicPartition, broker: int, change: int) -> None:
        self._load[broker] += change
        self._topic_load[partition.topic, broker] += change


class Move(NamedTuple):
    """What a plan does to one partition."""

    partition: TopicPartition
    before: list[int]
    after: list[int]

    @property
    def adding(self) -> list[int]:
        return [broker for broker in self.after if broker not in self.before]


def changes(
    current: Mapping[TopicPartition, Sequence[int]], planned: Mapping[TopicPartition, Sequence[int]]
) -> list[Move]:
    """The partitions whose replicas, or their order, differ."""
    return [
        Move(partition, list(current[partition]), list(after))
        for partition, after in sorted(planned.items())
        if list(current[partition]) != list(after)
    ]

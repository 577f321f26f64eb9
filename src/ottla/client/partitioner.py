"""Which partition a record goes to, as Java's producer chooses.

Records with a key go by its hash, so that all clients agree where a key lives. Records without one
stay with a partition until its batch is full, then move on: fewer and larger batches.
"""

from ottla.client.metadata import TopicMetadata
from ottla.common.chance import Chance
from ottla.common.murmur import murmur2


def partition_of_key(key: bytes, partition_count: int) -> int:
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


class StickyPartitioner:
    """Chooses for records without a key, by lot, once per batch."""

    __slots__ = ("_chance", "_current")

    def __init__(self, chance: Chance) -> None:
        self._chance = chance
        self._current: dict[str, int] = {}

    def partition(self, topic: TopicMetadata) -> int:
        """The partition of the moment; a new one is drawn among those that have a leader."""
        current = self._current.get(topic.name)
        if current is None or current not in topic.partitions:
            led = [index for index, item in topic.partitions.items() if item.leader >= 0]
            current = self._chance.choose(led or list(topic.partitions))
            self._current[topic.name] = current
        return current

    def batch_is_full(self, topic: str, partition: int) -> None:
        """Move on with the next record."""
        if self._current.get(topic) == partition:
            del self._current[topic]

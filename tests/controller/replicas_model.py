"""What the replicas of partitions would hold, as far as the controller's decisions tell.

A record is committed when as many replicas are in sync as the minimum asks; then all of them hold
it. A broker that stops uncleanly may lose what it held. The elected replica must hold everything
that is committed, unless the election says that it is unclean: then what is missing is lost.
"""

from ottla.metadata.image import MetadataImage
from ottla.metadata.topics import NO_LEADER, RECOVERING, PartitionImage

Key = tuple[bytes, int]


class ReplicasModel:
    def __init__(self) -> None:
        self.committed: dict[Key, int] = {}
        self.held: dict[Key, dict[int, int]] = {}
        self._seen: dict[Key, PartitionImage] = {}

    def produce(self, key: Key, partition: PartitionImage, min_isr: int) -> None:
        """A record that is acknowledged when enough replicas are in sync."""
        if partition.leader == NO_LEADER or len(partition.isr) < min_isr:
            return
        self.committed[key] = self.committed.get(key, 0) + 1
        for replica in partition.isr:
            self.held.setdefault(key, {})[replica] = self.committed[key]

    def caught_up(self, key: Key, leader: int, isr: list[int]) -> None:
        """The leader has seen that these replicas have all that it has."""
        held = self.held.setdefault(key, {})
        for replica in isr:
            held[replica] = max(held.get(replica, 0), held.get(leader, 0))

    def lose(self, broker_id: int) -> None:
        """The disk of a broker comes back empty."""
        for held in self.held.values():
            held.pop(broker_id, None)

    def follow(self, image: MetadataImage, unclean_allowed: set[bytes]) -> None:
        """Check what the controller has decided, one result after the other."""
        seen = {}
        for topic in image.topics:
            for partition_id, partition in topic.partitions.items():
                key = (topic.topic_id, partition_id)
                seen[key] = partition
                before = self._seen.get(key)
                self._follow(key, before, partition, unclean=topic.topic_id in unclean_allowed)
        self._seen = seen

    def _follow(
        self, key: Key, before: PartitionImage | None, after: PartitionImage, *, unclean: bool
    ) -> None:
        held = self.held.setdefault(key, {})
        if (
            before is not None
            and after.leader not in (NO_LEADER, before.leader, *before.isr, *before.elr)
            and after.leader_recovery_state == RECOVERING
        ):
            assert unclean or after.leader in before.last_known_elr, (before, after)
            kept = held.get(after.leader, 0)
            self.committed[key] = min(self.committed.get(key, 0), kept)
            self.held[key] = held = {replica: min(had, kept) for replica, had in held.items()}
        for replica in (*after.isr, *after.elr):
            assert held.get(replica, 0) >= self.committed.get(key, 0), (before, after, held)
        for replica in [each for each in held if each not in after.replicas]:
            del held[replica]

"""One number for all the topics of a group: when it changes, the group must be assigned anew.

It covers of each topic that exists its id, name, partitions and the racks of their replicas
(KIP-1101), and stands in the record of the group's epoch. The bytes that are hashed are Kafka's.
"""

from collections.abc import Iterable
from struct import pack
from typing import Final

from ottla.common.xxh3 import xxh3_64
from ottla.metadata.image import MetadataImage
from ottla.metadata.topics import TopicImage

NO_TOPICS: Final = 0
_MAGIC: Final = b"\x00"
_CACHED_MAX: Final = 10_000


class TopicHashes:
    """The hashes of topics, each made once for each state of its topic."""

    __slots__ = ("_cache",)

    def __init__(self) -> None:
        self._cache: dict[str, tuple[TopicImage, int]] = {}

    def of_group(self, names: Iterable[str], image: MetadataImage) -> int:
        hashes = [
            self._of_topic(topic, image)
            for name in sorted(names)
            if (topic := image.topics.by_name.get(name)) is not None
        ]
        return xxh3_64(pack(f"<{len(hashes)}q", *hashes)) if hashes else NO_TOPICS

    def _of_topic(self, topic: TopicImage, image: MetadataImage) -> int:
        cached = self._cache.get(topic.name)
        if cached is not None and cached[0] is topic:
            return cached[1]
        value = topic_hash(topic, image)
        if len(self._cache) >= _CACHED_MAX:
            self._cache.clear()
        self._cache[topic.name] = (topic, value)
        return value


def topic_hash(topic: TopicImage, image: MetadataImage) -> int:
    parts = [
        _MAGIC,
        topic.topic_id[7::-1],
        topic.topic_id[:7:-1],
        _string(topic.name),
        pack("<i", len(topic.partitions)),
    ]
    for index in range(len(topic.partitions)):
        parts.append(pack("<i", index))
        for rack in _racks(topic, index, image):
            parts.append(pack("<i", len(rack)))
            parts.append(_string(rack))
    return xxh3_64(b"".join(parts))


def _racks(topic: TopicImage, partition: int, image: MetadataImage) -> list[str]:
    brokers = (image.brokers.get(replica) for replica in topic.partitions[partition].replicas)
    return sorted(broker.rack for broker in brokers if broker is not None and broker.rack)


def _string(text: str) -> bytes:
    """As Java's characters, and then how many they are."""
    units = text.encode("utf-16-le", "surrogatepass")
    return units + pack("<i", len(units) // 2)

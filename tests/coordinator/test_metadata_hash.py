"""The hash of a group's topics, as Apache Kafka 4.3.1 stores it."""

from dataclasses import replace
from struct import pack

from ottla.common.xxh3 import xxh3_64
from ottla.coordinator.group.consumer.metadata_hash import NO_TOPICS, TopicHashes, topic_hash
from ottla.metadata.brokers import BrokerImage
from ottla.metadata.image import MetadataImage
from ottla.metadata.topics import PartitionImage, TopicImage, TopicsImage


def partition(*replicas: int) -> PartitionImage:
    return PartitionImage(replicas, replicas, replicas[0], 0, 0, (bytes(16),) * len(replicas))


def broker(node_id: int, rack: str | None) -> BrokerImage:
    return BrokerImage(node_id, 0, bytes(16), {}, {}, rack, False, False, ())


def image(*topics: TopicImage) -> MetadataImage:
    by_name = {topic.name: topic for topic in topics}
    by_id = {topic.topic_id: topic for topic in topics}
    brokers = {1: broker(1, "r-a"), 2: broker(2, None)}
    return MetadataImage(offset=1, brokers=brokers, topics=TopicsImage(by_name, by_id))


TOPIC = TopicImage("topic-é", pack(">qq", 1, -2), {0: partition(2), 1: partition(1)})


def test_the_hash_of_a_topic_is_that_of_kafkas_library() -> None:
    assert topic_hash(TOPIC, image(TOPIC)) == 6_806_133_526_866_915_056


def test_the_hash_of_a_group_is_over_its_topics_in_order_of_their_names() -> None:
    other = TopicImage("another", pack(">qq", 3, 4), {0: partition(1)})
    cluster = image(TOPIC, other)
    hashes = [topic_hash(other, cluster), topic_hash(TOPIC, cluster)]
    expected = xxh3_64(pack("<2q", *hashes))
    assert TopicHashes().of_group([TOPIC.name, other.name], cluster) == expected


def test_topics_that_do_not_exist_do_not_count() -> None:
    hashes, cluster = TopicHashes(), image(TOPIC)
    assert hashes.of_group(["missing"], cluster) == NO_TOPICS
    assert hashes.of_group(["missing", TOPIC.name], cluster) == hashes.of_group(
        [TOPIC.name], cluster
    )


def test_partitions_racks_and_ids_make_another_hash() -> None:
    hashes = TopicHashes()
    before = hashes.of_group([TOPIC.name], image(TOPIC))
    grown = TopicImage(TOPIC.name, TOPIC.topic_id, {**TOPIC.partitions, 2: partition(1)})
    moved = TopicImage(TOPIC.name, TOPIC.topic_id, {0: partition(1), 1: partition(1)})
    anew = TopicImage(TOPIC.name, bytes(16), TOPIC.partitions)
    after = {hashes.of_group([TOPIC.name], image(topic)) for topic in (grown, moved, anew)}
    assert len(after | {before}) == 4


def test_a_change_elsewhere_leaves_the_hash_alone() -> None:
    hashes, cluster = TopicHashes(), image(TOPIC)
    before = hashes.of_group([TOPIC.name], cluster)
    assert hashes.of_group([TOPIC.name], replace(cluster, offset=9)) == before

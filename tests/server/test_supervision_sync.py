"""Whether a cluster is in sync, as a supervisor hears it of a process."""

from ottla.metadata.brokers import BrokerImage
from ottla.metadata.image import MetadataImage
from ottla.metadata.topics import PartitionImage, TopicImage, TopicsImage
from ottla.server.supervision.sync import PARTITIONS_PER_STEP, find_unrest


def broker(node_id: int, *, fenced: bool = False, stops: bool = False) -> BrokerImage:
    return BrokerImage(node_id, 1, bytes(16), {}, {}, None, fenced, stops, ())


def cluster(*partitions: PartitionImage, brokers: tuple[BrokerImage, ...] = ()) -> MetadataImage:
    topic = TopicImage("t", bytes(16), dict(enumerate(partitions)))
    known = brokers or (broker(1), broker(2))
    return MetadataImage(
        brokers={each.node_id: each for each in known},
        topics=TopicsImage({"t": topic}, {topic.topic_id: topic}),
    )


def partition(isr: tuple[int, ...] = (1, 2), leader: int = 1) -> PartitionImage:
    return PartitionImage((1, 2), isr, leader, 0, 0, (bytes(16),) * 2)


def unrest(image: MetadataImage) -> str | None:
    return next(filter(None, find_unrest(image)), None)


def test_a_cluster_is_in_sync_when_all_serve_and_all_replicas_are() -> None:
    assert unrest(cluster(partition(), partition())) is None
    assert unrest(cluster(partition(), partition((2,), 2))) == "t-1 has only [2] of [1, 2] in sync"
    assert unrest(cluster(partition((1,), -1))) == "t-0 has no leader"


def test_brokers_that_do_not_serve_are_unrest() -> None:
    for other in (broker(2, fenced=True), broker(2, stops=True)):
        image = cluster(partition(), brokers=(broker(1), other))
        assert unrest(image) == "broker 2 is fenced"


def test_many_partitions_are_looked_at_in_steps() -> None:
    many = [partition()] * (3 * PARTITIONS_PER_STEP)
    assert list(find_unrest(cluster(*many))) == [None] * 3
    found = list(find_unrest(cluster(*many, partition((1,)))))
    assert found[:3] == [None] * 3
    assert found[3] is not None

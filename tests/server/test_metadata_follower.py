"""What a broker makes of a change of the metadata: all of it, in an order that loses nothing."""

import logging

import pytest
from tests.replication.alone import FollowedNoted

from ottla.common.errors import NotLeaderOrFollower
from ottla.common.promise import Promise
from ottla.config.changes import Resource
from ottla.metadata.cache import MetadataCache
from ottla.metadata.delta import MetadataDelta
from ottla.protocol.generated.metadata_records import (
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from ottla.protocol.message import Message
from ottla.records.builder import build_batch
from ottla.records.record import Record
from ottla.records.rules import AppendOrigin
from ottla.replication.partition import Partition
from ottla.simulation.broker import SimulatedBroker

TOPIC_ID = bytes(15) + b"t"
OTHER_ID = bytes(15) + b"u"
MINIMUM = "min.insync.replicas"


class Metadata:
    """A broker, and a metadata log that says what a test wants: another broker, 2, is elected."""

    def __init__(self) -> None:
        self.broker = SimulatedBroker(1)
        self.broker.start()
        assert self.broker._node is not None
        self.cache: MetadataCache = self.broker._node.metadata
        replicas = self.broker._node.replicas
        assert replicas is not None
        self.replicas = replicas

    def change(self, *records: Message) -> None:
        image = self.cache.image
        delta = MetadataDelta(image)
        for record in records:
            delta.replay(record)  # type: ignore[arg-type]
        changed = delta.apply(image.offset + len(records), image.epoch, image.timestamp_ms)
        self.broker.scheduler.turn.run(self.cache.publish, changed, delta)

    def make(self, name: str, topic_id: bytes, partitions: int = 1) -> None:
        self.change(
            TopicRecord(name=name, topic_id=topic_id),
            minimum(name, 2),
            *(
                PartitionRecord(
                    partition_id=index,
                    topic_id=topic_id,
                    replicas=[1, 2],
                    isr=[1, 2],
                    leader=1,
                    leader_epoch=0,
                    partition_epoch=0,
                    directories=[bytes(16), bytes(16)],
                )
                for index in range(partitions)
            ),
        )

    def written(self, topic_id: bytes, index: int = 0) -> tuple[Partition, Promise[None]]:
        partition = (self.replicas.topic(topic_id) or {})[index]
        batch = bytes(build_batch([Record(value=b"v")]))
        partition.append_records(batch, AppendOrigin.CLIENT, 1)
        return partition, partition.when_committed(0)


def minimum(name: str, count: int) -> ConfigRecord:
    return ConfigRecord(
        resource_type=Resource.TOPIC, resource_name=name, name=MINIMUM, value=str(count)
    )


def other_leads(index: int, topic_id: bytes = TOPIC_ID) -> PartitionChangeRecord:
    return PartitionChangeRecord(partition_id=index, topic_id=topic_id, leader=2, isr=[2])


def test_a_lower_minimum_counts_when_it_is_known_that_another_leads() -> None:
    """The old leader would acknowledge by its old ISR what the new one does not have."""
    metadata = Metadata()
    metadata.make("t", TOPIC_ID)
    partition, committed = metadata.written(TOPIC_ID)
    metadata.change(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, isr=[1]))
    assert not committed.done
    metadata.change(minimum("t", 1), other_leads(0))
    assert partition.log.high_watermark == 0
    with pytest.raises(NotLeaderOrFollower):
        committed.result()
    metadata.change(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=1, isr=[1]))
    assert partition.log.high_watermark == 1


def test_a_lower_minimum_alone_commits() -> None:
    metadata = Metadata()
    metadata.make("t", TOPIC_ID)
    partition, committed = metadata.written(TOPIC_ID)
    metadata.change(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, isr=[1]))
    metadata.change(minimum("t", 1))
    assert (committed.done, partition.log.high_watermark) == (True, 1)


class Mistaken(FollowedNoted):
    def follow(self, partition: Partition) -> None:
        super().follow(partition)
        assert partition.index == 2, "a mistake with one partition"


def test_a_mistake_with_one_partition_leaves_none_of_the_others_untold(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    metadata = Metadata()
    metadata.make("t", TOPIC_ID, partitions=3)
    metadata.make("u", OTHER_ID)
    _, committed = metadata.written(TOPIC_ID, 2)
    followed = Mistaken()
    monkeypatch.setattr(metadata.replicas, "_followed", followed)
    heard: list[int] = []
    metadata.cache.on_image(lambda image, _: heard.append(image.offset))
    with caplog.at_level(logging.ERROR, "ottla"):
        metadata.change(
            RemoveTopicRecord(topic_id=OTHER_ID),
            minimum("t", 1),
            other_leads(0),
            other_leads(1),
            other_leads(2),
        )
    assert metadata.replicas.topic(OTHER_ID) is None
    states = (metadata.replicas.topic(TOPIC_ID) or {}).values()
    assert [each.leader for each in states] == [2, 2, 2]
    assert [each.min_insync_replicas for each in states] == [1, 1, 1]
    assert followed.followed == [0, 1, 2]
    with pytest.raises(NotLeaderOrFollower):
        committed.result()
    assert heard == [metadata.cache.image.offset], "who listens behind the broker hears of it"
    # Other tests may have left lower levels behind.
    (line,) = [each for each in caplog.records if each.levelno >= logging.ERROR]
    assert line.exc_info is not None
    error = line.exc_info[1]
    assert isinstance(error, AssertionError)
    assert len(error.__notes__) == 1

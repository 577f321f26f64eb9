"""What a broker's log says of its partitions: each change once, many in one line."""

import logging

import pytest
from tests.observability.lines import lines

from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import EMPTY_IMAGE, MetadataImage
from ottla.metadata.records import MetadataRecord
from ottla.protocol.generated import metadata_records as r
from ottla.server.role_changes import RoleChanges

TOPIC_ID = bytes(range(16))


class Broker:
    """Broker 1, with the partitions of a topic that asks for two replicas in sync."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO, "ottla")
        self.caplog = caplog
        self.image: MetadataImage = EMPTY_IMAGE
        self.changes = RoleChanges(1, lambda _topic: 2)

    def replay(self, *records: MetadataRecord) -> list[str]:
        """The lines that these records cause."""
        delta = MetadataDelta(self.image)
        for record in records:
            delta.replay(record)
        self.image = delta.apply(1, 1)
        self.caplog.clear()
        self.changes.changed(delta)
        return lines(self.caplog)

    def has(self, leader: int, *indexes: int) -> list[str]:
        """New partitions, replicated on 1, 2 and 3."""
        is_known = "t" in self.image.topics.by_name
        return self.replay(
            *([] if is_known else [r.TopicRecord(name="t", topic_id=TOPIC_ID)]),
            *[
                r.PartitionRecord(
                    partition_id=index,
                    topic_id=TOPIC_ID,
                    replicas=[1, 2, 3],
                    isr=[1, 2, 3],
                    leader=leader,
                    leader_epoch=0,
                    directories=[bytes(16)] * 3,
                )
                for index in indexes
            ],
        )

    def change(self, *indexes: int, **fields: object) -> list[str]:
        records = [
            r.PartitionChangeRecord(partition_id=index, topic_id=TOPIC_ID) for index in indexes
        ]
        for record in records:
            for name, value in fields.items():
                setattr(record, name, value)
        return self.replay(*records)


def test_one_partition_is_told_with_its_fields(caplog: pytest.LogCaptureFixture) -> None:
    broker = Broker(caplog)
    assert broker.has(1, 0) == ["INFO became leader partition=t-0 leader_epoch=0 isr=1,2,3"]
    (told,) = broker.change(0, leader=2)
    assert told == "INFO became follower partition=t-0 leader_epoch=1 leader=2"
    assert broker.change(0, leader=2) == [], "a new epoch of the same leader"
    (told,) = broker.change(0, leader=-1)
    assert told == "INFO became follower partition=t-0 leader_epoch=3 leader=none"
    (told,) = broker.change(0, leader=1)
    assert told == "INFO became leader partition=t-0 leader_epoch=4 isr=1,2,3"


def test_many_are_one_line(caplog: pytest.LogCaptureFixture) -> None:
    broker = Broker(caplog)
    first = "t-0,t-1,t-2,t-3,t-4,t-5,t-6,t-7,t-8,t-9"
    assert broker.has(1, *range(500)) == [f"INFO became leader number=500 named={first},..."]
    assert broker.change(*range(500), isr=[1]) == [
        f"INFO ISR shrunk number=500 under_min_isr=500 named={first},..."
    ]
    assert broker.change(*range(500), leader=2) == [
        f"INFO became follower number=500 named={first},..."
    ]


def test_a_leader_tells_how_its_isr_shrinks_and_expands(caplog: pytest.LogCaptureFixture) -> None:
    broker = Broker(caplog)
    broker.has(1, 0)
    (told,) = broker.change(0, isr=[1, 2])
    assert told == "INFO ISR shrunk partition=t-0 before=1,2,3 isr=1,2 under_min_isr=False"
    (told,) = broker.change(0, isr=[1])
    assert told == "INFO ISR shrunk partition=t-0 before=1,2 isr=1 under_min_isr=True"
    (told,) = broker.change(0, isr=[1, 2, 3])
    assert told == "INFO ISR expanded partition=t-0 before=1 isr=1,2,3 under_min_isr=False"
    assert broker.change(0, isr=[3, 2, 1]) == []
    (told,) = broker.change(0, replicas=[1], isr=[1])
    assert told.endswith("isr=1 under_min_isr=False"), "all that there are"


def test_followers_and_brokers_without_a_replica_say_nothing_of_isrs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker = Broker(caplog)
    broker.has(2, 0)
    assert broker.change(0, isr=[2]) == []
    assert broker.change(0, replicas=[2, 3], leader=3, isr=[3]) == []


def test_a_broker_begins_with_all_its_partitions(caplog: pytest.LogCaptureFixture) -> None:
    broker = Broker(caplog)
    broker.has(1, 0, 1)
    broker.has(3, 2)
    caplog.clear()
    broker.changes.loaded(broker.image)
    assert lines(caplog) == [
        "INFO became leader number=2 named=t-0,t-1",
        "INFO became follower partition=t-2 leader_epoch=0 leader=3",
    ]

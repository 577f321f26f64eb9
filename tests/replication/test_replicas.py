"""Partitions that are postponed: made when they are asked for, or little by little."""

from dataclasses import replace

import pytest
from tests.replication.alone import FollowedNoted, alone_replicas
from tests.turns import virtual_time

from ottla.common.errors import NotLeaderOrFollower
from ottla.common.topic_partition import TopicPartition
from ottla.config.broker import BrokerConfig
from ottla.config.topic import TopicConfig
from ottla.metadata.topics import PartitionImage
from ottla.records.builder import build_batch
from ottla.records.record import Record
from ottla.records.rules import AppendOrigin
from ottla.replication.partition import Partition
from ottla.replication.replicas import Replicas
from ottla.server.defaults import development_properties
from ottla.storage.log import Log
from ottla.storage.opening import open_log
from ottla.testing.files import MemoryFilesystem

TOPIC_ID = bytes(15) + b"t"
STATE = PartitionImage(
    replicas=(1,), isr=(1,), leader=1, leader_epoch=0, partition_epoch=0, directories=(bytes(16),)
)


class Logs:
    """Logs in memory; remembers which were made and deleted."""

    def __init__(self) -> None:
        self.files = MemoryFilesystem()
        self.config = TopicConfig.from_broker(BrokerConfig(development_properties("/data")), {})
        self.made: list[int] = []
        self.deleted: list[int] = []

    def get_or_create(
        self,
        topic_partition: TopicPartition,
        topic_id: bytes,
        *,
        directory_id: bytes | None = None,
        is_new: bool = True,
    ) -> Log:
        self.made.append(topic_partition.partition)
        return open_log(
            self.files,
            f"/data/{topic_partition}",
            topic_partition=topic_partition,
            topic_id=topic_id,
            config=self.config,
            now_ms=1,
        )

    def delete(self, topic_partition: TopicPartition) -> None:
        self.deleted.append(topic_partition.partition)


def postponed(count: int) -> tuple[Replicas, Logs]:
    logs = Logs()
    replicas = alone_replicas(logs, virtual_time(1))

    def make(index: int) -> None:
        replicas.apply("t", TOPIC_ID, index, STATE, is_new=True)

    for index in range(count):
        replicas.postpone("t", TOPIC_ID, index, lambda index=index: make(index))  # type: ignore[misc]
    return replicas, logs


def test_nothing_is_made_before_it_is_needed() -> None:
    replicas, logs = postponed(5)
    assert logs.made == []
    assert replicas.topic("t") == {}


def test_one_that_is_asked_for_by_name_or_id_is_made_then_and_once() -> None:
    replicas, logs = postponed(5)
    by_name = replicas.partition("t", 3)
    assert by_name is not None
    assert by_name.is_leader
    assert replicas.partition(TOPIC_ID, 3) is by_name
    assert replicas.partition(TOPIC_ID, 1) is not None
    assert logs.made == [3, 1]
    assert replicas.partition("t", 9) is None


def test_the_others_are_made_little_by_little() -> None:
    replicas, logs = postponed(5)
    replicas.partition("t", 1)
    assert replicas.make_some(2)
    assert logs.made == [1, 0, 2]
    assert not replicas.make_some(2)
    assert logs.made == [1, 0, 2, 3, 4]


def test_a_topic_that_is_removed_takes_what_was_postponed_with_it() -> None:
    replicas, logs = postponed(5)
    replicas.partition("t", 2)
    replicas.remove(TOPIC_ID)
    assert logs.deleted == [2]
    assert not replicas.make_some(10)
    assert replicas.partition("t", 0) is None
    assert replicas.topic("t") is None
    assert logs.made == [2]


def test_a_lower_minimum_that_comes_with_another_leader_commits_nothing() -> None:
    """Its leader was elected of those that were in sync while there were enough of them."""
    replicas, _ = postponed(0)
    both = replace(STATE, replicas=(1, 2), isr=(1, 2), directories=(bytes(16), bytes(16)))
    partition = replicas.apply("t", TOPIC_ID, 0, both, is_new=True, min_insync_replicas=2)
    batch = bytes(build_batch([Record(value=b"v")]))
    partition.append_records(batch, AppendOrigin.CLIENT, 1)
    committed = partition.when_committed(0)
    alone = replace(both, isr=(1,), partition_epoch=1)
    replicas.apply("t", TOPIC_ID, 0, alone, is_new=False, min_insync_replicas=2)
    assert not committed.done
    other = replace(both, isr=(2,), leader=2, leader_epoch=1, partition_epoch=2)
    replicas.apply("t", TOPIC_ID, 0, other, is_new=False, min_insync_replicas=1)
    assert partition.log.high_watermark == 0
    with pytest.raises(NotLeaderOrFollower):
        committed.result()
    again = replace(both, isr=(1,), leader_epoch=2, partition_epoch=3)
    replicas.apply("t", TOPIC_ID, 0, again, is_new=False, min_insync_replicas=1)
    assert partition.log.high_watermark == 1


class FollowedMistaken(FollowedNoted):
    def unfollow(self, partition: Partition) -> None:
        super().unfollow(partition)
        raise LookupError(f"a mistake with {partition.index}")


@pytest.mark.parametrize("way", ["remove", "stop", "fail"])
def test_a_mistake_with_one_partition_leaves_no_other_and_no_log_behind(way: str) -> None:
    logs, followed = Logs(), FollowedMistaken()
    replicas = alone_replicas(logs, virtual_time(1), followed=followed)
    state = replace(STATE, replicas=(1, 2), isr=(1, 2), leader=2)
    partitions = [replicas.apply("t", TOPIC_ID, index, state, is_new=True) for index in range(3)]
    if way == "stop":
        for index in range(3):
            with pytest.raises(LookupError):
                replicas.stop(TOPIC_ID, index)
    else:
        with pytest.raises(LookupError):
            if way == "remove":
                replicas.remove(TOPIC_ID)
            else:
                replicas.fail([TopicPartition("t", index) for index in range(3)])
    assert followed.unfollowed == [0, 1, 2]
    assert [each.leader for each in partitions] == [-1, -1, -1], "all were told"
    assert logs.deleted == ([] if way == "fail" else [0, 1, 2])
    assert not replicas.topic("t")

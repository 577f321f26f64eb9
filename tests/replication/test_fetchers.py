"""The fetchers of a broker: which leader is asked for what, when, and how often."""

from collections.abc import Callable
from typing import TypeVar

import pytest
from tests.replication.alone import alone
from tests.replication.followers import SETTINGS
from tests.replication.states import state
from tests.storage import logs
from tests.turns import TURN, virtual_time

from ottla.common.promise import Promise
from ottla.common.topic_partition import TopicPartition
from ottla.observability.metrics import Meter, Registry
from ottla.protocol.fetch_answer import FetchAnswer, FetchedRecords
from ottla.protocol.generated.fetch import FetchRequest
from ottla.protocol.message import Message, Request, Response
from ottla.replication import metrics
from ottla.replication.fetchers import Fetchers
from ottla.replication.partition import Partition
from ottla.replication.quota import ReplicationQuota
from ottla.storage.opening import open_log
from ottla.testing.files import MemoryFilesystem

T = TypeVar("T")
R = TypeVar("R", bound=Response)
TOPIC_ID = bytes(range(16))


class Channel:
    """Keeps what is asked, for the test to answer."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, FetchRequest, Callable[[FetchAnswer | OSError], None]]] = []
        self.is_closed = False

    def send(self, node_id: int, request: Request[R]) -> Promise[R]:
        raise AssertionError(f"{node_id} is asked {request}")

    def ask(
        self, node_id: int, request: Message, _read: Callable[[memoryview, int, int], T]
    ) -> Promise[T]:
        assert isinstance(request, FetchRequest)
        promise: Promise[T] = Promise(TURN)

        def settle(answer: FetchAnswer | OSError) -> None:
            if isinstance(answer, OSError):
                promise.fail(answer)
            else:
                promise.fulfil(answer)  # type: ignore[arg-type] # what the reader makes

        self.asked.append((node_id, request, settle))
        return promise

    def close(self) -> None:
        self.is_closed = True

    def leaders(self) -> list[int]:
        return [node_id for node_id, _, _ in self.asked]


class World:
    def __init__(self, per_leader: int = 1) -> None:
        self.scheduler = virtual_time(1)
        self.channels: list[Channel] = []
        self.epoch = 9
        self.files = MemoryFilesystem()
        self.files.make_directory("/data")
        self.fetchers = Fetchers(
            node_id=1,
            scheduler=self.scheduler,
            make_channel=self._channel,
            settings=SETTINGS,
            per_leader=per_leader,
            broker_epoch=lambda: self.epoch,
            quota=ReplicationQuota(window_count=11, window_seconds=1.0),
            is_throttled=lambda _: False,
        )

    def _channel(self, number: int) -> Channel:
        assert number == len(self.channels)
        self.channels.append(Channel())
        return self.channels[-1]

    def partition(self, index: int, leader: int = 2, epoch: int = 1) -> Partition:
        where = TopicPartition("topic", index)
        log = open_log(
            self.files,
            f"/data/topic-{index}",
            topic_partition=where,
            topic_id=TOPIC_ID,
            config=logs.settings(),
            now_ms=logs.NOW,
        )
        partition = Partition(1, "topic", TOPIC_ID, index, log, alone())
        partition.apply_state(state(leader, epoch, (leader, 1)))
        return partition

    @property
    def channel(self) -> Channel:
        return self.channels[0]


def indexes(request: FetchRequest) -> list[int]:
    return [each.partition for topic in request.topics for each in topic.partitions]


def test_many_partitions_of_one_image_are_one_request_to_each_leader() -> None:
    world = World()
    for index in range(20):
        world.fetchers.follow(world.partition(index, leader=2 + index % 2))
    world.scheduler.run_for(0.01)
    assert world.channel.leaders() == [2, 3]
    assert [len(indexes(request)) for _, request, _ in world.channel.asked] == [10, 10]
    assert world.channel.asked[0][1].replica_state.replica_epoch == 9


def test_nothing_is_fetched_before_the_broker_is_registered() -> None:
    """KIP-903: a leader could take the fetch for one of the life before."""
    world = World()
    world.epoch = -1
    world.fetchers.follow(world.partition(0))
    world.scheduler.run_for(5)
    assert world.channel.asked == []
    world.epoch = 12
    world.scheduler.run_for(0.1)
    assert world.channel.asked[0][1].replica_state.replica_epoch == 12


def test_a_partition_with_another_leader_is_fetched_there_and_no_more_here() -> None:
    world = World()
    partition = world.partition(0, leader=2)
    world.fetchers.follow(partition)
    world.scheduler.run_for(0.01)
    partition.apply_state(state(3, 2, (3, 1)))
    world.fetchers.follow(partition)
    world.scheduler.run_for(0.01)
    assert world.channel.leaders() == [2, 3], "it does not wait for the answer of the old one"
    world.channel.asked[0][2](FetchAnswer(0, 0, 0, []))
    world.scheduler.run_for(10)
    assert world.channel.leaders() == [2, 3]


def test_a_leader_that_cannot_be_reached_is_asked_again_after_the_pause() -> None:
    world = World()
    world.fetchers.follow(world.partition(0))
    world.scheduler.run_for(0.01)
    world.channel.asked[0][2](ConnectionError("gone"))
    world.scheduler.run_for(0.9)
    assert len(world.channel.asked) == 1
    world.scheduler.run_for(0.2)
    assert len(world.channel.asked) == 2
    assert (world.fetchers.requests.count, world.fetchers.failures) == (2, 1)


def test_a_mistake_with_one_partition_leaves_the_others_fetched() -> None:
    """As in Kafka it is given up: what its log has is not known."""
    world = World()
    partitions = [world.partition(index) for index in range(3)]
    for partition in partitions:
        world.fetchers.follow(partition)
    world.scheduler.run_for(0.01)

    def mistaken(_operation: str, path: str) -> None:
        if "topic-1" in path:
            raise LookupError("a mistake of ours")

    world.files.after = mistaken
    batch = memoryview(logs.batch([b"a"], leader_epoch=1))
    records = [FetchedRecords(TOPIC_ID, index, 0, 1, 0, batch) for index in range(3)]
    with pytest.raises(LookupError):
        world.channel.asked[0][2](FetchAnswer(0, 0, 7, records))
    assert [partitions[index].log.log_end_offset for index in (0, 2)] == [1, 1]
    world.scheduler.run_for(2)
    assert len(world.channel.asked) == 2, "the answer to the second is awaited"
    assert indexes(world.channel.asked[1][1]) == [0, 2]
    assert world.fetchers.failed_partitions == 1
    world.fetchers.unfollow(partitions[1])
    assert world.fetchers.failed_partitions == 0


def test_several_fetchers_share_the_partitions_of_a_leader() -> None:
    world = World(per_leader=3)
    partitions = [world.partition(index) for index in range(9)]
    for partition in partitions:
        world.fetchers.follow(partition)
    world.scheduler.run_for(0.01)
    asked = [indexes(request) for channel in world.channels for _, request, _ in channel.asked]
    assert [len(each) for each in asked] == [3, 3, 3]
    assert sorted(index for each in asked for index in each) == list(range(9))


def test_with_another_number_of_fetchers_all_partitions_find_their_place() -> None:
    world = World()
    for index in range(6):
        world.fetchers.follow(world.partition(index))
    world.scheduler.run_for(0.01)
    world.fetchers.reconfigured(SETTINGS, per_leader=2)
    world.scheduler.run_for(0.01)
    (_, request, _) = world.channels[1].asked[0]
    assert len(indexes(request)) == 3
    world.channel.asked[0][2](OSError("ends the first session"))
    world.scheduler.run_for(2)
    assert len(indexes(world.channel.asked[-1][1])) == 3


def test_after_the_end_nothing_is_asked_and_no_answer_counts() -> None:
    world = World()
    partition = world.partition(0)
    world.fetchers.follow(partition)
    world.scheduler.run_for(0.01)
    world.fetchers.stop()
    world.channel.asked[0][2](FetchAnswer(0, 0, 7, []))
    world.fetchers.follow(partition)
    world.scheduler.run_for(5)
    assert len(world.channel.asked) == 1
    assert world.channel.is_closed


def test_how_the_followed_partitions_come_on_is_told_by_kafkas_names() -> None:
    world = World()
    registry = Registry()
    metrics.register_fetchers(registry, world.fetchers)
    world.fetchers.follow(world.partition(0))
    world.scheduler.run_for(0.01)
    found = {str(name): registry.get(name) for name in registry.names()}
    requests = found.pop("kafka.server:type=FetcherStats,name=RequestsPerSec,clientId=Replica")
    assert isinstance(requests, Meter)
    assert requests.count == 1
    assert sorted(found) == [
        "kafka.server:type=BrokerTopicMetrics,name=ReplicationBytesInPerSec",
        "kafka.server:type=ReplicaFetcherManager,name=FailedPartitionsCount,clientId=Replica",
        "kafka.server:type=ReplicaFetcherManager,name=MaxLag,clientId=Replica",
    ]

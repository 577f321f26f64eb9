"""Our fetchers follow a leader of Apache Kafka's: in the place of a broker that was killed.

The leader must know the replica that asks, so a real broker has it first; when that is killed, a
fetcher of ours asks in its name, and in the end has the bytes that the leader has on its disk.
"""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.replication.alone import alone
from tests.replication.states import state
from tests.storage import logs
from tools.kafka_peer.broker_process import apache_kafka
from tools.kafka_peer.cluster_process import ClusterProcess, running

from ottla.common.promise import Promise
from ottla.common.topic_partition import TopicPartition
from ottla.network.node_client import NodeClient, NodeClientLimits
from ottla.network.sockets import LoopNetwork
from ottla.protocol.generated.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from ottla.protocol.message import Message, Request, Response
from ottla.replication.fetchers import Fetchers
from ottla.replication.fetching import FetchSettings
from ottla.replication.partition import Partition
from ottla.replication.quota import ReplicationQuota
from ottla.server.environment import LoopScheduler
from ottla.storage.files import OsFilesystem
from ottla.storage.opening import open_log

pytestmark = [pytest.mark.peer, pytest.mark.timeout(400)]
TOPIC = "followed"
LEADER, FOLLOWER = 1, 3
LATER_EPOCH = 1 << 40
"""A broker epoch after all that the leader knows: such a fetch is served."""
SETTINGS = FetchSettings(
    min_bytes=1, max_bytes=1 << 16, response_max_bytes=1 << 20, wait_max_ms=200, backoff_ms=200
)
T = TypeVar("T")
R = TypeVar("R", bound=Response)


class ToLeader:
    """The way to the one leader there is."""

    def __init__(self, client: NodeClient) -> None:
        self.client = client

    def send(self, _node_id: int, request: Request[R]) -> Promise[R]:
        return self.client.send(request)

    def ask(
        self, _node_id: int, request: Message, read: Callable[[memoryview, int, int], T]
    ) -> Promise[T]:
        return self.client.ask(request, read)

    def close(self) -> None:
        self.client.close()


def produce(cluster: ClusterProcess, name: str, codec: str) -> None:
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "compression.type": codec, "acks": "all"}
    )
    for number in range(500):
        producer.produce(TOPIC, f"{name} {number}".encode() + bytes(500))
    assert producer.flush(60) == 0


def create(cluster: ClusterProcess) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    topic = NewTopic(TOPIC, 1, replica_assignment=[[LEADER, 2, FOLLOWER]])
    admin.create_topics([topic])[TOPIC].result(60)


async def settled(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)


async def follow(cluster: ClusterProcess, directory: Path) -> None:
    loop = asyncio.get_running_loop()
    scheduler = LoopScheduler(loop)
    client = NodeClient(
        LoopNetwork(loop, scheduler.turn),
        scheduler,
        "127.0.0.1",
        cluster.brokers[LEADER].port,
        client_id="broker-3-fetcher-0",
        limits=NodeClientLimits(timeout_seconds=10, backoff_seconds=0.1),
    )
    asked = client.send(MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]))
    await settled(lambda: asked.done)
    answer = asked.result()
    assert isinstance(answer, MetadataResponse)
    (told,) = answer.topics
    epoch = told.partitions[0].leader_epoch
    log = open_log(
        OsFilesystem(),
        str(directory / f"{TOPIC}-0"),
        topic_partition=TopicPartition(TOPIC, 0),
        topic_id=told.topic_id,
        config=logs.settings(internal_segment_bytes=1 << 30),
        now_ms=logs.NOW,
    )
    partition = Partition(FOLLOWER, TOPIC, told.topic_id, 0, log, alone())
    partition.apply_state(state(LEADER, epoch, (LEADER, 2)))
    fetchers = Fetchers(
        node_id=FOLLOWER,
        scheduler=scheduler,
        make_channel=lambda _: ToLeader(client),
        settings=SETTINGS,
        per_leader=1,
        broker_epoch=lambda: LATER_EPOCH,
        quota=ReplicationQuota(window_count=11, window_seconds=1.0),
        is_throttled=lambda _: False,
    )
    of_leader = cluster.brokers[LEADER].log_directory / f"{TOPIC}-0" / f"{0:020d}.log"
    own = directory / f"{TOPIC}-0" / f"{0:020d}.log"

    def are_equal() -> bool:
        return own.read_bytes() == of_leader.read_bytes() != b""

    fetchers.follow(partition)
    await settled(are_equal)
    assert log.high_watermark == log.log_end_offset == 500
    # While it waits for records, some come.
    await asyncio.to_thread(produce, cluster, "second", "zstd")
    await settled(are_equal)
    # What only we have goes.
    fetchers.unfollow(partition)
    stray = logs.batch([b"stray"], base_offset=log.log_end_offset, leader_epoch=epoch)
    log.append_as_follower(stray, now_ms=logs.NOW)
    fetchers.follow(partition)
    await settled(are_equal)
    assert log.log_end_offset == 1000
    fetchers.stop()


def test_a_fetcher_of_ours_gets_the_bytes_of_an_apache_leader(tmp_path: Path) -> None:
    with running(ClusterProcess(apache_kafka(), tmp_path)) as cluster:
        create(cluster)
        produce(cluster, "first", "none")
        cluster.brokers[FOLLOWER].kill()
        directory = tmp_path / "ours"
        directory.mkdir()
        asyncio.run(follow(cluster, directory))

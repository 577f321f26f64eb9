"""Replication on whole simulated brokers: equal files, through the loss of leaders."""

from errno import EIO

from ottla.common.errors import ErrorCode
from ottla.common.promise import Promise, run
from ottla.observability.metrics import Meter
from ottla.observability.names import MetricName
from ottla.protocol.generated.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from ottla.records.builder import build_batch
from ottla.records.record import Record
from ottla.simulation.cluster import SimulatedCluster
from ottla.simulation.cluster_client import ClusterClient
from ottla.simulation.node import SimulatedNode
from ottla.simulation.scheduler import EPOCH_MS

TOPIC = "replicated"
REPLICATED = MetricName("kafka.server", "BrokerTopicMetrics", "ReplicationBytesInPerSec")
NOW_MS = EPOCH_MS


def started(seed: int, *, partitions: int = 1, **settings: str) -> SimulatedCluster:
    cluster = SimulatedCluster(seed, settings={k.replace("_", "."): v for k, v in settings.items()})
    cluster.start()
    wait(
        cluster,
        run(
            cluster.scheduler.turn,
            ClusterClient(cluster, "maker").create_topic(TOPIC, partitions, 3, {}),
        ),
    )
    return cluster


def wait(cluster: SimulatedCluster, promise: Promise[None], seconds: float = 120) -> None:
    assert cluster.run_until(lambda: promise.done, seconds)
    promise.result()


async def write(client: ClusterClient, count: int, index: int = 0) -> None:
    """Write ``count`` records one by one; each is acknowledged by all that are in sync."""
    place = (TOPIC, index)
    for number in range(count):
        value = b"%s %d" % (client.name.encode(), number)
        batch = build_batch([Record(timestamp=NOW_MS, value=value)])
        data = PartitionProduceData(index=index, records=bytes(batch))
        while True:
            try:
                leader, _ = await client.leader(place)
                topic = TopicProduceData(topic_id=client.topic_ids[TOPIC], partition_data=[data])
                request = ProduceRequest(acks=-1, timeout_ms=3_000, topic_data=[topic])
                answer = await client.ask(leader, request)
                if answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE:
                    break
            except OSError:
                pass
            await client.renew(place)


def produce(cluster: SimulatedCluster, name: str, count: int, index: int = 0) -> None:
    wait(cluster, run(cluster.scheduler.turn, write(ClusterClient(cluster, name), count, index)))


def batches(node: SimulatedNode, index: int = 0) -> bytes:
    """What lies in the first segment on that node's disk."""
    path = f"/data/{TOPIC}-{index}/{0:020d}.log"
    return node.files.read(path) if node.files.exists(path) else b""


def bytes_in(node: SimulatedNode) -> int:
    """What that node says to have fetched from leaders."""
    assert node.node is not None
    meter = node.node.metrics.get(REPLICATED)
    assert isinstance(meter, Meter)
    return meter.count


def leader(cluster: SimulatedCluster, index: int = 0) -> SimulatedNode:
    topic = cluster.newest_image().topics.by_name[TOPIC]
    return cluster.nodes[topic.partitions[index].leader]


def levelled(cluster: SimulatedCluster, index: int = 0) -> bytes:
    """The batches that all three have, when they have the same and are in sync."""

    def are_equal() -> bool:
        found = {batches(node, index) for node in cluster.brokers}
        return len(found) == 1 and cluster.is_in_sync()

    assert cluster.run_until(are_equal, 120), cluster.unrest()
    return batches(cluster.nodes[1], index)


def test_all_replicas_have_the_same_bytes() -> None:
    cluster = started(1)
    produce(cluster, "a", 30)
    data = levelled(cluster)
    assert all(b"a %d" % number in data for number in range(30))
    assert sum(bytes_in(node) for node in cluster.brokers) == 2 * len(data)


def test_when_the_leader_is_killed_another_goes_on_and_the_first_follows_it() -> None:
    cluster = started(2)
    produce(cluster, "a", 10)
    first = leader(cluster)
    first.kill()
    produce(cluster, "b", 10)
    assert leader(cluster) is not first
    first.start()
    produce(cluster, "c", 10)
    data = levelled(cluster)
    for name in (b"a", b"b", b"c"):
        assert all(b"%s %d" % (name, number) in data for number in range(10))


def test_a_broker_that_comes_back_without_its_disk_gets_everything_again() -> None:
    cluster = started(3)
    produce(cluster, "a", 10)
    lost = next(node for node in cluster.brokers if node is not leader(cluster))
    path = f"/data/{TOPIC}-0"
    wait(cluster, lost.stop())
    for name in lost.files.list_directory(path):
        lost.files.remove(f"{path}/{name}")
    lost.files.remove_directory(path)
    lost.start()
    produce(cluster, "b", 5)
    assert b"a 0" in levelled(cluster)


def test_many_partitions_made_at_once_are_followed_too() -> None:
    cluster = started(4, partitions=60)
    produce(cluster, "a", 2, index=57)
    assert cluster.run_until(cluster.is_in_sync, 60), cluster.unrest()
    assert b"a 1" in levelled(cluster, index=57)


def test_power_lost_at_the_leader_loses_nothing_that_was_acknowledged() -> None:
    cluster = started(5)
    produce(cluster, "a", 10)
    first = leader(cluster)
    first.lose_power()
    produce(cluster, "b", 5)
    first.start()
    data = levelled(cluster)
    assert all(b"a %d" % number in data for number in range(10))


def test_a_leader_that_loses_its_power_and_is_back_at_once_does_not_lead_with_less() -> None:
    """Nobody has noticed its absence: the metadata log still says that it leads."""
    cluster = started(6)
    produce(cluster, "a", 10)
    first = leader(cluster)
    first.lose_power()
    cluster.run_for(0.5)

    def leaders_have_all() -> None:
        for node in cluster.brokers:
            for partition in node.partitions():
                if partition.topic == TOPIC and partition.is_leader:
                    assert partition.log.log_end_offset >= 10

    cluster.after_step.append(leaders_have_all)
    first.start()
    produce(cluster, "b", 5)
    data = levelled(cluster)
    assert all(b"a %d" % number in data for number in range(10))


def test_a_disk_that_fails_takes_its_leaderships_elsewhere_and_no_others() -> None:
    cluster = started(1, partitions=4, log_dirs="/data/a,/data/b", metadata_log_dir="/data/a")
    for index in range(4):
        produce(cluster, f"a{index}", 3, index)
    assert cluster.run_until(cluster.is_in_sync, 60), cluster.unrest()
    leaders = [leader(cluster, index) for index in range(4)]
    node = next(each for index, each in enumerate(leaders) if lies_in(each, index) == "/data/b")
    lost = {index for index in range(4) if lies_in(node, index) == "/data/b"}
    node.files.fail = lambda operation, path: (
        OSError(EIO, "") if operation == "write" and path.startswith("/data/b") else None
    )
    for index in range(4):
        produce(cluster, f"b{index}", 3, index)
    assert node.is_running
    assert len(cluster.newest_image().brokers[node.node_id].log_dirs) == 1
    for index, before in enumerate(leaders):
        moves = before is node and index in lost
        assert (leader(cluster, index) is not before) == moves
    node.kill()
    node.files.fail = lambda _operation, _path: None
    node.start()
    assert cluster.run_until(cluster.is_in_sync, 120), cluster.unrest()
    for index in range(4):
        segments = {
            each.files.read(f"{lies_in(each, index)}/{TOPIC}-{index}/{0:020d}.log")
            for each in cluster.brokers
        }
        assert len(segments) == 1
        assert all(b"%s%d 2" % (name, index) in min(segments) for name in (b"a", b"b"))


def lies_in(node: SimulatedNode, index: int) -> str:
    """The log directory of a replica."""
    (log,) = [each.log for each in node.partitions() if (each.topic, each.index) == (TOPIC, index)]
    return log.directory.rpartition("/")[0]

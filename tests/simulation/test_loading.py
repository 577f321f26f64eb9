"""A node that opens its logs, for long: its quorum goes on, and its broker is not let in before.

After an unclean stop all that was not flushed is read again. A disk that does not answer stands for
as much of it as anybody wants.
"""

from collections.abc import Callable
from typing import TypeVar

from tests.simulation.test_replication import TOPIC, produce, started, wait

from ottla.common.promise import Promise, run
from ottla.common.topic_partition import TopicPartition
from ottla.config.changes import Resource
from ottla.protocol.generated import incremental_alter_configs as ire
from ottla.protocol.generated.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicState,
)
from ottla.simulation.cluster import SimulatedCluster
from ottla.simulation.cluster_client import ClusterClient
from ottla.simulation.node import DIRECTORY, SimulatedNode
from ottla.storage.checkpoints import CLEAN_SHUTDOWN

T = TypeVar("T")

RECORDS = 40
OTHER = "other"


def idle(seed: int) -> SimulatedCluster:
    """Whose metadata log grows by itself."""
    return started(seed, metadata_max_idle_interval_ms="500", broker_session_timeout_ms="3000")


def is_fenced(cluster: SimulatedCluster, node: SimulatedNode) -> bool:
    return cluster.newest_image().brokers[node.node_id].fenced


def restarted(node: SimulatedNode) -> Promise[None]:
    """Kill a node, and let it not get on with its logs in the next life."""
    node.kill()
    node.scheduler.hang((DIRECTORY,))
    return node.start()


def end_offsets(node: SimulatedNode) -> dict[int, int]:
    assert node.node is not None
    return {
        each.partition: log.log_end_offset
        for each, log in node.node.logs.logs.items()
        if each.topic == TOPIC
    }


def test_all_nodes_elect_and_commit_while_they_open_their_logs() -> None:
    cluster = idle(1)
    produce(cluster, "before", RECORDS)
    starts = [restarted(node) for node in cluster.brokers]
    assert cluster.run_until(lambda: cluster.raft_leader() is not None, 30)
    leader = cluster.raft_leader()
    before = cluster.newest_image().offset
    cluster.run_for(120)
    assert cluster.raft_leader() is leader
    assert cluster.newest_image().offset > before + 100
    assert all(is_fenced(cluster, node) for node in cluster.brokers)
    assert not any(start.done for start in starts)
    for node in cluster.brokers:
        node.scheduler.release()
    assert cluster.run_until(cluster.is_in_sync, 30), cluster.unrest()
    assert [end_offsets(node) for node in cluster.brokers] == [{0: RECORDS}] * 3
    produce(cluster, "after", 3)


def test_what_changes_meanwhile_holds_afterwards() -> None:
    """One topic is deleted and made again, with another id; another gets other settings."""
    cluster = idle(2)
    wait(
        cluster,
        run(cluster.scheduler.turn, ClusterClient(cluster, "other").create_topic(OTHER, 1, 3, {})),
    )
    produce(cluster, "before", RECORDS)
    node = cluster.brokers[0]
    restarted(node)
    client = ClusterClient(cluster, "changer")

    async def change() -> None:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=TOPIC)], timeout_ms=5000)
        await client.renew((TOPIC, 0))
        answer = await client.ask(other.node_id, request)
        assert answer.responses[0].error_code == 0
        await client.create_topic(TOPIC, 2, 3, {})
        setting = ire.AlterableConfig(name="segment.bytes", value="2000000")
        resource = ire.AlterConfigsResource(
            resource_type=Resource.TOPIC, resource_name=OTHER, configs=[setting]
        )
        changes = ire.IncrementalAlterConfigsRequest(resources=[resource])
        changed = await client.ask(other.node_id, changes)
        assert changed.responses[0].error_code == 0

    other = cluster.brokers[1]
    assert cluster.run_until(lambda: is_fenced(cluster, node), 10)
    wait(cluster, run(cluster.scheduler.turn, change()))
    cluster.run_for(20)
    assert other.node is not None
    node.scheduler.release()
    assert cluster.run_until(cluster.is_in_sync, 60), cluster.unrest()
    produce(cluster, "after", 3)
    cluster.run_for(5)
    assert end_offsets(node) == end_offsets(other) == {0: 3, 1: 0}
    assert node.node is not None
    assert node.node.logs.logs[TopicPartition(OTHER, 0)].config.segment_bytes == 2_000_000
    assert [each.topic for each in node.node.logs.strays.values()] == [TOPIC]


def test_who_stops_meanwhile_has_not_stopped_cleanly() -> None:
    """What was not looked at yet must be looked at by the next life."""
    cluster = idle(3)
    produce(cluster, "before", RECORDS)
    node = cluster.brokers[0]
    started_again = restarted(node)
    cluster.run_for(10)
    stopped = node.stop()
    cluster.run_for(10)
    assert not stopped.done  # its threads may be writing
    node.scheduler.release()
    assert cluster.run_until(lambda: stopped.done, 10)
    stopped.result()
    assert not started_again.done or not node.has_served
    assert not node.files.exists(f"{DIRECTORY}/{CLEAN_SHUTDOWN}")
    wait(cluster, node.start())
    assert cluster.run_until(cluster.is_in_sync, 30), cluster.unrest()
    assert end_offsets(node) == {0: RECORDS}


def test_the_loop_reads_no_more_of_a_long_log_than_of_a_short_one() -> None:
    def read_on_loop(records: int) -> tuple[int, int]:
        cluster = idle(4)
        produce(cluster, "before", records)
        node = cluster.brokers[0]
        node.kill()
        reads = Reads(node)
        wait(cluster, node.start())
        return reads.on_loop, reads.elsewhere

    short, _ = read_on_loop(1)
    long, elsewhere = read_on_loop(200)
    assert elsewhere > 0
    assert long <= short + 2


class Reads:
    """Counts how often the batches of a node's partitions are read, and where."""

    def __init__(self, node: SimulatedNode) -> None:
        self.on_loop = self.elsewhere = 0
        self._is_elsewhere = False
        self._run_in_background = node.scheduler.run_in_background
        node.scheduler.run_in_background = self._mark  # type: ignore[method-assign]
        node.files.fail = self._count

    def _mark(self, work: Callable[[], T], lane: str = "") -> Promise[T]:
        def marked() -> T:
            self._is_elsewhere = True
            try:
                return work()
            finally:
                self._is_elsewhere = False

        return self._run_in_background(marked, lane)

    def _count(self, operation: str, path: str) -> None:
        if operation == "read" and path.endswith(".log") and f"/{TOPIC}-" in path:
            if self._is_elsewhere:
                self.elsewhere += 1
            else:
                self.on_loop += 1

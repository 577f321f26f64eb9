"""The checkers of the cluster find what they are there for."""

import errno
from dataclasses import replace

import pytest

from ottla.common.promise import run
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.topics import TopicImage
from ottla.protocol.generated.metadata_records import (
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from ottla.records.builder import build_batch
from ottla.records.record import Record
from ottla.simulation.checkers.committed import CommittedLog
from ottla.simulation.checkers.metadata import MetadataChecker
from ottla.simulation.checkers.replicas import ReplicaChecker
from ottla.simulation.cluster import SimulatedCluster, Violation
from ottla.simulation.cluster_client import ClusterClient
from ottla.simulation.node import SimulatedNode


def batch(base_offset: int, value: bytes, epoch: int = 0) -> bytes:
    record = Record(offset=0, timestamp=0, key=None, value=value, headers=[])
    return bytes(build_batch([record], base_offset=base_offset, leader_epoch=epoch))


def test_what_was_committed_is_compared_byte_by_byte() -> None:
    log = CommittedLog("t-0")
    data = batch(0, b"a") + batch(1, b"b") + batch(2, b"c")
    log.commit(data, 2)
    assert log.compare("node 1", data, 3) is None
    assert log.compare("node 1", batch(0, b"a") + batch(1, b"B"), 2) is not None
    assert log.compare("node 1", batch(1, b"b", epoch=7), 2) is not None
    assert log.compare("node 1", batch(2, b"C"), 3) is None, "this one was not committed"
    log.commit(data, 3)
    assert log.compare("node 1", batch(2, b"C"), 3) is not None


def checked(seed: int) -> tuple[SimulatedCluster, MetadataChecker]:
    cluster = SimulatedCluster(seed)
    checker = MetadataChecker(cluster)
    for node in cluster.nodes.values():
        node.start()
    cluster.run_for(10)
    assert checker.images_compared > 0
    assert checker.committed.end_offset > 0
    return cluster, checker


def test_images_that_differ_at_one_offset_are_found() -> None:
    cluster, _ = checked(1)
    node = cluster.nodes[2]
    image = replace(node.image, next_producer_id=77)
    node.metadata.publish(image, MetadataDelta(image))
    with pytest.raises(Violation, match="equal-images"):
        cluster.run_for(5)


@pytest.mark.parametrize(
    ("isr", "eligible", "is_found"),
    [
        ([1, 2], [], False),
        ([2, 3], [], True),
        ([1, 9], [], True),
        ([1, 2], [2], True),
        ([1], [9], True),
    ],
)
def test_a_partition_that_breaks_the_rules_is_found(
    isr: list[int], eligible: list[int], is_found: bool
) -> None:
    cluster, _ = checked(1)
    node = cluster.nodes[1]
    delta = MetadataDelta(node.image)
    delta.replay(TopicRecord(name="t", topic_id=b"the topic's id.."))
    delta.replay(
        PartitionRecord(
            topic_id=b"the topic's id..",
            replicas=[1, 2, 3],
            isr=isr,
            leader=1,
            eligible_leader_replicas=eligible,
            directories=[b"one directory..."] * 3,
        )
    )
    node.metadata.publish(delta.apply(node.image.offset + 1, 1, 0), delta)
    kinds = [violation.kind for violation in cluster.violations]
    assert kinds == (["valid-isr"] if is_found else [])


def test_a_second_leader_of_an_epoch_is_found() -> None:
    cluster, checker = checked(2)
    leader = cluster.raft_leader()
    assert leader is not None
    assert leader.raft is not None
    other = next(node for node in cluster.nodes.values() if node is not leader)
    assert other.raft is not None
    other.raft.node.role = leader.raft.node.role
    for told in other.raft.on_progress:
        told()
    with pytest.raises(Violation, match="one-leader"):
        cluster.run_for(20)
    assert checker.committed.end_offset > 0


def test_a_leader_without_what_is_committed_is_found() -> None:
    cluster, checker = checked(3)
    for node in cluster.nodes.values():
        node.kill()
        directory = "/data/__cluster_metadata-0"
        for name in node.files.list_directory(directory):
            if name.endswith((".log", ".index", ".timeindex")) or "epoch" in name:
                node.files.remove(f"{directory}/{name}")
        node.start()
    with pytest.raises(Violation, match="leader-completeness"):
        cluster.run_for(30)
    assert checker.committed.end_offset > 0


def with_a_topic(settings: dict[str, str]) -> tuple[SimulatedCluster, TopicImage]:
    cluster = SimulatedCluster(4, settings=settings)
    ReplicaChecker(cluster)
    cluster.start()
    configs = {"min.insync.replicas": "1"}
    cluster.wait_for(
        run(
            cluster.scheduler.turn, ClusterClient(cluster, "admin").create_topic("t", 1, 3, configs)
        ),
        30,
    )
    return cluster, cluster.newest_image().topics.by_name["t"]


@pytest.mark.parametrize("has_failed", [False, True])
def test_what_a_leader_commits_in_the_step_in_which_its_process_ends_is_not_forgotten(
    has_failed: bool,
) -> None:
    """Seed 5572: it had answered a follower, and its disk was full."""
    cluster, topic = with_a_topic({})
    leader, *followers = (cluster.nodes[each] for each in topic.partitions[0].replicas)

    def commit_and_end() -> None:
        for node in (leader, *followers):
            (partition,) = node.partitions()
            partition.log.append_as_follower(batch(0, b"a"), now_ms=cluster.scheduler.wall_ms())
            partition.log.set_high_watermark(1)
            if has_failed and node is leader:
                partition.log.failure = OSError(errno.ENOSPC, "no space left on device")
        leader.kill()

    cluster.scheduler.call_soon(commit_and_end)
    cluster.run_for(1)
    assert [p.log.high_watermark for each in followers for p in each.partitions()] == [1, 1]


def test_what_a_leader_commits_in_the_step_in_which_it_ends_is_not_forgotten() -> None:
    """Seed 844: the ISR without a dead replica, and another leader, came with one commit."""
    times = {"replica.lag.time.max.ms": "1000", "replica.fetch.wait.max.ms": "500"}
    cluster, topic = with_a_topic(times)
    leader, other = (cluster.nodes[each] for each in topic.partitions[0].replicas[:2])
    cluster.network.separate([leader.host], [n.host for n in cluster.nodes.values() if n != leader])
    (partition,) = leader.partitions()
    data = batch(0, b"a")
    partition.append(memoryview(bytearray(data)), 0, len(data), 1, cluster.scheduler.wall_ms())
    cluster.run_for(2.5)
    assert (partition.log.high_watermark, partition.log.log_end_offset) == (0, 1)

    def changed(node: SimulatedNode, leader_id: int) -> None:
        delta = MetadataDelta(node.image)
        change = PartitionChangeRecord(topic_id=topic.topic_id, partition_id=0, isr=[leader_id])
        change.leader = leader_id if leader_id != leader.node_id else change.leader
        delta.replay(change)
        node.metadata.publish(delta.apply(node.image.offset + 1, 1, 0), delta)

    changed(leader, leader.node_id)
    changed(leader, other.node_id)
    cluster.run_for(0.01)
    assert (partition.is_leader, partition.log.high_watermark) == (False, 1)
    changed(other, other.node_id)
    with pytest.raises(Violation, match="leader-completeness"):
        cluster.run_for(1)


def test_what_a_leader_commits_in_the_step_in_which_its_topic_goes_is_not_forgotten() -> None:
    """Seed 154: fetches and the end of the topic came to a busy process, and were one turn."""
    cluster, topic = with_a_topic({})
    leader, *followers = (cluster.nodes[each] for each in topic.partitions[0].replicas)

    def commit_and_delete() -> None:
        for node in (leader, *followers):
            (partition,) = node.partitions()
            partition.log.append_as_follower(batch(0, b"a"), now_ms=cluster.scheduler.wall_ms())
            partition.log.set_high_watermark(1)
        delta = MetadataDelta(leader.image)
        delta.replay(RemoveTopicRecord(topic_id=topic.topic_id))
        leader.metadata.publish(delta.apply(leader.image.offset + 1, 1, 0), delta)

    cluster.scheduler.call_soon(commit_and_delete)
    cluster.run_for(0.01)
    assert not list(leader.partitions())
    assert [p.log.high_watermark for each in followers for p in each.partitions()] == [1, 1]

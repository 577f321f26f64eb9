"""The checkers of the cluster find what they are there for."""

from dataclasses import replace

import pytest

from ottla.metadata.delta import MetadataDelta
from ottla.protocol.generated.metadata_records import PartitionRecord, TopicRecord
from ottla.records.builder import build_batch
from ottla.records.record import Record
from ottla.simulation.checkers.committed import CommittedLog
from ottla.simulation.checkers.metadata import MetadataChecker
from ottla.simulation.cluster import SimulatedCluster, Violation


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

"""Three brokers that share a remote store: copying moves with the leaders, every disk is freed."""

from typing import ClassVar

import pytest
from tests.simulation.test_cluster_coordinators import Round

from ottla.simulation.workloads.records import Records

TOPIC = "tiered"
SETTINGS = {
    "remote.log.storage.system.enable": "true",
    "remote.log.manager.task.interval.ms": "1000",
    "log.retention.check.interval.ms": "1000",
    "log.initial.task.delay.ms": "100",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "3",
}


class TieredRecords(Records):
    """Small segments, which soon are in the remote store only."""

    NAME: ClassVar[str] = TOPIC
    CONFIGS: ClassVar[dict[str, str]] = {
        "remote.storage.enable": "true",
        "internal.segment.bytes": "2000",
        "local.retention.ms": "1000",
        "file.delete.delay.ms": "1000",
    }


def local_starts(work: Round) -> dict[tuple[int, int], int]:
    """Where the local part of each replica begins."""
    return {
        (node.node_id, partition.index): partition.log.local_log_start_offset
        for node in work.cluster.running
        for partition in node.partitions()
        if partition.topic == TOPIC
    }


def copied_by(work: Round) -> int:
    return len(work.cluster.remote.objects)


def test_all_disks_are_freed_by_what_leaders_have_copied() -> None:
    work = Round(TieredRecords, 1, SETTINGS)
    work.cluster.run_for(30)
    starts = local_starts(work)
    assert len(starts) == 3 * len(work.cluster.newest_image().topics.by_name[TOPIC].partitions)
    assert all(starts.values()), starts
    assert copied_by(work)
    work.conclude()


@pytest.mark.parametrize("seed", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_a_new_leader_goes_on_with_copying(seed: int) -> None:
    work = Round(TieredRecords, seed, SETTINGS)
    for _ in range(2):
        node = work.cluster.nodes[work.leader(TOPIC, 0)]
        node.kill()
        copied = copied_by(work)
        work.cluster.run_for(20)
        assert copied_by(work) > copied, "nobody has taken over"
        work.cluster.wait_for(node.start(), 60)
        work.cluster.run_for(5)
    work.conclude()
    # Also a replica that was away, and found that its leader has less on its disk than it lacked.
    for node in work.cluster.running:
        for partition in node.partitions():
            if partition.topic == TOPIC:
                assert partition.log.log_start_offset == 0
                assert partition.log.epochs.entries[0].start_offset == 0

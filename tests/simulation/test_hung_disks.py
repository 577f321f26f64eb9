"""A disk that hangs: nothing that is begun there ends, for longer than any timeout.

A broker that cannot follow the metadata log for it says so and is fenced; others lead in its place.
Another directory of the same broker, and the metadata log elsewhere, go on as if nothing were.
"""

import pytest

from ottla.raft.lanes import LANE, SNAPSHOT_LANE
from ottla.simulation.cluster import SimulatedCluster
from ottla.simulation.node import DIRECTORY, SimulatedNode
from ottla.simulation.scenario import TWO_DIRECTORIES

SETTINGS = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "metadata.max.idle.interval.ms": "500",
}


def is_fenced(cluster: SimulatedCluster, node: SimulatedNode) -> bool:
    return cluster.newest_image().brokers[node.node_id].fenced


@pytest.mark.parametrize("seed", range(3))
def test_a_broker_that_cannot_follow_the_metadata_is_fenced(seed: int) -> None:
    cluster = SimulatedCluster(seed, 3, settings=SETTINGS, roles="separate")
    cluster.start()
    broker = cluster.brokers[0]
    assert cluster.run_until(lambda: not is_fenced(cluster, broker), 10)
    broker.scheduler.hang((DIRECTORY, LANE, SNAPSHOT_LANE))
    assert cluster.run_until(lambda: is_fenced(cluster, broker), 10)
    cluster.run_for(60)
    assert is_fenced(cluster, broker)
    assert broker.is_running
    broker.scheduler.release()
    assert cluster.run_until(lambda: not is_fenced(cluster, broker), 10)


@pytest.mark.parametrize("seed", range(3))
def test_another_directory_that_hangs_keeps_nobody_from_the_metadata(seed: int) -> None:
    settings = {**SETTINGS, "log.dirs": TWO_DIRECTORIES}
    cluster = SimulatedCluster(seed, 3, settings=settings, roles="separate")
    cluster.start()
    broker = cluster.brokers[0]
    (other,) = broker.other_directories
    broker.scheduler.hang((other,))
    for _ in range(60):
        cluster.run_for(1)
        assert not is_fenced(cluster, broker)
    assert broker.image.offset >= cluster.newest_image().offset - 5

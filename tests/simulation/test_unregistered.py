"""A broker that runs and is unregistered by mistake comes back by itself, with all that it had."""

import pytest
from tests.simulation.test_replication import TOPIC, produce, wait

from ottla.common.promise import run
from ottla.protocol.generated.unregister_broker import (
    UnregisterBrokerRequest,
)
from ottla.simulation.cluster import SimulatedCluster
from ottla.simulation.cluster_client import ClusterClient
from ottla.simulation.node import SimulatedNode

ELR = "eligible.leader.replicas.version"


def with_topic(seed: int, replicas: int, elr: int) -> SimulatedCluster:
    cluster = SimulatedCluster(seed, features={ELR: elr})
    cluster.start()
    wait(
        cluster,
        run(
            cluster.scheduler.turn,
            ClusterClient(cluster, "maker").create_topic(TOPIC, 3, replicas, {}),
        ),
    )
    return cluster


def unregister(cluster: SimulatedCluster, node: SimulatedNode) -> None:
    async def ask() -> None:
        client = ClusterClient(cluster, "operator")
        await client.renew((TOPIC, 0))
        request = UnregisterBrokerRequest(broker_id=node.node_id)
        other = next(each for each in cluster.brokers if each is not node)
        answer = await client.ask(other.node_id, request)
        assert answer.error_code == 0

    wait(cluster, run(cluster.scheduler.turn, ask()))
    assert node.node_id not in cluster.newest_image().brokers


@pytest.mark.parametrize("replicas", [1, 3])
@pytest.mark.parametrize("elr", [0, 1])
def test_a_running_broker_that_is_unregistered_registers_again(replicas: int, elr: int) -> None:
    """It went on with heartbeats that were refused as stale, until it was restarted."""
    cluster = with_topic(7, replicas, elr)
    for index in range(3):
        produce(cluster, f"before {index}", 3, index)
    node = cluster.brokers[0]
    unregister(cluster, node)
    assert cluster.run_until(cluster.is_in_sync, 30), cluster.unrest()
    for index in range(3):
        produce(cluster, f"after {index}", 3, index)
    ends = {
        log.topic_partition.partition: log.log_end_offset
        for each in cluster.brokers
        for log in each.node.logs.logs.values()  # type: ignore[union-attr]
        if log.topic_partition.topic == TOPIC
    }
    assert all(end >= 6 for end in ends.values())
    assert len(ends) == 3


def test_a_broker_that_is_unregistered_while_it_stops_does_not_wait_for_its_leave() -> None:
    cluster = with_topic(8, 3, 1)
    node = cluster.brokers[0]
    unregister(cluster, node)
    stopped = node.stop()
    assert cluster.run_until(lambda: stopped.done, 3)
    stopped.result()

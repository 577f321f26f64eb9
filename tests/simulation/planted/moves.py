"""Leaders that change places while all are alive, by reassignments and preferred elections."""

from tests.simulation.planted.stage import pause

from ottla.protocol.generated.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.generated.elect_leaders import (
    ElectLeadersRequest,
    TopicPartitions,
)
from ottla.simulation.cluster import SimulatedCluster
from ottla.simulation.cluster_client import ClusterClient

TOPIC = "records"


async def move_leader(cluster: SimulatedCluster, client: ClusterClient, leader: int) -> None:
    """Let ``leader`` be preferred, and elect it: the ISR stays as it is."""
    brokers = [node.node_id for node in cluster.brokers]
    replicas = [leader, *(each for each in brokers if each != leader)]
    moved = ReassignablePartition(partition_index=0, replicas=replicas)
    reassign = AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name=TOPIC, partitions=[moved])], timeout_ms=2000
    )
    elect = ElectLeadersRequest(
        election_type=0,
        topic_partitions=[TopicPartitions(topic=TOPIC, partitions=[0])],
        timeout_ms=2000,
    )
    try:
        await client.ask_any(reassign)
        await client.ask_any(elect)
    except OSError:
        await client.back_off()


async def lead_in_turn(cluster: SimulatedCluster) -> None:
    """Two brokers lead in turn, each before it has fetched what the other wrote."""
    chance = cluster.part("trouble")
    client = ClusterClient(cluster, "mover")
    brokers = cluster.brokers
    end = cluster.scheduler.now + 50
    while cluster.scheduler.now < end:
        await pause(cluster, chance.between(0.0, 3.0))
        one, other = brokers[chance.below(3)], brokers[chance.below(3)]
        for node in brokers:
            for far in brokers:
                if node is not far:
                    delay = (0.0, chance.choose((0.002, 1.0, 2.0)))
                    cluster.network.link(node.host, far.host).delay_seconds = delay
        for leader in (one, other, one):
            await move_leader(cluster, client, leader.node_id)
            await pause(cluster, chance.between(0.0, 0.3))
        await pause(cluster, chance.between(0.0, 2.0))
        cluster.network.mend_all()

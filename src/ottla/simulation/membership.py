"""Changes of the quorum while it runs (KIP-853): a voter leaves, and joins again."""

from typing import Final

from ottla.network.node_client import NodeClient, NodeClientLimits
from ottla.protocol.generated.add_raft_voter import AddRaftVoterRequest
from ottla.protocol.generated.add_raft_voter import Listener as AddedListener
from ottla.protocol.generated.remove_raft_voter import (
    RemoveRaftVoterRequest,
)
from ottla.protocol.message import ExplainedResponse, Request
from ottla.simulation.cluster import CONTROLLER_PORT, OPERATOR, SimulatedCluster
from ottla.simulation.node import SimulatedNode

TRIES_MAX: Final = 60
TIMEOUT_SECONDS: Final = 5.0


async def leave_and_join(cluster: SimulatedCluster, node: SimulatedNode) -> None:
    """Have ``node`` removed from the voters and added again; each until it has come true."""
    raft = node.raft
    assert raft is not None
    key = raft.key
    remove = RemoveRaftVoterRequest(
        cluster_id=cluster.cluster_id, voter_id=key.node_id, voter_directory_id=key.directory_id
    )
    if not await _ask(cluster, remove, node, is_voter=False):
        return
    await cluster.sleep(3.0)
    listener = AddedListener(name="CONTROLLER", host=node.host.name, port=CONTROLLER_PORT)
    add = AddRaftVoterRequest(
        cluster_id=cluster.cluster_id,
        timeout_ms=int(TIMEOUT_SECONDS * 1000),
        voter_id=key.node_id,
        voter_directory_id=key.directory_id,
        listeners=[listener],
    )
    if not await _ask(cluster, add, node, is_voter=True):
        cluster.violation("voter-joins", f"{node} does not become a voter again")


async def _ask(
    cluster: SimulatedCluster,
    request: Request[ExplainedResponse],
    node: SimulatedNode,
    *,
    is_voter: bool,
) -> bool:
    """Ask the leader, again and again, until the voters are as wanted."""
    for _ in range(TRIES_MAX):
        leader = cluster.raft_leader()
        if leader is not None and leader.raft is not None:
            is_in = node.node_id in leader.raft.node.committed_voters.ids
            if is_in == is_voter:
                return True
            answer = await asked_by_operator(cluster, leader, request)
            cluster.note(f"voters: {type(request).__name__} for {node}: {answer}")
        await cluster.sleep(1.0)
    return False


async def asked_by_operator(
    cluster: SimulatedCluster, leader: SimulatedNode, request: Request[ExplainedResponse]
) -> str:
    """What the controller answers to an operator, in words."""
    client = NodeClient(
        cluster.client_network(OPERATOR),
        cluster.scheduler,
        leader.host.name,
        CONTROLLER_PORT,
        client_id=OPERATOR,
        limits=NodeClientLimits(timeout_seconds=TIMEOUT_SECONDS, backoff_seconds=0.1),
    )
    try:
        response = await client.send(request)
    except OSError as error:
        return type(error).__name__
    finally:
        client.close()
    return f"{response.error_code} {response.error_message or ''}"

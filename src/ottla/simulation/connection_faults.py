"""Faults of connections and of the registration: no descriptors, peers that never read, operators.

They came later than the others (:mod:`faults`), and are drawn beside them, so that the seeds of
those keep what they had.
"""

import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from ottla.common.chance import Chance
from ottla.common.promise import Promise, run
from ottla.network.sockets import StreamSocket
from ottla.protocol.generated.unregister_broker import UnregisterBrokerRequest
from ottla.simulation.cluster import PORT, SimulatedCluster
from ottla.simulation.faults import End, Faults, Nodes
from ottla.simulation.membership import asked_by_operator
from ottla.simulation.node import SimulatedNode
from ottla.simulation.sockets import SimulatedSocket

API_VERSIONS: Final = bytes.fromhex("0000000a0012000000000001ffff")
"""A small request with an answer that is many times as large."""
REQUESTS: Final = 1_500
"""As many as fill the way back, and more."""
LOOK_SECONDS: Final = 0.5
CLOSED_SECONDS: Final = 30.0
"""By when a peer that never reads is closed, beyond ``connections.max.idle.ms``."""
IDLE_MS_MAX: Final = 30_000
"""With a longer limit nobody waits for the end."""


def no_descriptors(faults: Faults, nodes: Nodes, chance: Chance) -> End | None:
    """A node can open next to nothing more: it accepts nobody, and dials nobody."""
    del faults
    node = nodes[0]
    if node.node is None:
        return None
    node.host.descriptors_max = node.host.descriptors_used + chance.below(3)
    node.cluster.note(f"{node} has no descriptors left")

    def end() -> None:
        node.cluster.note(f"{node} has descriptors again")
        node.host.descriptors_max = sys.maxsize

    return end


# Peers that never read


def deaf_peer(faults: Faults, nodes: Nodes, _chance: Chance) -> End | None:
    """Somebody asks much of a broker, and never reads the answers."""
    node = nodes[0]
    if not node.config.is_broker or not node.has_served:
        return None
    cluster = node.cluster
    host = cluster.client_host(f"deaf-{len(faults.tasks)}")
    faults.tasks.append(
        run(cluster.scheduler.turn, _stay_deaf(cluster, node, host.dial(node.host.name, PORT)))
    )
    return lambda: None


async def _stay_deaf(
    cluster: SimulatedCluster, node: SimulatedNode, dialled: Promise[StreamSocket]
) -> None:
    try:
        sock = await dialled
        assert isinstance(sock, SimulatedSocket)
        with suppress(BlockingIOError):
            for _ in range(REQUESTS):
                sock.send(API_VERSIONS)
    except OSError:
        return
    idle_ms = node.config.connections_max_idle_ms
    if idle_ms <= IDLE_MS_MAX:
        for _ in range(int((idle_ms / 1000 + CLOSED_SECONDS) / LOOK_SECONDS)):
            await cluster.sleep(LOOK_SECONDS)
            if sock.peer.is_gone:
                return
        cluster.violation("deaf-peer", f"{node} keeps a connection that nobody reads from")
    sock.close()


# Operators


def unregister(faults: Faults, nodes: Nodes, _chance: Chance) -> End | None:
    """A broker that runs is unregistered; it must come back by itself."""
    node = nodes[0]
    if not node.config.is_broker or not faults.may_lose(node):
        return None
    # The controller cannot tell that it has lost nothing.
    faults.has_lost = True
    faults.tasks.append(run(node.cluster.scheduler.turn, _unregister(node.cluster, node)))
    return lambda: None


async def _unregister(cluster: SimulatedCluster, node: SimulatedNode) -> None:
    leader = cluster.raft_leader()
    if leader is None:
        return
    request = UnregisterBrokerRequest(broker_id=node.node_id)
    cluster.note(f"{node} is unregistered: {await asked_by_operator(cluster, leader, request)}")


LATER_KINDS: Final[dict[str, Callable[[Faults, Nodes, Chance], End | None]]] = {
    "no-descriptors": no_descriptors,
    "deaf-peer": deaf_peer,
    "unregister": unregister,
}

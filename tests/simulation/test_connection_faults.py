"""Faults of connections and registrations find what they are for, and nothing when it is there."""

import pytest

from ottla.common.chance import Chance
from ottla.network.accepting import Accepting
from ottla.network.server import SocketServer
from ottla.server.lifecycle import BrokerLifecycle
from ottla.simulation.cluster import PORT, SimulatedCluster, Violation
from ottla.simulation.connection_faults import deaf_peer, no_descriptors, unregister
from ottla.simulation.faults import Faults

IDLE = {"connections.max.idle.ms": "5000"}


def started(seed: int) -> tuple[SimulatedCluster, Faults]:
    cluster = SimulatedCluster(seed, settings=IDLE)
    cluster.start()
    assert cluster.run_until(cluster.is_in_sync, 30)
    return cluster, Faults(cluster)


def without_descriptors(seed: int) -> None:
    """One node has none for a while, in which somebody dials it."""
    cluster, faults = started(seed)
    nodes = cluster.brokers
    end = no_descriptors(faults, nodes, Chance(1))
    assert end is not None
    host = cluster.client_host("client")
    dialled = [host.dial(nodes[0].host.name, PORT) for _ in range(5)]
    cluster.run_for(5)
    end()
    cluster.run_for(2)
    assert all(each.done for each in dialled)
    assert sum(len(each.backlog) for each in nodes[0].host.listening.values()) == 0
    assert cluster.run_until(cluster.is_in_sync, 30), cluster.unrest()


def test_a_node_without_descriptors_goes_on_and_accepts_later_who_waited() -> None:
    without_descriptors(3)


def test_a_node_that_looks_again_at_once_at_whom_it_cannot_accept_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Accepting, "_pause", lambda _self, _error: None)
    with pytest.raises(AssertionError, match="does not come to an end"):
        without_descriptors(3)


def with_deaf_peer(seed: int) -> None:
    cluster, faults = started(seed)
    assert deaf_peer(faults, cluster.brokers, Chance(1)) is not None
    assert cluster.run_until(lambda: faults.tasks[-1].done, 60)


def test_who_never_reads_is_closed() -> None:
    with_deaf_peer(4)


def test_a_node_that_keeps_who_never_reads_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def keeping(server: SocketServer) -> None:
        server._sweep = server._scheduler.call_later(1.0, server._close_idle)

    monkeypatch.setattr(SocketServer, "_close_idle", keeping)
    with pytest.raises(Violation, match="deaf-peer"):
        with_deaf_peer(4)


def unregistered(seed: int) -> bool:
    """Whether all is well again after a broker was unregistered."""
    cluster, faults = started(seed)
    node = cluster.brokers[0]
    assert unregister(faults, cluster.brokers, Chance(1)) is not None
    assert cluster.run_until(lambda: node.node_id not in cluster.newest_image().brokers, 10)
    return cluster.run_until(cluster.is_in_sync, 30)


def test_a_broker_that_is_unregistered_comes_back() -> None:
    assert unregistered(5)


def test_a_broker_that_does_not_register_again_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(_lifecycle: BrokerLifecycle) -> None:
        pass

    monkeypatch.setattr(BrokerLifecycle, "_register_again", nothing)
    assert not unregistered(5)

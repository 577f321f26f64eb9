"""What is done to a cluster while clients write: each fault, again and again."""

import time
from collections.abc import Callable, Iterator
from typing import Final

from tools.chaos.machine import Namespaces, fill, free
from tools.chaos.writers import PLAIN

from ottla.common.errors import ApiError
from ottla.testing.cluster import Cluster

Wait = Callable[[float], None]
Fault = Callable[[Cluster, Wait], None]

DISK_FULL: Final = "disk-full"
CUT_NAMESPACE: Final = "cut-namespace"


def kill_leader(cluster: Cluster, wait: Wait) -> None:
    """Kill -9 of the leader of a partition; it comes back after five seconds."""
    _kill(cluster, wait, lambda: cluster.leader(PLAIN))


def kill_controller(cluster: Cluster, wait: Wait) -> None:
    """Kill -9 of the active controller; it comes back after five seconds."""
    _kill(cluster, wait, cluster.controller)


def _kill(cluster: Cluster, wait: Wait, choose: Callable[[], int]) -> None:
    victim = _chosen(cluster, choose)
    cluster.kill(victim)
    wait(5)
    cluster.node(victim).process.start()


def kill_all(cluster: Cluster, wait: Wait) -> None:
    """Kill -9 of every node at once; they come back after a second."""
    cluster.kill(*(node.node_id for node in cluster.nodes))
    wait(1)
    for node in cluster.nodes:
        node.process.start()


def pause_leader(cluster: Cluster, wait: Wait) -> None:
    """The leader stands still for longer than its session lasts, then goes on as if nothing was."""
    _pause(cluster, wait, 12, lambda: cluster.leader(PLAIN))


def pause_leader_briefly(cluster: Cluster, wait: Wait) -> None:
    """The leader stands still for five seconds: nobody is elected in its place."""
    _pause(cluster, wait, 5, lambda: cluster.leader(PLAIN))


def pause_leader_long(cluster: Cluster, wait: Wait) -> None:
    """The leader stands still for half a minute: others have led for long when it goes on."""
    _pause(cluster, wait, 30, lambda: cluster.leader(PLAIN))


def pause_controller(cluster: Cluster, wait: Wait) -> None:
    """The active controller stands still, and wakes up as one of an epoch that is over."""
    _pause(cluster, wait, 12, cluster.controller)


def _pause(cluster: Cluster, wait: Wait, seconds: float, choose: Callable[[], int]) -> None:
    victim = _chosen(cluster, choose)
    cluster.pause(victim)
    wait(seconds)
    cluster.resume(victim)


def each_in_turn(cluster: Cluster, wait: Wait) -> None:
    """Each node stands still, and then each is killed, for longer than a session lasts."""
    for node in cluster.nodes:
        cluster.pause(node.node_id)
        wait(12)
        cluster.resume(node.node_id)
        wait(3)
    for node in cluster.nodes:
        cluster.kill(node.node_id)
        wait(12)
        node.process.start()
        wait(3)


def cut_leader(cluster: Cluster, wait: Wait) -> None:
    """The leader is cut from the other nodes, not from its clients."""
    cluster.isolate(_chosen(cluster, lambda: cluster.leader(PLAIN)))
    wait(15)
    cluster.heal()


def cut_one_way(cluster: Cluster, wait: Wait) -> None:
    """The leader hears the others, and they do not hear it."""
    victim = _chosen(cluster, lambda: cluster.leader(PLAIN))
    for node in cluster.nodes:
        if node.node_id != victim:
            cluster.partition(victim, node.node_id, one_way=True)
    wait(15)
    cluster.heal()


def disk_full(cluster: Cluster, wait: Wait) -> None:
    """The disk of the leader is full; later there is room again, and it is started again."""
    victim = cluster.node(_chosen(cluster, lambda: cluster.leader(PLAIN)))
    fill(victim.log_dir)
    wait(10)
    free(victim.log_dir)
    victim.process.kill()  # in case that it does without its disk
    victim.process.start()


def cut_namespace(network: Namespaces) -> Fault:
    """The leader is cut from everybody, its clients too."""

    def cut(cluster: Cluster, wait: Wait) -> None:
        network.cut(_chosen(cluster, lambda: cluster.leader(PLAIN)))
        wait(15)
        network.heal()

    return cut


def nothing(cluster: Cluster, wait: Wait) -> None:
    """No fault: what clients see of a cluster at rest."""


FAULTS: Final[dict[str, Fault]] = {
    "nothing": nothing,
    "kill-leader": kill_leader,
    "kill-controller": kill_controller,
    "kill-all": kill_all,
    "pause-leader": pause_leader,
    "pause-leader-briefly": pause_leader_briefly,
    "pause-leader-long": pause_leader_long,
    "pause-controller": pause_controller,
    "each-in-turn": each_in_turn,
    "cut-leader": cut_leader,
    "cut-one-way": cut_one_way,
    DISK_FULL: disk_full,
}

NAMES: Final = (*FAULTS, CUT_NAMESPACE)
"""All faults; that of a network is made with it."""


def _chosen(cluster: Cluster, choose: Callable[[], int]) -> int:
    """Whom the cluster names; it may have nobody at the moment."""
    found: list[int] = []

    def ask() -> bool:
        try:
            node_id = choose()
        except (OSError, ApiError):
            return False
        if node_id < 0 or not cluster.node(node_id).is_running:
            return False
        found.append(node_id)
        return True

    cluster.wait_until(ask, 60, "somebody leads")
    return found[0]


def times(seconds: float, every: float) -> Iterator[float]:
    """Now and every so often, as long as there is time for another one."""
    began = time.monotonic()
    at = began
    while at - began + every <= seconds:
        time.sleep(max(0.0, at - time.monotonic()))
        yield at
        at += every
    time.sleep(max(0.0, began + seconds - time.monotonic()))

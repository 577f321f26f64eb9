"""A cluster, a workload and directed trouble: what a planted bug is looked for with."""

from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from ottla.common.promise import Promise, run
from ottla.simulation.checkers.facts import Anomaly
from ottla.simulation.checkers.replicas import ReplicaChecker
from ottla.simulation.checkers.suite import check
from ottla.simulation.cluster import Roles, SimulatedCluster, Violation
from ottla.simulation.history import History
from ottla.simulation.node import SimulatedNode
from ottla.simulation.workloads.mix import SETTINGS
from ottla.simulation.workloads.workload import Workload

ALONE = {
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}

Trouble = Callable[[SimulatedCluster], Coroutine[Any, None, None]]
"""Comes while the workloads are at work; when it ends all is to be well again."""


@dataclass(frozen=True)
class Case:
    """A known case of data loss: the rule whose absence causes it, and where it shows."""

    name: str
    plant: Callable[[], AbstractContextManager[None]]
    trouble: Trouble
    workload: type[Workload]
    finds: frozenset[str]
    """Kinds of anomalies, any of which is this bug."""
    seconds: float = 60.0
    brokers: int = 3
    roles: Roles = "combined"
    settings: Mapping[str, str] = field(default_factory=dict)
    features: Mapping[str, int] = field(default_factory=dict)
    first_seed: int = 0
    """Where the short search begins; a seed that is known to find it."""

    def anomalies(self, seed: int) -> list[Anomaly]:
        """What one seed shows."""
        try:
            return self._perform(seed)
        except Violation as violation:
            return [violation.anomaly]

    def _perform(self, seed: int) -> list[Anomaly]:
        settings = {**SETTINGS, **(ALONE if self.brokers == 1 else {}), **self.settings}
        cluster = SimulatedCluster(
            seed, self.brokers, settings, self.roles, features=dict(self.features)
        )
        ReplicaChecker(cluster)
        cluster.start()
        history = History(lambda: cluster.scheduler.now)
        workload = self.workload(cluster, history)
        _wait(cluster, workload.prepare(), 120)
        workload.start()
        begun = cluster.scheduler.now
        _wait(cluster, self.trouble(cluster), self.seconds)
        cluster.run_for(max(0.0, self.seconds - (cluster.scheduler.now - begun)))
        if not cluster.run_until(cluster.is_in_sync, 240):
            return [Anomaly("liveness", cluster.unrest() or "")]
        workload.stop()
        if not cluster.run_until(lambda: not workload.still_running, 240):
            return [Anomaly("liveness", str(workload.still_running))]
        _wait(cluster, workload.conclude(), 120)
        return check(history)


def replaced(holder: object, name: str, value: object) -> Iterator[None]:
    """A rule of the real code is another, until the generator is closed."""
    real = vars(holder)[name]
    setattr(holder, name, value)
    try:
        yield
    finally:
        setattr(holder, name, real)


def pause(cluster: SimulatedCluster, seconds: float) -> Promise[None]:
    """Let simulated time pass."""
    passed: Promise[None] = Promise(cluster.scheduler.turn)
    cluster.scheduler.call_later(seconds, passed.fulfil, None)
    return passed


async def at_rest(cluster: SimulatedCluster) -> None:
    """Wait until all replicas are in sync, or a minute has passed."""
    for _ in range(60):
        if cluster.is_in_sync():
            return
        await pause(cluster, 1.0)


def leader_of(cluster: SimulatedCluster, topic: str) -> SimulatedNode | None:
    """Who leads the first partition, if it runs."""
    partition = cluster.newest_image().topics.by_name[topic].partitions[0]
    node = cluster.nodes.get(partition.leader)
    return node if node is not None and node.is_running else None


def _wait(cluster: SimulatedCluster, work: Coroutine[Any, None, None], seconds: float) -> None:
    done = run(cluster.scheduler.turn, work)
    if not cluster.run_until(lambda: done.done, seconds + 120):
        raise Violation(Anomaly("liveness", "what should end does not"))
    done.result()

"""Groups and transactions on three brokers, whose coordinators move or are lost for a while.

With one replica everything waits for the broker that has it; with three, coordinators move to the
brokers that are left. What clients did and saw is judged as in every run of the simulator.
"""

import pytest

from ottla.common.promise import run
from ottla.simulation.checkers.suite import check
from ottla.simulation.cluster import SimulatedCluster
from ottla.simulation.history import EndTransaction, FetchOffset, History
from ottla.simulation.workloads.copies import Copies
from ottla.simulation.workloads.groups import Groups
from ottla.simulation.workloads.mix import SETTINGS
from ottla.simulation.workloads.transactions import Transactions
from ottla.simulation.workloads.workload import Workload

GROUPS = "__consumer_offsets"
TRANSACTIONS = "__transaction_state"
ONE_REPLICA = {
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "offsets.topic.num.partitions": "6",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "6",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}


class Round:
    """A cluster with a workload; the test does harm to brokers in between."""

    def __init__(self, kind: type[Workload], seed: int, settings: dict[str, str]) -> None:
        self.cluster = SimulatedCluster(seed, settings={**SETTINGS, **settings})
        self.cluster.start()
        self.history = History(lambda: self.cluster.scheduler.now)
        self.workload = kind(self.cluster, self.history)
        prepared = run(self.cluster.scheduler.turn, self.workload.prepare())
        assert self.cluster.run_until(lambda: prepared.done, 60)
        prepared.result()
        self.workload.start()
        self.cluster.run_for(10)

    def leader(self, topic: str, index: int) -> int:
        return self.cluster.newest_image().topics.by_name[topic].partitions[index].leader

    def conclude(self) -> History:
        """Heal everything, let the workload end, and judge."""
        for node in self.cluster.nodes.values():
            if not node.is_running:
                self.cluster.wait_for(node.start(), 60)
        assert self.cluster.run_until(self.cluster.is_in_sync, 120), self.cluster.unrest()
        self.workload.stop()
        assert self.cluster.run_until(lambda: not self.workload.still_running, 120), (
            self.workload.still_running
        )
        self.cluster.run_for(30)  # what clients have given up is aborted
        concluded = run(self.cluster.scheduler.turn, self.workload.conclude())
        assert self.cluster.run_until(lambda: concluded.done, 60)
        concluded.result()
        assert check(self.history) == []
        return self.history


@pytest.mark.parametrize("kind", [Transactions, Groups, Copies])
def test_coordinators_and_leaders_on_three_brokers_work_together(kind: type[Workload]) -> None:
    work = Round(kind, 1, ONE_REPLICA)
    work.cluster.run_for(20)
    history = work.conclude()
    wanted = FetchOffset if kind is Groups else EndTransaction
    assert sum(isinstance(each, wanted) and each.is_ok for each in history) > 10


def hurt_coordinators(work: Round, *, pause: bool) -> None:
    """One broker after the other that coordinates something is away for a while."""
    for topic in (TRANSACTIONS, GROUPS):
        topics = work.cluster.newest_image().topics.by_name
        for index in topics[topic].partitions if topic in topics else ():
            node = work.cluster.nodes[work.leader(topic, index)]
            if pause:
                node.pause()
                work.cluster.run_for(12)
                node.resume()
            else:
                node.kill()
                work.cluster.run_for(8)
                work.cluster.wait_for(node.start(), 60)
            work.cluster.run_for(3)


@pytest.mark.parametrize("pause", [False, True], ids=["killed", "paused"])
@pytest.mark.parametrize("kind", [Transactions, Groups, Copies])
def test_coordinators_move_to_the_brokers_that_are_left(kind: type[Workload], pause: bool) -> None:
    work = Round(kind, 3, {})
    hurt_coordinators(work, pause=pause)
    work.conclude()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 20))
@pytest.mark.parametrize("pause", [False, True], ids=["killed", "paused"])
@pytest.mark.parametrize("kind", [Transactions, Groups, Copies])
def test_coordinators_move_in_many_ways(kind: type[Workload], pause: bool, seed: int) -> None:
    work = Round(kind, seed, {})
    hurt_coordinators(work, pause=pause)
    work.conclude()

"""Quorums of one to five that fail in every way: never unsafe, and alive when it is over."""

import pytest
from tests.raft.cluster import Cluster

from ottla.raft.events import Resign

SEEDS = 100
SLOW_SEEDS = 2_000
UPGRADE_SEEDS = 20
SNAPSHOT_SEEDS = 60
STEPS = 25


class Walk:
    """One seed: faults and writes by lot, then peace."""

    def __init__(self, seed: int, cluster: Cluster | None = None) -> None:
        size = (3, 3, 5, 3, 1, 3, 2, 4, 3, 3)[seed % 10]
        self.cluster = cluster or Cluster(
            seed, size, observers=1 + seed % 2, dynamic=seed % 4 != 3, has_slow_snapshots=True
        )
        self.chance = self.cluster.chance

    def run(self) -> None:
        self.cluster.run_for(3.0)
        for _ in range(STEPS):
            self.act()
            self.cluster.run_for(self.chance.between(0.0, 1.2))
        self.cluster.converge()

    def act(self) -> None:  # noqa: C901 - a branch for each thing that can happen
        cluster, chance = self.cluster, self.chance
        dice = chance.below(24)
        node_id = chance.choose(cluster.ids)
        if dice < 8:
            for _ in range(1 + chance.below(4)):
                cluster.append()
        elif dice < 11:
            if node_id in cluster.nodes:
                cluster.crash(node_id, power=chance.below(3) > 0)
            else:
                cluster.start(node_id)
        elif dice == 11:
            for each in list(cluster.nodes):
                cluster.crash(each)
            for each in cluster.ids:
                cluster.start(each)
        elif dice < 14:
            side = {each for each in cluster.ids if chance.below(2)}
            cluster.partition(side, one_way=chance.below(3) == 0)
        elif dice < 16:
            cluster.heal()
        elif dice == 16:
            cluster.loss = chance.below(30)
        elif dice == 17:
            cluster.is_slow = not cluster.is_slow
        elif dice < 20:
            for node in cluster.nodes.values():
                if chance.below(2):
                    node.take_snapshot()
        elif dice == 20 and cluster.leader is not None:
            cluster.leader.driver.step(Resign(cluster.scheduler.now))
        elif dice == 21:
            cluster.remove_voter(node_id)
        else:
            cluster.add_voter(node_id)


class UpgradingWalk(Walk):
    """The quorum is static at first, and may become a dynamic one at any moment."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, Cluster(seed, (3, 2, 3, 5, 1)[seed % 5], observers=1, dynamic=False))

    def act(self) -> None:
        if self.chance.below(8) == 0:
            self.cluster.upgrade()
        super().act()


class SnapshotWalk(Walk):
    """Nodes are away for long, and all that is left for them is a snapshot."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, Cluster(seed, 3, observers=1, has_slow_snapshots=True))

    def act(self) -> None:
        cluster, chance = self.cluster, self.chance
        dice = chance.below(12)
        if dice < 5:
            for _ in range(4 + chance.below(12)):
                cluster.append()
        elif dice < 9:
            for node in cluster.nodes.values():
                if chance.below(3):
                    node.take_snapshot()
        elif dice == 9:
            cluster.partition({chance.choose(cluster.ids)})
        elif dice == 10:
            cluster.heal()
        else:
            super().act()


def run(first_seed: int, last_seed: int, kind: type[Walk] = Walk) -> None:
    committed = 0
    for seed in range(first_seed, last_seed):
        walk = kind(seed)
        try:
            walk.run()
        except AssertionError as error:
            story = walk.cluster.checker.describe()
            raise AssertionError(f"seed {seed}: {error}\n{story}") from error
        committed += walk.cluster.checker.high_watermark
    assert committed > 10 * (last_seed - first_seed), "where nothing is written nothing is proved"


@pytest.mark.parametrize("first_seed", range(0, SEEDS, 10))
def test_a_quorum_is_safe_at_every_step_and_alive_in_the_end(first_seed: int) -> None:
    run(first_seed, first_seed + 10)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("first_seed", range(SEEDS, SLOW_SEEDS, 100))
def test_a_quorum_is_safe_and_alive_from_many_seeds(first_seed: int) -> None:
    run(first_seed, first_seed + 100)


def test_the_same_seed_is_the_same_story() -> None:
    stories = []
    for _ in range(2):
        walk = Walk(7)
        walk.run()
        stories.append((walk.cluster.checker.describe(), walk.cluster.scheduler.steps))
    assert stories[0] == stories[1]


def test_a_quorum_is_safe_while_snapshots_take_the_place_of_its_log() -> None:
    run(0, SNAPSHOT_SEEDS, SnapshotWalk)


def test_a_quorum_is_safe_while_it_becomes_a_dynamic_one() -> None:
    run(0, UPGRADE_SEEDS, UpgradingWalk)


@pytest.mark.slow
def test_many_more_quorums_are_safe_while_they_become_dynamic() -> None:
    run(UPGRADE_SEEDS, 20 * UPGRADE_SEEDS, UpgradingWalk)

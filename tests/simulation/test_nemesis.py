"""The plan of faults obeys the seed, each kind does what it says, and healing undoes it."""

import pytest

from ottla.common.chance import Chance
from ottla.common.promise import run
from ottla.metadata.topics import PartitionImage
from ottla.simulation import disk
from ottla.simulation.cluster import SimulatedCluster
from ottla.simulation.cluster_client import ClusterClient
from ottla.simulation.faults import KINDS, Faults
from ottla.simulation.nemesis import ALL_KINDS, Nemesis
from ottla.simulation.node import SimulatedNode
from ottla.simulation.scenario import SCENARIOS, TWO_DIRECTORIES, draw_scenario


def started(seed: int) -> SimulatedCluster:
    cluster = SimulatedCluster(seed)
    for node in cluster.nodes.values():
        node.start()
    cluster.run_for(8)
    return cluster


def test_the_same_seed_draws_the_same_plan_and_another_another() -> None:
    plans = [Nemesis(SimulatedCluster(seed), tuple(KINDS)).plan(100) for seed in (1, 1, 2)]
    assert plans[0] == plans[1]
    assert plans[0] != plans[2]
    assert len(plans[0]) > 10
    assert all(fault.at + fault.seconds <= 100 for fault in plans[0])


def test_each_seed_draws_a_scenario_of_its_own() -> None:
    drawn = [draw_scenario(seed) for seed in range(50)]
    assert drawn == [draw_scenario(seed) for seed in range(50)]
    assert len({scenario.faults for scenario in drawn}) > 30
    assert {scenario.roles for scenario in drawn} == {"combined", "separate"}
    assert {scenario.has_two_directories for scenario in drawn} == {False, True}
    assert {scenario.loses_indexes for scenario in drawn} == {False, True}
    assert set().union(*(scenario.faults for scenario in drawn)) == set(ALL_KINDS)
    assert all(set(kinds) <= set(ALL_KINDS) for kinds in SCENARIOS.values())


@pytest.mark.parametrize("kind", ["kill", "kill-all", "full-disk", "bad-disk", "pause"])
def test_after_healing_all_nodes_run(kind: str) -> None:
    cluster = started(4)
    faults = Faults(cluster)
    nodes = list(cluster.nodes.values())
    assert KINDS[kind](faults, nodes, Chance(5)) is not None
    cluster.run_for(5)
    faults.heal()
    cluster.run_for(20)
    assert all(node.is_running and not node.scheduler.is_paused for node in nodes)
    assert cluster.raft_leader() is not None


def test_a_way_that_two_faults_have_cut_is_open_when_both_have_ended() -> None:
    cluster = started(5)
    faults = Faults(cluster)
    nodes = list(cluster.nodes.values())
    first = faults.isolate(nodes, Chance(1))
    second = faults.halves(nodes, Chance(2))
    assert first is not None
    assert second is not None
    link = cluster.network.link(nodes[0].host, nodes[2].host)
    assert link.is_cut
    first()
    assert link.is_cut
    second()
    assert not link.is_cut


def test_a_disk_that_fails_ends_its_node_and_a_mended_one_carries_it_again() -> None:
    cluster = started(6)
    leader = cluster.raft_leader()
    assert leader is not None
    leader.files.fail = lambda operation, _path: OSError(5, "EIO") if operation == "sync" else None
    cluster.run_for(15)
    assert not leader.is_running
    assert leader.failure is not None
    disk.mend(leader)
    leader.start()
    cluster.run_for(10)
    assert leader.is_running


@pytest.mark.parametrize("kind", ["full-disk", "bad-disk"])
def test_a_node_that_starts_on_a_bad_disk_has_a_reason_to_end(kind: str) -> None:
    """Seed 254: the disk became full while the node was down."""
    cluster = started(6)
    faults = Faults(cluster)
    nodes = list(cluster.nodes.values())
    nodes[0].kill()
    end = KINDS[kind](faults, nodes, Chance(5))
    assert end is not None
    faults.start(nodes[0])
    nodes[0].has_served = True
    assert faults.may_end(nodes[0])
    end()
    nodes[0].has_served = True
    assert not faults.may_end(nodes[0]), "its disk was well when it began"


def with_two_directories(seed: int) -> SimulatedCluster:
    cluster = SimulatedCluster(seed, settings={"log.dirs": TWO_DIRECTORIES})
    cluster.start()
    created = run(
        cluster.scheduler.turn, ClusterClient(cluster, "admin").create_topic("t", 8, 3, {})
    )
    cluster.wait_for(created, 30)
    assert cluster.run_until(cluster.is_in_sync, 30)
    return cluster


@pytest.mark.parametrize("is_healed", [False, True])
def test_a_node_goes_on_without_the_directory_that_it_can_do_without(is_healed: bool) -> None:
    cluster = with_two_directories(8)
    faults = Faults(cluster)
    nodes = list(cluster.nodes.values())
    end = faults.bad_disk(nodes, Chance(1))
    assert end is not None
    cluster.run_for(20)
    broker = nodes[0].node
    assert broker is not None
    assert broker.replicas is not None
    assert 0 < broker.replicas.offline_count < 8
    assert all(nodes[0].node_id not in p.isr for p in offline(nodes[0]))
    (faults.heal if is_healed else end)()
    assert cluster.run_until(cluster.is_in_sync, 60)
    assert broker is not nodes[0].node


def offline(node: SimulatedNode) -> list[PartitionImage]:
    replicas = None if node.node is None else node.node.replicas
    assert replicas is not None
    partitions = node.image.topics.by_name["t"].partitions
    return [each for index, each in partitions.items() if replicas.is_offline("t", index)]


def test_a_directory_is_replaced_and_filled_again_even_with_a_voter_beside_it() -> None:
    cluster = with_two_directories(9)
    faults = Faults(cluster)
    nodes = list(cluster.nodes.values())
    directory = nodes[0].other_directories[0]

    def logs() -> list[str]:
        return [name for name in nodes[0].files.list_directory(directory) if name.startswith("t-")]

    assert logs()
    end = faults.new_disk(nodes, Chance(1))
    assert end is not None
    assert not logs()
    end()
    assert cluster.run_until(cluster.is_in_sync, 60)
    assert logs()


def test_a_slow_disk_delays_what_is_committed() -> None:
    cluster = started(7)
    for node in cluster.nodes.values():
        disk.slow(node, Chance(7))
    leader = cluster.raft_leader()
    assert leader is not None
    assert leader.raft is not None
    before = leader.raft.high_watermark
    leader.raft.append([b"\x00"], cluster.scheduler.wall_ms())
    cluster.run_for(0.19)
    assert leader.raft.high_watermark == before


def test_power_can_go_in_the_middle_of_a_write() -> None:
    cluster = started(8)
    leader = cluster.raft_leader()
    assert leader is not None
    leader.lose_power_after(1)
    cluster.run_for(15)
    assert not leader.is_running
    assert not leader.host.is_up
    assert len(list(cluster.running)) == 2

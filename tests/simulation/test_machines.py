"""Three machines of two processes each: a machine that is lost as a whole loses nothing."""

from collections.abc import Callable

import pytest
from tests.simulation.test_replication import TOPIC, write

from ottla.common.chance import Chance
from ottla.common.promise import run
from ottla.metadata.topics import PartitionImage
from ottla.simulation.cluster import PROCESS_STEP, SimulatedCluster
from ottla.simulation.cluster_client import ClusterClient
from ottla.simulation.faults import End, Faults, Nodes
from ottla.simulation.machines import cut_off, cut_power, kill_machine, lose_machine
from ottla.simulation.node import SimulatedNode
from ottla.simulation.run import run_seed
from ottla.simulation.scenario import MACHINES, draw_scenario

PARTITIONS = 12
RECORDS = 5
CLIENT = "client"
Way = Callable[[Faults, Nodes, Chance], End | None]


def machines(seed: int, replicas: int, **settings: str) -> SimulatedCluster:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    cluster = SimulatedCluster(
        seed, processes=2, settings=named, features={"eligible.leader.replicas.version": 1}
    )
    cluster.start()
    maker = ClusterClient(cluster, CLIENT)
    created = run(cluster.scheduler.turn, maker.create_topic(TOPIC, PARTITIONS, replicas, {}))
    cluster.wait_for(created, 60)
    assert cluster.run_until(cluster.is_in_sync, 60)
    return cluster


def of_machine(cluster: SimulatedCluster, machine: int) -> list[SimulatedNode]:
    return [node for node in cluster.nodes.values() if node.node_id % PROCESS_STEP == machine]


def partitions(cluster: SimulatedCluster) -> dict[int, PartitionImage]:
    return dict(cluster.newest_image().topics.by_name[TOPIC].partitions)


def lose(cluster: SimulatedCluster, machine: int, way: Way) -> End | None:
    """With a draw by which the one client reaches all nodes."""
    nodes = of_machine(cluster, machine)
    nodes += [node for node in cluster.nodes.values() if node not in nodes]
    draw = next(each for each in range(100) if Chance(each).below(3) == 2)
    return way(Faults(cluster), nodes, Chance(draw))


@pytest.mark.parametrize("replicas", [2, 3])
def test_no_two_replicas_are_placed_on_one_machine(replicas: int) -> None:
    cluster = machines(21, replicas)
    for partition in partitions(cluster).values():
        assert len({each % PROCESS_STEP for each in partition.replicas}) == replicas
    first = [partition.replicas[0] for partition in partitions(cluster).values()]
    assert set(first) == set(cluster.nodes), "all processes lead"


@pytest.mark.parametrize("way", [kill_machine, cut_power, cut_off])
@pytest.mark.parametrize("machine", [1, 2, 3])
def test_a_lost_machine_loses_nothing(machine: int, way: Way) -> None:
    cluster = machines(30 + machine, 3)
    client = ClusterClient(cluster, CLIENT)
    for index in range(PARTITIONS):
        cluster.wait_for(run(cluster.scheduler.turn, write(client, RECORDS, index)), 120)
    assert cluster.run_until(cluster.is_in_sync, 60)
    before = written(cluster)
    assert len(before) == PARTITIONS
    end = lose(cluster, machine, way)
    assert end is not None
    own = {node.node_id for node in of_machine(cluster, machine)}
    assert all(cluster.nodes[each].is_running is (way is cut_off) for each in own)

    def is_led() -> bool:
        return all(
            each.leader >= 0 and each.leader not in own for each in partitions(cluster).values()
        )

    assert cluster.run_until(is_led, 60), "the other machines lead everything"
    # Two of three replicas are enough for acks=all.
    for index in range(PARTITIONS):
        cluster.wait_for(run(cluster.scheduler.turn, write(client, 1, index)), 120)
    end()
    assert cluster.run_until(cluster.is_in_sync, 120)
    cluster.run_for(5)
    after = written(cluster)
    for index, data in before.items():
        assert after[index].startswith(data), "what was acknowledged is there"
        assert len(after[index]) > len(data)


def written(cluster: SimulatedCluster) -> dict[int, bytes]:
    """The first segment of each partition, the same on all of its replicas."""
    found = {}
    for index, partition in partitions(cluster).items():
        path = f"/data/{TOPIC}-{index}/{0:020d}.log"
        (found[index],) = {cluster.nodes[each].files.read(path) for each in partition.replicas}
    return found


def test_a_machine_is_lost_only_where_its_replicas_lie_elsewhere_too() -> None:
    """Its power is not cut when it has the only replica of something; it is killed all the same."""
    cluster = machines(40, 1)
    assert lose(cluster, 1, cut_power) is None
    assert all(node.is_running for node in cluster.nodes.values())
    assert lose(cluster, 1, kill_machine) is not None
    assert [node for node in cluster.nodes.values() if not node.is_running] == of_machine(
        cluster, 1
    )


def test_a_machine_is_lost_in_each_way() -> None:
    cluster = machines(41, 3)
    nodes = list(cluster.nodes.values())
    is_cut = is_down = has_lost = False
    for draw in range(12):
        faults = Faults(cluster)
        end = lose_machine(faults, nodes, Chance(draw))
        assert end is not None
        runs = {node.node_id % PROCESS_STEP for node in cluster.running}
        is_cut |= runs == {1, 2, 3}
        is_down |= runs == {2, 3} and not faults.has_lost
        has_lost |= runs == {2, 3} and faults.has_lost
        end()
        assert cluster.run_until(cluster.is_in_sync, 120)
    assert is_cut
    assert is_down
    assert has_lost


def test_some_seeds_have_machines_of_two_processes() -> None:
    drawn = [draw_scenario(seed) for seed in range(100)]
    several = [scenario for scenario in drawn if scenario.processes > 1]
    assert 3 < len(several) < 25
    for scenario in several:
        assert "machine" in scenario.faults
        assert scenario.roles == "combined"
        assert "3 machines of 2 brokers" in str(scenario)
    assert draw_scenario(1, MACHINES).processes == 2


def test_a_run_loses_machines_and_nothing_else() -> None:
    report = run_seed(3, MACHINES)
    assert report.is_ok, report.failure
    assert report.faults["machine"] > 0

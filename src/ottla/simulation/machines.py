"""Machines with several processes each: they die together, and their replicas lie elsewhere.

The first process of a machine is broker and controller, the others are brokers; their rack is the
machine, so that no two replicas of a partition are placed on it.
"""

from collections.abc import Callable
from typing import Final

from ottla.common.chance import Chance
from ottla.simulation.faults import End, Faults, Nodes

MACHINE: Final = "machine"


def lose_machine(faults: Faults, nodes: Nodes, chance: Chance) -> End | None:
    """The machine of the first node is lost, in one of three ways."""
    return chance.choose((kill_machine, cut_power, cut_off))(faults, nodes, chance)


def kill_machine(faults: Faults, nodes: Nodes, chance: Chance) -> End | None:
    """All processes of it end at once."""
    return faults.kill_all(_together(nodes), chance)


def cut_power(faults: Faults, nodes: Nodes, _chance: Chance) -> End | None:
    """All processes of it end, and what they have not synced is lost."""
    lost = _together(nodes)
    if not all(map(faults.may_lose, lost)) or _has_all_of_a_partition(lost):
        return None
    faults.has_lost = True
    for node in lost:
        node.lose_power()

    def end() -> None:
        for node in lost:
            faults.start(node)

    return end


def cut_off(faults: Faults, nodes: Nodes, chance: Chance) -> End | None:
    """No other machine reaches it; its processes reach each other."""
    lost = _together(nodes)
    return faults.part(lost, [node for node in nodes if node not in lost], chance)


def _together(nodes: Nodes) -> Nodes:
    """Those of the machine of the first."""
    return [node for node in nodes if node.config.broker_rack == nodes[0].config.broker_rack]


def _has_all_of_a_partition(nodes: Nodes) -> bool:
    """What is nowhere else may be lost with the power; racks let it not come to that."""
    cluster = nodes[0].cluster
    own = {node.node_id for node in nodes}
    return any(
        own.issuperset(partition.replicas)
        for topic in cluster.newest_image().topics
        for partition in topic.partitions.values()
    )


MACHINE_KINDS: Final[dict[str, Callable[[Faults, Nodes, Chance], End | None]]] = {
    MACHINE: lose_machine
}

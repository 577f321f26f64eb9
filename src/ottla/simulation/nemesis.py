"""What goes wrong, and when: a plan of faults drawn from the seed, each with an end.

Faults of all kinds overlap as they come. A node that ends by itself is started again after a while,
as a supervisor does; one that has served and has a good disk has no reason to.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ottla.common.chance import Chance
from ottla.simulation.cluster import SimulatedCluster
from ottla.simulation.connection_faults import LATER_KINDS
from ottla.simulation.faults import KINDS, End, Faults
from ottla.simulation.machines import MACHINE_KINDS
from ottla.simulation.node import SimulatedNode

SECONDS: Final = (1.0, 20.0)
"""How long a fault lasts; most are short."""
PAUSE_SECONDS: Final = (0.5, 8.0)
"""Between the beginnings of two faults."""
RESTART_SECONDS: Final = (0.5, 5.0)
ALL_KINDS: Final = {**KINDS, **LATER_KINDS, **MACHINE_KINDS}


@dataclass(frozen=True)
class Fault:
    kind: str
    at: float
    seconds: float
    nodes: tuple[int, ...]
    """All of them, in an order of chance; most kinds take the first."""
    draw: int
    """Decides what the kind leaves open."""

    def __str__(self) -> str:
        return f"{self.at:.3f} {self.kind} for {self.seconds:.3f} s on {self.nodes}"


class Nemesis:
    def __init__(self, cluster: SimulatedCluster, kinds: Sequence[str]) -> None:
        self._cluster = cluster
        self._kinds = kinds
        self._chance = cluster.part("nemesis")
        self.faults = Faults(cluster)
        self.begun: Counter[str] = Counter()
        """How many faults of each kind there were."""
        cluster.on_end.append(self._ended)

    def plan(self, seconds: float) -> list[Fault]:
        """Faults from now on, for so long."""
        faults: list[Fault] = []
        chance = self._chance
        at = self._cluster.scheduler.now
        end = at + seconds
        while self._kinds:
            at += chance.between(*PAUSE_SECONDS)
            if at >= end:
                break
            length = chance.between(*SECONDS) ** 2 / SECONDS[1]
            nodes = list(self._cluster.nodes)
            order = tuple(nodes.pop(chance.below(len(nodes))) for _ in self._cluster.nodes)
            kind = chance.choose(self._kinds)
            faults.append(Fault(kind, at, min(length, end - at), order, chance.below(1 << 30)))
        return faults

    def start(self, seconds: float) -> None:
        """Let everything that is planned for the next ``seconds`` happen."""
        scheduler = self._cluster.scheduler
        for fault in self.plan(seconds):
            scheduler.call_later(fault.at - scheduler.now, self._begin, fault)

    def _begin(self, fault: Fault) -> None:
        if self.faults.is_over:
            return
        nodes = [self._cluster.nodes[node_id] for node_id in fault.nodes]
        end = ALL_KINDS[fault.kind](self.faults, nodes, Chance(fault.draw))
        if end is not None:
            self.begun[fault.kind] += 1
            self._cluster.scheduler.call_later(fault.seconds, self._end, end)

    def _end(self, end: End) -> None:
        if not self.faults.is_over:
            end()

    def heal(self) -> None:
        """End all faults at once."""
        self._cluster.note("all is healed")
        self.faults.heal()

    @property
    def is_done(self) -> bool:
        """Whether nothing that it has begun still goes on."""
        return all(task.done for task in self.faults.tasks)

    def _ended(self, node: SimulatedNode) -> None:
        if node.failure is None:
            return
        if not self.faults.may_end(node):
            what = f"{node}: {type(node.failure).__name__}: {node.failure}"
            self._cluster.violation("ended-by-itself", what)
        pause = self._chance.between(*RESTART_SECONDS)
        self._cluster.scheduler.call_later(pause, self.faults.start, node)

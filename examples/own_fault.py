"""A simulated cluster with a fault of one's own: ``python examples/own_fault.py [SEEDS]``.

Three real brokers run in this process, on a simulated clock, network and disk. A node is cut off
from the others and at the same time its clock is wrong. The checkers look at every step; in the end
nothing that was acknowledged may be missing. The same seed does the same again.
"""

import sys

from ottla.common.chance import Chance
from ottla.simulation.faults import End, Faults
from ottla.simulation.nemesis import ALL_KINDS
from ottla.simulation.node import SimulatedNode
from ottla.simulation.run import run_seed
from ottla.simulation.scenario import SCENARIOS

NAME = "lost in time"


def lost_in_time(faults: Faults, nodes: list[SimulatedNode], chance: Chance) -> End | None:
    """Begin the fault on the first of the nodes; return what ends it."""
    ends = [faults.isolate(nodes, chance), faults.skew(nodes, chance)]

    def end() -> None:
        for each in ends:
            if each is not None:
                each()

    return end


ALL_KINDS[NAME] = lost_in_time
SCENARIOS[NAME] = (NAME,)


def main(seeds: int) -> int:
    for seed in range(seeds):
        report = run_seed(seed, NAME, seconds=20)
        happened = report.faults.get(NAME, 0)
        print(f"seed {seed}: {report.failure or 'all is well'} after {happened} faults,", end=" ")
        print(f"{report.progress} operations, {report.simulated_seconds:.0f} simulated seconds")
        if not report.is_ok:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if sys.argv[1:] else 2))

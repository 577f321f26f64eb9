"""Early tombstone: one that goes as soon as it is met, while readers of the value are under way."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.simulation.planted.stage import Case

from ottla.simulation.cluster import SimulatedCluster
from ottla.simulation.history import Isolation
from ottla.simulation.workloads.records import CompactedRecords
from ottla.storage.cleaning import batch_filter


@contextmanager
def tombstones_go_at_once() -> Iterator[None]:
    module = vars(batch_filter)
    real = module["choose"]

    def choose(*args: object) -> object:
        *others, _keep_tombstones = args
        return real(*others, False)

    module["choose"] = choose
    try:
        yield
    finally:
        module["choose"] = real


class Swept(CompactedRecords):
    """With more readers."""

    def start(self) -> None:
        super().start()
        for number in range(6):
            name = f"sweeper-{number}"
            self.begin(name, self._read(name, Isolation.UNCOMMITTED))


async def none(_cluster: SimulatedCluster) -> None:
    """All goes well."""


EARLY_TOMBSTONE = Case(
    name="early tombstone",
    plant=tombstones_go_at_once,
    trouble=none,
    workload=Swept,
    finds=frozenset({"early-tombstone"}),
    brokers=1,
    first_seed=2,
)

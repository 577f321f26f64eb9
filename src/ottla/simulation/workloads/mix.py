"""The workloads of one run, drawn from its seed, and the judgement of what they have seen."""

from typing import Final

from ottla.common.promise import Promise, run
from ottla.simulation.checkers.facts import Anomaly
from ottla.simulation.checkers.suite import check
from ottla.simulation.cluster_client import World
from ottla.simulation.history import History
from ottla.simulation.workloads.administration import Administration
from ottla.simulation.workloads.copies import Copies
from ottla.simulation.workloads.groups import Groups
from ottla.simulation.workloads.records import CompactedRecords, ExpiringRecords, Records
from ottla.simulation.workloads.transactions import Transactions
from ottla.simulation.workloads.workload import Workload

ALL: Final[dict[str, type[Workload]]] = {
    kind.NAME: kind
    for kind in (
        Records,
        ExpiringRecords,
        CompactedRecords,
        Transactions,
        Groups,
        Copies,
        Administration,
    )
}
KINDS_MAX: Final = 3
"""In one run: more of them would each do less."""

SETTINGS: Final = {
    "group.consumer.session.timeout.ms": "8000",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "log.retention.check.interval.ms": "3000",
    "log.cleaner.backoff.ms": "2000",
}
"""What brokers need for the workloads to show much in a short time."""


class Mix:
    """``prepare``, ``start``, trouble the cluster, ``stop``, ``conclude``, ``anomalies``."""

    def __init__(self, world: World, names: list[str] | None = None) -> None:
        """``names`` of workloads; drawn from the seed when they are not given."""
        self.history = History(lambda: world.scheduler.now)
        chance = world.part("mix")
        if names is None:
            left = list(ALL)
            names = []
            for _ in range(chance.below(KINDS_MAX) + 1):
                names.append(left.pop(chance.below(len(left))))
        world.note(f"workloads: {', '.join(names)}")
        self.workloads = [ALL[name](world, self.history) for name in names]

    def prepare(self) -> Promise[None]:
        """Make the topics; to be waited for while all is well."""
        return run(self._prepare())

    async def _prepare(self) -> None:
        for workload in self.workloads:
            await workload.prepare()

    def start(self) -> None:
        for workload in self.workloads:
            workload.start()

    def stop(self) -> None:
        for workload in self.workloads:
            workload.stop()

    @property
    def still_running(self) -> list[str]:
        """Who has not ended yet; after ``stop`` and without faults this becomes empty soon."""
        return [
            f"{workload.NAME}: {name}"
            for workload in self.workloads
            for name in workload.still_running
        ]

    def conclude(self) -> Promise[None]:
        """Read what is there at the end; to be waited for when all is well again."""
        return run(self._conclude())

    async def _conclude(self) -> None:
        for workload in self.workloads:
            await workload.conclude()

    def anomalies(self) -> list[Anomaly]:
        return check(self.history)

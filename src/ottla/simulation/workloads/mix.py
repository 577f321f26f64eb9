"""The workloads of one run, drawn from its seed."""

from collections.abc import Sequence
from typing import Final

from ottla.common.chance import Chance
from ottla.simulation.cluster_client import World
from ottla.simulation.history import History
from ottla.simulation.workloads.administration import Administration
from ottla.simulation.workloads.copies import Copies
from ottla.simulation.workloads.groups import Groups
from ottla.simulation.workloads.guarded import Guarded
from ottla.simulation.workloads.lossy import LossyRecords
from ottla.simulation.workloads.quotas import Quotas
from ottla.simulation.workloads.records import CompactedRecords, ExpiringRecords, Records
from ottla.simulation.workloads.tiered import TIERED
from ottla.simulation.workloads.tokens import DelegationTokens
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
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "2000",
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "log.retention.check.interval.ms": "3000",
    "log.cleaner.enable": "true",
    "log.cleaner.backoff.ms": "2000",
    "log.cleaner.dedupe.buffer.size": "2097152",
}
"""What brokers need for the workloads to show much in a short time."""


class Mix:
    """Some workloads at once, as one: what the runner uses when nothing else is said."""

    def __init__(self, world: World, history: History, names: Sequence[str] | None = None) -> None:
        """``names`` of workloads; drawn from the seed when they are not given."""
        if names is None:
            names = _draw(world.part("mix"))
        world.note(f"workloads: {', '.join(names)}")
        beside: tuple[type[Workload], ...] = (LossyRecords, Guarded, DelegationTokens, Quotas)
        kinds = {**ALL, **TIERED, **{kind.NAME: kind for kind in beside}}
        self.workloads = [kinds[name](world, history) for name in names]

    async def prepare(self) -> None:
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
        """What has not ended yet; after ``stop`` and without faults this becomes empty soon."""
        return [
            f"{workload.NAME}: {name}"
            for workload in self.workloads
            for name in workload.still_running
        ]

    async def conclude(self) -> None:
        for workload in self.workloads:
            await workload.conclude()

    def close(self) -> None:
        for workload in self.workloads:
            workload.close()


def _draw(chance: Chance) -> list[str]:
    left = list(ALL)
    return [left.pop(chance.below(len(left))) for _ in range(chance.below(KINDS_MAX) + 1)]

"""Requests of a transaction that come late: KAFKA-17754, and the transaction that nobody ends."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from tests.simulation.planted.stage import Case, pause

from ottla.coordinator.transaction.ending import EndTransaction
from ottla.records.batch import BatchHeader
from ottla.replication.verification import VerificationGuard, Verifications
from ottla.simulation.cluster import SimulatedCluster
from ottla.simulation.workloads.transactions import Transactions
from ottla.storage.producer_state import ProducerState


class ImpatientOfVersion1(Transactions):
    IDS: ClassVar[dict[str, int]] = dict.fromkeys(("a", "b", "c", "d"), 1)
    REQUEST_SECONDS: ClassVar[tuple[float, ...]] = (0.7,)
    DELIVERY_SECONDS: ClassVar[tuple[float, ...]] = (1.0,)


class ImpatientOfVersion2(ImpatientOfVersion1):
    IDS: ClassVar[dict[str, int]] = dict.fromkeys("abcdefghij", 2)


@contextmanager
def ends_do_not_bump_the_epoch() -> Iterator[None]:
    real = EndTransaction.bumps_epoch
    EndTransaction.bumps_epoch = property(lambda _: False)  # type: ignore[assignment,method-assign]
    try:
        yield
    finally:
        EndTransaction.bumps_epoch = real  # type: ignore[method-assign]


@contextmanager
def appends_are_not_verified() -> Iterator[None]:
    real_begin, real_check = Verifications.begin, Verifications.check

    def begin(
        self: Verifications,
        producers: ProducerState,
        producer_id: int,
        epoch: int,
        sequence: int,
        *,
        supports_epoch_bump: bool,
    ) -> VerificationGuard | None:
        if supports_epoch_bump:
            return real_begin(
                self, producers, producer_id, epoch, sequence, supports_epoch_bump=True
            )
        return None

    def check(
        self: Verifications,
        producers: ProducerState,
        header: BatchHeader,
        guard: VerificationGuard | None,
    ) -> None:
        if guard is not None:
            real_check(self, producers, header, guard)

    Verifications.begin = begin  # type: ignore[method-assign]
    Verifications.check = check  # type: ignore[method-assign]
    try:
        yield
    finally:
        Verifications.begin = real_begin  # type: ignore[method-assign]
        Verifications.check = real_check  # type: ignore[method-assign]


async def clients_are_far_away(cluster: SimulatedCluster) -> None:
    """Each connection is late for itself, so what is sent again may come first."""
    chance = cluster.part("trouble")
    end = cluster.scheduler.now + 50
    while cluster.scheduler.now < end:
        seconds = chance.choose((0.002, 1.0, 3.0))
        for client in cluster.client_hosts():
            for node in cluster.nodes.values():
                cluster.network.link(client, node.host).delay_seconds = (0.0, seconds)
        await pause(cluster, chance.between(0.5, 4.0))
    cluster.network.mend_all()


LATE_END = Case(
    name="KAFKA-17754",
    plant=ends_do_not_bump_the_epoch,
    trouble=clients_are_far_away,
    workload=ImpatientOfVersion2,
    finds=frozenset({"G1a", "lost-transaction", "torn-transaction", "precommitted-read"}),
    brokers=1,
)
HANGING_TRANSACTION = Case(
    name="hanging transaction",
    plant=appends_are_not_verified,
    trouble=clients_are_far_away,
    workload=ImpatientOfVersion1,
    finds=frozenset({"hanging-transaction", "G1a", "torn-transaction"}),
    brokers=1,
)

"""Transactions of versions 1 and 2: committed, aborted, abandoned, and taken over from zombies."""

from collections.abc import Iterable
from typing import Any, ClassVar, Final

from ottla.simulation.cluster_client import REQUEST_SECONDS
from ottla.simulation.history import Isolation, Outcome
from ottla.simulation.workloads.producing import DELIVERY_SECONDS
from ottla.simulation.workloads.records import Records
from ottla.simulation.workloads.transactional import (
    TIMEOUT_MS,
    VERSION_1,
    Fenced,
    Spoilt,
    TransactionalProducer,
)
from ottla.simulation.workloads.workload import Workload

UNENDED_SECONDS: Final = TIMEOUT_MS / 1000 + 8.0
"""Until the coordinator has ended what dead producers have left open."""


def options(version: int) -> dict[str, Any]:
    return {"highest": VERSION_1} if version == 1 else {}


async def end_open(workload: Workload, transactional_ids: Iterable[str]) -> None:
    """Wait until the coordinator has ended what dead producers have left open.

    A transaction that began while its clock was ahead gets so much longer. The next that takes its
    id need not wait for that.
    """
    client = workload.client("patient")
    await client.pause(UNENDED_SECONDS)
    if workload.world.clocks_were_skewed:
        for each in transactional_ids:
            await TransactionalProducer(client, workload.history, each, 2).init()


class Transactions(Records):
    NAME: ClassVar[str] = "transactions"
    IDS: ClassVar[dict[str, int]] = {"one": 1, "two": 2, "too": 2}
    """Transactional ids, and the version that their clients speak."""
    REQUEST_SECONDS: ClassVar[tuple[float, ...]] = (1.0, REQUEST_SECONDS)
    DELIVERY_SECONDS: ClassVar[tuple[float, ...]] = (1.5, DELIVERY_SECONDS)
    """Some are impatient: what they sent may come when they have given it up."""

    def start(self) -> None:
        for transactional_id in self.IDS:
            self.begin(transactional_id, self._incarnate(transactional_id))
        for isolation in Isolation:
            self.begin(f"reader {isolation}", self._read(f"reader-{isolation}", isolation))

    async def conclude(self) -> None:
        await end_open(self, self.IDS)
        await super().conclude()

    async def _incarnate(self, transactional_id: str) -> None:
        """Begin one producer after the other with the same id, the last one dead or not."""
        lives = 0
        client = self.client(transactional_id)
        while not self.is_stopping:
            lives += 1
            name = f"{transactional_id}-{lives}"
            self.begin(name, self._produce_in_transactions(name, transactional_id))
            zombie_at = client.now + client.chance.between(3.0, 40.0)
            waits = client.chance.below(3) > 0
            while client.now < zombie_at or (waits and name in self.still_running):
                await client.pause(1.0)
                if self._ends:
                    return

    @property
    def _ends(self) -> bool:
        return self.is_stopping

    async def _produce_in_transactions(self, name: str, transactional_id: str) -> None:
        version = self.IDS[transactional_id]
        seconds = self.chance.choose(self.REQUEST_SECONDS)
        client = self.client(
            name, **options(version), request_seconds=seconds, coordinator_seconds=seconds
        )
        producer = TransactionalProducer(
            client,
            self.history,
            transactional_id,
            version,
            delivery_seconds=self.chance.choose(self.DELIVERY_SECONDS),
        )
        try:
            await producer.init()
            while not self.is_stopping:
                await self._transact(producer, name)
                await client.pause(0.0, 0.5)
                if client.chance.below(40) == 0:
                    return  # as a process that dies: perhaps with a transaction open
        except Fenced:
            return

    async def _transact(self, producer: TransactionalProducer, name: str) -> Outcome | None:
        transaction = producer.begin()
        chance = self._clients[name].chance
        commit = chance.below(4) > 0
        try:
            for number in range(chance.below(4) + 1):
                values = [f"{transaction}/{number}/{each}" for each in range(chance.below(3) + 1)]
                await producer.send(chance.choose(self.places), values)
                await self._clients[name].pause(0.0, 0.3)
            if chance.below(30) == 0:
                raise Fenced  # it dies
        except Spoilt:
            commit = False
        return None if producer.is_empty else await producer.end(commit=commit)

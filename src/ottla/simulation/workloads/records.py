"""Idempotent producers and readers of three kinds of topics: kept, expiring and compacted."""

from typing import ClassVar, Final

from ottla.simulation.cluster_client import Place, World
from ottla.simulation.history import History, Isolation, Policy, UseTopic
from ottla.simulation.workloads.consuming import Cursor, read_all
from ottla.simulation.workloads.producing import IN_FLIGHT_MAX, Producer
from ottla.simulation.workloads.workload import Workload

PARTITIONS: Final = 2
DELETE_RETENTION_SECONDS: Final = 30.0
SWEEP_BYTES: Final = 200
"""Of one fetch: the way from the start to the end is long."""
KEYS: Final = 12


class Records(Workload):
    """Producers, and readers that were assigned their partitions and never miss anything."""

    NAME: ClassVar[str] = "records"
    POLICY: ClassVar[Policy] = Policy.KEEP
    DELETE_RETENTION_SECONDS: ClassVar[float] = 0.0

    def __init__(self, world: World, history: History, *, producers: int = 2) -> None:
        super().__init__(world, history)
        self._producers = producers
        self.places: list[Place] = [(self.NAME, index) for index in range(PARTITIONS)]

    async def prepare(self) -> None:
        client = self.client("admin")
        await self.create_topic(client, self.NAME, PARTITIONS)
        self.history.add(
            UseTopic(
                process=client.name,
                topic=self.NAME,
                policy=self.POLICY,
                delete_retention_seconds=self.DELETE_RETENTION_SECONDS,
            )
        )

    def start(self) -> None:
        for number in range(self._producers):
            self.begin(f"producer {number}", self._produce(f"producer-{number}"))
        for isolation in Isolation:
            self.begin(f"reader {isolation}", self._read(f"reader-{isolation}", isolation))

    async def conclude(self) -> None:
        await read_all(self, self.places)

    async def _produce(self, name: str) -> None:
        client = self.client(name)
        producer = Producer(client, self.history)
        while not self.is_stopping:
            place = client.chance.choose(self.places)
            batches = [
                [self.key(client.chance.below(1 << 30)) for _ in range(client.chance.below(3) + 1)]
                for _ in range(client.chance.below(IN_FLIGHT_MAX) + 1)
            ]
            await producer.send_burst(place, batches)
            await client.pause(0.0, 1.0)

    def key(self, lot: int) -> str | None:
        """The key of the next record; with a ``!`` the key is deleted."""
        del lot
        return None

    async def _read(self, name: str, isolation: Isolation) -> None:
        client = self.client(name)
        rack = f"rack-{client.chance.below(6) + 1}" if client.chance.below(2) else ""
        cursors = [Cursor(client, place, isolation, rack=rack) for place in self.places]
        while not self.is_stopping:
            for cursor in cursors:
                await cursor.poll(self.history, client.name)
            await client.pause(0.0, 0.5)


class ExpiringRecords(Records):
    """Small segments that go soon."""

    NAME: ClassVar[str] = "expiring"
    POLICY: ClassVar[Policy] = Policy.EXPIRE
    CONFIGS: ClassVar[dict[str, str]] = {
        "internal.segment.bytes": "2000",
        "retention.ms": "8000",
        "file.delete.delay.ms": "1000",
    }


class CompactedRecords(Records):
    """Few keys, written and deleted over and over, and readers that sweep from the start."""

    NAME: ClassVar[str] = "compacted"
    POLICY: ClassVar[Policy] = Policy.COMPACT
    CONFIGS: ClassVar[dict[str, str]] = {
        "cleanup.policy": "compact",
        "internal.segment.bytes": "1200",
        "min.cleanable.dirty.ratio": "0.01",
        "delete.retention.ms": str(int(DELETE_RETENTION_SECONDS * 1000)),
    }
    DELETE_RETENTION_SECONDS: ClassVar[float] = DELETE_RETENTION_SECONDS

    async def conclude(self) -> None:
        await super().conclude()
        if self.world.clocks_were_skewed:
            # By such a clock it was right to think that a tombstone had stayed enough.
            self.history.add(UseTopic(process="admin", topic=self.NAME, policy=self.POLICY))

    def key(self, lot: int) -> str | None:
        return f"key-{lot % KEYS}" + ("!" if lot % 5 == 0 else "")

    async def _read(self, name: str, isolation: Isolation) -> None:
        client = self.client(name)
        while not self.is_stopping:
            place = client.chance.choose(self.places)
            cursor = Cursor(client, place, isolation, max_bytes=SWEEP_BYTES)
            patience = client.now + client.chance.between(0.0, 2 * DELETE_RETENTION_SECONDS)
            while client.now < patience and not self.is_stopping:
                await cursor.poll(self.history, client.name)
                await client.pause(0.0, 1.0)

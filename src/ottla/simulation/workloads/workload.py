"""What all workloads have in common: a world, a history, and processes that come to an end.

``prepare`` makes the topics while all is well; ``start`` begins the processes; after ``stop`` they
begin nothing new and end when what they wait for is settled; ``conclude`` reads, when all is quiet,
what is there to be judged.
"""

from abc import ABC, abstractmethod
from collections.abc import Coroutine
from typing import Any, ClassVar, Final

from ottla.common.promise import Promise, run
from ottla.simulation.cluster_client import ClusterClient, World
from ottla.simulation.history import History
from ottla.simulation.workloads.topics import draw_configs

REPLICATION_FACTOR: Final = 3


class Workload(ABC):
    NAME: ClassVar[str] = ""
    CONFIGS: ClassVar[dict[str, str]] = {}
    """What its topics must have."""

    def __init__(self, world: World, history: History) -> None:
        self.world = world
        self.history = history
        self.chance = world.part(f"workload {self.NAME}")
        self.is_stopping = False
        self._processes: dict[str, Promise[None]] = {}
        self._clients: dict[str, ClusterClient] = {}

    @property
    def replication_factor(self) -> int:
        return min(REPLICATION_FACTOR, len(self.world.bootstrap))

    async def create_topic(self, client: ClusterClient, name: str, partitions: int) -> None:
        """Make a topic of this workload, with what it needs and what the seed adds to that."""
        configs = {**draw_configs(self.world.part(f"topic {name}")), **self.CONFIGS}
        self.world.note(f"topic {name}: {configs}")
        await client.create_topic(name, partitions, self.replication_factor, configs)

    @abstractmethod
    async def prepare(self) -> None: ...

    @abstractmethod
    def start(self) -> None: ...

    def stop(self) -> None:
        self.is_stopping = True

    @abstractmethod
    async def conclude(self) -> None: ...

    def begin(self, name: str, coroutine: Coroutine[Any, None, None]) -> None:
        """Begin a process; what it raises is raised by :attr:`still_running`."""
        self._processes[name] = run(self.world.scheduler.turn, coroutine)

    @property
    def still_running(self) -> list[str]:
        for name in [name for name, promise in self._processes.items() if promise.done]:
            self._processes.pop(name).result()
        return list(self._processes)

    def client(self, name: str, **options: Any) -> ClusterClient:
        client = self._clients[name] = ClusterClient(self.world, f"{self.NAME}-{name}", **options)
        return client

    def close(self) -> None:
        for client in self._clients.values():
            client.close()

"""A whole broker in a simulation: the real server on virtual time, network and disk.

``kill`` ends the process and leaves what it wrote to the page cache; ``lose_power`` also loses what
was not synced. After either, ``start`` begins a new incarnation on what is left.
"""

from hashlib import sha256

from ottla.common.chance import Chance
from ottla.common.identifiers import random_uuid, uuid_text
from ottla.config.broker import BrokerConfig
from ottla.metadata.image import MetadataImage
from ottla.server.defaults import development_properties
from ottla.server.format import format_storage
from ottla.server.node import Node
from ottla.simulation.network import SimulatedNetwork
from ottla.simulation.scheduler import SimulatedScheduler
from ottla.simulation.sockets import SimulatedSocket
from ottla.testing.files import MemoryFilesystem
from ottla.testing.remote_store import MemoryStore

DIRECTORY = "/data"
PORT = 9092
START_SECONDS = 30.0


class SimulatedBroker:
    """One seed, one run: ``trace`` is the same for the same seed and workload."""

    def __init__(self, seed: int, settings: dict[str, str] | None = None) -> None:
        self.chance = Chance(seed)
        self.scheduler = SimulatedScheduler(self.chance)
        self.network = SimulatedNetwork(self.scheduler, self.chance)
        self.network.crowds = Chance(int.from_bytes(f"{seed}/crowds".encode()))
        self.files = MemoryFilesystem()
        properties = development_properties(DIRECTORY, port=PORT)
        self._config = BrokerConfig.from_properties({**properties, **(settings or {})})
        format_storage(
            self.files,
            self._config,
            uuid_text(random_uuid(self.chance)),
            standalone=True,
            chance=self.chance,
            now_ms=self.scheduler.wall_ms(),
        )
        self.remote_store = MemoryStore(self.files)
        """What tiered storage uses, when it is on; it outlives the broker."""
        self._node: Node | None = None
        self._trace = sha256()

    # Its lives

    @property
    def is_running(self) -> bool:
        return self._node is not None

    def start(self) -> None:
        assert self._node is None, "it runs already"
        self._node = Node(
            self._config,
            filesystem=self.files,
            network=self.network,
            scheduler=self.scheduler,
            chance=self.chance,
            on_failure=lambda: None,  # it is seen by what the broker answers
            remote_store=self.remote_store,
        )
        started = self._node.start()
        assert self.scheduler.run_until(lambda: started.done, START_SECONDS), "it does not start"
        started.result()
        self.note("started")

    def stop(self) -> None:
        """Stop cleanly."""
        assert self._node is not None
        stopped = self._node.stop()
        assert self.scheduler.run_until(lambda: stopped.done, START_SECONDS), "it does not stop"
        stopped.result()
        self._node = None
        self.note("stopped")

    def kill(self) -> None:
        """End it as kill -9 does: nothing is flushed, nothing more is said."""
        self.files.kill()
        self._end()
        self.note("killed")

    def lose_power(self) -> None:
        """End it, and with it everything that was not synced; some writes are torn."""
        self.files.crash(self.chance)
        self._end()
        self.note("power lost")

    def _end(self) -> None:
        self.network.cut_all()
        self.scheduler.forget_all()
        self._node = None

    @property
    def image(self) -> MetadataImage:
        """The cluster as the broker knows it."""
        assert self._node is not None
        return self._node.image

    # Its clients

    def connect(self, listener: str = "PLAINTEXT") -> SimulatedSocket:
        assert self._node is not None
        return self.network.connect(self._node.ports[listener])

    def note(self, what: str) -> None:
        """Add to the trace."""
        line = f"{self.scheduler.now:.9f} {self.scheduler.steps} {what}\n"
        self._trace.update(line.encode())

    @property
    def trace(self) -> str:
        return self._trace.hexdigest()

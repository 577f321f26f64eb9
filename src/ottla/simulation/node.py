"""One node of a simulated cluster: the real server with a disk, a host and clocks of its own.

``kill`` ends the process and leaves what it wrote to the page cache; ``lose_power`` also loses what
was not synced, and tells nobody. After either, ``start`` begins a new incarnation on what is left.
Nothing here waits: the promises are settled as the simulation goes on.
"""

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Final

from ottla.common.chance import Chance
from ottla.common.promise import Promise
from ottla.config.broker import BrokerConfig
from ottla.metadata.cache import MetadataCache
from ottla.metadata.image import MetadataImage
from ottla.raft.driver import RaftDriver
from ottla.replication.partition import Partition
from ottla.server.node import Node
from ottla.simulation.network import SimulatedHost
from ottla.simulation.scheduler import BACKGROUND_SECONDS, NodeScheduler
from ottla.testing.files import MemoryFilesystem, PowerLost

if TYPE_CHECKING:
    from ottla.simulation.cluster import SimulatedCluster

DIRECTORY: Final = "/data"


class SimulatedNode:
    def __init__(
        self,
        cluster: "SimulatedCluster",
        config: BrokerConfig,
        host: SimulatedHost,
        scheduler: NodeScheduler,
        chance: Chance,
    ) -> None:
        self.cluster = cluster
        self.config = config
        self.node_id = config.node_id
        self.host = host
        self.scheduler = scheduler
        self.chance = chance
        self.files = MemoryFilesystem()
        self.disks = 1
        """How many it has had so far."""
        self.incarnations = 0
        self.node: Node | None = None
        """The server, while its process runs."""
        self.failure: BaseException | None = None
        """Why the last process ended by itself, if it did."""
        self.is_stopping = False
        self.has_served = False
        """Whether the last process came as far as to serve."""

    def __str__(self) -> str:
        return f"node {self.node_id}"

    @property
    def is_running(self) -> bool:
        return self.node is not None

    @property
    def image(self) -> MetadataImage:
        """The cluster as this node knows it."""
        assert self.node is not None, f"{self} does not run"
        return self.node.image

    @property
    def raft(self) -> RaftDriver | None:
        """This node's part in the quorum, once it takes part."""
        raft = None if self.node is None else self.node.raft
        return None if raft is None or not raft.is_started else raft

    @property
    def has_slow_disk(self) -> bool:
        return self.scheduler.background_seconds != BACKGROUND_SECONDS or self.scheduler.is_hanging

    @property
    def other_directories(self) -> list[str]:
        """Those that it can do without: all but that of the metadata log."""
        return [each for each in self.config.log_dirs if each != self.config.metadata_log_dir]

    @property
    def has_offline_directory(self) -> bool:
        """Whether it goes on without one of its directories, which its next start brings."""
        logs = None if self.node is None else self.node.logs
        return logs is not None and len(logs.online_directories) < len(logs.directories)

    @property
    def metadata(self) -> MetadataCache:
        assert self.node is not None, f"{self} does not run"
        return self.node.metadata

    def partitions(self) -> Iterable[Partition]:
        """The replicas that this broker has."""
        replicas = None if self.node is None else self.node.replicas
        return () if replicas is None else replicas.partitions()

    def start(self) -> Promise[None]:
        """Begin a life; the promise is settled when the node serves, or cannot."""
        assert self.node is None, f"{self} runs already"
        self.incarnations += 1
        self.failure = None
        self.is_stopping = self.has_served = False
        self.host.come_up()
        node = self.node = Node(
            self.config,
            filesystem=self.files,
            network=self.host,
            scheduler=self.scheduler,
            chance=self.chance,
            on_failure=self._failed,
            remote_store=self.cluster.remote.store(self.files),
            remote_background=partial(self.cluster.remote.work, self.scheduler),
        )
        self.cluster.note(f"{self} starts")
        started: Promise[None] = Promise(self.cluster.scheduler.turn)
        self.scheduler.call_soon(self._start, node, started)
        for told in self.cluster.on_start:
            told(self)
        return started

    def _start(self, node: Node, started: Promise[None]) -> None:
        def done(promise: Promise[None]) -> None:
            try:
                promise.result()
            except Exception as error:  # noqa: BLE001 - whatever it is, the process ends
                if self.node is node and not self.is_stopping:
                    self.failure = error
                    self._failed()
                started.fail(error)
            else:
                self.has_served = True
                self.cluster.note(f"{self} serves")
                started.fulfil(None)

        node.start().when_done(done)

    def stop(self) -> Promise[None]:
        """Stop cleanly, as far as the state of the cluster allows."""
        node = self.node
        assert node is not None, f"{self} does not run"
        assert not self.is_stopping, f"{self} is stopping already"
        self.is_stopping = True
        self.cluster.note(f"{self} stops")
        stopped: Promise[None] = Promise(self.cluster.scheduler.turn)

        def done(promise: Promise[None]) -> None:
            self.scheduler.call_soon(self._stopped, promise, stopped)

        self.scheduler.call_soon(lambda: node.stop().when_done(done))
        return stopped

    def _stopped(self, promise: Promise[None], stopped: Promise[None]) -> None:
        self._look()
        self.files.kill()
        self._end()
        self.cluster.note(f"{self} has stopped")
        try:
            promise.result()
        except Exception as error:  # noqa: BLE001 - it belongs to the promise
            stopped.fail(error)
        else:
            stopped.fulfil(None)

    def kill(self) -> None:
        """End it as kill -9 does: nothing is flushed, nothing more is said."""
        assert self.node is not None, f"{self} does not run"
        self._look()
        self.files.kill()
        self._end()
        self.cluster.note(f"{self} is killed")

    def lose_power(self) -> None:
        """End it, and with it everything that was not synced; some writes are torn."""
        assert self.node is not None, f"{self} does not run"
        self._look()
        self.files.crash(self.chance)
        self.host.lose_power()
        self._end()
        self.cluster.note(f"{self} loses its power")

    def lose_power_after(self, changes: int) -> None:
        """Lose power in the middle of a write, after so many more changes of the disk."""
        self.files.stop_after(changes)

    def wipe(self) -> None:
        """Put an empty, newly formatted disk into a node that does not run."""
        assert self.node is None, f"{self} runs"
        self.files = MemoryFilesystem()
        self.disks += 1
        self.cluster.format(self)
        self.cluster.note(f"{self} has a new disk")

    def replace(self, directory: str) -> None:
        """Put an empty, newly formatted disk in the place of one directory."""
        assert self.node is None, f"{self} runs"
        self.files.remove_directory(directory)
        self.files.sync_directory("/")
        self.disks += 1
        self.cluster.format(self, ignore_formatted=True)
        self.cluster.note(f"{self} has a new disk at {directory}")

    def _look(self) -> None:
        for looks in self.cluster.before_end:
            looks(self)

    def _end(self) -> None:
        self.node = None
        self.is_stopping = False
        self.host.end_process()
        self.scheduler.forget_all()
        for told in self.cluster.on_end:
            told(self)

    def _failed(self) -> None:
        """Let what is being done be finished, as a loop does, and end."""
        self.scheduler.call_soon(self._ended_by_itself)

    def _ended_by_itself(self) -> None:
        if self.node is None:
            return
        self.failure = self.node.failure or self.failure
        self._look()
        self.files.kill()
        self._end()
        self.cluster.note(f"{self} ended by itself: {type(self.failure).__name__}")

    def power_was_lost(self, lost: PowerLost) -> bool:
        """Whether it was this node's disk that ended it."""
        if lost.filesystem is not self.files or self.node is None:
            return False
        self.lose_power()
        return True

    def pause(self) -> None:
        self.scheduler.pause()
        self.cluster.note(f"{self} is paused")

    def resume(self) -> None:
        self.scheduler.resume()
        self.cluster.note(f"{self} is resumed")

    def skew(self, milliseconds: int) -> None:
        """Let the wall clock be wrong by so much from now on."""
        self.scheduler.skew_ms = milliseconds
        self.cluster.clocks_were_skewed = True
        self.cluster.note(f"{self} has its clock at {milliseconds:+d} ms")

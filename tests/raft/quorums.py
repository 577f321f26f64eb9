"""A quorum of one on a disk in memory: the real driver and log, and a listener that takes notes."""

from collections.abc import Iterable
from typing import TypeVar

from tests.turns import TURN

from ottla.common.chance import Chance
from ottla.common.promise import Promise
from ottla.config.broker import BrokerConfig
from ottla.metadata.snapshot import SnapshotContent, container
from ottla.protocol.message import Request, Response
from ottla.raft.channel import Destination, RaftChannel
from ottla.raft.driver import RaftDriver
from ottla.raft.log import LogBatch, MetadataLog, metadata_directory
from ottla.raft.settings import RaftSettings
from ottla.raft.snapshots import BOOTSTRAP_SNAPSHOT, SnapshotId, SnapshotStore
from ottla.raft.voters import ReplicaKey, VoterEndpoint, VoterNode, VoterSet, static_voters
from ottla.simulation.scheduler import SimulatedScheduler
from ottla.testing.files import MemoryFilesystem

LOG_DIR = "/data"
DIRECTORY = metadata_directory(LOG_DIR)
KEY = ReplicaKey(1, b"directory of one")
VOTERS = VoterSet([VoterNode(KEY, (VoterEndpoint("CONTROLLER", "localhost", 9093),))])


def settings(**changes: str) -> BrokerConfig:
    """The settings of a node that is its own quorum; underscores stand for dots."""
    return BrokerConfig.from_properties(
        {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": "localhost:9093",
            "log.dirs": LOG_DIR,
            **{name.replace("_", "."): value for name, value in changes.items()},
        }
    )


def formatted(*, dynamic: bool = True) -> MemoryFilesystem:
    """A disk as formatting leaves it."""
    filesystem = MemoryFilesystem()
    filesystem.make_directory(DIRECTORY)
    filesystem.sync_directory("/")
    filesystem.sync_directory(LOG_DIR)
    if dynamic:
        batches = container(
            (),
            epoch=0,
            now_ms=1,
            last_contained_log_timestamp=1,
            voters=VOTERS.to_record(),
            kraft_version=1,
        )
        SnapshotStore(filesystem, DIRECTORY).write(BOOTSTRAP_SNAPSHOT, batches)
    return filesystem


class Notes:
    """What a listener of the quorum was told; its state are the values of all batches."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.offsets: list[int] = []
        self.snapshot: SnapshotId | None = None
        self.epochs: list[int] = []
        self.lost: list[int] = []
        self.high_watermark = -1
        self.shown = 0

    def load_snapshot(self, content: SnapshotContent, snapshot_id: SnapshotId) -> None:
        self.values.clear()
        self.snapshot = snapshot_id

    def replay(self, batch: LogBatch) -> None:
        if not batch.is_control:
            self.values += [record.value or b"" for record in batch.records()]
            self.offsets += [record.offset for record in batch.records()]

    def replayed(self) -> None:
        self.shown += 1

    def became_leader(self, epoch: int) -> None:
        self.epochs.append(epoch)

    def lost_leadership(self, epoch: int) -> None:
        self.lost.append(epoch)

    def appended_control(self, batch: LogBatch) -> None:
        assert batch.is_control

    def committed(self, high_watermark: int) -> None:
        assert high_watermark > self.high_watermark
        self.high_watermark = high_watermark


R = TypeVar("R", bound=Response)


class Silence:
    """A channel to nodes that never answer."""

    def send(self, destination: Destination, request: Request[R]) -> Promise[R]:
        return Promise(TURN)


class Quorum:
    """One life of a node."""

    def __init__(
        self,
        filesystem: MemoryFilesystem,
        *,
        seed: int = 1,
        config: BrokerConfig | None = None,
        replay_bytes: int = 1 << 18,
        channel: RaftChannel | None = None,
        listener: Notes | None = None,
        driver_class: type[RaftDriver] = RaftDriver,
    ) -> None:
        self.filesystem = filesystem
        self.scheduler = SimulatedScheduler(Chance(seed))
        self.notes = listener or Notes()
        self.failures: list[BaseException] = []
        config = config or settings()
        static = config.controller_quorum_voters
        self.driver = driver_class(
            key=KEY,
            settings=RaftSettings(DIRECTORY, replay_bytes=replay_bytes),
            static_voters=static_voters(static, "CONTROLLER") if static else None,
            log=MetadataLog.open(filesystem, LOG_DIR, config, self.scheduler.wall_ms()),
            filesystem=filesystem,
            scheduler=self.scheduler,
            chance=Chance(seed),
            listener=self.notes,
            on_failure=self.failures.append,
            channel=channel,
        )

    def lead(self) -> "Quorum":
        self.driver.start()
        assert self.scheduler.run_until(lambda: bool(self.notes.epochs), 10)
        return self

    def append(self, *values: bytes) -> int:
        """Append a batch; return the offset behind it."""
        self.driver.append(values, self.scheduler.wall_ms())
        return self.driver.end_offset

    def commit(self, *values: bytes) -> int:
        end = self.append(*values)
        assert self.scheduler.run_until(lambda: self.notes.high_watermark >= end, 10)
        return end

    def stop(self) -> None:
        stopped = self.driver.stop()
        assert self.scheduler.run_until(lambda: stopped.done, 10)
        stopped.result()


def snapshot_batches(values: Iterable[bytes], epoch: int) -> list[bytes | bytearray]:
    return list(
        container(
            values,
            epoch=epoch,
            now_ms=5,
            last_contained_log_timestamp=4,
            voters=VOTERS.to_record(),
            kraft_version=1,
        )
    )

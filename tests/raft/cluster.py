"""A quorum of real drivers on disks in memory, in virtual time, with a network that fails.

Everything follows from one seed. Messages are lost, late, doubled and overtaken; nodes are cut from
one another, lose power with what they had not synced, and come back; voters come and go. Snapshots
may be written and checked slowly, and some writes fail. Every message goes through its bytes.
``Checker`` (:mod:`checker`) looks on and fails what must not be.
"""

import errno
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from tests.raft.checker import CheckedLog, Checker, Recorder
from tests.raft.quorums import DIRECTORY, LOG_DIR, settings

from ottla.common.chance import Chance
from ottla.common.environment import Cancellable
from ottla.common.errors import ApiError, InvalidUpdateVersion
from ottla.common.promise import Promise
from ottla.common.turn import Turn
from ottla.metadata.snapshot import container
from ottla.protocol.api import APIS
from ottla.protocol.generated.add_raft_voter import AddRaftVoterRequest
from ottla.protocol.generated.add_raft_voter import Listener as AddListener
from ottla.protocol.generated.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    SupportedFeatureKey,
)
from ottla.protocol.generated.begin_quorum_epoch import BeginQuorumEpochRequest
from ottla.protocol.generated.end_quorum_epoch import EndQuorumEpochRequest
from ottla.protocol.generated.fetch import FetchRequest
from ottla.protocol.generated.fetch_snapshot import FetchSnapshotRequest
from ottla.protocol.generated.remove_raft_voter import RemoveRaftVoterRequest
from ottla.protocol.generated.update_raft_voter import UpdateRaftVoterRequest
from ottla.protocol.generated.vote import VoteRequest
from ottla.protocol.message import Message, Request, Response, from_bytes, response_class, to_bytes
from ottla.raft.channel import Destination
from ottla.raft.driver import RaftDriver
from ottla.raft.lanes import SNAPSHOT_LANE
from ottla.raft.responses import Asker
from ottla.raft.service import RaftService
from ottla.raft.settings import RaftSettings
from ottla.raft.snapshots import BOOTSTRAP_SNAPSHOT, SnapshotId, SnapshotRetention, SnapshotStore
from ottla.raft.voter_changes import VoterChanges
from ottla.raft.voters import ReplicaKey, VoterEndpoint, VoterNode, VoterSet
from ottla.simulation.scheduler import SimulatedScheduler
from ottla.testing.files import MemoryFilesystem

T = TypeVar("T")
R = TypeVar("R", bound=Response)
CLUSTER_ID = "simulated cluster id"
CONFIG = settings(internal_metadata_log_segment_bytes="2048")
FIRST_PORT = 9_000
DELAY_SECONDS = (0.0005, 0.02)
SLOW_SECONDS = (0.0005, 0.6)
SNAPSHOT_SECONDS = (0.01, 6.0)
"""How long it takes to write or check a snapshot while the disk is slow."""


def key_of(node_id: int) -> ReplicaKey:
    return ReplicaKey(node_id, b"directory %06d" % node_id)


def voter(node_id: int) -> VoterNode:
    endpoint = VoterEndpoint("CONTROLLER", f"node{node_id}", FIRST_PORT + node_id)
    return VoterNode(key_of(node_id), (endpoint,))


REPLAY_BYTES = (1, 150, 1 << 18)
"""Some nodes replay a batch in a turn, some nearly everything."""


class MortalScheduler:
    """The scheduler of one life of a node: with the node ends whatever it had planned."""

    def __init__(self, cluster: "Cluster") -> None:
        self._cluster = cluster
        self._scheduler = cluster.scheduler
        self.is_alive = True
        self.turn = Turn(self.call_soon)

    def monotonic(self) -> float:
        return self._scheduler.now

    def wall_ms(self) -> int:
        return self._scheduler.wall_ms()

    def call_soon(self, callback: Callable[..., Any], *args: Any) -> Cancellable:
        return self._scheduler.call_soon(self._run, callback, *args)

    def call_later(self, seconds: float, callback: Callable[..., Any], *args: Any) -> Cancellable:
        return self._scheduler.call_later(seconds, self._run, callback, *args)

    def _run(self, callback: Callable[..., Any], *args: Any) -> None:
        if self.is_alive:
            self.turn.run(callback, *args)

    def run_in_background(self, work: Callable[[], T], lane: str = "") -> Promise[T]:
        """What a node has not finished when it dies, it has not done."""
        promise: Promise[T] = Promise(self.turn)

        def finish(done: Promise[T | None]) -> None:
            if not self.is_alive:
                return
            try:
                result = done.result()
            except Exception as error:  # noqa: BLE001 - it belongs to the promise
                promise.fail(error)
            else:
                promise.fulfil(result)  # type: ignore[arg-type]

        def begin() -> None:
            done = self._scheduler.run_in_background(lambda: work() if self.is_alive else None)
            done.when_done(finish)

        slowness = self._cluster.slowness
        if lane == SNAPSHOT_LANE and slowness is not None and slowness.below(3) == 0:
            self._scheduler.call_later(slowness.between(*SNAPSHOT_SECONDS), begin)
        else:
            begin()
        return promise


class Node:
    """One life of a node."""

    def __init__(self, cluster: "Cluster", node_id: int) -> None:
        self.node_id = node_id
        self.cluster = cluster
        self.may_fail = False
        """Whether a test has broken its disk."""
        self.scheduler = MortalScheduler(cluster)
        filesystem = cluster.disks[node_id]
        log = CheckedLog.opened(filesystem, LOG_DIR, CONFIG, self.scheduler.wall_ms())
        log.watch(cluster.checker, node_id)
        self.listener = Recorder(cluster.checker, node_id)
        self.driver = cluster.driver_class(
            key=key_of(node_id),
            settings=RaftSettings(
                DIRECTORY,
                cluster_id=CLUSTER_ID,
                listener_name="CONTROLLER",
                bootstrap_servers=tuple((f"node{n}", FIRST_PORT + n) for n in cluster.initial),
                snapshot_bytes_max=100,
                replay_bytes=REPLAY_BYTES[node_id % len(REPLAY_BYTES)],
                auto_join=cluster.auto_join,
            ),
            static_voters=cluster.static,
            log=log,
            filesystem=filesystem,
            scheduler=self.scheduler,
            chance=cluster.chance,
            listener=self.listener,
            on_failure=self._failed,
            channel=Wire(cluster, self),
        )
        self.service = RaftService(self.driver)
        self.changes = VoterChanges(self.driver, self.service)
        self.listener.node = self
        self.driver.on_progress.append(lambda: cluster.checker.progressed(self))

    def start(self) -> None:
        (endpoint,) = voter(self.node_id).endpoints
        host = self.cluster.hosts.get(self.node_id, endpoint.host)
        self.driver.start([endpoint._replace(host=host)])

    def _failed(self, error: BaseException) -> None:
        if not self.may_fail:
            raise AssertionError(f"node {self.node_id} failed: {error}") from error

    def die(self) -> None:
        self.scheduler.is_alive = False

    def append(self, value: bytes) -> None:
        if not self.driver.is_leader:
            return
        self.listener.appended(self.driver.end_offset, value)
        self.driver.append([value], self.scheduler.wall_ms())

    def take_snapshot(self) -> None:
        """Of all that this node has applied; then drop the older ones and the log before."""
        if self.listener.end_offset == 0 or not self.driver.high_watermark:
            return
        snapshot_id = SnapshotId(self.listener.end_offset, self.listener.epoch)
        if snapshot_id <= (self.driver.snapshots.latest() or BOOTSTRAP_SNAPSHOT):
            return
        change = self.driver.control.at(snapshot_id.end_offset)
        batches: Iterable[bytes | bytearray] = list(
            container(
                [self.listener.state_record()],
                epoch=snapshot_id.epoch,
                now_ms=1,
                last_contained_log_timestamp=1,
                voters=change.voters.to_record() if change.kraft_version else None,
                kraft_version=change.kraft_version,
            )
        )

        def written(done: Promise[None]) -> None:
            with suppress(OSError):
                done.result()
                if not self.driver.is_down:
                    self.driver.clean(SnapshotRetention(1_500, -1))

        slowness = self.cluster.slowness
        if slowness is not None and slowness.below(4) == 0:
            batches = without_space(batches)
        self.driver.write_snapshot(snapshot_id, batches).when_done(written)

    # Requests

    def answer(self, request: Message, version: int) -> Promise[Message]:
        asker = Asker(version, "CONTROLLER")
        promise: Promise[Message] = Promise(self.scheduler.turn)
        try:
            answered = self._answer(request, asker)
        except ApiError as error:
            promise.fail(error)
            return promise
        if not isinstance(answered, Promise):
            promise.fulfil(answered)
            return promise
        return answered

    def _answer(self, request: Message, asker: Asker) -> Message | Promise[Any]:
        match request:
            case VoteRequest():
                return self.service.vote(request, asker)
            case BeginQuorumEpochRequest():
                return self.service.begin_quorum_epoch(request, asker)
            case EndQuorumEpochRequest():
                return self.service.end_quorum_epoch(request, asker)
            case FetchRequest():
                return self.service.fetch(request, asker)
            case FetchSnapshotRequest():
                return self.service.fetch_snapshot(request, asker)
            case AddRaftVoterRequest():
                return self.changes.add(request)
            case RemoveRaftVoterRequest():
                return self.changes.remove(request)
            case UpdateRaftVoterRequest():
                return self.changes.update(request, asker.listener_name)
            case ApiVersionsRequest():
                feature = SupportedFeatureKey(name="kraft.version", min_version=0, max_version=1)
                return ApiVersionsResponse(supported_features=[feature])
        raise AssertionError(request)


class Wire:
    """The channel of one life of a node."""

    def __init__(self, cluster: "Cluster", node: Node) -> None:
        self._cluster = cluster
        self._node = node

    def send(self, destination: Destination, request: Request[R]) -> Promise[R]:
        cluster, sender = self._cluster, self._node
        promise: Promise[R] = Promise(sender.scheduler.turn)
        api = APIS[request.API_KEY]
        version = api.highest_stable_version
        is_older = cluster.chance.below(4) == 0 and cluster.has_older_versions
        if is_older and isinstance(request, VoteRequest | FetchRequest):
            version = max(version - 1, 12)
        if isinstance(request, VoteRequest):
            version = 2
        data = to_bytes(request, version)
        to = destination.port - FIRST_PORT

        def arrived() -> None:
            receiver = cluster.nodes.get(to)
            if receiver is None:
                return
            decoded = from_bytes(type(request), data, version)
            receiver.answer(decoded, version).when_done(answered)

        def answered(answer: Promise[Message]) -> None:
            try:
                encoded = to_bytes(answer.result(), version)
            except ApiError as error:
                cluster.deliver(to, sender.node_id, partial(failed, error))
            else:
                cluster.deliver(to, sender.node_id, lambda: received(encoded))

        def failed(error: ApiError) -> None:
            if sender.scheduler.is_alive and not promise.done:
                promise.fail(error)

        def received(encoded: bytes) -> None:
            if sender.scheduler.is_alive and not promise.done:
                promise.fulfil(from_bytes(response_class(type(request)), encoded, version))

        cluster.deliver(sender.node_id, to, arrived)
        return promise


class Cluster:
    """``voters`` nodes that vote and ``observers`` that do not, from one seed."""

    driver_class: type[RaftDriver] = RaftDriver

    def __init__(
        self,
        seed: int,
        voters: int = 3,
        *,
        observers: int = 0,
        dynamic: bool = True,
        driver_class: type[RaftDriver] | None = None,
        auto_join: bool = False,
        has_slow_snapshots: bool = False,
    ) -> None:
        self.auto_join = auto_join
        self.has_older_versions = True
        """Some requests are sent in a version before the newest."""
        self.hosts: dict[int, str] = {}
        """Of nodes that have moved; the network finds them by their port."""
        if driver_class is not None:
            self.driver_class = driver_class
        self.chance = Chance(seed)
        self.slowness: Chance | None = None
        """When snapshots are slow to write and check, or fail; None for never."""
        if has_slow_snapshots:
            self.slowness = Chance(int.from_bytes(f"{seed}/snapshots".encode()))
        self.scheduler = SimulatedScheduler(self.chance)
        self.checker = Checker(self)
        self.initial = list(range(1, voters + 1))
        self.ids = list(range(1, voters + observers + 1))
        initial = VoterSet(voter(node_id) for node_id in self.initial)
        self.static = None
        if not dynamic:
            self.static = VoterSet(
                each._replace(key=ReplicaKey(each.key.node_id), kraft_versions=(0, 0))
                for each in initial
            )
        self.disks = {
            node_id: formatted(initial if dynamic and node_id in self.initial else None)
            for node_id in self.ids
        }
        self.nodes: dict[int, Node] = {}
        self.cuts: set[tuple[int, int]] = set()
        """From whom to whom nothing comes through."""
        self.loss = 0
        """Of 100 messages so many are lost, and as many doubled."""
        self.is_slow = False
        self.values = 0
        for node_id in self.ids:
            self.start(node_id)

    # Nodes

    def start(self, node_id: int) -> None:
        assert node_id not in self.nodes
        node = self.nodes[node_id] = Node(self, node_id)
        node.start()

    def crash(self, node_id: int, *, power: bool = True) -> None:
        """End a node: with the power goes what it has not synced, or an arbitrary part of it."""
        self.nodes.pop(node_id).die()
        disk = self.disks[node_id]
        if power:
            disk.crash(self.chance if self.chance.below(2) else None)
        else:
            disk.kill()

    @property
    def leader(self) -> Node | None:
        """The active leader of the latest epoch."""
        leaders = [node for node in self.nodes.values() if node.driver.is_leader]
        return max(leaders, key=lambda node: node.driver.epoch, default=None)

    # The network

    def deliver(self, sender: int, receiver: int, action: Callable[[], None]) -> None:
        chance = self.chance
        if sender != receiver and (sender, receiver) in self.cuts:
            return
        copies = 1
        if self.loss:
            dice = chance.below(100)
            copies = 0 if dice < self.loss else 2 if dice < 2 * self.loss else 1
        for _ in range(copies):
            delay = chance.between(*(SLOW_SECONDS if self.is_slow else DELAY_SECONDS))
            self.scheduler.call_later(delay, action)

    def partition(self, side: set[int], *, one_way: bool = False) -> None:
        for each in self.ids:
            for other in self.ids:
                if (each in side) != (other in side) and not (one_way and each in side):
                    self.cuts.add((each, other))

    def heal(self) -> None:
        self.cuts.clear()
        self.loss = 0
        self.is_slow = False

    # Time

    def run_for(self, seconds: float) -> None:
        end = self.scheduler.now + seconds
        self.run_until(lambda: self.scheduler.now >= end, seconds)

    def run_until(self, condition: Callable[[], bool], seconds: float) -> bool:
        def checked() -> bool:
            self.checker.check()
            return condition()

        return self.scheduler.run_until(checked, seconds)

    def append(self) -> None:
        """A client writes to a node that believes to lead."""
        leaders = [node for node in self.nodes.values() if node.driver.is_leader]
        if leaders:
            self.values += 1
            self.chance.choose(leaders).append(b"%d" % self.values)

    def elect(self, seconds: float = 30.0) -> Node:
        assert self.run_until(lambda: self.leader is not None, seconds), "nobody leads"
        leader = self.leader
        assert leader is not None
        return leader

    # Membership

    def add_voter(self, node_id: int) -> Promise[Message] | None:
        leader = self.leader
        if leader is None:
            return None
        (endpoint,) = voter(node_id).endpoints
        request = AddRaftVoterRequest(
            cluster_id=CLUSTER_ID,
            timeout_ms=0,  # which Kafka does not look at
            voter_id=node_id,
            voter_directory_id=key_of(node_id).directory_id,
            listeners=[AddListener(name=endpoint.name, host=endpoint.host, port=endpoint.port)],
        )
        return leader.answer(request, 0)

    def remove_voter(self, node_id: int) -> Promise[Message] | None:
        leader = self.leader
        if leader is None:
            return None
        request = RemoveRaftVoterRequest(
            cluster_id=CLUSTER_ID,
            voter_id=node_id,
            voter_directory_id=key_of(node_id).directory_id,
        )
        return leader.answer(request, 0)

    def upgrade(self, *, validate_only: bool = False) -> str | None:
        """Make a static quorum dynamic; why not, where it cannot be."""
        leader = self.leader
        if leader is None:
            return "nobody leads"
        try:
            leader.changes.upgrade(1, validate_only=validate_only)
        except InvalidUpdateVersion as error:
            return error.message
        return None

    # What must become true when the faults end

    def converge(self, seconds: float = 60.0) -> None:
        """Heal everything; then one leads, commits something new, and all come to the same."""
        self.heal()
        for node_id in self.ids:
            if node_id not in self.nodes:
                self.start(node_id)
        self.elect(seconds)
        self.append()
        assert self.run_until(self._is_converged, seconds), self.checker.describe()
        if self.slowness is not None:
            self.run_for(SNAPSHOT_SECONDS[1] + 1)
        self.checker.converged()

    def _is_converged(self) -> bool:
        leader = self.leader
        if leader is None:
            return False
        end = leader.driver.end_offset
        return all(
            node.driver.high_watermark == end and node.driver.epoch == leader.driver.epoch
            for node in self.nodes.values()
        )


def without_space(batches: Iterable[bytes | bytearray]) -> Iterator[bytes | bytearray]:
    """A disk that becomes full while the snapshot is written."""
    yield next(iter(batches))
    raise OSError(errno.ENOSPC, "no space left on device")


def formatted(voters: VoterSet | None) -> MemoryFilesystem:
    filesystem = MemoryFilesystem()
    filesystem.make_directory(DIRECTORY)
    filesystem.sync_directory("/")
    filesystem.sync_directory(LOG_DIR)
    if voters is not None:
        batches = container(
            (),
            epoch=0,
            now_ms=1,
            last_contained_log_timestamp=1,
            voters=voters.to_record(),
            kraft_version=1,
        )
        SnapshotStore(filesystem, DIRECTORY).write(BOOTSTRAP_SNAPSHOT, batches)
    return filesystem

"""Runs a node of the quorum on a log, a disk and a clock, and tells its listener what it learns.

Rules:

1. Nothing counts as committed before it is synced. Appends go to the log at once; a sync runs in
   the background, and whatever is appended meanwhile waits for the next one (group commit).
2. The listener hears of committed batches in order, each once: a snapshot first, then batches that
   others or earlier epochs wrote, then, as leader, how far its own appends are committed.
3. A failed write or sync ends the leadership and is reported: nobody knows what is on the disk.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, Protocol, assert_never

from ottla.common.chance import Chance
from ottla.common.environment import Cancellable, Scheduler
from ottla.common.errors import NotController
from ottla.common.promise import Promise
from ottla.metadata.snapshot import SnapshotContent
from ottla.observability.logging import logger
from ottla.protocol.generated.leader_change_message import LeaderChangeMessage
from ottla.protocol.generated.leader_change_message import Voter as LeaderChangeVoter
from ottla.protocol.message import to_bytes
from ottla.raft.control import ControlState, kraft_version_value
from ottla.raft.effects import (
    AdvanceHighWatermark,
    AnswerVote,
    AppendLeaderChange,
    LeaderChanged,
    RaftEffect,
    RequestVote,
    SaveQuorumState,
    SetTimer,
)
from ottla.raft.events import Appended, Flushed, RaftEvent, Resign, Started, Tick
from ottla.raft.log import BATCH_BYTES_MAX, LogBatch, RaftLog, read_batches
from ottla.raft.node import RaftNode, RaftTimeouts
from ottla.raft.quorum_state import QuorumState, decode_quorum_state, encode_quorum_state
from ottla.raft.snapshots import (
    BOOTSTRAP_SNAPSHOT,
    SnapshotId,
    SnapshotRetention,
    SnapshotStore,
    snapshots_to_remove,
)
from ottla.raft.voters import ReplicaKey, VoterSet
from ottla.records.builder import BatchBuilder
from ottla.records.control import ControlType, control_batch
from ottla.storage.directories import LogDirFailed
from ottla.storage.files import Filesystem

log = logger(__name__)

EVENTS_KEPT: Final = 1_000
QUORUM_STATE: Final = "quorum-state"


class RaftListener(Protocol):
    """Who keeps state by the log."""

    def load_snapshot(self, content: SnapshotContent, snapshot_id: SnapshotId) -> None:
        """Forget everything; this is the state below the snapshot's end offset."""
        ...

    def replay(self, batch: LogBatch) -> None:
        """A committed batch that was not appended through this driver in this epoch."""
        ...

    def replayed(self) -> None:
        """No more batches for now: show what they made."""
        ...

    def became_leader(self, epoch: int) -> None:
        """All that is committed was replayed; ``append`` may be called."""
        ...

    def lost_leadership(self, epoch: int) -> None:
        """What was appended and not reported as committed may or may not become so."""
        ...

    def committed(self, high_watermark: int) -> None:
        """As leader: what was appended below ``high_watermark`` is safe."""
        ...


class RaftSettings(NamedTuple):
    directory: str
    """The directory of ``__cluster_metadata-0``."""
    election_timeout_ms: int = 1_000


class RaftDriver:
    """One node of the quorum. ``start`` reads the disk; from then on it is driven by events."""

    def __init__(
        self,
        *,
        key: ReplicaKey,
        settings: RaftSettings,
        static_voters: VoterSet | None,
        log: RaftLog,
        filesystem: Filesystem,
        scheduler: Scheduler,
        chance: Chance,
        listener: RaftListener,
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._key = key
        self._settings = settings
        self._log = log
        self._filesystem = filesystem
        self._scheduler = scheduler
        self._chance = chance
        self._listener = listener
        self._on_failure = on_failure
        self.snapshots = SnapshotStore(filesystem, settings.directory)
        self.control = ControlState(static_voters)
        self.events: deque[RaftEvent] = deque(maxlen=EVENTS_KEPT)
        """The last of them, for whoever has to find out what happened."""
        self._node: RaftNode | None = None
        self._timer: Cancellable | None = None
        self._next_replay = 0
        self._active_epoch: int | None = None
        self._sync: Promise[None] | None = None
        self._synced = 0
        self._stopped = False

    @property
    def node(self) -> RaftNode:
        assert self._node is not None, "not started"
        return self._node

    @property
    def is_leader(self) -> bool:
        """Whether ``append`` may be called."""
        return self._active_epoch is not None

    @property
    def epoch(self) -> int:
        return self.node.epoch

    @property
    def end_offset(self) -> int:
        """The offset that the next append gets."""
        return self._log.end_offset

    @property
    def high_watermark(self) -> int:
        return self.node.high_watermark or 0

    @property
    def voters(self) -> VoterSet:
        return self.node.voters

    @property
    def kraft_version(self) -> int:
        return self.control.kraft_version

    # Life

    def start(self) -> None:
        """Read snapshot, log and quorum state, and take part in the quorum."""
        self.snapshots.remove_leftovers()
        self._load_snapshot()
        for batch in read_batches(self._log, self._next_replay, self._log.end_offset):
            if batch.is_control:
                self.control.replay(batch)
        self._node = RaftNode(
            key=self._key,
            voters=self.control.voters,
            state=self._read_quorum_state(),
            log_end_offset=self._log.end_offset,
            log_end_epoch=self._log.last_epoch,
            timeouts=RaftTimeouts(self._settings.election_timeout_ms / 1000),
            chance=self._chance,
        )
        self._step(Started(self._scheduler.monotonic()))

    def _load_snapshot(self) -> None:
        latest = self.snapshots.latest()
        if latest is None:
            self._next_replay = self._log.start_offset
            return
        content = self.snapshots.read(latest)
        self.control.load(content, is_bootstrap=latest == BOOTSTRAP_SNAPSHOT)
        if self._log.end_offset < latest.end_offset:
            self._log.restart_at(latest.end_offset, latest.epoch, self._scheduler.wall_ms())
        self._next_replay = latest.end_offset
        if latest != BOOTSTRAP_SNAPSHOT:
            self._listener.load_snapshot(content, latest)

    def _read_quorum_state(self) -> QuorumState:
        path = f"{self._settings.directory}/{QUORUM_STATE}"
        if not self._filesystem.exists(path):
            return QuorumState()
        return decode_quorum_state(self._filesystem.read(path))

    def stop(self) -> Promise[None]:
        """Give up leading and close the log, after a sync that is under way.

        Appends that were not reported as committed may yet turn out to be.
        """
        closed: Promise[None] = Promise()
        if self._stopped:
            closed.fulfil(None)
            return closed
        if self._node is not None:
            self._step(Resign(self._scheduler.monotonic()))
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        if self._sync is None:
            self._close(closed)
        else:
            self._sync.when_done(lambda _: self._close(closed))
        return closed

    def _close(self, closed: Promise[None]) -> None:
        try:
            self._log.close(self._scheduler.wall_ms())
        except LogDirFailed as error:
            closed.fail(error)
        else:
            closed.fulfil(None)

    # Appending

    def append(self, values: Iterable[bytes], now_ms: int) -> int:
        """Append one batch as leader, all of it or nothing; return how many bytes it has.

        It ends at ``end_offset`` then, and is committed when ``committed`` is told of that.
        """
        if self._active_epoch is None:
            raise NotController("No controller appears to be active.")
        builder = BatchBuilder()
        for value in values:
            builder.append(now_ms, None, value)
        assert builder.count > 0
        batch = builder.build(base_offset=self._log.end_offset, leader_epoch=self._active_epoch)
        assert len(batch) <= BATCH_BYTES_MAX
        self._append(batch)
        self._sync_if_needed()
        return len(batch)

    def _append(self, batch: bytearray) -> None:
        try:
            self._log.append(batch, self._scheduler.wall_ms())
        except LogDirFailed as error:
            self._fail(error)
            raise
        self._step(Appended(self._scheduler.monotonic(), self._log.end_offset))

    def _append_leader_change(self, effect: AppendLeaderChange) -> None:
        message = LeaderChangeMessage(
            version=0,
            leader_id=self._key.node_id,
            voters=[LeaderChangeVoter(voter_id=voter_id) for voter_id in self.voters.ids],
            granting_voters=[LeaderChangeVoter(voter_id=key.node_id) for key in effect.granting],
        )
        records = [(ControlType.LEADER_CHANGE, to_bytes(message, 0))]
        if self.control.needs_writing:
            records.append((ControlType.KRAFT_VERSION, kraft_version_value(self.kraft_version)))
            records.append((ControlType.KRAFT_VOTERS, to_bytes(self.voters.to_record(), 0)))
            self.control.written(self._log.end_offset)
        batch = control_batch(
            records,
            timestamp=self._scheduler.wall_ms(),
            base_offset=self._log.end_offset,
            leader_epoch=effect.epoch,
        )
        self._append(batch)
        self._sync_if_needed()

    def _sync_if_needed(self) -> None:
        if self._sync is None and self._log.end_offset > self._synced and not self._stopped:
            self._sync = self._scheduler.run_in_background(self._log.prepare_sync())
            self._sync.when_done(self._synced_now)

    def _synced_now(self, sync: Promise[None]) -> None:
        self._sync = None
        if self._stopped:
            return
        try:
            self._synced = self._log.synced(self._scheduler.wall_ms(), _os_error(sync))
        except LogDirFailed as error:
            self._fail(error)
            return
        self._step(Flushed(self._scheduler.monotonic(), self._synced))
        self._sync_if_needed()

    def _fail(self, error: BaseException) -> None:
        self._step(Resign(self._scheduler.monotonic()))
        self._on_failure(error)

    # Snapshots

    def write_snapshot(
        self, snapshot_id: SnapshotId, batches: Iterable[bytes | bytearray]
    ) -> Promise[None]:
        """Write a snapshot in the background; ``batches`` is consumed there."""
        return self._scheduler.run_in_background(lambda: self.snapshots.write(snapshot_id, batches))

    def clean(self, retention: SnapshotRetention) -> None:
        """Remove snapshots that are too old or too many, and the log before those that stay."""
        now_ms = self._scheduler.wall_ms()
        snapshots = self.snapshots.described()
        removed = snapshots_to_remove(
            snapshots, log_bytes=self._log.size, now_ms=now_ms, retention=retention
        )
        for snapshot_id in removed:
            self.snapshots.remove(snapshot_id)
        if removed:
            self._log.delete_before(snapshots[len(removed)].id.end_offset, now_ms)

    # Driving the core

    def _step(self, event: RaftEvent) -> None:
        self.events.append(event)
        effects = self.node.step(event)
        self.node.check()
        for effect in effects:
            self._execute(effect)

    def _execute(self, effect: RaftEffect) -> None:
        match effect:
            case SaveQuorumState():
                self._save_quorum_state(effect.state)
            case AppendLeaderChange():
                self._append_leader_change(effect)
            case AdvanceHighWatermark():
                self._advance(effect.offset)
            case LeaderChanged():
                self._leader_changed(effect)
            case SetTimer():
                self._set_timer(effect.at)
            case RequestVote() | AnswerVote():
                raise AssertionError("a quorum of one asks nobody")
            case _:
                assert_never(effect)

    def _save_quorum_state(self, state: QuorumState) -> None:
        data = encode_quorum_state(
            state, kraft_version=self.kraft_version, voter_ids=self.voters.ids
        )
        self._filesystem.write_atomically(f"{self._settings.directory}/{QUORUM_STATE}", data)

    def _advance(self, high_watermark: int) -> None:
        self._log.committed(high_watermark)
        if self._active_epoch is None:
            for batch in read_batches(self._log, self._next_replay, high_watermark):
                self._listener.replay(batch)
                self._next_replay = batch.last_offset + 1
            self._listener.replayed()
            if self.node.is_leader:
                self._active_epoch = self.node.epoch
                self._listener.became_leader(self.node.epoch)
        else:
            self._next_replay = high_watermark
            self._listener.committed(high_watermark)

    def _leader_changed(self, effect: LeaderChanged) -> None:
        log.info("leader of the quorum", leader=effect.leader_id, epoch=effect.epoch)
        if self._active_epoch is not None and not self.node.is_leader:
            epoch, self._active_epoch = self._active_epoch, None
            self._listener.lost_leadership(epoch)

    def _set_timer(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        delay = max(0.0, at - self._scheduler.monotonic())
        self._timer = self._scheduler.call_later(delay, self._tick)

    def _tick(self) -> None:
        if not self._stopped:
            self._step(Tick(self._scheduler.monotonic()))


def _os_error(sync: Promise[None]) -> OSError | None:
    try:
        sync.result()
    except OSError as error:
        return error
    return None

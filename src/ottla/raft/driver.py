"""Runs a node of the quorum on a log, a disk, a clock and a channel, and tells its listener.

Rules:

1. Nothing counts as committed, and no fetch acknowledges it, before it is synced. Appends go to the
   log at once; syncs follow in the background (``Syncing``).
2. Events wait in one queue. Each is decided on, and all that follows from it carried out in its
   order, before the next: a vote or an epoch is on disk before anybody hears it, and what is done
   for an event may bring about others, but never comes between the effects of this one.
3. The listener hears of committed batches in order, each once: a snapshot first, then batches that
   others or earlier epochs wrote, then, as leader, how far its own appends are committed (of those
   of the quorum itself it hears when they are appended).
4. A failed write or sync ends this node's part in the quorum and is reported: nobody knows what is
   on the disk. So does a mistake of ours: nobody knows what is half done.
5. What lacks only a descriptor or memory is tried again after a pause; all that follows waits.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import ClassVar, Final, TypeVar

from ottla.common.chance import Chance
from ottla.common.environment import Cancellable, Scheduler
from ottla.common.errors import CorruptMessage, NotController
from ottla.common.promise import Promise
from ottla.metadata.snapshot import SnapshotContent
from ottla.observability.logging import logger
from ottla.raft.channel import RaftChannel, Unconnected
from ottla.raft.control import ControlState, QuorumUnknown
from ottla.raft.effects import (
    AdvanceHighWatermark,
    AnswerEpoch,
    AnswerVote,
    AppendLeaderChange,
    AppendRecords,
    InstallSnapshot,
    LeaderChanged,
    RaftEffect,
    SaveQuorumState,
    SetTimer,
    TruncateLog,
    WriteSnapshotChunk,
)
from ottla.raft.event_queue import EventQueue
from ottla.raft.events import (
    Appended,
    Flushed,
    RaftEvent,
    Resign,
    SnapshotInstalled,
    SnapshotRefused,
    Started,
    Tick,
    Truncated,
    VotersChanged,
)
from ottla.raft.known_log import CommittedTruncation
from ottla.raft.lanes import SNAPSHOT_LANE
from ottla.raft.leader_change import leader_change
from ottla.raft.listener import RaftListener
from ottla.raft.log import BATCH_BYTES_MAX, LogBatch, RaftLog, read_batches
from ottla.raft.node import RaftNode, RaftTimeouts
from ottla.raft.outgoing import Outgoing
from ottla.raft.quorum_state import QuorumState, decode_quorum_state, encode_quorum_state
from ottla.raft.replaying import Replaying
from ottla.raft.roles import Follower, Resigned
from ottla.raft.settings import RaftSettings
from ottla.raft.snapshots import (
    BOOTSTRAP_SNAPSHOT,
    SnapshotId,
    SnapshotRetention,
    SnapshotStore,
    snapshots_to_remove,
)
from ottla.raft.syncing import Syncing
from ottla.raft.voters import ReplicaKey, VoterEndpoint, VoterSet
from ottla.records.batch import batches
from ottla.records.builder import BatchBuilder
from ottla.records.control import ControlType, control_batch
from ottla.storage.directories import LogDirFailed, LogUnavailable
from ottla.storage.files import Filesystem, is_disks

log = logger(__name__)

T = TypeVar("T")
QUORUM_STATE: Final = "quorum-state"
_EXPECTED: Final = (OSError, LogDirFailed, CommittedTruncation)
"""What may end a node although the program is right."""


class RaftDriver:
    """One node of the quorum. ``start`` reads the disk; from then on it is driven by events."""

    NODE: ClassVar[type[RaftNode]] = RaftNode

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
        channel: RaftChannel | None = None,
    ) -> None:
        self.key = key
        self.settings = settings
        self.log = log
        self.scheduler = scheduler
        self.channel = channel or Unconnected(scheduler.turn)
        self._filesystem, self._chance = filesystem, chance
        self._listener = listener
        self._on_failure = on_failure
        self.snapshots = SnapshotStore(filesystem, settings.directory)
        self.control = ControlState(static_voters)
        self.events = EventQueue()
        self._effects: deque[RaftEffect] = deque()
        """What is yet to be carried out for the last event that was taken from the queue."""
        self._is_stepping = False
        self._retry: Cancellable | None = None
        """Set while an effect waits for what it lacks, and everything with it."""
        self.on_progress: list[Callable[[], None]] = []
        """Called when log, high watermark or leader are others than before."""
        self._outgoing = Outgoing(self, self.channel, settings)
        self._node: RaftNode | None = None
        self._timer: Cancellable | None = None
        self._replaying = Replaying(
            log, listener, scheduler, settings.replay_bytes, self._replayed_rest, self.fail
        )
        self._committed_epoch = -1
        """The last one in which this node led, and something of it was committed."""
        self._active_epoch: int | None = None
        self._syncing = Syncing(
            log, scheduler, settings.retry_backoff_ms / 1000, self._synced, self.fail
        )
        self._checking: Promise[SnapshotContent] | None = None
        """Of the download that came last."""
        self._closing: Promise[None] | None = None
        self._has_resigned = False
        self._deadline: Cancellable | None = None
        """Until when others are to hear that we lead no longer."""
        self.is_caught_up = False
        """Whether all was replayed that a leader, in this incarnation, has said to be committed."""
        self.is_down = False
        """Stopped, or failed."""

    @property
    def node(self) -> RaftNode:
        assert self._node is not None, "not started"
        return self._node

    @property
    def is_started(self) -> bool:
        return self._node is not None

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
        return self.log.end_offset

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

    def start(self, endpoints: Sequence[VoterEndpoint] = ()) -> None:
        """Read snapshot, log and quorum state, and take part in the quorum.

        ``endpoints`` are those of this node's controller listeners.
        """
        if endpoints:
            self.settings = self.settings.at(endpoints)
            self._outgoing = Outgoing(self, self.channel, self.settings)
        self.snapshots.remove_leftovers()
        latest = self._load_snapshot()
        for batch in read_batches(self.log, self._replaying.next_offset, self.log.end_offset):
            if batch.is_control:
                self.control.replay(batch)
        settings = self.settings
        if not len(self.control.voters) and not settings.bootstrap_servers:
            raise QuorumUnknown(
                "the metadata log has no voters and controller.quorum.voters is not set: "
                "format the directory with --standalone, or set it"
            )
        self._node = self.NODE(
            key=self.key,
            voters=self.control.voters,
            committed_voters=self.control.at(0 if latest is None else latest.end_offset).voters,
            state=self._read_quorum_state(),
            log_end_offset=self.log.end_offset,
            log_end_epoch=self.log.last_epoch,
            timeouts=RaftTimeouts(
                settings.election_timeout_ms / 1000,
                settings.fetch_timeout_ms / 1000,
                settings.request_timeout_ms / 1000,
                settings.retry_backoff_ms / 1000,
                settings.election_backoff_max_ms / 1000,
            ),
            chance=self._chance,
            kraft_version=self.kraft_version,
            endpoints=settings.endpoints,
            bootstrap_count=len(settings.bootstrap_servers),
            auto_join=settings.auto_join,
            high_watermark=None if latest is None else latest.end_offset,
        )
        self.step(Started(self.now))
        self._syncing.begin()

    @property
    def now(self) -> float:
        return self.scheduler.monotonic()

    def _load_snapshot(self) -> SnapshotId | None:
        """Begin with the newest snapshot; return it, unless it has only voters."""
        latest = self.snapshots.latest()
        if latest is None:
            self._replaying.next_offset = self.log.start_offset
            return None
        content = self.snapshots.read(latest)
        self.control.load(content, latest)
        if (latest.epoch, latest.end_offset) > (self.log.last_epoch, self.log.end_offset):
            # It was installed, and the log not yet made to begin with it.
            self.log.restart_at(latest.end_offset, latest.epoch, self.scheduler.wall_ms())
        self.snapshots.remove_before(self.log.start_offset)
        self.log.begins_after(self.snapshots.ids()[0].epoch)
        self._replaying.next_offset = latest.end_offset
        if latest == BOOTSTRAP_SNAPSHOT:
            return None
        self.log.committed(latest.end_offset)
        self._listener.load_snapshot(content, latest)
        return latest

    def _read_quorum_state(self) -> QuorumState:
        path = f"{self.settings.directory}/{QUORUM_STATE}"
        if not self._filesystem.exists(path):
            return QuorumState()
        return decode_quorum_state(self._filesystem.read(path))

    def stop(self) -> Promise[None]:
        """Give up leading, tell the others so, and close the log after a sync that is under way.

        Appends that were not reported as committed may yet turn out to be. A voter
        that does not confirm it notices by itself: nothing waits longer than an election takes.
        """
        if self._closing is not None:
            return self._closing
        closed: Promise[None] = Promise(self.scheduler.turn)
        if self.is_down and self._syncing.under_way is None:
            closed.fulfil(None)
            return closed
        self._closing = closed
        if self.is_down or self._node is None:
            self._end()
        else:
            self.tell(Resign(self.now))
            self._deadline = self.scheduler.call_later(
                self.settings.election_timeout_ms / 1000, self._end
            )
        return closed

    def _is_telling(self) -> bool:
        """Whether others are yet to hear that we lead no longer."""
        role = None if self._node is None else self._node.role
        return isinstance(role, Resigned) and bool(role.unacknowledged)

    def _end(self) -> None:
        closed, self._closing = self._closing, None
        if closed is None:
            return
        self._take_down()
        sync = self._syncing.under_way
        if sync is None:
            self._close(closed)
        else:
            sync.when_done(lambda _: self._close(closed))

    def _take_down(self) -> None:
        self.is_down = True
        self.events.clear()
        self._effects.clear()
        self._replaying.stop()
        self._syncing.stop()
        for timer in (self._timer, self._retry, self._deadline):
            if timer is not None:
                timer.cancel()

    def _close(self, closed: Promise[None]) -> None:
        try:
            self.log.close(self.scheduler.wall_ms())
        except LogDirFailed as error:
            closed.fail(error)
        else:
            closed.fulfil(None)

    def fail(self, error: BaseException) -> None:
        """End this node's part in the quorum, and report why."""
        if self.is_down:
            return
        self._take_down()
        if not isinstance(error, _EXPECTED):
            log.exception("an internal error in the quorum")  # noqa: LOG004 - it is being handled
        try:
            self.node.step(Resign(self.now))
            self._give_up_leading()
            self._progressed()
        except Exception:
            log.exception("the node ends, and not all are told that it leads no longer")
        self._end()
        self._on_failure(error)

    # Reading

    def read(self, offset: int) -> bytes | None:
        """What a replica gets that has the log up to ``offset``; None when it cannot be read.

        The disk is ours: neither the asking node nor the one whose append made us read is to blame.
        This node ends later in the turn, so that nothing changes under that append.
        """
        try:
            return self.log.read(offset, self.settings.fetch_bytes_max)
        except LogUnavailable:
            return None  # it is asked for again
        except LogDirFailed as error:
            self.scheduler.turn.enqueue(self.fail, error)
            return None

    def read_snapshot(self, snapshot_id: SnapshotId, position: int, count: int) -> bytes | None:
        """A part of a snapshot that is there; None when it cannot be read."""
        try:
            return self.snapshots.read_chunk(snapshot_id, position, count)
        except OSError as error:
            if is_disks(error):
                self.scheduler.turn.enqueue(self.fail, error)
            return None

    # Appending

    def append(self, values: Iterable[bytes], now_ms: int) -> int:
        """Append one batch as leader, all of it or nothing; return how many bytes it has.

        It ends at ``end_offset`` then, and is committed when ``committed`` is told of that. What
        the quorum makes of it comes later in this turn, so that nothing changes under the caller.
        """
        if self._active_epoch is None:
            raise NotController("No controller appears to be active.")
        builder = BatchBuilder()
        for value in values:
            builder.append(now_ms, None, value)
        assert builder.count > 0
        batch = builder.build(base_offset=self.log.end_offset, leader_epoch=self._active_epoch)
        assert len(batch) <= BATCH_BYTES_MAX
        self._append(batch)
        return len(batch)

    def append_control(self, records: list[tuple[ControlType, bytes]]) -> None:
        """Append control records as leader; they count at once, as all that is in the log does."""
        batch = control_batch(
            records,
            timestamp=self.scheduler.wall_ms(),
            base_offset=self.log.end_offset,
            leader_epoch=self.node.epoch,
        )
        self._append(batch)
        data = bytes(batch)
        if self._active_epoch is not None:
            self._listener.appended_control(LogBatch(data))
        self._replay_control(data)

    def _append(self, batch: bytearray) -> None:
        try:
            self.log.append(batch, self.scheduler.wall_ms())
        except LogDirFailed as error:
            if not _is_lack(error):
                self.fail(error)
            raise
        self.tell(Appended(self.now, self.log.end_offset, self.log.last_epoch))
        self._syncing.begin()
        self._progressed()

    def _append_records(self, records: bytes) -> None:
        """What the leader sent; it was checked when it came."""
        self.log.append_fetched(records, self.node.epoch, self.scheduler.wall_ms())
        self._replay_control(records)
        self.tell(Appended(self.now, self.log.end_offset, self.log.last_epoch))
        self._syncing.begin()

    def _replay_control(self, data: bytes) -> None:
        changed = False
        for position, size in batches(data):
            batch = LogBatch(data[position : position + size])
            if batch.is_control:
                changed |= self.control.replay(batch)
        if changed:
            self._voters_changed()

    def _voters_changed(self) -> None:
        committed = self.control.at(self.high_watermark).voters
        self.tell(VotersChanged(self.now, self.control.voters, self.kraft_version, committed))

    def _truncate(self, effect: TruncateLog) -> None:
        log.info("metadata log truncated", end_offset=effect.end_offset)
        self.log.truncate_to(effect.end_offset, self.scheduler.wall_ms())
        self._syncing.truncated()
        changed = self.control.truncate_to(self.log.end_offset)
        self.tell(Truncated(self.now, self.log.end_offset, self.log.last_epoch))
        if changed:
            self._voters_changed()

    @property
    def stuck_seconds(self) -> float:
        """For how long a follower has been at a sync: before it ends nothing more is fetched."""
        return 0.0 if self.is_leader else self._syncing.seconds

    def _synced(self, offset: int) -> None:
        self.tell(Flushed(self.now, offset))

    # Snapshots

    def write_snapshot(
        self, snapshot_id: SnapshotId, batches: Iterable[bytes | bytearray]
    ) -> Promise[None]:
        """Write a snapshot in the background; ``batches`` is consumed there."""
        return self.scheduler.run_in_background(
            lambda: self.snapshots.write(snapshot_id, batches), SNAPSHOT_LANE
        )

    def clean(self, retention: SnapshotRetention) -> None:
        """Remove snapshots that are too old or too many, and the log before those that stay."""
        now_ms = self.scheduler.wall_ms()
        # What was written may be late: the log begins with one that was downloaded meanwhile.
        self.snapshots.remove_before(self.log.start_offset)
        snapshots = self.snapshots.described()
        removed = snapshots_to_remove(
            snapshots, log_bytes=self.log.size, now_ms=now_ms, retention=retention
        )
        for snapshot_id in removed:
            self.snapshots.remove(snapshot_id)
        if removed:
            oldest = snapshots[len(removed)].id
            self.log.delete_before(oldest.end_offset, now_ms)
            self.log.begins_after(oldest.epoch)
            self.control.forget_before(oldest.end_offset)

    def _install_snapshot(self, snapshot_id: SnapshotId) -> None:
        """Check what was downloaded, off the loop; then let log and state begin with it."""
        checked = self._checking = self.scheduler.run_in_background(
            lambda: self.snapshots.check_download(snapshot_id), SNAPSHOT_LANE
        )
        checked.when_done(partial(self._or_fail, partial(self._snapshot_checked, snapshot_id)))

    def _snapshot_checked(self, snapshot_id: SnapshotId, checked: Promise[SnapshotContent]) -> None:
        # Under another leader the same snapshot may have come once more meanwhile.
        is_wanted = checked is self._checking and self.node.waits_for(snapshot_id)
        if self.is_down or not is_wanted:
            return
        try:
            content = checked.result()
            self.snapshots.install_download(snapshot_id)
            self.log.restart_at(snapshot_id.end_offset, snapshot_id.epoch, self.scheduler.wall_ms())
        except (CorruptMessage, ValueError) as error:
            log.warning("snapshot refused", snapshot=snapshot_id, reason=str(error))
            self.tell(SnapshotRefused(self.now, snapshot_id))
            return
        except (OSError, LogDirFailed) as error:
            if _is_lack(error):
                self.tell(SnapshotRefused(self.now, snapshot_id))
            else:
                self.fail(error)
            return
        log.info("snapshot installed", snapshot=snapshot_id)
        self._syncing.truncated()
        self.log.committed(snapshot_id.end_offset)
        self.control.load(content, snapshot_id)
        self._listener.load_snapshot(content, snapshot_id)
        self._replaying.next_offset = snapshot_id.end_offset
        self.tell(SnapshotInstalled(self.now, snapshot_id))
        self._voters_changed()
        self.snapshots.remove_before(snapshot_id.end_offset)

    # Driving the core

    def tell(self, event: RaftEvent) -> None:
        """Something has happened; it has its consequences later in this turn."""
        if self.is_down:
            return
        if self._is_stepping:
            self.events.follows(event)
        elif self.events.happened(event):
            self.scheduler.turn.enqueue(self._go_on)

    def step(self, event: RaftEvent) -> list[RaftEffect]:
        """Let something happen now, behind what has happened before; what it led to is done.

        Nothing is done, and the asking side must try again, while the node waits for what it lacks.
        """
        assert not self._is_stepping, "within a step others are told, and wait"
        self._go_on()
        if self.is_down or self._retry is not None:
            return []
        self.events.happened(event)
        return self._go_on()

    def _go_on(self) -> list[RaftEffect]:
        """Take events one by one; return the effects of the first, if they are carried out."""
        first: list[RaftEffect] | None = None
        self._is_stepping = True
        try:
            while self._retry is None and (self._effects or self.events):
                effects = self._take_event() if not self._effects else []
                self._carry_out()
                if first is None and self._retry is None:
                    first = effects
        except Exception as error:  # noqa: BLE001 - the node ends with it
            self.fail(error)
            return []
        finally:
            self._is_stepping = False
        return first or []

    def _or_fail(self, go_on: Callable[[Promise[T]], None], done: Promise[T]) -> None:
        """Go on when work in the background has ended; the node ends with a mistake of ours."""
        try:
            go_on(done)
        except Exception as error:  # noqa: BLE001 - the node ends with it
            self.fail(error)

    def _take_event(self) -> list[RaftEffect]:
        event = self.events.take()
        self._has_resigned |= self._closing is not None and isinstance(event, Resign)
        effects = self.node.step(event)
        self.node.check()
        self._effects.extend(effects)
        return effects

    def _carry_out(self) -> None:
        """All effects of an event, or as many as can be for now."""
        while self._effects:
            try:
                self._execute(self._effects[0])
            except (OSError, LogDirFailed) as error:
                if not _is_lack(error):
                    raise
                self._retry = self._later(self._try_again)
                log.warning("the quorum cannot go on now, and tries again", reason=str(error))
                return
            if self.is_down:
                return
            self._effects.popleft()
        self.snapshots.keep_download(self.node.download)
        if self._closing is not None and self._has_resigned and not self._is_telling():
            self._end()
        self._look_whether_caught_up()

    def _try_again(self) -> None:
        self._retry = None
        self._go_on()

    def _look_whether_caught_up(self) -> None:
        if not self.is_caught_up and self.has_caught_up():
            self.is_caught_up = True
            self._progressed()

    def has_caught_up(self) -> bool:
        """Whether all that the leader has told of as committed is replayed, or this one leads."""
        role = self.node.role
        if isinstance(role, Follower):
            return (
                not self._replaying.is_under_way
                and 0 < role.leader_high_watermark <= self.high_watermark
            )
        return self._active_epoch is not None

    def _execute(self, effect: RaftEffect) -> None:
        match effect:
            case SaveQuorumState():
                self._save_quorum_state(effect.state)
            case AppendLeaderChange():
                endpoints = self.settings.endpoints
                self.append_control(
                    leader_change(self.key, endpoints, effect.granting, self.control)
                )
            case AppendRecords():
                self._append_records(effect.records)
            case TruncateLog():
                self._truncate(effect)
            case WriteSnapshotChunk():
                self.snapshots.write_chunk(*effect)
            case InstallSnapshot():
                self._install_snapshot(effect.snapshot_id)
            case AdvanceHighWatermark():
                self._advance(effect.offset)
            case LeaderChanged():
                self._leader_changed(effect)
            case SetTimer():
                self._set_timer(effect.at)
            case AnswerVote() | AnswerEpoch():
                pass  # the asking side gets it from ``step``
            case _:
                self._outgoing.send(effect)

    def _save_quorum_state(self, state: QuorumState) -> None:
        data = encode_quorum_state(
            state, kraft_version=self.kraft_version, voter_ids=self.voters.ids
        )
        self._filesystem.write_atomically(f"{self.settings.directory}/{QUORUM_STATE}", data)

    def _advance(self, high_watermark: int) -> None:
        self.log.committed(high_watermark)
        if self._active_epoch is None:
            if self.node.is_leader:
                self._committed_epoch = self.node.epoch
            if self._replaying.go_to(high_watermark):
                self._lead_if_due()
        else:
            self._replaying.next_offset = high_watermark
            self._listener.committed(high_watermark)
        self._progressed()
        if self.node.committed_voters is not self.control.at(self.high_watermark).voters:
            self._voters_changed()

    def _lead_if_due(self) -> None:
        """All that is committed was replayed; of this epoch too, when this node leads in it."""
        if self.node.is_leader and self._committed_epoch == self.node.epoch:
            self._active_epoch = self.node.epoch
            self._listener.became_leader(self.node.epoch)

    def _replayed_rest(self) -> None:
        self._lead_if_due()
        self._progressed()
        self._look_whether_caught_up()

    def _leader_changed(self, effect: LeaderChanged) -> None:
        log.info("leader of the quorum", leader=effect.leader_id, epoch=effect.epoch)
        if not self.node.is_leader:
            self._give_up_leading()
        self._progressed()

    def _give_up_leading(self) -> None:
        if self._active_epoch is not None:
            epoch, self._active_epoch = self._active_epoch, None
            self._listener.lost_leadership(epoch)

    def _progressed(self) -> None:
        for callback in self.on_progress:
            callback()

    def _set_timer(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.scheduler.call_later(max(0.0, at - self.now), self._tick)

    def _later(self, callback: Callable[[], None]) -> Cancellable:
        return self.scheduler.call_later(self.settings.retry_backoff_ms / 1000, callback)

    def _tick(self) -> None:
        self.tell(Tick(self.now))


def _is_lack(error: OSError | LogDirFailed) -> bool:
    """Whether nothing was done for want of a descriptor or memory, so that later may do."""
    return isinstance(error, LogUnavailable) or (isinstance(error, OSError) and not is_disks(error))

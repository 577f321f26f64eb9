"""What a follower makes of the leader's answers: records, a truncation, or a snapshot.

An answer is used only when it is for the log as it is now; anything else comes again.
"""

from typing import TYPE_CHECKING

from ottla.raft.effects import (
    AppendRecords,
    InstallSnapshot,
    RaftEffect,
    TruncateLog,
    WriteSnapshotChunk,
)
from ottla.raft.events import (
    FetchAnswered,
    SnapshotAnswered,
    SnapshotInstalled,
    SnapshotRefused,
    Truncated,
)
from ottla.raft.roles import Download, Follower
from ottla.raft.snapshots import SnapshotId

if TYPE_CHECKING:
    from ottla.raft.node import RaftNode


class CommittedTruncation(Exception):
    """The leader wants us to forget what is committed: one of us has lost its memory."""


class Following:
    """The part of a node that is only busy while it follows."""

    __slots__ = ("_node", "heard", "is_writing")

    def __init__(self, node: "RaftNode") -> None:
        self._node = node
        self.heard: dict[int, float] = {}
        """When the leader that answered us last has done so; nothing when we have led since."""
        self.is_writing = False
        """Whether the log is about to be something else than what we know of it."""

    def fetch_answered(self, event: FetchAnswered, effects: list[RaftEffect]) -> None:
        node = self._node
        role = node.role
        if not isinstance(role, Follower):
            return
        ours = (node.log_end_offset, node.log_end_epoch)
        if (event.request.offset, event.request.last_epoch) != ours or role.download is not None:
            return
        role.has_fetched = True
        self.heard = {role.leader_id: event.now}
        role.fetch_by = event.now + node.timeouts.fetch_seconds
        committed = node.high_watermark or 0
        if event.truncate_to is not None:
            if event.truncate_to < committed:
                raise CommittedTruncation(
                    f"The leader requested truncation to offset {event.truncate_to}, which is "
                    f"below the current high watermark {committed}"
                )
            self.is_writing = True
            effects.append(TruncateLog(event.truncate_to))
        elif event.snapshot_id is not None:
            if event.snapshot_id.end_offset <= committed:
                node.connections.rest(event.request.destination, event.now)
            else:
                role.download = Download(event.snapshot_id)
        else:
            role.leader_high_watermark = event.high_watermark
            if event.records:
                self.is_writing = True
                effects.append(AppendRecords(event.records))
            else:
                self.learn_high_watermark(effects)

    def appended(self, effects: list[RaftEffect]) -> None:
        self.is_writing = False
        self.learn_high_watermark(effects)

    def learn_high_watermark(self, effects: list[RaftEffect]) -> None:
        role = self._node.role
        if isinstance(role, Follower) and role.leader_high_watermark > 0:
            offset = min(role.leader_high_watermark, self._node.log_end_offset)
            self._node.commit_to(offset, effects)

    def truncated(self, event: Truncated) -> None:
        node = self._node
        self.is_writing = False
        assert event.end_offset <= node.log_end_offset
        assert event.end_offset >= (node.high_watermark or 0)
        node.log_end_offset = event.end_offset
        node.log_end_epoch = event.end_epoch
        node.synced_offset = min(node.synced_offset, event.end_offset)

    # Snapshots

    def snapshot_answered(self, event: SnapshotAnswered, effects: list[RaftEffect]) -> None:
        node = self._node
        role = node.role
        if not isinstance(role, Follower) or role.download is None or role.download.is_complete:
            return
        download = role.download
        role.fetch_by = event.now + node.timeouts.fetch_seconds
        if not download.take(event.snapshot_id, event.position, len(event.data), event.size):
            # Not what was asked for: begin again, with a fetch that says what there is.
            role.download = None
            node.connections.rest(event.request.destination, event.now)
            return
        effects.append(WriteSnapshotChunk(event.snapshot_id, event.position, event.data))
        if download.is_complete:
            effects.append(InstallSnapshot(event.snapshot_id))

    def snapshot_gone(self, now: float) -> None:
        """The leader has a later one by now."""
        role = self._node.role
        if isinstance(role, Follower):
            role.download = None
            role.fetch_by = now + self._node.timeouts.fetch_seconds

    def snapshot_installed(self, event: SnapshotInstalled, effects: list[RaftEffect]) -> None:
        node = self._node
        node.log_end_offset = node.synced_offset = event.snapshot_id.end_offset
        node.log_end_epoch = event.snapshot_id.epoch
        if isinstance(node.role, Follower):
            node.role.download = None
        node.commit_to(event.snapshot_id.end_offset, effects)

    def snapshot_refused(self, event: SnapshotRefused) -> None:
        node = self._node
        role = node.role
        if isinstance(role, Follower):
            role.download = None
            node.connections.rest(role.leader_id, event.now)

    @property
    def download(self) -> SnapshotId | None:
        """What is being downloaded or checked."""
        role = self._node.role
        if not isinstance(role, Follower) or role.download is None:
            return None
        return role.download.snapshot_id

    def is_wanted(self, snapshot_id: SnapshotId) -> bool:
        """Whether a download that has been checked is still what we wait for."""
        role = self._node.role
        return isinstance(role, Follower) and role.waits_for(snapshot_id)

"""What can happen to a node of the quorum. Every event carries the time at which it did.

An answer carries the request that it answers; one that nobody waits for any more is ignored.
"""

from typing import NamedTuple, TypeAlias

from ottla.raft.effects import FetchLog, FetchSnapshot, RaftRequest, RequestVote
from ottla.raft.snapshots import SnapshotId
from ottla.raft.voters import LeaderInfo, ReplicaKey, VoterSet


class Started(NamedTuple):
    """The node has read its log and its quorum state."""

    now: float


class Tick(NamedTuple):
    """The moment that the last SetTimer asked for has come."""

    now: float


class Resign(NamedTuple):
    """This node is to lead no longer: it stops, or cannot write."""

    now: float


# Requests of others


class VoteRequested(NamedTuple):
    """Another voter wants to lead; with ``pre_vote`` it only asks whether it could."""

    now: float
    candidate: ReplicaKey
    epoch: int
    last_offset: int
    last_epoch: int
    pre_vote: bool
    voter: ReplicaKey | None = None
    """Whom it takes us for."""


class EpochBegun(NamedTuple):
    """Another node says that it leads."""

    now: float
    leader: LeaderInfo
    voter: ReplicaKey | None = None


class EpochEnded(NamedTuple):
    """The leader gives up; ``preferred`` are to succeed it, the best first."""

    now: float
    leader: LeaderInfo
    preferred: tuple[ReplicaKey, ...]


class ReplicaFetched(NamedTuple):
    """A replica asked for what follows ``offset``: it has synced everything before it."""

    now: float
    key: ReplicaKey
    offset: int


class ReplicaSeen(NamedTuple):
    """A replica asked for a part of a snapshot: it is alive and takes us for the leader."""

    now: float
    key: ReplicaKey


# Answers to our requests


class VoteAnswered(NamedTuple):
    now: float
    request: RequestVote
    error: int
    leader: LeaderInfo
    granted: bool


class FetchAnswered(NamedTuple):
    """What a leader has for us; ``records`` are whole batches whose checksums are right."""

    now: float
    request: FetchLog
    error: int
    leader: LeaderInfo
    high_watermark: int = -1
    records: bytes = b""
    truncate_to: int | None = None
    """The offset from which on our log diverges from the leader's."""
    snapshot_id: SnapshotId | None = None


class SnapshotAnswered(NamedTuple):
    now: float
    request: FetchSnapshot
    error: int
    leader: LeaderInfo
    snapshot_id: SnapshotId
    size: int
    position: int
    data: bytes


class Answered(NamedTuple):
    """To any other request."""

    now: float
    request: RaftRequest
    error: int
    leader: LeaderInfo


class RequestFailed(NamedTuple):
    """No answer, or one that makes no sense."""

    now: float
    request: RaftRequest


# The log


class Appended(NamedTuple):
    """This node has written to its log up to ``end_offset``; not yet synced.

    It may have written as leader, and lead no more by now.
    """

    now: float
    end_offset: int
    end_epoch: int
    """Of the last batch."""


class Flushed(NamedTuple):
    """This node's log is synced to disk up to ``end_offset``."""

    now: float
    end_offset: int


class Truncated(NamedTuple):
    """This node's log ends at ``end_offset`` now, on disk too."""

    now: float
    end_offset: int
    end_epoch: int


class SnapshotInstalled(NamedTuple):
    """The snapshot is whole and on disk, and the log begins behind it."""

    now: float
    snapshot_id: SnapshotId


class SnapshotRefused(NamedTuple):
    """What was downloaded is no snapshot."""

    now: float
    snapshot_id: SnapshotId


class VotersChanged(NamedTuple):
    """The log, committed or not, has a new voter set: the newest one counts."""

    now: float
    voters: VoterSet
    kraft_version: int = 0
    committed: VoterSet | None = None
    """The newest that is known to be committed; None for the same."""


RaftEvent: TypeAlias = (
    Started
    | Tick
    | Resign
    | VoteRequested
    | EpochBegun
    | EpochEnded
    | ReplicaFetched
    | ReplicaSeen
    | VoteAnswered
    | FetchAnswered
    | SnapshotAnswered
    | Answered
    | RequestFailed
    | Appended
    | Flushed
    | Truncated
    | SnapshotInstalled
    | SnapshotRefused
    | VotersChanged
)

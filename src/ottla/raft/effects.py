"""What a node of the quorum must do. Effects are carried out in the order of the list.

Requests have a destination: the id of a node, or -2, -3, ... for the first, second, ... of the
bootstrap servers, whose ids nobody knows. The number tells two equal requests apart.
"""

from typing import NamedTuple, TypeAlias

from ottla.common.errors import ErrorCode
from ottla.raft.quorum_state import QuorumState
from ottla.raft.snapshots import SnapshotId
from ottla.raft.voters import ReplicaKey


class SaveQuorumState(NamedTuple):
    """Must be on disk before anything that follows: a vote counts only when it cannot be lost."""

    state: QuorumState


class SetTimer(NamedTuple):
    """A Tick is wanted at ``at``; a later SetTimer takes the place of this one."""

    at: float


class LeaderChanged(NamedTuple):
    """There is a new epoch, or its leader is known now; -1 for none."""

    epoch: int
    leader_id: int


class AdvanceHighWatermark(NamedTuple):
    """What lies below ``offset`` is committed. Never goes back."""

    offset: int


# The log


class AppendLeaderChange(NamedTuple):
    """Write the control batch that opens the epoch, before any other record of it."""

    epoch: int
    granting: tuple[ReplicaKey, ...]


class AppendRecords(NamedTuple):
    """Write what the leader sent, and sync it: the next fetch says that we have it."""

    records: bytes


class TruncateLog(NamedTuple):
    """Forget what follows ``end_offset``: the leader has something else there."""

    end_offset: int


class WriteSnapshotChunk(NamedTuple):
    """A part of a snapshot that is being downloaded; at position 0 the download begins."""

    snapshot_id: SnapshotId
    position: int
    data: bytes


class InstallSnapshot(NamedTuple):
    """The download has its full size: check it, sync it, let log and state begin with it."""

    snapshot_id: SnapshotId


# Answers to the requests of others


class AnswerVote(NamedTuple):
    """The answer to the VoteRequested that led to it."""

    epoch: int
    leader_id: int
    granted: bool
    error: ErrorCode = ErrorCode.NONE


class AnswerEpoch(NamedTuple):
    """The answer to EpochBegun and EpochEnded."""

    epoch: int
    leader_id: int
    error: ErrorCode = ErrorCode.NONE


# Requests


class RequestVote(NamedTuple):
    destination: int
    number: int
    voter: ReplicaKey
    epoch: int
    last_offset: int
    last_epoch: int
    pre_vote: bool


class BeginEpoch(NamedTuple):
    destination: int
    number: int
    voter: ReplicaKey
    epoch: int


class EndEpoch(NamedTuple):
    destination: int
    number: int
    epoch: int
    preferred: tuple[ReplicaKey, ...]


class FetchLog(NamedTuple):
    """What follows our log; says that everything before ``offset`` is synced here."""

    destination: int
    number: int
    epoch: int
    offset: int
    last_epoch: int
    high_watermark: int


class FetchSnapshot(NamedTuple):
    destination: int
    number: int
    epoch: int
    snapshot_id: SnapshotId
    position: int


class UpdateVoter(NamedTuple):
    """Tell the leader our endpoints: the voter set has others, or, being static, none of ours."""

    destination: int
    number: int
    epoch: int


class JoinVoters(NamedTuple):
    """Ask the leader to make us a voter or, before that, to remove the voter that had our id."""

    destination: int
    number: int
    epoch: int
    replaced: ReplicaKey | None


RaftRequest: TypeAlias = (
    RequestVote | BeginEpoch | EndEpoch | FetchLog | FetchSnapshot | UpdateVoter | JoinVoters
)

RaftEffect: TypeAlias = (
    SaveQuorumState
    | SetTimer
    | LeaderChanged
    | AdvanceHighWatermark
    | AppendLeaderChange
    | AppendRecords
    | TruncateLog
    | WriteSnapshotChunk
    | InstallSnapshot
    | AnswerVote
    | AnswerEpoch
    | RaftRequest
)

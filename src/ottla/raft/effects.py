"""What a node of the quorum must do. Effects are carried out in the order of the list."""

from typing import NamedTuple, TypeAlias

from ottla.raft.quorum_state import QuorumState
from ottla.raft.voters import ReplicaKey


class SaveQuorumState(NamedTuple):
    """Must be on disk before anything that follows: a vote counts only when it cannot be lost."""

    state: QuorumState


class AppendLeaderChange(NamedTuple):
    """Write the control batch that opens the epoch, before any other record of it."""

    epoch: int
    granting: tuple[ReplicaKey, ...]


class RequestVote(NamedTuple):
    voter_id: int
    epoch: int
    last_offset: int
    last_epoch: int
    pre_vote: bool


class AnswerVote(NamedTuple):
    """The answer to the VoteRequested that led to it."""

    epoch: int
    leader_id: int
    granted: bool


class AdvanceHighWatermark(NamedTuple):
    """What lies below ``offset`` is committed. Never goes back."""

    offset: int


class LeaderChanged(NamedTuple):
    """There is a new epoch, or its leader is known now; -1 for none."""

    epoch: int
    leader_id: int


class SetTimer(NamedTuple):
    """A Tick is wanted at ``at``; a later SetTimer takes the place of this one."""

    at: float


RaftEffect: TypeAlias = (
    SaveQuorumState
    | AppendLeaderChange
    | RequestVote
    | AnswerVote
    | AdvanceHighWatermark
    | LeaderChanged
    | SetTimer
)

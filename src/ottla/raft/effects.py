"""What a node of the quorum must do. Effects are carried out in the order of the list."""

from dataclasses import dataclass
from typing import TypeAlias

from ottla.raft.quorum_state import QuorumState
from ottla.raft.voters import ReplicaKey


@dataclass(frozen=True, slots=True)
class SaveQuorumState:
    """Must be on disk before anything that follows: a vote counts only when it cannot be lost."""

    state: QuorumState


@dataclass(frozen=True, slots=True)
class AppendLeaderChange:
    """Write the control batch that opens the epoch, before any other record of it."""

    epoch: int
    granting: tuple[ReplicaKey, ...]


@dataclass(frozen=True, slots=True)
class RequestVote:
    voter_id: int
    epoch: int
    last_offset: int
    last_epoch: int
    pre_vote: bool


@dataclass(frozen=True, slots=True)
class AnswerVote:
    """The answer to the VoteRequested that led to it."""

    epoch: int
    leader_id: int
    granted: bool


@dataclass(frozen=True, slots=True)
class AdvanceHighWatermark:
    """What lies below ``offset`` is committed. Never goes back."""

    offset: int


@dataclass(frozen=True, slots=True)
class LeaderChanged:
    """There is a new epoch, or its leader is known now; -1 for none."""

    epoch: int
    leader_id: int


@dataclass(frozen=True, slots=True)
class SetTimer:
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

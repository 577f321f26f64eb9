"""What can happen to a node of the quorum. Every event carries the time at which it did."""

from dataclasses import dataclass
from typing import TypeAlias

from ottla.raft.voters import ReplicaKey, VoterSet


@dataclass(frozen=True, slots=True)
class Started:
    """The node has read its log and its quorum state."""

    now: float


@dataclass(frozen=True, slots=True)
class Tick:
    """The moment that the last SetTimer asked for has come."""

    now: float


@dataclass(frozen=True, slots=True)
class VoteRequested:
    """Another voter wants to lead; with ``pre_vote`` it only asks whether it could."""

    now: float
    candidate: ReplicaKey
    epoch: int
    last_offset: int
    last_epoch: int
    pre_vote: bool


@dataclass(frozen=True, slots=True)
class VoteAnswered:
    now: float
    voter_id: int
    epoch: int
    """The epoch of the one who answers."""
    leader_id: int
    granted: bool
    pre_vote: bool


@dataclass(frozen=True, slots=True)
class Appended:
    """This node, as leader, has written to its log up to ``end_offset``; not yet synced."""

    now: float
    end_offset: int


@dataclass(frozen=True, slots=True)
class Flushed:
    """This node's log is synced to disk up to ``end_offset``."""

    now: float
    end_offset: int


@dataclass(frozen=True, slots=True)
class VotersChanged:
    """The log, committed or not, has a new voter set: the newest one counts."""

    now: float
    voters: VoterSet


@dataclass(frozen=True, slots=True)
class Resign:
    """This node is to lead no longer: it stops, or cannot write."""

    now: float


RaftEvent: TypeAlias = (
    Started | Tick | VoteRequested | VoteAnswered | Appended | Flushed | VotersChanged | Resign
)

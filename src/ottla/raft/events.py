"""What can happen to a node of the quorum. Every event carries the time at which it did."""

from typing import NamedTuple, TypeAlias

from ottla.raft.voters import ReplicaKey, VoterSet


class Started(NamedTuple):
    """The node has read its log and its quorum state."""

    now: float


class Tick(NamedTuple):
    """The moment that the last SetTimer asked for has come."""

    now: float


class VoteRequested(NamedTuple):
    """Another voter wants to lead; with ``pre_vote`` it only asks whether it could."""

    now: float
    candidate: ReplicaKey
    epoch: int
    last_offset: int
    last_epoch: int
    pre_vote: bool


class VoteAnswered(NamedTuple):
    now: float
    voter_id: int
    epoch: int
    """The epoch of the one who answers."""
    leader_id: int
    granted: bool
    pre_vote: bool


class Appended(NamedTuple):
    """This node, as leader, has written to its log up to ``end_offset``; not yet synced."""

    now: float
    end_offset: int


class Flushed(NamedTuple):
    """This node's log is synced to disk up to ``end_offset``."""

    now: float
    end_offset: int


class VotersChanged(NamedTuple):
    """The log, committed or not, has a new voter set: the newest one counts."""

    now: float
    voters: VoterSet


class Resign(NamedTuple):
    """This node is to lead no longer: it stops, or cannot write."""

    now: float


RaftEvent: TypeAlias = (
    Started | Tick | VoteRequested | VoteAnswered | Appended | Flushed | VotersChanged | Resign
)

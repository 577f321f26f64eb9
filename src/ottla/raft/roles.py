"""The roles of a node in the quorum, a class each: what it knows while it is that.

A role belongs to one epoch. A node goes from Unattached to Prospective (would I win?) to Candidate
(vote for me) to Leader; it is Resigned when it has given up leading and waits for the next epoch.
"""

from dataclasses import dataclass, field
from typing import TypeAlias

from ottla.raft.voters import ReplicaKey, VoterSet


@dataclass(slots=True)
class Unattached:
    """Knows the epoch, and perhaps its leader, but follows nobody."""

    epoch: int
    election_at: float
    leader_id: int = -1
    voted: ReplicaKey | None = None


@dataclass(slots=True)
class Votes:
    """Who said what; a voter that is asked again may change its mind."""

    granted: set[int] = field(default_factory=set)
    rejected: set[int] = field(default_factory=set)

    def record(self, voter_id: int, *, granted: bool) -> None:
        (self.granted if granted else self.rejected).add(voter_id)
        (self.rejected if granted else self.granted).discard(voter_id)

    def is_won(self, voters: VoterSet) -> bool:
        return len(self.granted & set(voters.ids)) >= voters.majority

    def is_lost(self, voters: VoterSet) -> bool:
        return len(voters) - len(self.rejected & set(voters.ids)) < voters.majority


@dataclass(slots=True)
class Prospective:
    """Asks whether it would win, without a new epoch: a lonely node disturbs nobody (KIP-996)."""

    epoch: int
    election_at: float
    leader_id: int
    voted: ReplicaKey | None
    votes: Votes


@dataclass(slots=True)
class Candidate:
    """Has voted for itself in a new epoch and asks the others."""

    epoch: int
    election_at: float
    votes: Votes


@dataclass(slots=True)
class Leader:
    """Leads the epoch. Commits by majority, and only from its own epoch on.

    A record of an earlier epoch is committed together with the first of this one, never by being
    on a majority alone: it could still be replaced.
    """

    epoch: int
    epoch_start_offset: int
    granting: tuple[ReplicaKey, ...]
    synced: dict[int, int] = field(default_factory=dict)
    """How far each voter's log is synced to its disk."""

    def committed(self, voters: VoterSet) -> int | None:
        """The high watermark that the voters' logs allow; None while this epoch has none."""
        offsets = sorted((self.synced.get(voter_id, 0) for voter_id in voters.ids), reverse=True)
        offset = offsets[voters.majority - 1]
        return offset if offset > self.epoch_start_offset else None


@dataclass(slots=True)
class Resigned:
    """Led this epoch and does no longer; votes for nobody in it."""

    epoch: int
    leader_id: int
    election_at: float


Role: TypeAlias = Unattached | Prospective | Candidate | Leader | Resigned

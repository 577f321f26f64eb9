"""The roles of a node in the quorum, a class each: what it knows while it is that, and learns.

A role belongs to one epoch. A node goes from Unattached to Prospective (would I win?) to Candidate
(vote for me) to Leader, or to Follower of the winner; it is Resigned when it has given up leading
and waits for the next epoch. An observer, which is no voter, is Unattached or Follower all its
life.
"""

from dataclasses import dataclass, field
from typing import Final, TypeAlias

from ottla.common.identifiers import ZERO_UUID
from ottla.raft.connections import Connections
from ottla.raft.effects import InstallSnapshot, RaftEffect, WriteSnapshotChunk
from ottla.raft.events import FetchAnswered, SnapshotAnswered
from ottla.raft.known_log import KnownLog
from ottla.raft.snapshots import SnapshotId
from ottla.raft.voters import ReplicaKey, VoterEndpoint, VoterSet

OBSERVER_SECONDS: Final = 300.0
"""A node that has not fetched for so long is no longer counted among the observers."""
REPLICAS_MAX: Final = 10_000
"""Anybody may fetch under any id: observers beyond these are served, but not remembered."""
CATCH_UP_SECONDS: Final = 3600.0
"""A node that is to become a voter must have fetched within this time."""


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

    def is_recorded(self, voter_id: int) -> bool:
        return voter_id in self.granted or voter_id in self.rejected

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
    endpoints: tuple[VoterEndpoint, ...] = ()
    """Of the leader, to whom it returns when the others still hear it."""


@dataclass(slots=True)
class Candidate:
    """Has voted for itself in a new epoch and asks the others."""

    epoch: int
    election_at: float
    votes: Votes


@dataclass(slots=True)
class Download:
    """A snapshot that comes in parts."""

    snapshot_id: SnapshotId
    position: int = 0
    size: int = -1
    is_complete: bool = False
    """All of it is here; it is being checked and synced."""

    def take(self, snapshot_id: SnapshotId, position: int, length: int, size: int) -> bool:
        """A part came; whether it is what was asked for, and the next one may be."""
        end = position + length
        if (
            snapshot_id != self.snapshot_id
            or position != self.position
            or not length
            or end > size
            or self.size not in (-1, size)
        ):
            return False
        self.position = end
        self.size = size
        self.is_complete = end == size
        return True


@dataclass(slots=True)
class Follower:
    """Fetches from the leader; stands for election when that is silent for too long."""

    epoch: int
    leader_id: int
    endpoints: tuple[VoterEndpoint, ...]
    fetch_by: float
    voters_at: float
    """When to look next whether the voter set has us, and right."""
    voted: ReplicaKey | None = None
    has_fetched: bool = False
    leader_high_watermark: int = -1
    download: Download | None = None
    has_stated: bool = False
    """Whether the leader of a static quorum knows our directory and endpoints."""

    def fetch_answered(
        self,
        event: FetchAnswered,
        log: KnownLog,
        connections: Connections,
        fetch_by: float,
        effects: list[RaftEffect],
    ) -> bool:
        """Records, a truncation, or a snapshot; whether the answer is for the log as it is now.

        Anything else comes again.
        """
        if (event.request.offset, event.request.last_epoch) != log.end or self.download is not None:
            return False
        self.has_fetched = True
        self.fetch_by = fetch_by
        if event.truncate_to is not None:
            log.truncate(event.truncate_to, effects)
        elif event.snapshot_id is not None:
            if event.snapshot_id.end_offset <= log.committed:
                connections.rest(event.request.destination, event.now)
            else:
                self.download = Download(event.snapshot_id)
        else:
            self.leader_high_watermark = event.high_watermark
            if event.records:
                log.append(event.records, effects)
            else:
                self.commit(log, effects)
        return True

    def commit(self, log: KnownLog, effects: list[RaftEffect]) -> None:
        """What the leader has told to be committed, as far as it is here."""
        if self.leader_high_watermark > 0:
            log.commit_to(min(self.leader_high_watermark, log.end_offset), effects)

    def snapshot_answered(
        self,
        event: SnapshotAnswered,
        connections: Connections,
        fetch_by: float,
        effects: list[RaftEffect],
    ) -> None:
        """A part of the snapshot that is being downloaded."""
        if self.download is None or self.download.is_complete:
            return
        download = self.download
        self.fetch_by = fetch_by
        if not download.take(event.snapshot_id, event.position, len(event.data), event.size):
            # Not what was asked for: begin again, with a fetch that says what there is.
            self.download = None
            connections.rest(event.request.destination, event.now)
            return
        effects.append(WriteSnapshotChunk(event.snapshot_id, event.position, event.data))
        if download.is_complete:
            effects.append(InstallSnapshot(event.snapshot_id))

    def snapshot_gone(self, fetch_by: float) -> None:
        """The leader has a later one by now."""
        self.download = None
        self.fetch_by = fetch_by

    def waits_for(self, snapshot_id: SnapshotId) -> bool:
        """Whether a download that has been checked is still the one that is wanted."""
        download = self.download
        return download is not None and download.is_complete and download.snapshot_id == snapshot_id


@dataclass(slots=True)
class ReplicaProgress:
    """How far another replica is, by its fetches."""

    end_offset: int
    """It has synced everything before it."""
    fetched_at: float
    leader_end_offset: int
    """Where our log ended at that time."""
    caught_up_at: float = -1.0


@dataclass(slots=True)
class Leader:
    """Leads the epoch. Commits by majority, and only from its own epoch on.

    A record of an earlier epoch is committed together with the first of this one, never by being
    on a majority alone: it could still be replaced.
    """

    epoch: int
    epoch_start_offset: int
    granting: tuple[ReplicaKey, ...]
    check_quorum_at: float
    begin_at: float
    """When to tell voters that do not fetch that we lead."""
    high_watermark: int | None = None
    """None until a record of this epoch is committed."""
    progress: dict[ReplicaKey, ReplicaProgress] = field(default_factory=dict)
    """Of all that fetch, voters or not."""
    fetched: set[int] = field(default_factory=set)
    """The voters that were heard since a majority was last complete."""
    stated: VoterSet | None = None
    """With kraft.version 0: the voters as they have described themselves in this epoch."""

    def replica_fetched(
        self, key: ReplicaKey, offset: int, now: float, leader_end_offset: int, voters: VoterSet
    ) -> None:
        """A replica has everything before ``offset``."""
        voter = voters.get(key.node_id)
        if voter is not None and voters.is_voter(key):
            key = voter.key  # as the voter set has it, where it does not know the directory
        if len(self.progress) >= REPLICAS_MAX and key not in self.progress:
            self.forget_observers(voters, now)
            if len(self.progress) >= REPLICAS_MAX and key not in voters.keys:
                return
        self._fetched_by(key, offset, now, leader_end_offset)

    def replica_seen(
        self, key: ReplicaKey, voters: VoterSet, local: ReplicaKey, check_quorum_at: float
    ) -> None:
        """A majority that follows us says that nobody else leads; the next look is then later."""
        if not voters.is_voter(key) or key.node_id == local.node_id:
            return
        self.fetched.add(key.node_id)
        needed = voters.majority - (1 if voters.is_voter(local) else 0)
        if len(self.fetched & set(voters.ids)) >= needed:
            self.fetched.clear()
            self.check_quorum_at = check_quorum_at

    def _fetched_by(self, key: ReplicaKey, offset: int, now: float, leader_end_offset: int) -> None:
        known = self.progress.get(key)
        progress = ReplicaProgress(offset, now, leader_end_offset)
        if offset >= leader_end_offset:
            progress.caught_up_at = now
        elif known is not None:
            # It has by now what we had when it last asked, so it was up to date then.
            reached = offset >= known.leader_end_offset
            progress.caught_up_at = known.fetched_at if reached else known.caught_up_at
        self.progress[key] = progress

    def committed(self, voters: VoterSet, local: ReplicaKey, synced_offset: int) -> int | None:
        """The high watermark that the voters' logs allow; None while this epoch has none."""
        offsets = sorted(self._end_offset(k, local, synced_offset) for k in voters.keys)
        offset = offsets[len(offsets) - voters.majority]
        return offset if offset > self.epoch_start_offset else None

    def _end_offset(self, key: ReplicaKey, local: ReplicaKey, synced_offset: int) -> int:
        if key.node_id == local.node_id:
            return synced_offset
        progress = self.progress.get(key)
        return 0 if progress is None else progress.end_offset

    def successors(self, voters: VoterSet, local: ReplicaKey) -> tuple[ReplicaKey, ...]:
        """The other voters, those with the longest logs first."""
        others = voters.others(local)
        return tuple(sorted(others, key=lambda key: -self._end_offset(key, local, 0)))

    def is_caught_up(self, key: ReplicaKey, now: float) -> bool:
        """Whether an observer may become a voter: it was at the end of the log, not long ago."""
        progress = self.progress.get(key)
        return (
            progress is not None
            and progress.caught_up_at >= 0
            and progress.fetched_at > now - CATCH_UP_SECONDS
        )

    def forget_nameless(self, voters: VoterSet) -> None:
        """The voters have directories now: what they have under these, they are yet to say."""
        keys = voters.keys
        self.progress = {
            key: progress
            for key, progress in self.progress.items()
            if key in keys or key.node_id not in voters.ids or key.directory_id != ZERO_UUID
        }

    def observers(self, voters: VoterSet, now: float) -> list[ReplicaKey]:
        return [
            key
            for key, progress in self.progress.items()
            if key not in voters.keys and progress.fetched_at > now - OBSERVER_SECONDS
        ]

    def forget_observers(self, voters: VoterSet, now: float) -> None:
        """Drop those that have been silent for long: anybody may call itself an observer."""
        current = {*voters.keys, *self.observers(voters, now)}
        self.progress = {k: p for k, p in self.progress.items() if k in current}


@dataclass(slots=True)
class Resigned:
    """Led this epoch and does no longer; votes for nobody in it."""

    epoch: int
    election_at: float
    successors: tuple[ReplicaKey, ...] = ()
    unacknowledged: list[int] = field(default_factory=list)
    """The voters that are to hear of it and have not said that they did."""


Role: TypeAlias = Unattached | Prospective | Candidate | Follower | Leader | Resigned

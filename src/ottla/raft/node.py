"""A node of the quorum: votes, leads, and says what is committed.

No I/O, no clock: ``step`` takes what happened and returns what is to be done, in order.

The rules that carry safety:

1. One vote per epoch, saved before it is given.
2. A vote goes only to a candidate whose log is at least as complete as ours.
3. A leader never changes what its log has; it writes its own epoch first, and nothing is committed
   before that is.
4. The high watermark counts what is synced to disk, and never goes back.
"""

from typing import NamedTuple, assert_never

from ottla.common.chance import Chance
from ottla.raft.effects import (
    AdvanceHighWatermark,
    AnswerVote,
    AppendLeaderChange,
    LeaderChanged,
    RaftEffect,
    RequestVote,
    SaveQuorumState,
    SetTimer,
)
from ottla.raft.events import (
    Appended,
    Flushed,
    RaftEvent,
    Resign,
    Started,
    Tick,
    VoteAnswered,
    VoteRequested,
    VotersChanged,
)
from ottla.raft.quorum_state import QuorumState
from ottla.raft.roles import Candidate, Leader, Prospective, Resigned, Role, Unattached, Votes
from ottla.raft.voters import ReplicaKey, VoterSet


class RaftTimeouts(NamedTuple):
    election_seconds: float
    """An election that is not won in this time, and up to as much again, is given up."""


class RaftNode:
    """One voter, or a node that may become one."""

    def __init__(
        self,
        *,
        key: ReplicaKey,
        voters: VoterSet,
        state: QuorumState,
        log_end_offset: int,
        log_end_epoch: int,
        timeouts: RaftTimeouts,
        chance: Chance,
    ) -> None:
        self.key = key
        self.voters = voters
        self.log_end_offset = log_end_offset
        self.log_end_epoch = log_end_epoch
        self.high_watermark: int | None = None
        self._timeouts = timeouts
        self._chance = chance
        epoch = max(state.epoch, log_end_epoch, 0)
        voted = state.voted if epoch == state.epoch else None
        leader_id = state.leader_id if epoch == state.epoch else -1
        self.role: Role
        if leader_id == key.node_id:
            # We led this epoch and may have lost unsynced records of it: never go on leading it.
            self.role = Resigned(epoch, leader_id, election_at=0.0)
        else:
            self.role = Unattached(epoch, 0.0, leader_id, voted)
        self._saved = state

    @property
    def epoch(self) -> int:
        return self.role.epoch

    @property
    def leader_id(self) -> int:
        match self.role:
            case Leader():
                return self.key.node_id
            case Candidate() | Resigned():
                return -1
            case Unattached(leader_id=leader_id) | Prospective(leader_id=leader_id):
                return leader_id

    @property
    def is_leader(self) -> bool:
        return isinstance(self.role, Leader)

    def step(self, event: RaftEvent) -> list[RaftEffect]:
        effects: list[RaftEffect] = []
        before = (self.epoch, self.leader_id)
        match event:
            case Started():
                self._started(event.now, effects)
            case Tick():
                self._ticked(event.now, effects)
            case VoteRequested():
                self._vote_requested(event, effects)
            case VoteAnswered():
                self._vote_answered(event, effects)
            case Appended():
                self._appended(event)
            case Flushed():
                self._flushed(event, effects)
            case VotersChanged():
                self.voters = event.voters
                self._advance_high_watermark(effects)
            case Resign():
                self._resign(event.now, effects)
            case _:
                assert_never(event)
        if (self.epoch, self.leader_id) != before:
            effects.append(LeaderChanged(self.epoch, self.leader_id))
        return effects

    def check(self) -> None:
        """The invariants of this core."""
        if self.high_watermark is not None:
            assert self.high_watermark <= self.log_end_offset
        if isinstance(self.role, Leader):
            assert self.role.epoch_start_offset <= self.log_end_offset
            assert self._saved.leader_id == self.key.node_id
        assert self._saved.epoch <= self.epoch

    # Elections

    def _started(self, now: float, effects: list[RaftEffect]) -> None:
        if self.voters.is_only_voter(self.key):
            self._become_prospective(now, effects)
        else:
            self._restart_election_timer(now, effects)

    def _ticked(self, now: float, effects: list[RaftEffect]) -> None:
        role = self.role
        if isinstance(role, Leader):
            return
        if now < role.election_at:
            effects.append(SetTimer(role.election_at))
        elif self.voters.is_voter(self.key):
            self._become_prospective(now, effects)

    def _become_prospective(self, now: float, effects: list[RaftEffect]) -> None:
        role = self.role
        voted = role.voted if isinstance(role, Unattached | Prospective) else None
        if isinstance(role, Candidate):
            voted = self.key
        votes = Votes({self.key.node_id})
        self.role = Prospective(role.epoch, 0.0, self.leader_id, voted, votes)
        self._campaign(now, votes, effects, pre_vote=True)

    def _become_candidate(self, now: float, effects: list[RaftEffect]) -> None:
        votes = Votes({self.key.node_id})
        self.role = Candidate(self.epoch + 1, 0.0, votes)
        self._save(QuorumState(self.epoch, -1, self.key), effects)
        self._campaign(now, votes, effects, pre_vote=False)

    def _campaign(
        self, now: float, votes: Votes, effects: list[RaftEffect], *, pre_vote: bool
    ) -> None:
        if votes.is_won(self.voters):
            self._won(now, effects)
            return
        self._restart_election_timer(now, effects)
        end = (self.log_end_offset, self.log_end_epoch)
        effects.extend(
            RequestVote(voter_id, self.epoch, *end, pre_vote)
            for voter_id in self.voters.ids
            if voter_id != self.key.node_id
        )

    def _won(self, now: float, effects: list[RaftEffect]) -> None:
        if isinstance(self.role, Prospective):
            self._become_candidate(now, effects)
            return
        assert isinstance(self.role, Candidate)
        granted = self.role.votes.granted
        granting = tuple(voter.key for voter in self.voters if voter.key.node_id in granted)
        self.role = Leader(self.epoch, self.log_end_offset, granting)
        self._save(QuorumState(self.epoch, self.key.node_id), effects)
        effects.append(AppendLeaderChange(self.epoch, granting))

    def _vote_requested(self, event: VoteRequested, effects: list[RaftEffect]) -> None:
        if event.epoch > self.epoch and not event.pre_vote:
            self._become_unattached(event.now, event.epoch, effects)
        granted = self._may_vote_for(event)
        role = self.role
        if granted and not event.pre_vote and isinstance(role, Unattached):
            role.voted = event.candidate
            self._save(QuorumState(self.epoch, role.leader_id, event.candidate), effects)
            self._restart_election_timer(event.now, effects)
        effects.append(AnswerVote(self.epoch, self.leader_id, granted))

    def _may_vote_for(self, event: VoteRequested) -> bool:
        complete = (event.last_epoch, event.last_offset) >= (
            self.log_end_epoch,
            self.log_end_offset,
        )
        if event.epoch < self.epoch or not complete:
            return False
        role = self.role
        if event.pre_vote:
            # Who leads, or knows a leader of this epoch, sees no need for an election.
            return self.leader_id == -1 or event.epoch > self.epoch
        return (
            isinstance(role, Unattached)
            and role.leader_id == -1
            and role.voted in (None, event.candidate)
        )

    def _vote_answered(self, event: VoteAnswered, effects: list[RaftEffect]) -> None:
        role = self.role
        if event.epoch > role.epoch:
            self._become_unattached(event.now, event.epoch, effects, leader_id=event.leader_id)
            return
        asked = Prospective if event.pre_vote else Candidate
        if event.epoch < role.epoch or not isinstance(role, asked):
            return  # an answer to a question that is no longer ours
        assert isinstance(role, Prospective | Candidate)
        role.votes.record(event.voter_id, granted=event.granted)
        if role.votes.is_won(self.voters):
            self._won(event.now, effects)
        elif role.votes.is_lost(self.voters):
            role.election_at = event.now + self._election_timeout()
            effects.append(SetTimer(role.election_at))

    def _become_unattached(
        self, now: float, epoch: int, effects: list[RaftEffect], leader_id: int = -1
    ) -> None:
        self.role = Unattached(epoch, 0.0, leader_id)
        self._save(QuorumState(epoch, leader_id), effects)
        self._restart_election_timer(now, effects)

    def _resign(self, now: float, effects: list[RaftEffect]) -> None:
        if isinstance(self.role, Leader):
            self.role = Resigned(self.epoch, self.key.node_id, election_at=0.0)
            if not self.voters.is_only_voter(self.key):
                self._restart_election_timer(now, effects)

    def _restart_election_timer(self, now: float, effects: list[RaftEffect]) -> None:
        assert not isinstance(self.role, Leader)
        self.role.election_at = now + self._election_timeout()
        effects.append(SetTimer(self.role.election_at))

    def _election_timeout(self) -> float:
        seconds = self._timeouts.election_seconds
        return self._chance.between(seconds, 2 * seconds)

    def _save(self, state: QuorumState, effects: list[RaftEffect]) -> None:
        assert state.epoch >= self._saved.epoch
        self._saved = state
        effects.append(SaveQuorumState(state))

    # The log

    def _appended(self, event: Appended) -> None:
        assert isinstance(self.role, Leader)
        assert event.end_offset >= self.log_end_offset
        self.log_end_offset = event.end_offset
        self.log_end_epoch = self.epoch

    def _flushed(self, event: Flushed, effects: list[RaftEffect]) -> None:
        assert event.end_offset <= self.log_end_offset
        if isinstance(self.role, Leader):
            self.role.synced[self.key.node_id] = event.end_offset
            self._advance_high_watermark(effects)

    def _advance_high_watermark(self, effects: list[RaftEffect]) -> None:
        if not isinstance(self.role, Leader):
            return
        offset = self.role.committed(self.voters)
        if offset is not None and (self.high_watermark is None or offset > self.high_watermark):
            self.high_watermark = offset
            effects.append(AdvanceHighWatermark(offset))

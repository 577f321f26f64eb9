"""A node of the quorum: votes, follows, leads, and says what is committed.

No I/O, no clock: ``step`` takes what happened and returns what is to be done, in order. After every
event the node looks at its deadlines and sends what its role wants to be sent (:mod:`polling`);
what a follower makes of the leader's answers, and what a leader learns of those that follow it, is
in :mod:`roles`, and what is known of the log in :mod:`known_log`.

The rules that carry safety:

1. One vote per epoch, saved before it is given.
2. A vote goes only to a candidate whose log is at least as complete as ours.
3. A leader never changes what its log has; it writes its own epoch first, and nothing is committed
   before that is.
4. The high watermark counts what is synced to disk by a majority, and never goes back.
5. A fetch says that everything before its offset is synced, so none is sent before that is so.
6. What is committed is never truncated.
"""

from typing import NamedTuple, assert_never

from ottla.common.chance import Chance
from ottla.common.errors import ErrorCode
from ottla.raft.connections import Connections
from ottla.raft.effects import (
    AnswerEpoch,
    AnswerVote,
    AppendLeaderChange,
    EndEpoch,
    LeaderChanged,
    RaftEffect,
    SaveQuorumState,
    UpdateVoter,
)
from ottla.raft.events import (
    Answered,
    Appended,
    EpochBegun,
    EpochEnded,
    FetchAnswered,
    Flushed,
    RaftEvent,
    ReplicaFetched,
    ReplicaSeen,
    RequestFailed,
    Resign,
    SnapshotAnswered,
    SnapshotInstalled,
    SnapshotRefused,
    Started,
    Tick,
    Truncated,
    VoteAnswered,
    VoteRequested,
    VotersChanged,
)
from ottla.raft.known_log import KnownLog
from ottla.raft.polling import Polling
from ottla.raft.quorum_state import QuorumState
from ottla.raft.roles import (
    Candidate,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Role,
    Unattached,
    Votes,
)
from ottla.raft.snapshots import SnapshotId
from ottla.raft.voters import LeaderInfo, ReplicaKey, VoterEndpoint, VoterNode, VoterSet

CHECK_QUORUM_FACTOR = 1.5
"""A leader that hears no majority for so many fetch timeouts gives up: it may be replaced."""


class RaftTimeouts(NamedTuple):
    election_seconds: float
    """An election that is not won in this time, and up to as much again, is given up."""
    fetch_seconds: float = 2.0
    """A leader that is silent for so long is replaced."""
    request_seconds: float = 2.0
    backoff_seconds: float = 0.02
    election_backoff_max_seconds: float = 1.0


class RaftNode:
    """One voter, or a node that may become one, or an observer."""

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
        committed_voters: VoterSet | None = None,
        kraft_version: int = 0,
        endpoints: tuple[VoterEndpoint, ...] = (),
        bootstrap_count: int = 0,
        auto_join: bool = False,
        high_watermark: int | None = None,
    ) -> None:
        """``endpoints`` are our own; ``high_watermark`` is where the last snapshot ends."""
        self.key = key
        self.voters = voters
        self.committed_voters = voters if committed_voters is None else committed_voters
        self.kraft_version = kraft_version
        self.endpoints = endpoints
        self.bootstrap_count = bootstrap_count
        self.auto_join = auto_join
        self.log = KnownLog(log_end_offset, log_end_epoch, high_watermark)
        self.heard: dict[int, float] = {}
        """When the leader that answered us last has done so; nothing when we have led since."""
        self.timeouts = timeouts
        self.chance = chance
        self.connections = Connections(timeouts.request_seconds, timeouts.backoff_seconds)
        self.polling = Polling(self)
        epoch = max(state.epoch, log_end_epoch, 0)
        voted = state.voted if epoch == state.epoch else None
        leader_id = state.leader_id if epoch == state.epoch else -1
        self.role: Role
        if leader_id == key.node_id:
            # We led this epoch and may have lost unsynced records of it: never go on leading it.
            self.role = Resigned(epoch, election_at=0.0)
        else:
            self.role = Unattached(epoch, 0.0, leader_id, voted)
        self._saved = state

    @property
    def epoch(self) -> int:
        return self.role.epoch

    @property
    def log_end_offset(self) -> int:
        return self.log.end_offset

    @property
    def log_end_epoch(self) -> int:
        return self.log.end_epoch

    @property
    def synced_offset(self) -> int:
        return self.log.synced_offset

    @property
    def high_watermark(self) -> int | None:
        return self.log.high_watermark

    @property
    def leader_id(self) -> int:
        return self._leader_of(self.role)

    def _leader_of(self, role: Role) -> int:
        match role:
            case Leader():
                return self.key.node_id
            case Candidate() | Resigned():
                return -1
            case (
                Unattached(leader_id=leader_id)
                | Prospective(leader_id=leader_id)
                | Follower(leader_id=leader_id)
            ):
                return leader_id

    @property
    def leader(self) -> LeaderInfo:
        """What we tell others of the epoch and its leader."""
        match self.role:
            case Leader():
                endpoints = self.endpoints or self.voters.endpoints_of(self.key.node_id)
            case Follower(endpoints=endpoints) | Prospective(endpoints=endpoints):
                pass
            case _:
                endpoints = self.voters.endpoints_of(self.leader_id)
        return LeaderInfo(self.epoch, self.leader_id, endpoints)

    @property
    def is_leader(self) -> bool:
        return isinstance(self.role, Leader)

    @property
    def is_voter(self) -> bool:
        return self.voters.is_voter(self.key)

    @property
    def may_lead(self) -> bool:
        """Whether to stand for election.

        A voter that a perhaps uncommitted record removes still must: if nobody else has the
        record, those that would need our vote for a shorter log never get it.
        """
        return self.is_voter or self.committed_voters.is_voter(self.key)

    def step(self, event: RaftEvent) -> list[RaftEffect]:
        effects: list[RaftEffect] = []
        before = self.role
        self._handle(event, effects)
        self.polling.poll(event.now, effects, ticked=isinstance(event, Tick))
        if self.role is not before:
            now = (self.epoch, self.leader_id)
            if now != (before.epoch, self._leader_of(before)):
                effects.append(LeaderChanged(*now))
        return effects

    def _handle(  # noqa: C901 - a case for each event
        self, event: RaftEvent, effects: list[RaftEffect]
    ) -> None:
        match event:
            case Appended():
                self._appended(event, effects)
            case Flushed():
                self._flushed(event, effects)
            case Started():
                self._started(event.now, effects)
            case Tick():
                pass
            case Resign():
                self.resign(event.now)
            case VoteRequested():
                self._vote_requested(event, effects)
            case EpochBegun():
                self._epoch_begun(event, effects)
            case EpochEnded():
                self._epoch_ended(event, effects)
            case ReplicaFetched():
                self._replica_fetched(event, effects)
            case ReplicaSeen():
                self._replica_seen(event.key, event.now)
            case VoteAnswered() | FetchAnswered() | SnapshotAnswered() | Answered():
                self._answered(event, effects)
            case RequestFailed():
                self.connections.settled(event.request, event.now, failed=True)
            case Truncated():
                self.log.truncated(event.end_offset, event.end_epoch)
            case SnapshotInstalled():
                self._snapshot_installed(event.snapshot_id, effects)
            case SnapshotRefused():
                self._snapshot_refused(event.now)
            case VotersChanged():
                self._voters_changed(event, effects)
            case _:
                assert_never(event)

    def _voters_changed(self, event: VotersChanged, effects: list[RaftEffect]) -> None:
        self.voters = event.voters
        self.committed_voters = event.voters if event.committed is None else event.committed
        self.kraft_version = event.kraft_version
        role = self.role
        if isinstance(role, Leader):
            # New voters have not had the time to be heard.
            role.check_quorum_at = event.now + self.check_quorum_seconds
            if self.kraft_version > 0 and role.stated is not None:
                role.stated = None
                role.forget_nameless(self.voters)
        self._advance_high_watermark(effects)

    def check(self) -> None:
        """The invariants of this core."""
        self.log.check()
        if isinstance(self.role, Leader):
            assert self.role.epoch_start_offset <= self.log_end_offset
            assert self._saved.leader_id == self.key.node_id
        assert self._saved.epoch <= self.epoch
        assert self.log_end_epoch <= self.epoch

    # Changes of role. Each begins with nobody to wait for.

    def become_unattached(
        self, now: float, epoch: int, effects: list[RaftEffect], leader_id: int = -1
    ) -> None:
        assert epoch >= self.epoch
        voted = self.voted if epoch == self.epoch else None
        self._enter(Unattached(epoch, now + self.election_timeout(), leader_id, voted))
        self._save(QuorumState(epoch, leader_id, voted), effects)

    def become_prospective(self, now: float, effects: list[RaftEffect]) -> None:
        votes = Votes({self.key.node_id})
        timeout = now + self.election_timeout()
        endpoints = self.leader.endpoints
        self._enter(Prospective(self.epoch, timeout, self.leader_id, self.voted, votes, endpoints))
        self._look_at_votes(now, effects)

    def become_candidate(self, now: float, effects: list[RaftEffect]) -> None:
        votes = Votes({self.key.node_id})
        self._enter(Candidate(self.epoch + 1, now + self.election_timeout(), votes))
        self._save(QuorumState(self.epoch, -1, self.key), effects)
        self._look_at_votes(now, effects)

    def become_follower(self, now: float, leader: LeaderInfo, effects: list[RaftEffect]) -> None:
        assert leader.leader_id not in (-1, self.key.node_id)
        assert leader.epoch >= self.epoch
        voted = self.voted if leader.epoch == self.epoch else None
        seconds = self.timeouts.fetch_seconds
        endpoints = leader.endpoints or self.voters.endpoints_of(leader.leader_id)
        self._enter(
            Follower(leader.epoch, leader.leader_id, endpoints, now + seconds, now + seconds, voted)
        )
        self._save(QuorumState(leader.epoch, leader.leader_id, voted), effects)

    def _become_leader(self, now: float, votes: Votes, effects: list[RaftEffect]) -> None:
        granting = tuple(key for key in self.voters.keys if key.node_id in votes.granted)
        check_at = now + self.check_quorum_seconds
        role = Leader(self.epoch, self.log_end_offset, granting, check_at, begin_at=now)
        if self.kraft_version == 0:
            role.stated = self.voters
            if self.endpoints:
                role.stated = self.voters.stated(VoterNode(self.key, self.endpoints))
        self._enter(role)
        self._save(QuorumState(self.epoch, self.key.node_id), effects)
        effects.append(AppendLeaderChange(self.epoch, granting))

    def resign(self, now: float) -> None:
        role = self.role
        if not isinstance(role, Leader):
            return
        successors = role.successors(self.voters, self.key)
        others = [key.node_id for key in self.voters.others(self.key)]
        self._enter(Resigned(self.epoch, now + self.election_timeout(), successors, others))

    def _enter(self, role: Role) -> None:
        self.connections.reset()
        if isinstance(self.role, Leader):
            self.heard = {}  # it was long ago
        self.role = role

    def _save(self, state: QuorumState, effects: list[RaftEffect]) -> None:
        assert state.epoch >= self._saved.epoch
        if state != self._saved:
            self._saved = state
            effects.append(SaveQuorumState(state))

    @property
    def voted(self) -> ReplicaKey | None:
        """Whom we have voted for in this epoch."""
        match self.role:
            case Unattached(voted=voted) | Prospective(voted=voted) | Follower(voted=voted):
                return voted
            case Candidate() | Leader() | Resigned():
                return self.key

    @property
    def check_quorum_seconds(self) -> float:
        return CHECK_QUORUM_FACTOR * self.timeouts.fetch_seconds

    def election_timeout(self) -> float:
        seconds = self.timeouts.election_seconds
        return self.chance.between(seconds, 2 * seconds)

    # Elections

    def _started(self, now: float, effects: list[RaftEffect]) -> None:
        role = self.role
        assert isinstance(role, Unattached | Resigned)
        if self.voters.is_only_voter(self.key):
            self.become_prospective(now, effects)
        elif isinstance(role, Unattached) and role.leader_id >= 0:
            leader = LeaderInfo(role.epoch, role.leader_id)
            if self.voters.endpoints_of(role.leader_id):
                self.become_follower(now, leader, effects)
        if isinstance(self.role, Unattached | Resigned):
            self.role.election_at = now + self.election_timeout()

    def _look_at_votes(self, now: float, effects: list[RaftEffect]) -> None:
        role = self.role
        assert isinstance(role, Prospective | Candidate)
        if role.votes.is_won(self.voters):
            if isinstance(role, Prospective):
                self.become_candidate(now, effects)
            else:
                self._become_leader(now, role.votes, effects)
        elif role.votes.is_lost(self.voters):
            self.give_up_election(now, effects)

    def give_up_election(self, now: float, effects: list[RaftEffect]) -> None:
        """The votes are lost, or did not come in time."""
        role = self.role
        if isinstance(role, Candidate):
            self.become_prospective(now, effects)
            return
        assert isinstance(role, Prospective)
        if role.leader_id >= 0 and role.endpoints:
            leader = LeaderInfo(role.epoch, role.leader_id, role.endpoints)
            self.become_follower(now, leader, effects)
        else:
            self.become_unattached(now, role.epoch, effects, role.leader_id)

    def _vote_requested(self, event: VoteRequested, effects: list[RaftEffect]) -> None:
        error = ErrorCode.NONE
        granted = False
        if event.epoch < self.epoch:
            error = ErrorCode.FENCED_LEADER_EPOCH
        else:
            if event.epoch > self.epoch:
                self.become_unattached(event.now, event.epoch, effects)
            if not self._is_us(event.voter):
                error = ErrorCode.INVALID_VOTER_KEY
            else:
                granted = self.may_vote_for(event)
        role = self.role
        if granted and not event.pre_vote and isinstance(role, Unattached | Prospective):
            # A voter that has voted waits for the winner, and does not stand itself meanwhile.
            timeout = event.now + self.election_timeout()
            self._enter(Unattached(self.epoch, timeout, role.leader_id, event.candidate))
            self._save(QuorumState(self.epoch, role.leader_id, event.candidate), effects)
        effects.append(AnswerVote(self.epoch, self.leader_id, granted, error))

    def _is_us(self, voter: ReplicaKey | None) -> bool:
        if voter is None:
            return True
        directories = (voter.directory_id, self.key.directory_id)
        return voter.node_id == self.key.node_id and (
            not any(directories[0]) or directories[0] == directories[1]
        )

    def is_complete(self, event: VoteRequested) -> bool:
        """Whether the candidate's log has at least what ours has."""
        ours = (self.log_end_epoch, self.log_end_offset)
        return (event.last_epoch, event.last_offset) >= ours

    def may_vote_for(self, event: VoteRequested) -> bool:
        if not self.is_complete(event):
            return False
        match self.role:
            case Leader():
                return False
            case Candidate() | Resigned():
                return event.pre_vote
            case Follower(has_fetched=has_fetched):
                # A voter that hears the leader sees no need for an election.
                return event.pre_vote and not has_fetched
            case (
                Unattached(leader_id=leader, voted=voted)
                | Prospective(leader_id=leader, voted=voted)
            ):
                if event.pre_vote:
                    return True
                return voted == event.candidate or (voted is None and leader == -1)

    # What others say of epoch and leader

    def _epoch_begun(self, event: EpochBegun, effects: list[RaftEffect]) -> None:
        error = ErrorCode.NONE
        if event.leader.epoch < self.epoch:
            error = ErrorCode.FENCED_LEADER_EPOCH
        elif not self.is_consistent(event.leader):
            error = ErrorCode.INVALID_REQUEST
        else:
            self.learn(event.now, event.leader, effects)
            if not self._is_us(event.voter):
                error = ErrorCode.INVALID_VOTER_KEY
        effects.append(AnswerEpoch(self.epoch, self.leader_id, error))

    def _epoch_ended(self, event: EpochEnded, effects: list[RaftEffect]) -> None:
        error = ErrorCode.NONE
        if event.leader.epoch < self.epoch:
            error = ErrorCode.FENCED_LEADER_EPOCH
        elif not self.is_consistent(event.leader):
            error = ErrorCode.INVALID_REQUEST
        else:
            self.learn(event.now, event.leader, effects)
            role = self.role
            if isinstance(role, Follower) and role.leader_id == event.leader.leader_id:
                role.fetch_by = event.now + self._successor_delay(event.preferred)
                role.has_fetched = False
        effects.append(AnswerEpoch(self.epoch, self.leader_id, error))

    def _successor_delay(self, preferred: tuple[ReplicaKey, ...]) -> float:
        """The first stands for election at once, each further one after twice the time."""
        longest = self.timeouts.election_backoff_max_seconds
        for position, key in enumerate(preferred):
            if self._is_us(key):
                if position == 0:
                    return 0.0
                base = longest / (1 << (len(preferred) - 1))
                return min(longest, base * (1 << (position - 1)))
        return longest

    def is_consistent(self, leader: LeaderInfo) -> bool:
        """Whether ``leader`` can be true: an epoch has one, and we know whether we are it."""
        led = isinstance(self.role, Leader | Resigned)
        if leader.leader_id == self.key.node_id:
            return led and leader.epoch == self.epoch
        if leader.epoch != self.epoch or leader.leader_id == -1:
            return True
        return not led and self.leader_id in (-1, leader.leader_id)

    def learn(self, now: float, leader: LeaderInfo, effects: list[RaftEffect]) -> None:
        """Take over a later epoch, or the leader of this one."""
        if leader.epoch > self.epoch:
            if leader.leader_id >= 0:
                self.become_follower(now, leader, effects)
            else:
                self.become_unattached(now, leader.epoch, effects)
        elif leader.leader_id in (-1, self.key.node_id):
            return
        elif isinstance(self.role, Follower):
            self._hear_of_leader(now, self.role)
        elif self.leader_id == -1 or isinstance(self.role, Unattached):
            # A prospective candidate goes on asking until the answers say no.
            self.become_follower(now, leader, effects)

    def _hear_of_leader(self, now: float, role: Follower) -> None:
        """Somebody says that our leader still leads: an observer asks it again.

        Else it would ask all others for ever, if the leader is none of those whom it may ask
        (KAFKA-19354). A voter makes up its own mind.
        """
        if now >= role.fetch_by and not self.may_lead:
            role.fetch_by = now + self.timeouts.fetch_seconds

    # Answers

    def _answered(
        self,
        event: VoteAnswered | FetchAnswered | SnapshotAnswered | Answered,
        effects: list[RaftEffect],
    ) -> None:
        if not self.connections.settled(event.request, event.now):
            return
        leader, error = event.leader, event.error
        if leader.epoch < self.epoch or error == ErrorCode.UNKNOWN_LEADER_EPOCH:
            self.connections.rest(event.request.destination, event.now)
            return
        if not self.is_consistent(leader):
            self.connections.rest(event.request.destination, event.now)
            return
        self.learn(event.now, leader, effects)
        if error != ErrorCode.NONE:
            if error == ErrorCode.SNAPSHOT_NOT_FOUND:
                self._snapshot_gone(event.now)
            self.connections.rest(event.request.destination, event.now)
            return
        match event:
            case VoteAnswered():
                self._vote_answered(event, effects)
            case FetchAnswered():
                self._fetch_answered(event, effects)
            case SnapshotAnswered():
                self._snapshot_answered(event, effects)
            case Answered():
                self._other_answered(event)

    def _vote_answered(self, event: VoteAnswered, effects: list[RaftEffect]) -> None:
        role = self.role
        asked = Prospective if event.request.pre_vote else Candidate
        if event.request.epoch != role.epoch or not isinstance(role, asked):
            return  # an answer to a question that is no longer ours
        assert isinstance(role, Prospective | Candidate)
        role.votes.record(event.request.voter.node_id, granted=event.granted)
        self._look_at_votes(event.now, effects)

    def _fetch_answered(self, event: FetchAnswered, effects: list[RaftEffect]) -> None:
        role, fetch_by = self.role, event.now + self.timeouts.fetch_seconds
        if isinstance(role, Follower) and role.fetch_answered(
            event, self.log, self.connections, fetch_by, effects
        ):
            self.heard = {role.leader_id: event.now}

    def _snapshot_answered(self, event: SnapshotAnswered, effects: list[RaftEffect]) -> None:
        if isinstance(self.role, Follower):
            fetch_by = event.now + self.timeouts.fetch_seconds
            self.role.snapshot_answered(event, self.connections, fetch_by, effects)

    def _snapshot_gone(self, now: float) -> None:
        if isinstance(self.role, Follower):
            self.role.snapshot_gone(now + self.timeouts.fetch_seconds)

    def _other_answered(self, event: Answered) -> None:
        """A voter that was told that we lead shows by its fetches that it follows."""
        role = self.role
        if isinstance(role, Resigned) and isinstance(event.request, EndEpoch):
            role.unacknowledged.remove(event.request.destination)
        if isinstance(role, Follower) and isinstance(event.request, UpdateVoter):
            role.has_stated = True

    # The log

    def _replica_fetched(self, event: ReplicaFetched, effects: list[RaftEffect]) -> None:
        role = self.role
        assert isinstance(role, Leader)
        assert event.key.node_id != self.key.node_id
        assert event.offset <= self.log_end_offset
        if event.key.node_id >= 0:
            role.replica_fetched(
                event.key, event.offset, event.now, self.log_end_offset, self.voters
            )
            self._replica_seen(event.key, event.now)
            self._advance_high_watermark(effects)

    def _replica_seen(self, key: ReplicaKey, now: float) -> None:
        role = self.role
        assert isinstance(role, Leader)
        role.replica_seen(key, self.voters, self.key, now + self.check_quorum_seconds)

    def _advance_high_watermark(self, effects: list[RaftEffect]) -> None:
        role = self.role
        if not isinstance(role, Leader) or not len(self.voters):
            return
        offset = self.committed(role)
        if offset is None:
            return
        if role.high_watermark is None or offset > role.high_watermark:
            role.high_watermark = offset
        self.log.commit_to(offset, effects)

    def _appended(self, event: Appended, effects: list[RaftEffect]) -> None:
        self.log.appended(event.end_offset, event.end_epoch)
        if isinstance(self.role, Follower):
            self.role.commit(self.log, effects)

    def _flushed(self, event: Flushed, effects: list[RaftEffect]) -> None:
        self.log.flushed(event.end_offset)
        self._advance_high_watermark(effects)

    def is_synced(self) -> bool:
        return self.log.is_synced

    def committed(self, role: Leader) -> int | None:
        return role.committed(self.voters, self.key, self.synced_offset)

    # Snapshots

    @property
    def download(self) -> SnapshotId | None:
        """What is being downloaded or checked."""
        download = self.role.download if isinstance(self.role, Follower) else None
        return None if download is None else download.snapshot_id

    def waits_for(self, snapshot_id: SnapshotId) -> bool:
        """Whether a download that has been checked is still the one that is wanted."""
        return isinstance(self.role, Follower) and self.role.waits_for(snapshot_id)

    def _snapshot_installed(self, snapshot_id: SnapshotId, effects: list[RaftEffect]) -> None:
        self.log.begins_with(snapshot_id)
        if isinstance(self.role, Follower):
            self.role.download = None
        self.log.commit_to(snapshot_id.end_offset, effects)

    def _snapshot_refused(self, now: float) -> None:
        if isinstance(self.role, Follower):
            self.role.download = None
            self.connections.rest(self.role.leader_id, now)

"""What a node does by itself: look at its deadlines, and send what its role wants to be sent.

It is done after every event, so nothing is ever due for long: a request that was lost is sent again
as soon as its connection is ready, and the timer is set to the earliest moment that matters.
"""

from typing import TYPE_CHECKING, assert_never

from ottla.raft.connections import FIRST_BOOTSTRAP_ID
from ottla.raft.effects import (
    BeginEpoch,
    EndEpoch,
    FetchLog,
    FetchSnapshot,
    JoinVoters,
    RaftEffect,
    RaftRequest,
    RequestVote,
    SetTimer,
    UpdateVoter,
)
from ottla.raft.roles import (
    Candidate,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Unattached,
)
from ottla.raft.search import LeaderSearch

if TYPE_CHECKING:
    from ottla.raft.node import RaftNode

BEGIN_EPOCH_FACTOR = 0.5
"""Voters that have not fetched for this part of the fetch timeout are told who leads."""


class Polling:
    """The deadlines and requests of a node."""

    __slots__ = ("_at", "_effects", "_node", "_now", "_search", "_timer_at")

    def __init__(self, node: "RaftNode") -> None:
        self._node = node
        self._timer_at: float | None = None
        self._search = LeaderSearch(node.timeouts.backoff_seconds)
        self._now = 0.0
        self._at = 0.0
        self._effects: list[RaftEffect] = []

    def poll(self, now: float, effects: list[RaftEffect], *, ticked: bool) -> None:
        if ticked:
            self._timer_at = None
        node = self._node
        if isinstance(node.role, Leader) and node.voters.is_only_voter(node.key):
            return  # it waits for nobody
        self._now = now
        self._effects = effects
        role = None
        while role is not node.role:
            role = node.role
            self._at = float("inf")
            self._expire()
        self._send()
        if self._at != float("inf") and (self._timer_at is None or self._at < self._timer_at):
            self._timer_at = self._at
            effects.append(SetTimer(self._at))

    def _is_due(self, at: float) -> bool:
        """Whether ``at`` has come; else there must be a tick at that time."""
        if self._now >= at:
            return True
        self._at = min(self._at, at)
        return False

    # Deadlines

    def _expire(self) -> None:
        node, now = self._node, self._now
        match node.role:
            case Unattached() as role:
                if node.may_lead and self._is_due(role.election_at):
                    node.become_prospective(now, self._effects)
            case Prospective() | Candidate() as role:
                if self._is_due(role.election_at):
                    node.give_up_election(now, self._effects)
            case Follower() as role:
                if node.may_lead and self._is_due(role.fetch_by):
                    node.become_prospective(now, self._effects)
            case Leader() as role:
                if not node.may_lead or self._is_due(role.check_quorum_at):
                    # No majority follows us, or it is decided that we are no voter any more.
                    node.resign(now)
            case Resigned() as role:
                if self._is_due(role.election_at):
                    # In our own epoch we have voted for ourselves, so this one is over for us.
                    node.become_unattached(now, node.epoch + 1, self._effects)
            case _:
                assert_never(node.role)

    # Requests

    def _send(self) -> None:
        node = self._node
        match node.role:
            case Unattached():
                self._fetch_from_anybody()
            case Prospective() | Candidate() as role:
                for key in node.voters.others(node.key):
                    if not role.votes.is_recorded(key.node_id) and self._ready(key.node_id):
                        number = node.connections.next_number()
                        pre_vote = isinstance(role, Prospective)
                        end = (node.log_end_offset, node.log_end_epoch)
                        self._request(
                            RequestVote(key.node_id, number, key, role.epoch, *end, pre_vote)
                        )
            case Follower() as role:
                self._follow(role)
            case Leader() as role:
                self._begin_epoch(role)
            case Resigned() as role:
                for node_id in role.unacknowledged:
                    if self._ready(node_id):
                        number = node.connections.next_number()
                        self._request(EndEpoch(node_id, number, role.epoch, role.successors))
            case _:
                assert_never(node.role)

    def _ready(self, destination: int) -> bool:
        return self._is_due(self._node.connections.ready_at(destination))

    def _request(self, request: RaftRequest) -> None:
        self._node.connections.sent(request, self._now)
        self._is_due(self._node.connections.ready_at(request.destination))
        self._effects.append(request)

    def _begin_epoch(self, role: Leader) -> None:
        """Tell voters that do not fetch that we lead."""
        node, now = self._node, self._now
        others = node.voters.others(node.key)
        if not self._is_due(role.begin_at):
            return
        interval = BEGIN_EPOCH_FACTOR * node.timeouts.fetch_seconds
        for key in others:
            progress = role.progress.get(key)
            silent = progress is None or progress.fetched_at <= now - interval
            if silent and now >= node.connections.ready_at(key.node_id):
                number = node.connections.next_number()
                self._request(BeginEpoch(key.node_id, number, key, role.epoch))
        role.begin_at = now + interval
        self._is_due(role.begin_at)

    def _follow(self, role: Follower) -> None:
        node = self._node
        leader_id = role.leader_id
        if not node.may_lead:
            silent = self._is_due(role.fetch_by)
            if silent or node.connections.has_failed(leader_id, self._now):
                node.connections.expire(leader_id, self._now)
                role.download = None
                self._fetch_from_anybody()
                return
        self._search.end()
        if not self._ready(leader_id):
            return
        if self._is_due(role.voters_at):
            role.voters_at = self._now + node.timeouts.fetch_seconds
            self._is_due(role.voters_at)
            if self._change_voters(role):
                return
        number = node.connections.next_number()
        download = role.download
        if download is None:
            if self.may_fetch():
                self._request(self._fetch(leader_id, number))
        elif not download.is_complete:
            position = download.position
            self._request(
                FetchSnapshot(leader_id, number, role.epoch, download.snapshot_id, position)
            )

    def may_fetch(self) -> bool:
        """A fetch acknowledges what is before it: only when that is synced."""
        node = self._node
        return node.is_synced() and not node.log.is_changing

    def _fetch(self, destination: int, number: int) -> FetchLog:
        node = self._node
        high_watermark = -1 if node.high_watermark is None else node.high_watermark
        end = (node.log_end_offset, node.log_end_epoch)
        return FetchLog(destination, number, node.epoch, *end, high_watermark)

    def _fetch_from_anybody(self) -> None:
        """One after another, until one says who leads."""
        node, now = self._node, self._now
        if not self.may_fetch():
            return
        destinations = self._anybody()
        if any(node.connections.is_waiting(each, now) for each in destinations):
            for each in destinations:
                if node.connections.is_waiting(each, now):
                    self._ready(each)
            return
        search = self._search
        search.begin(node.role)
        if not self._is_due(search.ready_at):
            return
        for turn, destination in enumerate(search.order(destinations)):
            if self._ready(destination):
                search.asked(turn, len(destinations), now)
                self._request(self._fetch(destination, node.connections.next_number()))
                return

    def _anybody(self) -> list[int]:
        count = self._node.bootstrap_count
        if count:
            return [FIRST_BOOTSTRAP_ID - number for number in range(count)]
        return [key.node_id for key in self._node.voters.others(self._node.key)]

    def _change_voters(self, role: Follower) -> bool:
        """Correct what the voter set says of us, or become a voter; whether something was sent."""
        node = self._node
        if not node.endpoints:
            return False
        known = node.voters.get(node.key.node_id)
        if node.is_voter:
            if node.kraft_version == 0:
                # Nothing to correct: it is for the upgrade to a dynamic quorum, once per epoch.
                is_right = role.has_stated
            else:
                is_right = known is None or known[:2] == (node.key, node.endpoints)
            if not is_right:
                number = node.connections.next_number()
                self._request(UpdateVoter(role.leader_id, number, role.epoch))
                return True
        elif node.kraft_version > 0 and node.auto_join and len(node.voters):
            number = node.connections.next_number()
            replaced = None if known is None else known.key
            self._request(JoinVoters(role.leader_id, number, role.epoch, replaced))
            return True
        return False

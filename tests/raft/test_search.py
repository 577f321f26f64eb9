"""A node that looks for the leader asks all at once, and then less and less often."""

from itertools import pairwise

from ottla.common.chance import Chance
from ottla.common.errors import ErrorCode
from ottla.raft.effects import FetchLog, RaftEffect, SetTimer
from ottla.raft.events import FetchAnswered, RequestFailed, Started, Tick
from ottla.raft.node import RaftNode, RaftTimeouts
from ottla.raft.quorum_state import QuorumState
from ottla.raft.roles import Follower
from ottla.raft.search import REST_FACTOR_MAX
from ottla.raft.voters import LeaderInfo, ReplicaKey, VoterNode, VoterSet

SERVERS = 3
BACKOFF = 0.02
ANSWER_SECONDS = 0.001


class Seeker:
    """An observer, and when it has asked whom while nobody knows a leader."""

    def __init__(self) -> None:
        self.node = RaftNode(
            key=ReplicaKey(9),
            voters=VoterSet(VoterNode(ReplicaKey(node_id), ()) for node_id in (1, 2, 3)),
            state=QuorumState(),
            log_end_offset=0,
            log_end_epoch=0,
            timeouts=RaftTimeouts(1.0, backoff_seconds=BACKOFF),
            chance=Chance(1),
            bootstrap_count=SERVERS,
        )
        self.now = 0.0
        self.asked: list[tuple[float, FetchLog]] = []
        self.take(self.node.step(Started(0.0)))

    def take(self, effects: list[RaftEffect]) -> None:
        for effect in effects:
            if isinstance(effect, FetchLog):
                self.asked.append((self.now, effect))
            elif isinstance(effect, SetTimer):
                self.timer_at = effect.at

    def refuse(self) -> None:
        """The last that was asked knows no leader."""
        self.now += ANSWER_SECONDS
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        refusal = FetchAnswered(self.now, self.asked[-1][1], error, LeaderInfo(self.node.epoch, -1))
        self.take(self.node.step(refusal))

    def wait(self) -> None:
        self.now = max(self.now, self.timer_at)
        self.take(self.node.step(Tick(self.now)))

    def run(self, seconds: float) -> None:
        while self.now < seconds:
            before = len(self.asked)
            self.refuse()
            while len(self.asked) == before:
                self.wait()

    def rounds(self) -> list[float]:
        """When each round began."""
        return [at for at, _ in self.asked[::SERVERS]]


def test_the_first_round_asks_everybody_without_a_rest() -> None:
    seeker = Seeker()
    seeker.refuse()
    seeker.refuse()
    assert [request.destination for _, request in seeker.asked] == [-2, -3, -4]
    seeker.refuse()
    assert len(seeker.asked) == SERVERS, "everybody was asked, and nobody knows"


def test_rests_between_rounds_grow_to_a_bound() -> None:
    seeker = Seeker()
    seeker.run(1.0)
    began = seeker.rounds()
    rests = [round((later - earlier) / BACKOFF) for earlier, later in pairwise(began)]
    assert rests[:3] == [1, 2, 4]
    assert set(rests[3:]) == {REST_FACTOR_MAX}


def test_who_has_found_a_leader_and_loses_it_asks_at_once() -> None:
    seeker = Seeker()
    seeker.run(1.0)
    found = FetchAnswered(
        seeker.now, seeker.asked[-1][1], ErrorCode.NOT_LEADER_OR_FOLLOWER, LeaderInfo(1, 2)
    )
    seeker.take(seeker.node.step(found))
    assert isinstance(seeker.node.role, Follower)
    assert seeker.asked[-1][1].destination == 2
    count = len(seeker.asked)
    seeker.take(seeker.node.step(RequestFailed(seeker.now, seeker.asked[-1][1])))
    seeker.refuse()
    assert [at for at, _ in seeker.asked[count:]] == [seeker.now - ANSWER_SECONDS, seeker.now]


def test_a_silent_leader_is_asked_again_when_somebody_says_that_it_still_leads() -> None:
    seeker = Seeker()
    leader = LeaderInfo(1, 2)
    refused = ErrorCode.NOT_LEADER_OR_FOLLOWER
    seeker.take(seeker.node.step(FetchAnswered(0.0, seeker.asked[-1][1], refused, leader)))
    to_leader = seeker.asked[-1][1]
    assert to_leader.destination == 2
    seeker.now = 2.0
    seeker.take(seeker.node.step(RequestFailed(seeker.now, to_leader)))
    elsewhere = seeker.asked[-1][1]
    assert elsewhere.destination != 2, "it was silent for the fetch timeout"
    seeker.now = 2.1
    seeker.take(seeker.node.step(FetchAnswered(seeker.now, elsewhere, refused, leader)))
    assert seeker.asked[-1][1].destination == 2

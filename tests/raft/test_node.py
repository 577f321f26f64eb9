"""The core of the quorum by events and effects: of one voter, and votes among three."""

import pytest

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
from ottla.raft.node import RaftNode, RaftTimeouts
from ottla.raft.quorum_state import QuorumState
from ottla.raft.roles import Candidate, Leader, Prospective, Resigned, Unattached
from ottla.raft.voters import ReplicaKey, VoterNode, VoterSet

SECONDS = 1.0


def voters(*node_ids: int) -> VoterSet:
    return VoterSet(VoterNode(ReplicaKey(node_id), ()) for node_id in node_ids)


def make(
    *node_ids: int, state: QuorumState | None = None, end_offset: int = 0, end_epoch: int = 0
) -> RaftNode:
    """The first of these voters."""
    return RaftNode(
        key=ReplicaKey(node_ids[0]),
        voters=voters(*node_ids),
        state=state or QuorumState(),
        log_end_offset=end_offset,
        log_end_epoch=end_epoch,
        timeouts=RaftTimeouts(SECONDS),
        chance=Chance(1),
    )


def step(node: RaftNode, event: RaftEvent) -> list[RaftEffect]:
    effects = node.step(event)
    node.check()
    return effects


def saved(effects: list[RaftEffect]) -> list[QuorumState]:
    return [effect.state for effect in effects if isinstance(effect, SaveQuorumState)]


def answers(effects: list[RaftEffect]) -> list[AnswerVote]:
    return [effect for effect in effects if isinstance(effect, AnswerVote)]


# One voter


def test_the_only_voter_leads_at_once_and_saves_its_vote_before() -> None:
    node = make(1)
    effects = step(node, Started(0.0))
    assert [type(effect) for effect in effects] == [
        SaveQuorumState,
        SaveQuorumState,
        AppendLeaderChange,
        LeaderChanged,
    ]
    assert saved(effects) == [
        QuorumState(1, -1, ReplicaKey(1)),
        QuorumState(1, 1, None),
    ]
    assert (node.epoch, node.leader_id, node.is_leader) == (1, 1, True)


def test_the_epoch_grows_with_every_start() -> None:
    node = make(1, state=QuorumState(5, 1), end_offset=10, end_epoch=5)
    assert isinstance(node.role, Resigned), "it never goes on leading an epoch of an earlier life"
    step(node, Started(0.0))
    assert node.epoch == 6


def test_an_epoch_in_the_log_beyond_the_saved_one_counts() -> None:
    node = make(1, state=QuorumState(2), end_offset=10, end_epoch=7)
    step(node, Started(0.0))
    assert node.epoch == 8


def test_nothing_is_committed_before_it_is_synced() -> None:
    node = make(1, end_offset=4)
    step(node, Started(0.0))
    step(node, Appended(0.0, 5))
    assert node.high_watermark is None
    assert step(node, Flushed(0.1, 5)) == [AdvanceHighWatermark(5)]
    step(node, Appended(0.2, 8))
    assert step(node, Flushed(0.3, 5)) == []
    assert step(node, Flushed(0.3, 7)) == [AdvanceHighWatermark(7)]


def test_records_of_earlier_epochs_are_committed_with_the_first_of_this_one() -> None:
    node = make(1, end_offset=4, end_epoch=2)
    step(node, Started(0.0))
    assert step(node, Flushed(0.1, 4)) == [], "its own epoch has no record on disk yet"
    step(node, Appended(0.2, 5))
    assert step(node, Flushed(0.3, 5)) == [AdvanceHighWatermark(5)]


def test_who_resigns_leads_no_longer() -> None:
    node = make(1)
    step(node, Started(0.0))
    effects = step(node, Resign(1.0))
    assert LeaderChanged(1, -1) in effects
    assert not node.is_leader
    assert step(node, Flushed(1.1, 0)) == []


# Three voters


def test_a_voter_waits_before_it_asks_and_first_asks_whether_it_would_win() -> None:
    node = make(1, 2, 3, end_offset=7, end_epoch=2)
    (timer,) = step(node, Started(0.0))
    assert isinstance(timer, SetTimer)
    assert SECONDS <= timer.at <= 2 * SECONDS
    assert step(node, Tick(0.5)) == [SetTimer(timer.at)]
    effects = step(node, Tick(timer.at))
    assert isinstance(node.role, Prospective)
    assert node.epoch == 2, "asking begins no epoch"
    assert saved(effects) == []
    requests = [effect for effect in effects if isinstance(effect, RequestVote)]
    assert requests == [RequestVote(2, 2, 7, 2, True), RequestVote(3, 2, 7, 2, True)]


def elected(node: RaftNode) -> list[RaftEffect]:
    step(node, Started(0.0))
    step(node, Tick(5.0))
    answer = VoteAnswered(5.1, 2, node.epoch, -1, granted=True, pre_vote=True)
    effects = step(node, answer)
    assert isinstance(node.role, Candidate)
    return effects


def test_with_a_majority_it_begins_an_epoch_and_with_another_it_leads() -> None:
    node = make(1, 2, 3)
    effects = elected(node)
    assert saved(effects) == [QuorumState(1, -1, ReplicaKey(1))]
    effects = step(node, VoteAnswered(5.2, 3, 1, -1, granted=True, pre_vote=False))
    assert isinstance(node.role, Leader)
    assert AppendLeaderChange(1, (ReplicaKey(1), ReplicaKey(3))) in effects
    assert effects[-1] == LeaderChanged(1, 1)


def test_an_election_that_is_lost_is_tried_again_later() -> None:
    node = make(1, 2, 3)
    elected(node)
    step(node, VoteAnswered(5.2, 2, 1, -1, granted=False, pre_vote=False))
    (timer,) = step(node, VoteAnswered(5.2, 3, 1, -1, granted=False, pre_vote=False))
    assert isinstance(timer, SetTimer)
    assert timer.at >= 5.2 + SECONDS
    step(node, Tick(timer.at))
    assert isinstance(node.role, Prospective)


def test_answers_to_questions_of_another_time_are_ignored() -> None:
    node = make(1, 2, 3)
    elected(node)
    late = VoteAnswered(5.2, 3, 1, -1, granted=True, pre_vote=True)
    assert step(node, late) == []
    older = VoteAnswered(5.2, 3, 0, -1, granted=True, pre_vote=False)
    assert step(node, older) == []
    assert isinstance(node.role, Candidate)


def test_a_later_epoch_ends_an_election() -> None:
    node = make(1, 2, 3)
    elected(node)
    effects = step(node, VoteAnswered(5.2, 3, 4, 2, granted=False, pre_vote=False))
    assert (node.epoch, node.leader_id) == (4, 2)
    assert saved(effects) == [QuorumState(4, 2)]
    assert effects[-1] == LeaderChanged(4, 2)


def request(
    epoch: int, candidate: int = 2, *, pre_vote: bool = False, end: tuple[int, int] = (0, 0)
) -> VoteRequested:
    return VoteRequested(1.0, ReplicaKey(candidate), epoch, end[1], end[0], pre_vote)


def test_one_vote_per_epoch_saved_before_it_is_given() -> None:
    node = make(1, 2, 3)
    effects = step(node, request(1))
    kinds = [type(effect) for effect in effects]
    assert kinds.index(SaveQuorumState) < kinds.index(AnswerVote)
    assert saved(effects)[-1] == QuorumState(1, -1, ReplicaKey(2))
    assert answers(effects) == [AnswerVote(1, -1, granted=True)]
    assert answers(step(node, request(1, 3))) == [AnswerVote(1, -1, granted=False)]
    assert answers(step(node, request(1, 2))) == [AnswerVote(1, -1, granted=True)], "asked again"


def test_a_vote_is_remembered_over_a_restart() -> None:
    node = make(1, 2, 3, state=QuorumState(4, -1, ReplicaKey(2)))
    assert answers(step(node, request(4, 3))) == [AnswerVote(4, -1, granted=False)]
    assert answers(step(node, request(4, 2))) == [AnswerVote(4, -1, granted=True)]


@pytest.mark.parametrize(
    ("end", "granted"),
    [((2, 7), True), ((2, 8), True), ((3, 1), True), ((2, 6), False), ((1, 99), False)],
)
def test_a_vote_goes_only_to_a_log_that_is_as_complete(end: tuple[int, int], granted: bool) -> None:
    node = make(1, 2, 3, state=QuorumState(2), end_offset=7, end_epoch=2)
    assert answers(step(node, request(5, end=end))) == [AnswerVote(5, -1, granted)]


def test_an_old_epoch_gets_no_vote() -> None:
    node = make(1, 2, 3, state=QuorumState(5))
    assert answers(step(node, request(4))) == [AnswerVote(5, -1, granted=False)]


def test_a_pre_vote_changes_nothing() -> None:
    node = make(1, 2, 3, state=QuorumState(5))
    effects = step(node, request(5, pre_vote=True))
    assert effects == [AnswerVote(5, -1, granted=True)]
    assert isinstance(node.role, Unattached)
    assert node.role.voted is None


def test_a_leader_sees_no_need_for_an_election_but_gives_way_to_a_later_epoch() -> None:
    node = make(1)
    step(node, Started(0.0))
    step(node, VotersChanged(0.0, voters(1, 2, 3)))
    assert answers(step(node, request(1, pre_vote=True))) == [AnswerVote(1, 1, granted=False)]
    assert answers(step(node, request(1))) == [AnswerVote(1, 1, granted=False)]
    effects = step(node, request(2))
    assert answers(effects) == [AnswerVote(2, -1, granted=True)]
    assert effects[-1] == LeaderChanged(2, -1)


def test_a_majority_of_synced_logs_commits() -> None:
    node = make(1, 2, 3)
    elected(node)
    step(node, VoteAnswered(5.2, 3, 1, -1, granted=True, pre_vote=False))
    step(node, Appended(5.3, 1))
    assert step(node, Flushed(5.4, 1)) == [], "one of three is no majority"
    assert step(node, VotersChanged(5.5, voters(1))) == [AdvanceHighWatermark(1)]


def test_a_node_that_is_no_voter_does_not_stand_for_election() -> None:
    node = make(1, 2, 3)
    step(node, VotersChanged(0.0, voters(2, 3)))
    step(node, Started(0.0))
    assert step(node, Tick(9.0)) == []
    assert isinstance(node.role, Unattached)

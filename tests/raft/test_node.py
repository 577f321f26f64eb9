"""The core of the quorum by events and effects: of one voter, and of three."""

from typing import TypeVar

import pytest

import ottla.raft.roles as roles_module
from ottla.common.chance import Chance
from ottla.common.errors import ErrorCode
from ottla.raft.effects import (
    AdvanceHighWatermark,
    AnswerEpoch,
    AnswerVote,
    AppendLeaderChange,
    AppendRecords,
    BeginEpoch,
    EndEpoch,
    FetchLog,
    FetchSnapshot,
    InstallSnapshot,
    LeaderChanged,
    RaftEffect,
    RequestVote,
    SaveQuorumState,
    SetTimer,
    TruncateLog,
    WriteSnapshotChunk,
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
from ottla.raft.known_log import CommittedTruncation
from ottla.raft.node import RaftNode, RaftTimeouts
from ottla.raft.quorum_state import QuorumState
from ottla.raft.roles import Candidate, Follower, Leader, Prospective, Resigned, Role, Unattached
from ottla.raft.snapshots import SnapshotId
from ottla.raft.voters import LeaderInfo, ReplicaKey, VoterNode, VoterSet

R = TypeVar("R", bound=RaftEffect)
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


def without_timers(effects: list[RaftEffect]) -> list[RaftEffect]:
    return [effect for effect in effects if not isinstance(effect, SetTimer)]


def sent(effects: list[RaftEffect], kind: type[R]) -> list[R]:
    return [effect for effect in effects if isinstance(effect, kind)]


def answer(
    asked: RequestVote,
    *,
    granted: bool = True,
    now: float = 5.1,
    epoch: int | None = None,
    leader_id: int = -1,
) -> VoteAnswered:
    leader = LeaderInfo(asked.epoch if epoch is None else epoch, leader_id)
    return VoteAnswered(now, asked, 0, leader, granted)


def role_of(node: RaftNode) -> Role:
    """The role of now: what was looked at before says nothing of it."""
    return node.role


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
    step(node, Appended(0.0, 5, node.epoch))
    assert node.high_watermark is None
    assert step(node, Flushed(0.1, 5)) == [AdvanceHighWatermark(5)]
    step(node, Appended(0.2, 8, node.epoch))
    assert step(node, Flushed(0.3, 5)) == []
    assert step(node, Flushed(0.3, 7)) == [AdvanceHighWatermark(7)]


def test_records_of_earlier_epochs_are_committed_with_the_first_of_this_one() -> None:
    node = make(1, end_offset=4, end_epoch=2)
    step(node, Started(0.0))
    assert step(node, Flushed(0.1, 4)) == [], "its own epoch has no record on disk yet"
    step(node, Appended(0.2, 5, node.epoch))
    assert step(node, Flushed(0.3, 5)) == [AdvanceHighWatermark(5)]


def test_who_resigns_leads_no_longer() -> None:
    node = make(1)
    step(node, Started(0.0))
    effects = step(node, Resign(1.0))
    assert LeaderChanged(1, -1) in effects
    assert not node.is_leader
    assert step(node, Flushed(1.1, 0)) == []


# Three voters: elections


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
    asked = sent(effects, RequestVote)
    assert [each.destination for each in asked] == [2, 3]
    assert {each[3:] for each in asked} == {(2, 7, 2, True)}


def elected(node: RaftNode) -> list[RaftEffect]:
    """Up to the moment at which it asks for votes."""
    step(node, Started(0.0))
    asked = sent(step(node, Tick(5.0)), RequestVote)
    effects = step(node, answer(asked[0]))
    assert isinstance(node.role, Candidate)
    return effects


def leading(*node_ids: int, end_offset: int = 0, end_epoch: int = 0) -> RaftNode:
    node = make(*node_ids, end_offset=end_offset, end_epoch=end_epoch)
    for asked in sent(elected(node), RequestVote)[: len(node_ids) // 2]:
        step(node, answer(asked))
    assert isinstance(node.role, Leader)
    step(node, Appended(5.2, end_offset + 1, node.epoch))
    step(node, Flushed(5.2, end_offset + 1))
    return node


def following(*node_ids: int, leader_id: int = 2, epoch: int = 1) -> tuple[RaftNode, FetchLog]:
    node = make(*node_ids)
    step(node, Started(0.0))
    effects = step(node, EpochBegun(0.1, LeaderInfo(epoch, leader_id)))
    assert isinstance(node.role, Follower)
    (fetch,) = sent(effects, FetchLog)
    return node, fetch


def test_with_a_majority_it_begins_an_epoch_and_with_another_it_leads() -> None:
    node = make(1, 2, 3)
    effects = elected(node)
    assert saved(effects) == [QuorumState(1, -1, ReplicaKey(1))]
    asked = sent(effects, RequestVote)
    effects = step(node, answer(asked[1]))
    assert isinstance(node.role, Leader)
    assert AppendLeaderChange(1, (ReplicaKey(1), ReplicaKey(3))) in effects
    assert [each.destination for each in sent(effects, BeginEpoch)] == [2, 3]
    assert effects[-1] == LeaderChanged(1, 1)


def test_a_candidate_that_is_rejected_asks_again_whether_it_would_win() -> None:
    node = make(1, 2, 3)
    asked = sent(elected(node), RequestVote)
    step(node, answer(asked[0], granted=False))
    effects = step(node, answer(asked[1], granted=False))
    assert isinstance(node.role, Prospective)
    assert node.epoch == 1
    for each in sent(effects, RequestVote):
        assert each.pre_vote
        step(node, answer(each, granted=False))
    role = role_of(node)
    assert isinstance(role, Unattached), "nobody wants it: it waits"
    assert role.voted == ReplicaKey(1), "and votes for nobody else in its epoch"
    assert answers(step(node, request(1))) == [AnswerVote(1, -1, granted=False)]


def test_an_election_that_gets_no_answers_ends() -> None:
    node = make(1, 2, 3)
    elected(node)
    step(node, Tick(9.0))
    assert isinstance(node.role, Prospective)


def test_answers_to_questions_of_another_time_are_ignored() -> None:
    node = make(1, 2, 3)
    step(node, Started(0.0))
    asked = sent(step(node, Tick(5.0)), RequestVote)
    step(node, answer(asked[0]))
    assert isinstance(node.role, Candidate)
    assert step(node, answer(asked[1])) == [], "a pre-vote is no vote"
    assert isinstance(node.role, Candidate)


def test_a_later_epoch_ends_an_election() -> None:
    node = make(1, 2, 3)
    asked = sent(elected(node), RequestVote)
    effects = step(node, answer(asked[0], granted=False, epoch=4, leader_id=2))
    assert (node.epoch, node.leader_id) == (4, 2)
    assert isinstance(node.role, Follower)
    assert saved(effects) == [QuorumState(4, 2)]
    assert effects[-1] == LeaderChanged(4, 2)


def test_a_request_without_an_answer_is_sent_again_when_its_time_is_over() -> None:
    node = make(1, 2, 3)
    step(node, Started(0.0))
    first = sent(step(node, Tick(5.0)), RequestVote)
    assert sent(step(node, RequestFailed(5.1, first[0])), RequestVote) == [], "it rests"
    again = sent(step(node, Tick(5.13)), RequestVote)
    assert [each.destination for each in again] == [2]
    assert step(node, answer(first[0], now=5.14)) == [], "what failed is expected no more"


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
    refused = AnswerVote(5, -1, granted=False, error=ErrorCode.FENCED_LEADER_EPOCH)
    assert answers(step(node, request(4))) == [refused]


def test_a_vote_meant_for_another_directory_is_refused() -> None:
    node = make(1, 2, 3)
    node.key = ReplicaKey(1, b"this directory..")
    asked = request(1)._replace(voter=ReplicaKey(1, b"another one....."))
    (answered,) = answers(step(node, asked))
    assert (answered.granted, answered.error) == (False, ErrorCode.INVALID_VOTER_KEY)
    (answered,) = answers(step(node, asked._replace(voter=ReplicaKey(1))))
    assert answered.granted


def test_a_pre_vote_changes_nothing() -> None:
    node = make(1, 2, 3, state=QuorumState(5))
    step(node, Started(0.0))
    effects = step(node, request(5, pre_vote=True))
    assert answers(effects) == [AnswerVote(5, -1, granted=True)]
    assert saved(effects) == []
    assert isinstance(node.role, Unattached)
    assert node.role.voted is None


def test_who_hears_the_leader_sees_no_need_for_an_election() -> None:
    node, fetch = following(1, 2, 3)
    ask = request(1, 3, pre_vote=True)
    assert answers(step(node, ask)) == [AnswerVote(1, 2, granted=True)], "not heard of it yet"
    step(node, FetchAnswered(0.2, fetch, 0, LeaderInfo(1, 2)))
    assert answers(step(node, ask)) == [AnswerVote(1, 2, granted=False)]
    assert answers(step(node, request(1, 3))) == [AnswerVote(1, 2, granted=False)]


def test_a_leader_sees_no_need_for_an_election_but_gives_way_to_a_later_epoch() -> None:
    node = make(1)
    step(node, Started(0.0))
    step(node, VotersChanged(0.0, voters(1, 2, 3)))
    assert answers(step(node, request(1, pre_vote=True))) == [AnswerVote(1, 1, granted=False)]
    assert answers(step(node, request(1))) == [AnswerVote(1, 1, granted=False)]
    effects = step(node, request(2))
    assert answers(effects) == [AnswerVote(2, -1, granted=True)]
    assert effects[-1] == LeaderChanged(2, -1)


def test_a_node_that_is_no_voter_does_not_stand_for_election() -> None:
    node = make(1, 2, 3)
    step(node, VotersChanged(0.0, voters(2, 3)))
    step(node, Started(0.0))
    effects = step(node, Tick(9.0))
    assert isinstance(node.role, Unattached)
    assert [each.destination for each in sent(effects, FetchLog)] in ([], [3], [2])
    assert sent(effects, RequestVote) == []


# Three voters: leading


def test_a_majority_of_synced_logs_commits() -> None:
    node = leading(1, 2, 3)
    assert node.high_watermark is None, "one of three is no majority"
    assert AdvanceHighWatermark(1) in step(node, ReplicaFetched(5.4, ReplicaKey(2), 1))
    step(node, Appended(5.5, 4, node.epoch))
    assert without_timers(step(node, ReplicaFetched(5.5, ReplicaKey(2), 4))) == []
    assert without_timers(step(node, ReplicaFetched(5.5, ReplicaKey(9), 4))) == [], "no voter"
    assert AdvanceHighWatermark(3) in step(node, Flushed(5.6, 3))
    assert AdvanceHighWatermark(4) in step(node, ReplicaFetched(5.7, ReplicaKey(3), 4))


def test_those_who_only_claim_to_observe_take_no_memory_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(roles_module, "REPLICAS_MAX", 5)
    node = leading(1, 2, 3)
    for node_id in range(10, 30):
        step(node, ReplicaFetched(5.4, ReplicaKey(node_id), 0))
    assert isinstance(node.role, Leader)
    assert len(node.role.progress) == 5
    step(node, ReplicaFetched(5.5, ReplicaKey(2), 1))
    assert ReplicaKey(2) in node.role.progress, "a voter always counts"
    step(node, ReplicaFetched(500.0, ReplicaKey(2), 1))
    step(node, ReplicaFetched(500.0, ReplicaKey(40), 0))
    assert list(node.role.progress) == [ReplicaKey(2), ReplicaKey(40)], "the silent ones are gone"


def test_a_record_of_an_earlier_epoch_is_not_committed_by_a_majority_alone() -> None:
    node = leading(1, 2, 3, end_offset=5, end_epoch=0)
    assert without_timers(step(node, ReplicaFetched(5.4, ReplicaKey(2), 5))) == []
    assert AdvanceHighWatermark(6) in step(node, ReplicaFetched(5.5, ReplicaKey(2), 6))


def test_a_leader_that_hears_no_majority_gives_up() -> None:
    node = leading(1, 2, 3)
    step(node, ReplicaFetched(8.0, ReplicaKey(2), 1))
    step(node, Tick(8.2))
    assert node.is_leader, "two of three are in touch"
    effects = step(node, Tick(11.1))
    assert isinstance(node.role, Resigned)
    ends = sent(effects, EndEpoch)
    assert [each.destination for each in ends] == [2, 3]
    assert ends[0].preferred == (ReplicaKey(2), ReplicaKey(3)), "the one with the longest log first"


def test_who_has_resigned_goes_on_to_the_next_epoch() -> None:
    node = leading(1, 2, 3)
    ends = sent(step(node, Resign(6.0)), EndEpoch)
    step(node, Answered(6.1, ends[0], 0, LeaderInfo(1, 1)))
    assert isinstance(node.role, Resigned)
    assert node.role.unacknowledged == [3]
    assert answers(step(node, request(1, end=(9, 9)))) == [AnswerVote(1, -1, granted=False)]
    step(node, Tick(9.0))
    assert isinstance(role_of(node), Unattached)
    assert node.epoch == 2


def test_those_who_do_not_fetch_are_told_again_who_leads() -> None:
    node = leading(1, 2, 3)
    step(node, ReplicaFetched(6.0, ReplicaKey(2), 1))
    begun = sent(step(node, Tick(6.2)), BeginEpoch)
    assert begun == [], "the first is still waited for"
    step(node, ReplicaFetched(7.0, ReplicaKey(2), 1))
    begun = sent(step(node, Tick(7.3)), BeginEpoch)
    assert [each.destination for each in begun] == [3]


# Three voters: following


def test_a_follower_fetches_and_fetches_on_only_when_it_has_synced() -> None:
    node, fetch = following(1, 2, 3)
    assert (fetch.destination, fetch.offset, fetch.last_epoch) == (2, 0, 0)
    answered = FetchAnswered(0.2, fetch, 0, LeaderInfo(1, 2), high_watermark=2, records=b"batches")
    effects = step(node, answered)
    assert effects == [AppendRecords(b"batches")]
    assert step(node, Appended(0.2, 3, 1)) == [AdvanceHighWatermark(2)]
    (again,) = sent(step(node, Flushed(0.3, 3)), FetchLog)
    assert (again.offset, again.last_epoch, again.high_watermark) == (3, 1, 2)


def test_the_same_answer_twice_counts_once() -> None:
    node, fetch = following(1, 2, 3)
    answered = FetchAnswered(0.2, fetch, 0, LeaderInfo(1, 2), 2, b"batches")
    step(node, answered)
    step(node, Appended(0.2, 3, 1))
    assert sent(step(node, answered), AppendRecords) == []


def test_a_follower_cuts_its_log_where_the_leader_says_but_nothing_that_is_committed() -> None:
    node, fetch = following(1, 2, 3)
    step(node, FetchAnswered(0.2, fetch, 0, LeaderInfo(1, 2), 5, b"batches"))
    step(node, Appended(0.2, 9, 1))
    (fetch,) = sent(step(node, Flushed(0.3, 9)), FetchLog)
    assert node.high_watermark == 5
    answered = FetchAnswered(0.4, fetch, 0, LeaderInfo(1, 2), truncate_to=6)
    assert TruncateLog(6) in step(node, answered)
    (fetch,) = sent(step(node, Truncated(0.4, 6, 1)), FetchLog)
    assert fetch.offset == 6
    with pytest.raises(CommittedTruncation):
        step(node, FetchAnswered(0.5, fetch, 0, LeaderInfo(1, 2), truncate_to=4))


def test_a_leader_that_was_followed_long_ago_says_nothing_of_who_lives() -> None:
    node, fetch = following(1, 2, 3)
    step(node, FetchAnswered(0.2, fetch, 0, LeaderInfo(1, 2)))
    assert node.heard == {2: 0.2}
    effects = step(node, EpochBegun(0.3, LeaderInfo(2, 3)))
    (fetch,) = sent(effects, FetchLog)
    assert node.heard == {2: 0.2}, "the new one has not answered yet"
    step(node, FetchAnswered(0.4, fetch, 0, LeaderInfo(2, 3)))
    assert node.heard == {3: 0.4}
    asked = sent(step(node, Tick(5.0)), RequestVote)
    for each in sent(step(node, answer(asked[0])), RequestVote):
        step(node, answer(each))
    assert isinstance(node.role, Leader)
    assert node.heard == {3: 0.4}, "the controller that begins wants to know it"
    step(node, Resign(100.0))
    assert node.heard == {}


def test_a_silent_leader_is_replaced() -> None:
    node, fetch = following(1, 2, 3)
    step(node, FetchAnswered(0.2, fetch, 0, LeaderInfo(1, 2)))
    step(node, Tick(2.1))
    assert isinstance(node.role, Follower)
    effects = step(node, Tick(2.3))
    assert isinstance(role_of(node), Prospective)
    assert all(each.pre_vote for each in sent(effects, RequestVote))


@pytest.mark.parametrize(("place", "delay"), [(0, 0.0), (1, 0.5), (None, 1.0)])
def test_who_is_to_succeed_stands_for_election_in_turn(place: int | None, delay: float) -> None:
    node, fetch = following(1, 2, 3)
    step(node, FetchAnswered(0.2, fetch, 0, LeaderInfo(1, 2)))
    preferred = [ReplicaKey(3)]
    if place is not None:
        preferred.insert(place, ReplicaKey(1))
    step(node, EpochEnded(0.3, LeaderInfo(1, 2), tuple(preferred)))
    if delay:
        step(node, Tick(0.3 + delay - 0.01))
        assert isinstance(node.role, Follower)
    step(node, Tick(0.3 + delay))
    assert isinstance(role_of(node), Prospective)


def test_an_epoch_cannot_have_two_leaders() -> None:
    node, _ = following(1, 2, 3)
    effects = step(node, EpochBegun(0.2, LeaderInfo(1, 3)))
    assert AnswerEpoch(1, 2, ErrorCode.INVALID_REQUEST) in effects
    assert node.leader_id == 2


def test_a_leader_of_an_older_epoch_is_told_so() -> None:
    node, _ = following(1, 2, 3, epoch=5)
    effects = step(node, EpochBegun(0.2, LeaderInfo(4, 3)))
    assert AnswerEpoch(5, 2, ErrorCode.FENCED_LEADER_EPOCH) in effects


# Snapshots

SNAPSHOT = SnapshotId(100, 1)


def downloading() -> tuple[RaftNode, FetchSnapshot]:
    node, fetch = following(1, 2, 3)
    answered = FetchAnswered(0.2, fetch, 0, LeaderInfo(1, 2), snapshot_id=SNAPSHOT)
    (asked,) = sent(step(node, answered), FetchSnapshot)
    return node, asked


def chunk(asked: FetchSnapshot, data: bytes, **changes: int) -> SnapshotAnswered:
    size = changes.get("size", 6)
    position = changes.get("position", asked.position)
    leader = LeaderInfo(1, 2)
    return SnapshotAnswered(0.3, asked, 0, leader, asked.snapshot_id, size, position, data)


def test_a_snapshot_comes_in_parts_and_takes_the_place_of_the_log() -> None:
    node, asked = downloading()
    assert asked.position == 0
    effects = step(node, chunk(asked, b"abcd"))
    assert WriteSnapshotChunk(SNAPSHOT, 0, b"abcd") in effects
    (asked,) = sent(effects, FetchSnapshot)
    assert asked.position == 4
    effects = step(node, chunk(asked, b"ef"))
    assert effects == [WriteSnapshotChunk(SNAPSHOT, 4, b"ef"), InstallSnapshot(SNAPSHOT)]
    effects = step(node, SnapshotInstalled(0.4, SNAPSHOT))
    assert AdvanceHighWatermark(100) in effects
    (fetch,) = sent(effects, FetchLog)
    assert (fetch.offset, fetch.last_epoch) == (100, 1)


@pytest.mark.parametrize(
    ("data", "changes"),
    [(b"abcd", {"position": 2}), (b"abcdefg", {}), (b"", {}), (b"ab", {"size": 1})],
)
def test_a_part_that_was_not_asked_for_ends_the_download(
    data: bytes, changes: dict[str, int]
) -> None:
    node, asked = downloading()
    effects = step(node, chunk(asked, data, **changes))
    assert sent(effects, WriteSnapshotChunk) == []
    assert isinstance(node.role, Follower)
    assert node.role.download is None


def test_a_damaged_snapshot_is_fetched_again_after_a_rest() -> None:
    node, asked = downloading()
    step(node, chunk(asked, b"abcdef"))
    assert sent(step(node, SnapshotRefused(0.4, SNAPSHOT)), FetchLog) == []
    (fetch,) = sent(step(node, Tick(0.5)), FetchLog)
    assert fetch.offset == 0


def test_a_snapshot_that_the_leader_has_no_more_is_given_up() -> None:
    node, asked = downloading()
    gone = chunk(asked, b"")._replace(error=ErrorCode.SNAPSHOT_NOT_FOUND)
    step(node, gone)
    (fetch,) = sent(step(node, Tick(0.5)), FetchLog)
    assert fetch.offset == 0

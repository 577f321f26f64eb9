"""A follower's fetcher, rule by rule, against a leader with a log of its own."""

import pytest
from tests.replication.followers import KEY, SETTINGS, Replica
from tests.storage import logs

from ottla.common.errors import (
    ApiError,
    KafkaStorageError,
    NotLeaderOrFollower,
    UnknownLeaderEpoch,
    UnknownTopicId,
)
from ottla.protocol.fetch_answer import FetchAnswer, FetchedRecords
from ottla.protocol.generated.fetch import FetchRequest
from ottla.protocol.generated.list_offsets import ListOffsetsRequest
from ottla.storage.log import Log

BACKOFF = SETTINGS.backoff_ms / 1000


def pair(epoch: int = 1) -> tuple[Replica, Replica]:
    """Broker 1 leads, broker 2 follows."""
    leader, follower = Replica(1, (1, 2)), Replica(2, (1, 2))
    for each in (leader, follower):
        each.hear(1, epoch)
    return leader, follower


def fetch_request(follower: Replica) -> FetchRequest:
    request = follower.ask()
    assert isinstance(request, FetchRequest)
    return request


def asked(request: FetchRequest) -> list[tuple[int, int, int]]:
    """Offset, leader epoch and last fetched epoch of each partition that is named."""
    return [
        (each.fetch_offset, each.current_leader_epoch, each.last_fetched_epoch)
        for topic in request.topics
        for each in topic.partitions
    ]


# What is asked


def test_a_request_says_who_fetches_and_what_it_may_bring() -> None:
    _, follower = pair()
    request = follower.fetcher.next_request(1.0, broker_epoch=77)
    assert isinstance(request, FetchRequest)
    assert request.replica_state.replica_id == 2
    assert request.replica_state.replica_epoch == 77
    assert (request.min_bytes, request.max_wait_ms, request.max_bytes) == (1, 500, 10_000)
    assert request.topics[0].partitions[0].partition_max_bytes == SETTINGS.max_bytes
    assert asked(request) == [(0, 1, -1)]


def test_what_the_leader_remembers_is_not_said_again() -> None:
    leader, follower = pair()
    first = fetch_request(follower)
    assert (first.session_id, first.session_epoch) == (0, 0)
    follower.fetcher.fetched(leader.answer(first), 1.0, logs.NOW)
    second = fetch_request(follower)
    assert (second.session_id != 0, second.session_epoch, second.topics) == (True, 1, [])
    leader.append(b"a")
    follower.fetcher.fetched(leader.answer(second), 1.0, logs.NOW)
    third = fetch_request(follower)
    assert asked(third) == [(1, 1, 1)], "what has changed is said"


def test_a_partition_that_is_followed_no_more_is_forgotten_and_the_session_ends() -> None:
    leader, follower = pair()
    follower.fetch_from(leader)
    follower.fetcher.remove(KEY)
    request = fetch_request(follower)
    assert [topic.partitions for topic in request.forgotten_topics_data] == [[0]]
    assert request.max_wait_ms == 0, "there is nothing to wait for"
    follower.fetcher.fetched(leader.answer(request), 1.0, logs.NOW)
    assert follower.ask() is None
    assert len(leader.sessions) == 0


def test_a_lost_answer_begins_the_session_anew_and_loses_nothing() -> None:
    leader, follower = pair()
    follower.fetch_from(leader)
    leader.append(b"a")
    leader.answer(fetch_request(follower))
    follower.fetcher.failed(follower.now)
    assert follower.ask() is None, "not before the pause is over"
    follower.now += BACKOFF
    again = fetch_request(follower)
    assert (again.session_epoch, asked(again)) == (0, [(0, 1, -1)])
    follower.fetcher.fetched(leader.answer(again), follower.now, logs.NOW)
    assert follower.contents() == leader.contents()


def test_a_session_that_the_leader_has_dropped_is_begun_anew_at_once() -> None:
    leader, follower = pair()
    follower.fetch_from(leader)
    leader.sessions.slots = 0
    leader.sessions._sessions.clear()
    leader.append(b"a")
    follower.fetch_from(leader)
    follower.fetch_from(leader)
    assert follower.contents() == leader.contents()
    assert fetch_request(follower).session_epoch == 0, "without a session all is said each time"


def test_an_answer_that_names_what_was_not_asked_for_is_not_used() -> None:
    leader, follower = pair()
    leader.append(b"a")
    answer = leader.answer(fetch_request(follower))
    stranger = FetchedRecords(bytes(16), 3, 0, 9, 0, memoryview(b""))
    answer.partitions.append(stranger)
    follower.fetcher.fetched(answer, follower.now, logs.NOW)
    assert follower.log.log_end_offset == 0
    assert follower.ask() is None


# What is appended


def test_the_bytes_of_the_leader_are_appended_as_they_are() -> None:
    leader, follower = pair()
    for number in range(40):
        leader.append(b"%d" % number * 20, b"x" * number, gap=number % 3)
    follower.catch_up(leader)
    assert follower.contents() == leader.contents()
    assert follower.log.high_watermark == leader.log.high_watermark == leader.log.log_end_offset
    assert follower.state is not None
    assert follower.state.lag == 0


def test_a_first_batch_that_is_larger_than_the_limits_comes_whole() -> None:
    leader, follower = pair()
    leader.append(b"x" * 3000)
    leader.append(b"y" * 3000)
    follower.catch_up(leader)
    assert follower.contents() == leader.contents()


def test_damaged_records_are_not_appended_and_are_asked_for_again() -> None:
    leader, follower = pair()
    leader.append(b"a")
    answer = leader.answer(fetch_request(follower))
    damaged = bytearray(answer.partitions[0].records)
    damaged[-1] ^= 1
    answer.partitions[0].records = memoryview(damaged)
    follower.fetcher.fetched(answer, follower.now, logs.NOW)
    assert follower.log.log_end_offset == 0
    assert [trouble.is_given_up for trouble in follower.fetcher.troubles] == [False]
    assert follower.log.high_watermark == 0, "nothing of such an answer is believed"
    follower.catch_up(leader)
    assert follower.contents() == leader.contents()


def test_batches_of_a_later_epoch_than_the_one_asked_in_are_left_out() -> None:
    """KAFKA-18723: the leader was replaced, cut its log and went on, while it was being read."""
    leader, follower = pair(epoch=1)
    leader.append(b"a")
    request = fetch_request(follower)
    leader.log.append_as_follower(
        logs.batch([b"b"], base_offset=1, leader_epoch=3), now_ms=logs.NOW
    )
    answer = leader.answer(request)
    follower.fetcher.fetched(answer, follower.now, logs.NOW)
    assert follower.log.log_end_offset == 1
    assert follower.log.latest_epoch == 1


def test_the_log_start_of_the_leader_is_taken_over_and_told_back() -> None:
    leader, follower = pair()
    for _ in range(5):
        leader.append(b"a")
    follower.catch_up(leader)
    leader.log.delete_records_before(3)
    follower.fetch_from(leader)
    assert follower.log.log_start_offset == 3
    (partition,) = fetch_request(follower).topics[0].partitions
    assert partition.log_start_offset == 3


def test_a_log_start_that_retention_has_moved_is_told_within_a_second() -> None:
    leader, follower = pair()
    for _ in range(5):
        leader.append(b"a")
    follower.catch_up(leader)
    follower.fetch_from(leader)
    assert fetch_request(follower).topics == []
    follower.log.delete_records_before(2)
    follower.now += 1.5
    assert fetch_request(follower).topics[0].partitions[0].log_start_offset == 2


def test_a_leader_that_begins_in_the_middle_of_a_batch_sends_it_whole() -> None:
    leader, follower = pair()
    leader.append(b"a", b"b", b"c", b"d")
    leader.append(b"e")
    leader.log.set_high_watermark(5)
    leader.log.delete_records_before(2)
    follower.log.truncate_fully_and_start_at(2, logs.NOW)
    follower.hear(1, 1)
    follower.catch_up(leader)
    assert follower.contents() == leader.contents()
    assert follower.log.log_start_offset == 2
    assert follower.log.segments[0].base_offset == 0


def test_an_answer_to_a_question_of_an_earlier_epoch_is_not_used() -> None:
    leader, follower = pair(epoch=1)
    leader.append(b"a")
    answer = leader.answer(fetch_request(follower))
    follower.hear(1, 2)
    follower.fetcher.fetched(answer, follower.now, logs.NOW)
    assert follower.log.log_end_offset == 0


# Where logs diverge


def test_kip_101_a_follower_keeps_what_is_above_its_own_high_watermark() -> None:
    """Scenario 1: it restarts before it has heard that m2 is committed, and the leader dies."""
    leader, follower = pair(epoch=1)
    leader.append(b"m1")
    leader.append(b"m2")
    follower.fetch_from(leader)
    assert follower.log.log_end_offset == 2
    follower.restart(high_watermark=1)
    follower.hear(1, 1)
    assert follower.log.log_end_offset == 2, "nothing is cut by a high watermark"
    follower.hear(2, 2)
    leader.hear(2, 2)
    leader.catch_up(follower)
    assert follower.contents() == leader.contents()
    assert follower.log.log_end_offset == 2


def test_kip_101_logs_that_differ_at_the_same_offset_are_made_equal() -> None:
    """Scenario 2: both restart; the one that had less leads, and writes at the same offset."""
    leader, follower = pair(epoch=1)
    leader.append(b"m1")
    follower.catch_up(leader)
    leader.append(b"m2")
    follower.hear(2, 2)
    follower.append(b"m3")
    leader.restart(high_watermark=1)
    leader.hear(2, 2)
    leader.catch_up(follower)
    assert leader.contents() == follower.contents()
    assert leader.log.latest_epoch == 2


def test_kip_279_an_epoch_that_the_leader_does_not_know_is_gone_back_over_step_by_step() -> None:
    """Fast fail-over twice: each has an epoch that the other has never seen."""
    first, second = pair(epoch=1)
    first.append(b"a")
    second.catch_up(first)
    first.hear(1, 2)
    for _ in range(3):
        first.append(b"of epoch 2")
    second.hear(2, 3)
    second.append(b"of epoch 3")
    second.append(b"of epoch 3")
    first.hear(2, 3)
    before = first.log.log_end_offset
    first.catch_up(second)
    assert before == 4
    assert first.contents() == second.contents()
    assert [tuple(entry) for entry in first.log.epochs.entries] == [(1, 0), (3, 1)]


def test_kip_279_what_a_leader_says_of_an_epoch_that_is_not_ours_cuts_to_one_that_is() -> None:
    """The leader's largest epoch below ours is one we never had: ours below that one counts."""
    leader, follower = pair(epoch=1)
    leader.append(b"a", b"b")
    follower.catch_up(leader)
    follower.hear(2, 4)
    follower.append(b"of 4")
    follower.append(b"of 4")
    leader.hear(1, 3)
    leader.append(b"of 3")
    leader.append(b"of 3")
    leader.append(b"of 3")
    leader.hear(1, 5)
    leader.append(b"of 5")
    follower.hear(1, 5)
    follower.fetch_from(leader)
    assert follower.log.log_end_offset == 2, "the end of epoch 1, which both have"
    follower.catch_up(leader)
    assert follower.contents() == leader.contents()


def test_an_epoch_without_records_that_nobody_else_has_is_forgotten() -> None:
    leader, follower = pair(epoch=1)
    leader.append(b"a")
    follower.catch_up(leader)
    follower.hear(2, 2)
    assert follower.log.latest_epoch == 2
    leader.hear(1, 3)
    leader.append(b"b")
    follower.hear(1, 3)
    follower.catch_up(leader)
    assert [tuple(entry) for entry in follower.log.epochs.entries] == [(1, 0), (3, 1)]
    assert follower.contents() == leader.contents()


def write_alone(log: Log, count: int) -> None:
    """Records of epoch 1 that no leader has."""
    for _ in range(count):
        data = logs.batch([b"x"], base_offset=log.log_end_offset, leader_epoch=1)
        log.append_as_follower(data, now_ms=logs.NOW)


def test_what_a_leader_has_deleted_cannot_be_compared_and_goes() -> None:
    """Seed 8880: its records of a time when we led for ourselves are deleted, and its epochs."""
    leader, follower = pair(epoch=1)
    leader.append(b"a")
    follower.catch_up(leader)
    write_alone(follower.log, 5)
    leader.hear(1, 2)
    leader.append(b"b", b"c")
    leader.log.set_high_watermark(3)
    leader.log.delete_records_before(3)
    leader.hear(1, 3)
    leader.append(b"d")
    follower.hear(1, 3)
    follower.fetch_from(leader)
    assert (follower.log.log_start_offset, follower.log.log_end_offset) == (3, 3)
    follower.catch_up(leader)
    assert logs.values_of(follower.log) == {3: b"d"}


def test_of_an_answer_that_tells_of_departing_logs_nothing_else_is_used() -> None:
    leader, follower = pair(epoch=1)
    leader.append(b"a")
    follower.catch_up(leader)
    follower.hear(2, 2)
    follower.append(b"mine")
    leader.hear(1, 3)
    follower.hear(1, 3)
    before = follower.log.high_watermark
    answer = leader.answer(fetch_request(follower))
    assert answer.partitions[0].diverging_epoch == 1
    answer.partitions[0].high_watermark = 2
    follower.fetcher.fetched(answer, follower.now, logs.NOW)
    assert follower.log.log_end_offset == 1
    assert follower.log.high_watermark == before


# Offsets that the leader does not have


def test_a_leader_that_begins_behind_our_end_makes_us_begin_there() -> None:
    leader, follower = pair()
    for _ in range(10):
        leader.append(b"a")
    leader.log.set_high_watermark(10)
    leader.log.delete_records_before(7)
    follower.log.append_as_follower(logs.batch([b"a"], leader_epoch=1), now_ms=logs.NOW)
    follower.hear(1, 1)
    follower.fetch_from(leader)
    first, second = follower.ask(), None
    assert isinstance(first, ListOffsetsRequest)
    assert first.replica_id == 2
    assert first.topics[0].partitions[0].current_leader_epoch == 1
    follower.fetcher.offsets_listed(leader.list_offsets(first), follower.now, logs.NOW)
    second = follower.ask()
    assert isinstance(second, ListOffsetsRequest)
    follower.fetcher.offsets_listed(leader.list_offsets(second), follower.now, logs.NOW)
    assert (follower.log.log_start_offset, follower.log.log_end_offset) == (7, 7)
    follower.catch_up(leader)
    assert follower.contents() == leader.contents(7)


def test_a_leader_whose_log_ends_before_ours_has_us_cut_ours_to_that() -> None:
    leader, follower = pair(epoch=1)
    leader.append(b"a")
    follower.catch_up(leader)
    write_alone(follower.log, 3)
    leader.refusal = None
    follower.hear(1, 1)
    follower.fetch_from(leader)
    follower.catch_up(leader)
    assert follower.contents() == leader.contents()


def test_a_leader_that_has_got_further_meanwhile_is_fetched_from_where_we_were() -> None:
    leader, follower = pair()
    leader.append(b"a")
    follower.catch_up(leader)
    answer = leader.answer(fetch_request(follower))
    answer.partitions = [FetchedRecords(*KEY, 1, 0, 0, memoryview(b""))]
    follower.fetcher.fetched(answer, follower.now, logs.NOW)
    leader.append(b"b")
    assert isinstance(follower.ask(), ListOffsetsRequest)
    for _ in range(3):
        follower.fetch_from(leader)
    assert follower.contents() == leader.contents()
    assert follower.log.log_start_offset == 0


def test_a_question_for_offsets_that_fails_is_asked_again_after_a_pause() -> None:
    leader, follower = pair()
    for _ in range(4):
        leader.append(b"a")
    leader.log.set_high_watermark(4)
    leader.log.delete_records_before(3)
    follower.fetch_from(leader)
    assert isinstance(follower.ask(), ListOffsetsRequest)
    follower.fetcher.failed(follower.now)
    assert follower.ask() is None
    follower.catch_up(leader)
    assert follower.contents() == leader.contents(3)


# What goes wrong


def end_session(leader: Replica, follower: Replica) -> None:
    """Tell the leader that the partition is not fetched for now, if it has not been told."""
    request = follower.ask()
    if request is not None:
        assert isinstance(request, FetchRequest)
        assert (request.topics, len(request.forgotten_topics_data)) == ([], 1)
        follower.fetcher.fetched(leader.answer(request), follower.now, logs.NOW)
        assert follower.ask() is None


def test_a_refusal_delays_the_partition() -> None:
    leader, follower = pair()
    leader.append(b"a")
    leader.refusal = KafkaStorageError()
    follower.fetch_from(leader)
    end_session(leader, follower)
    leader.refusal = None
    at = follower.fetcher.wake_at(follower.now)
    assert at == follower.now + BACKOFF
    follower.catch_up(leader)
    assert follower.contents() == leader.contents()


@pytest.mark.parametrize("refusal", [NotLeaderOrFollower(), UnknownLeaderEpoch(), UnknownTopicId()])
def test_a_leader_that_does_not_know_of_its_election_is_soon_asked_again(
    refusal: ApiError,
) -> None:
    leader, follower = pair()
    leader.append(b"a")
    leader.refusal = refusal
    pauses = []
    for _ in range(8):
        follower.fetch_from(leader)
        end_session(leader, follower)
        at = follower.fetcher.wake_at(follower.now)
        assert at is not None
        pauses.append(round(at - follower.now, 3))
        follower.now = at
    assert pauses == [0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.0, 1.0]
    leader.refusal = None
    follower.catch_up(leader)
    assert follower.contents() == leader.contents()


def test_a_fetch_does_not_wait_longer_than_a_delay_of_another_partition_lasts() -> None:
    leader, follower = pair()
    follower.fetch_from(leader)
    other = Replica(2, (1, 2))
    other.partition.index = 1
    follower.fetcher.add(other.partition, 1, logs.NOW)
    follower.fetcher._delay(follower.fetcher.states[logs.TOPIC_ID, 1], follower.now, 0.1)
    assert fetch_request(follower).max_wait_ms in (100, 101)
    follower.fetcher.remove((logs.TOPIC_ID, 1))
    follower.now += 0.2
    assert fetch_request(follower).max_wait_ms == 500


def test_a_leader_of_a_later_epoch_is_not_asked_until_the_metadata_log_has_told() -> None:
    leader, follower = pair(epoch=1)
    leader.hear(1, 2)
    leader.append(b"a")
    follower.fetch_from(leader)
    assert follower.state is None
    assert [trouble.is_given_up for trouble in follower.fetcher.troubles] == [True]
    follower.hear(1, 2)
    follower.catch_up(leader)
    assert follower.contents() == leader.contents()


def test_a_partition_whose_disk_fails_is_given_up() -> None:
    leader, follower = pair()
    leader.append(b"a")
    follower.log.failure = OSError(5, "broken")
    follower.fetch_from(leader)
    assert follower.state is None
    assert follower.fetcher.troubles[0].is_given_up


def test_an_error_of_the_whole_answer_delays_everything() -> None:
    _, follower = pair()
    fetch_request(follower)
    follower.fetcher.fetched(FetchAnswer(0, 31, 0, []), follower.now, logs.NOW)
    assert follower.ask() is None
    follower.now += BACKOFF
    assert fetch_request(follower).session_epoch == 0


def test_a_log_without_epochs_is_cut_to_its_high_watermark() -> None:
    """Without them nobody could tell where it diverges."""
    leader, follower = pair()
    follower.log.append_as_follower(logs.batch([b"a", b"b"]), now_ms=logs.NOW)
    follower.log.append_as_follower(logs.batch([b"c"], base_offset=2), now_ms=logs.NOW)
    follower.log.set_high_watermark(2)
    follower.hear(1, 1)
    assert follower.log.log_end_offset == 2
    assert leader.log.log_end_offset == 0


# Throttling (KIP-73)


def test_a_throttled_partition_that_is_behind_waits_while_too_much_has_come() -> None:
    leader, follower = pair()
    follower.throttled = [0]
    follower.fetcher.throttles_changed()
    follower.quota.bytes_per_second = 100.0
    for _ in range(20):
        leader.append(b"x" * 500)
    leader.log.set_high_watermark(20)
    follower.fetch_from(leader)
    held = follower.log.log_end_offset
    assert 0 < held < 20
    request = fetch_request(follower)
    assert (request.topics, len(request.forgotten_topics_data)) == ([], 1)
    follower.fetcher.fetched(leader.answer(request), follower.now, logs.NOW)
    assert follower.ask() is None
    assert follower.fetcher.wake_at(follower.now) == follower.now + BACKOFF
    follower.now += 30
    follower.fetch_from(leader)
    assert follower.log.log_end_offset > held
    follower.throttled = []
    follower.fetcher.throttles_changed()
    follower.catch_up(leader)
    assert follower.contents() == leader.contents()


def test_a_throttled_partition_that_is_in_sync_is_fetched_all_the_same() -> None:
    leader, follower = pair()
    follower.throttled = [0]
    follower.fetcher.throttles_changed()
    follower.quota.bytes_per_second = 1.0
    leader.append(b"x" * 300)
    follower.fetch_from(leader)
    assert follower.quota.is_exceeded(follower.now)
    assert follower.state is not None
    assert follower.state.is_in_sync
    leader.append(b"y")
    follower.fetch_from(leader)
    assert follower.log.log_end_offset == 2

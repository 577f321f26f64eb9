"""What a leader makes of its followers' fetches: high watermark, ISR, who is told."""

from functools import partial

import pytest
from tests.replication.led import LAG, Led, Registered
from tests.turns import TURN, in_turn

from ottla.common.errors import (
    ApiError,
    FencedLeaderEpoch,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    UnknownLeaderEpoch,
    UnknownTopicOrPartition,
)
from ottla.common.promise import Promise
from ottla.replication.acknowledgements import settle
from ottla.replication.isr import BrokerState

# The high watermark


def test_the_high_watermark_is_the_least_log_end_of_the_isr() -> None:
    led = Led()
    led.append(5)
    assert led.high_watermark == 0
    led.fetch(2, 5)
    assert led.high_watermark == 0
    led.fetch(3, 3)
    assert led.high_watermark == 3
    led.fetch(3, 5)
    assert led.high_watermark == 5


def test_a_leader_alone_in_the_isr_commits_by_itself() -> None:
    led = Led(isr=(1,))
    led.append(2)
    assert led.high_watermark == 2


def test_it_does_not_go_back_when_a_follower_does() -> None:
    led = Led()
    led.append(5)
    led.fetch(2, 5)
    led.fetch(3, 5)
    led.fetch(3, 2)
    assert led.high_watermark == 5


def test_it_waits_for_a_follower_that_is_about_to_join() -> None:
    """Or one that is caught up could be left behind until the moment in which it may join."""
    led = Led(isr=(1, 2), replicas=(1, 2, 3, 4))
    led.append(5)
    led.fetch(2, 5)
    led.fetch(4, 5)
    led.fetch(3, 5)
    assert [member.broker_id for member in led.proposed[0].members] == [1, 2, 4]
    led.append(5)
    led.fetch(2, 10)
    led.fetch(4, 10)
    assert led.high_watermark == 5
    led.fetch(3, 10)
    assert led.high_watermark == 10


def test_it_does_not_wait_for_one_that_may_not_join() -> None:
    led = Led(isr=(1, 2))
    led.append(5)
    led.brokers[3] = Registered(103, fenced=True)
    led.fetch(3, 5)
    led.append(5)
    led.fetch(2, 10)
    assert led.high_watermark == 10


def test_a_proposed_member_counts_before_the_controller_has_answered() -> None:
    led = Led(isr=(1, 2))
    led.append(5)
    led.fetch(2, 5)
    led.fetch(3, 5)
    assert len(led.proposed) == 1
    led.now += 10 * LAG  # so that it would not count as one that is caught up
    led.append(5)
    led.fetch(2, 10)
    assert led.high_watermark == 5


def test_a_member_that_is_to_leave_counts_until_the_controller_has_taken_it_out() -> None:
    led = Led()
    led.append(5)
    led.now += LAG + 1
    led.fetch(2, 5)
    led.partition.maybe_shrink_isr()
    assert [len(proposed.members) for proposed in led.proposed] == [2]
    led.append(1)
    led.fetch(2, 6)
    assert led.high_watermark == 0
    led.altered(led.proposed[0])
    assert led.high_watermark == 6


def test_it_stands_still_while_too_few_are_in_sync() -> None:
    """KIP-966: what is committed is on as many replicas as the topic asks for."""
    led = Led(isr=(1,), min_isr=2)
    led.append(3, acks=1)
    assert led.high_watermark == 0
    led.partition.min_insync_replicas = 1
    assert led.high_watermark == 3


def test_a_partition_needs_no_more_replicas_than_it_has() -> None:
    led = Led(isr=(1,), replicas=(1,), min_isr=2)
    led.append(1, acks=-1)
    assert led.high_watermark == 1


def test_acks_all_is_refused_while_too_few_are_in_sync() -> None:
    led = Led(isr=(1,), min_isr=2)
    with pytest.raises(NotEnoughReplicas):
        led.append(acks=-1)
    assert led.log.log_end_offset == 0


def test_a_new_leader_begins_with_the_high_watermark_that_it_knew() -> None:
    led = Led()
    led.append(5)
    led.fetch(2, 3)
    led.fetch(3, 3)
    led.lead((2, 3), leader=2, leader_epoch=1)
    led.lead((1, 2, 3), leader_epoch=2)
    assert led.high_watermark == 3
    led.fetch(2, 5)
    assert led.high_watermark == 3, "what it knew of 3 was said to an earlier leader"
    led.fetch(3, 5)
    assert led.high_watermark == 5


# Joining the ISR


def test_who_has_reached_the_high_watermark_joins() -> None:
    led = Led(isr=(1, 2))
    led.append(5)
    led.fetch(2, 4)
    led.now += 10 * LAG
    led.append(1)
    led.fetch(2, 4)
    led.fetch(3, 3)
    assert led.proposed == []
    led.fetch(3, 4)
    (proposed,) = led.proposed
    assert proposed.members == (BrokerState(1, 101), BrokerState(2, 102), BrokerState(3, 103))
    assert (proposed.leader_epoch, proposed.partition_epoch) == (0, 1)
    led.altered(proposed)
    assert led.partition.isr == (1, 2, 3)
    assert led.outside.isr_expands.count == 1


def test_who_has_not_reached_the_beginning_of_the_epoch_does_not_join() -> None:
    led = Led(isr=(1, 2))
    led.append(5)
    led.lead((1, 2), leader_epoch=1)
    assert led.high_watermark == 0
    led.fetch(3, 4)
    assert led.proposed == []
    led.fetch(3, 5)
    assert len(led.proposed) == 1


@pytest.mark.parametrize(
    "registered",
    [
        Registered(103, fenced=True),
        Registered(103, in_controlled_shutdown=True),
        Registered(102),
        None,
    ],
)
def test_a_broker_that_is_not_fit_does_not_join(registered: Registered | None) -> None:
    led = Led(isr=(1, 2))
    led.append(1)
    if registered is None:
        del led.brokers[3]
    else:
        led.brokers[3] = registered
    led.fetch(3, 1, epoch=103)
    assert led.proposed == []


def test_a_fetch_that_tells_no_broker_epoch_may_join() -> None:
    led = Led(isr=(1, 2))
    led.append(1)
    led.fetch(3, 1, epoch=-1)
    assert led.proposed[0].members[-1] == BrokerState(3, -1)


def test_a_fetch_of_an_earlier_life_changes_nothing() -> None:
    """KIP-903: it may have lost since what it says it has."""
    led = Led(isr=(1, 2, 3))
    led.append(5)
    led.fetch(2, 5)
    led.brokers[3] = Registered(203)
    with pytest.raises(NotLeaderOrFollower):
        led.fetch(3, 5, epoch=103)
    assert led.high_watermark == 0


def test_one_change_is_asked_for_at_a_time() -> None:
    led = Led(isr=(1,))
    led.append(1)
    led.fetch(2, 1)
    led.fetch(3, 1)
    assert len(led.proposed) == 1
    led.altered(led.proposed[0])
    led.fetch(3, 1)
    assert [member.broker_id for member in led.proposed[1].members] == [1, 2, 3]


def test_a_refusal_that_changed_nothing_takes_the_proposal_back() -> None:
    led = Led(isr=(1,))
    led.append(1)
    led.fetch(2, 1)
    assert not led.partition.isr_refused(led.proposed[0], is_unchanged=True)
    led.append(1)
    led.now += LAG + 1
    led.append(1)
    assert led.high_watermark == 3
    assert led.outside.failed_isr_updates.count == 1
    led.fetch(2, 3)
    assert len(led.proposed) == 2


def test_any_other_refusal_leaves_it_to_the_metadata_log() -> None:
    led = Led(isr=(1,))
    led.append(1)
    led.fetch(2, 1)
    assert led.partition.isr_refused(led.proposed[0], is_unchanged=False)
    led.now += LAG + 1
    led.append(1)
    led.fetch(3, 2)
    assert len(led.proposed) == 1, "it is not known whether 2 is in"
    assert led.high_watermark == 1
    led.lead((1,))
    assert led.high_watermark == 2


def test_an_answer_that_the_metadata_log_has_overtaken_is_ignored() -> None:
    led = Led(isr=(1, 2))
    led.append(1)
    led.fetch(2, 1)
    led.fetch(3, 1)
    led.lead((1,), partition_epoch=9)
    led.partition.isr_altered(led.proposed[0], 0, 2, (1, 2, 3))
    assert led.partition.isr == (1,)
    assert led.partition.partition_epoch == 9


def test_an_answer_does_not_end_a_later_proposal() -> None:
    led = Led(isr=(1,))
    led.append(1)
    led.fetch(2, 1)
    led.lead((1, 2), partition_epoch=2)  # the metadata log is faster than the answer
    led.fetch(3, 1)
    led.partition.isr_altered(led.proposed[0], 0, 2, (1, 2))
    assert led.partition.leadership.in_sync.maximal == (1, 2, 3)


def test_an_older_state_than_the_controllers_answer_is_ignored() -> None:
    led = Led(isr=(1, 2))
    led.append(1)
    led.fetch(3, 1)
    led.altered(led.proposed[0])
    led.lead((1, 2), partition_epoch=1)
    assert led.partition.isr == (1, 2, 3)


def test_the_record_of_an_answer_that_came_before_it_does_not_end_the_next_proposal() -> None:
    """Broker 3 may be in the ISR by now: nothing is committed that it does not have."""
    led = Led(isr=(1,))
    led.append(1)
    led.fetch(2, 1)
    led.altered(led.proposed[0])
    led.fetch(3, 1)  # the next proposal, at the partition epoch of the answer
    led.now += LAG + 1
    led.lead((1, 2), partition_epoch=led.partition_epoch)
    led.append(1)
    led.fetch(2, 2)
    assert led.high_watermark == 1
    led.altered(led.proposed[1])
    assert led.partition.isr == (1, 2, 3)


# Leaving the ISR


def test_who_was_caught_up_within_the_time_stays() -> None:
    led = Led()
    led.append(5)
    led.now += LAG
    led.partition.maybe_shrink_isr()
    assert led.proposed == []
    led.now += 1
    led.partition.maybe_shrink_isr()
    assert [member.broker_id for member in led.proposed[0].members] == [1]
    led.altered(led.proposed[0])
    assert led.outside.isr_shrinks.count == 1


def test_who_is_level_stays_however_long_it_is_silent() -> None:
    led = Led()
    led.append(1)
    led.fetch(2, 1)
    led.fetch(3, 1)
    led.now += 10 * LAG
    led.partition.maybe_shrink_isr()
    assert led.proposed == []


def test_who_reaches_with_each_fetch_the_end_of_the_one_before_stays() -> None:
    """Records that come faster than fetches do not make a follower late."""
    led = Led(isr=(1, 2), replicas=(1, 2))
    end = 0
    for _ in range(10):
        led.append(1)
        led.fetch(2, end)
        end = led.log.log_end_offset
        led.append(1)
        led.now += LAG / 2
        led.partition.maybe_shrink_isr()
    assert led.proposed == []


def test_who_never_reaches_it_leaves() -> None:
    led = Led(isr=(1, 2), replicas=(1, 2))
    for offset in range(4):
        led.append(2)
        led.fetch(2, offset)
        led.now += LAG / 2
        led.partition.maybe_shrink_isr()
    assert len(led.proposed) == 1


# Who may fetch


def test_a_broker_that_is_no_replica_is_told_to_ask_again() -> None:
    led = Led(replicas=(1, 2), isr=(1, 2))
    with pytest.raises(UnknownLeaderEpoch):
        led.fetch(4, 0)
    with pytest.raises(NotLeaderOrFollower):
        led.fetch(4, 0, leader_epoch=-1)


def test_a_fetch_in_another_epoch_changes_nothing() -> None:
    led = Led()
    led.append(2)
    led.lead((1, 2, 3), leader_epoch=3)
    with pytest.raises(FencedLeaderEpoch):
        led.fetch(2, 2, leader_epoch=2)
    with pytest.raises(UnknownLeaderEpoch):
        led.fetch(2, 2, leader_epoch=4)
    led.fetch(3, 2)
    assert led.high_watermark == 0


def test_a_follower_reads_to_the_end_of_the_log_and_a_consumer_does_not() -> None:
    led = Led()
    led.append(2)
    assert led.fetch(2, 0).size > 0
    assert led.partition.read(0, 1 << 20, -1, 0, at_least_one=True).size == 0


def test_a_fetch_that_departs_from_the_log_says_nothing_about_what_it_has() -> None:
    led = Led(isr=(1, 2), replicas=(1, 2))
    led.append(2)
    led.lead((1, 2), leader_epoch=2)
    led.append(2)
    answer = led.fetch(2, 4, last_fetched_epoch=1)
    assert answer.diverging_epoch == (0, 2)
    assert led.high_watermark == 0
    assert led.fetch(2, 2, last_fetched_epoch=0).diverging_epoch is None
    assert led.high_watermark == 2


def test_a_follower_ahead_of_the_leader_is_told_where_it_departs() -> None:
    led = Led(isr=(1, 2), replicas=(1, 2))
    led.append(2)
    assert led.fetch(2, 9, last_fetched_epoch=0).diverging_epoch == (0, 2)
    with pytest.raises(OffsetOutOfRange):
        led.fetch(2, 9)
    assert led.high_watermark == 0


def test_a_fetch_that_has_waited_is_not_counted_twice() -> None:
    led = Led(isr=(1, 2))
    led.append(1)
    led.fetch(3, 1, is_new=False)
    assert led.proposed == []


# Who waits


def outcome(promise: Promise[None]) -> str:
    if not promise.done:
        return "waits"
    try:
        promise.result()
    except ApiError as error:
        return type(error).__name__
    return "committed"


def test_what_waits_for_an_offset_is_told_when_it_is_committed() -> None:
    led = Led()
    first, second = led.append(3), led.append(2)
    waits = [led.partition.when_committed(offset) for offset in (second, first)]
    led.fetch(2, 5)
    led.fetch(3, 2)
    assert [outcome(each) for each in waits] == ["waits", "waits"]
    led.fetch(3, 3)
    assert [outcome(each) for each in waits] == ["waits", "committed"]
    led.fetch(3, 5)
    assert [outcome(each) for each in waits] == ["committed", "committed"]
    assert outcome(led.partition.when_committed(first)) == "committed"


def test_what_waits_is_told_when_the_leadership_ends() -> None:
    led = Led()
    waits = led.partition.when_committed(led.append())
    led.lead((2, 3), leader=2, leader_epoch=1)
    assert outcome(waits) == "NotLeaderOrFollower"
    assert outcome(led.partition.when_committed(0)) == "NotLeaderOrFollower"


def test_who_led_in_an_epoch_that_was_not_heard_of_may_have_cut_a_follower() -> None:
    """Two elections that come as one piece of news: 2 led, so 3 has lost what 2 did not have."""
    led = Led()
    led.append(5)
    led.fetch(3, 5)
    committed = led.partition.when_committed(4)
    flushed: list[ApiError | None] = []
    led.partition.log._flushing.due_offset = 4
    led.partition.when_flushed(4, flushed.append)
    led.lead((1, 3), leader_epoch=2)
    assert led.high_watermark == 0
    assert [type(error) for error in flushed] == [NotLeaderOrFollower]
    led.fetch(3, 0)
    assert not committed.done
    led.fetch(3, 5)
    assert (led.high_watermark, committed.done) == (5, True)


def test_what_waits_is_told_when_the_replica_goes() -> None:
    led = Led()
    waits = led.partition.when_committed(led.append())
    led.partition.removed(UnknownTopicOrPartition())
    assert outcome(waits) == "UnknownTopicOrPartition"


def test_consumers_wait_for_the_high_watermark_and_followers_for_the_end() -> None:
    led = Led()
    woken: list[str] = []
    led.queue.add(1, [led.partition.readers.consumers], 500, lambda: woken.append("consumer"))
    led.queue.add(1, [led.partition.readers.followers], 500, lambda: woken.append("follower"))
    led.append(2)
    assert woken == ["follower"]
    led.fetch(2, 2)
    led.fetch(3, 2)
    assert woken == ["follower", "consumer"]


def test_a_consumer_that_wants_many_bytes_is_told_how_many_were_committed() -> None:
    led = Led(isr=(1, 2), replicas=(1, 2))
    led.append(1)
    size = led.log.size()
    woken: list[int] = []
    led.queue.add(
        2 * size, [led.partition.readers.consumers], 500, lambda: woken.append(led.high_watermark)
    )
    led.append(1)
    led.fetch(2, 1)
    assert woken == []
    led.fetch(2, 2)
    assert woken == [2]


def test_everybody_is_answered_when_the_leader_changes() -> None:
    led = Led()
    woken: list[str] = []
    led.queue.add(9999, [led.partition.readers.consumers], 500, lambda: woken.append("consumer"))
    led.queue.add(9999, [led.partition.readers.followers], 500, lambda: woken.append("follower"))
    led.lead((2, 3), leader=2, leader_epoch=1)
    assert woken == ["consumer", "follower"]


def test_the_low_watermark_is_that_of_the_replicas_that_are_alive() -> None:
    led = Led()
    led.append(5)
    led.fetch(2, 5, log_start_offset=0)
    led.fetch(3, 5, log_start_offset=2)
    led.log.delete_records_before(4)
    assert led.partition.low_watermark() == 0
    led.brokers[2] = Registered(102, fenced=True)
    assert led.partition.low_watermark() == 2


def deleted(led: Led, offset: int) -> Promise[None]:
    promise: Promise[None] = Promise(TURN)
    led.partition.when_deleted(offset, partial(settle, promise), lambda: promise.done)
    return promise


def test_who_waits_for_records_to_be_deleted_is_told_when_the_last_replica_has_done_so() -> None:
    led = Led()
    led.append(5)
    led.fetch(2, 5)
    led.fetch(3, 5)
    led.log.delete_records_before(4)
    waits, again = deleted(led, 4), deleted(led, 4)
    led.fetch(2, 5, log_start_offset=4)
    assert outcome(waits) == "waits"
    led.fetch(3, 5, log_start_offset=4)
    assert (outcome(waits), outcome(again)) == ("committed", "committed")
    assert outcome(deleted(led, 4)) == "committed"


# Following


def test_a_follower_takes_the_leaders_watermarks_within_its_own_log() -> None:
    led, copy = Led(), Led()
    led.append(3)
    led.append(3)
    copy.lead((1, 2), leader=2, leader_epoch=1)
    records = led.log.read_bytes(0, 1)
    copy.partition.append_as_follower(records, 6, 2, 1)
    assert (copy.high_watermark, copy.log.log_start_offset) == (3, 2)
    copy.partition.append_as_follower(b"", 1, 0, 1)
    assert (copy.high_watermark, copy.log.log_start_offset) == (3, 2), "neither goes back"


def test_a_consumer_of_a_follower_sees_what_is_committed_and_waits_for_more() -> None:
    led, copy = Led(), Led()
    led.append(3)
    copy.lead((1, 2), leader=2, leader_epoch=1)
    copy.partition.append_as_follower(led.log.read_bytes(0, 1), 0, 0, 1)
    read = copy.partition.read(0, 1 << 20, 1, 0, at_least_one=True, from_leader_only=False)
    assert read.size == 0
    with pytest.raises(NotLeaderOrFollower):
        copy.partition.read(0, 1 << 20, 1, 0, at_least_one=True)
    woken: list[int] = []
    copy.queue.add(
        1, [copy.partition.readers.consumers], 500, lambda: woken.append(copy.high_watermark)
    )
    in_turn(copy.partition.append_as_follower, b"", 3, 0, 1)
    assert woken == [3]

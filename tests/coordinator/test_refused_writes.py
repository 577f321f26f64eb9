"""Groups whose log takes no records for a while: nobody is forgotten, nobody stays for ever."""

import pytest
from tests.coordinator.consumers import AT_ONCE, Consumer, described, group_of, settle
from tests.coordinator.coordinator import GROUP, Coordinator, Member
from tests.coordinator.coordinator import settle as classic_settle
from tests.coordinator.test_migration import Classic, classic_group

from ottla.common.errors import ApiError, ErrorCode, NotEnoughReplicas
from ottla.common.promise import run
from ottla.common.topic_partition import TopicPartition
from ottla.coordinator.group.deletions import RETRY_SECONDS
from ottla.coordinator.group.group import Caller
from ottla.coordinator.group.service import GROUP_METADATA_TOPIC
from ottla.coordinator.group.settings import Bounded, GroupSettings
from ottla.coordinator.partition import CoordinatorState

UNAVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE
HOUR_MS = 3_600_000
LONG = 600.0
"""Beyond every timeout of these groups."""


@pytest.fixture
def coordinator() -> Coordinator:
    coordinator = Coordinator(AT_ONCE)
    coordinator.cluster.put("topic", 6)
    return coordinator


def refuse(coordinator: Coordinator, seconds: float = 0.0) -> None:
    coordinator.log.refuse = NotEnoughReplicas()
    coordinator.wait(seconds)


def mend(coordinator: Coordinator, seconds: float = 1.0) -> None:
    coordinator.log.refuse = None
    coordinator.wait(seconds)


# Members of consumer groups


def test_a_member_whose_session_ends_while_nothing_can_be_written_is_out_soon_after(
    coordinator: Coordinator,
) -> None:
    member = Consumer(coordinator, "a")
    member.join()
    refuse(coordinator, LONG)
    assert len(described(coordinator).members) == 1
    mend(coordinator)
    assert described(coordinator).group_state == "Empty"


def test_a_member_whose_leave_could_not_be_written_is_out_when_its_session_ends(
    coordinator: Coordinator,
) -> None:
    member = Consumer(coordinator, "a")
    member.join()
    refuse(coordinator)
    with pytest.raises(ApiError):
        member.leave()
    mend(coordinator, 44)
    assert len(described(coordinator).members) == 1
    coordinator.wait(2)
    assert described(coordinator).group_state == "Empty"


def test_a_member_that_beats_while_nothing_can_be_written_is_not_out(
    coordinator: Coordinator,
) -> None:
    member = Consumer(coordinator, "a")
    member.join()
    refuse(coordinator)
    coordinator.cluster.put("topic", 7)  # each heartbeat has something to write
    for _ in range(10):
        coordinator.wait(30)
        assert member.beat_code() is UNAVAILABLE
    mend(coordinator)
    assert member.beat_code() is ErrorCode.NONE
    assert member.count == 7


def test_who_does_not_give_up_in_time_is_out_though_its_step_could_not_be_written(
    coordinator: Coordinator,
) -> None:
    first = Consumer(coordinator, "a", rebalance_timeout_ms=10_000)
    second = Consumer(coordinator, "b")
    first.join()
    second.join()
    first.send(first.request())
    refuse(coordinator)
    has_all, first.owned = first.owned, {}
    assert first.beat_code() is UNAVAILABLE  # that it has given up is not stored
    mend(coordinator, 0)
    first.owned = has_all
    for _ in range(3):
        coordinator.wait(4)
        try:
            first.send(first.request())
        except ApiError:
            break
    settle(coordinator, second)
    assert second.count == 6


def test_a_group_that_was_never_stored_leaves_no_timers(coordinator: Coordinator) -> None:
    partition = coordinator.service.partition_for(GROUP)

    def count() -> int:
        return coordinator.service.runtime.read(partition, lambda shard: len(shard._timers))

    before = count()
    refuse(coordinator)
    for name in "abc":
        assert Consumer(coordinator, name, regex="t.*").beat_code() is UNAVAILABLE
    coordinator.turn()
    assert count() == before


# Classic groups


def test_who_joins_a_group_that_goes_back_to_nothing_is_told(coordinator: Coordinator) -> None:
    """An offset makes the group; before that is stored, somebody joins; then it is lost."""
    refuse(coordinator)
    coordinator.commit_offset(5)
    member = Member(coordinator, "a", version=3)
    joined = member.send_join()
    coordinator.wait(LONG)
    assert joined.result().error_code == UNAVAILABLE
    assert coordinator.group() is None


def test_who_joins_a_group_that_goes_back_to_its_kind_is_told(coordinator: Coordinator) -> None:
    """The last consumer leaves, the classic one joins what is left, and that is lost."""
    one, two = Classic(coordinator, "one"), Classic(coordinator, "two")
    classic_group(coordinator, one, two)
    consumer = Consumer(coordinator, "consumer")
    consumer.join()
    for _ in range(4):
        one.step()
        two.step()
        consumer.beat()
    coordinator.log.hold = True
    leaving = consumer.request(-1)
    run(
        coordinator.scheduler.turn,
        coordinator.service.consumer_heartbeat(leaving, Caller(1, "client", "/127.0.0.1")),
    )
    coordinator.turn()
    joined = one.send_join()
    assert not joined.done
    partition = coordinator.service.partition_for(GROUP)
    coordinator.log.hold = False
    coordinator.log.lose_uncommitted(GROUP_METADATA_TOPIC, partition, NotEnoughReplicas())
    coordinator.turn()
    assert joined.result().error_code == UNAVAILABLE
    assert set(group_of(coordinator).members) == {"consumer", one.member_id, two.member_id}
    coordinator.wait(180)  # all of them are silent from now on
    group = coordinator.service.runtime.read(partition, lambda shard: shard.groups.get(GROUP))
    assert group is not None
    assert group.is_empty


# Wall clocks


def test_a_clock_that_is_set_back_does_not_keep_members_waiting() -> None:
    coordinator = Coordinator(
        GroupSettings(consumer_assignment_interval_ms=Bounded(0, 5_000, 15_000))
    )
    coordinator.cluster.put("topic", 6)
    first = Consumer(coordinator, "a")
    first.join()
    coordinator.scheduler.wall_skew_ms -= HOUR_MS
    second = Consumer(coordinator, "b")
    second.join()
    for _ in range(4):
        coordinator.wait(6)
        first.beat()
        second.beat()
    assert (first.count, second.count) == (3, 3)


def test_a_clock_that_is_set_back_does_not_stop_the_search_for_topics(
    coordinator: Coordinator,
) -> None:
    member = Consumer(coordinator, "a", regex="t.*")
    member.join()
    coordinator.turn()
    coordinator.scheduler.wall_skew_ms -= HOUR_MS
    coordinator.cluster.put("tea", 2)
    for _ in range(4):
        coordinator.wait(6)
        member.beat()
    assert member.count == 8


# Topics that go


def committed_of_gone(coordinator: Coordinator) -> int | None:
    coordinator.wait(RETRY_SECONDS * 2)
    return coordinator.committed()


def test_a_coordinator_that_loads_forgets_deleted_topics_when_it_can() -> None:
    coordinator = Coordinator()
    coordinator.commit_offset(5)
    coordinator.turn()
    partition = coordinator.service.partition_for(GROUP)
    coordinator.service.resigned(partition, 1)
    coordinator.service.elected(partition, 2)
    coordinator.service.runtime._partitions[partition].state = CoordinatorState.LOADING
    coordinator.service.partitions_deleted([TopicPartition("topic", 0)])
    coordinator.turn()
    coordinator.service.resigned(partition, 3)
    coordinator.service.elected(partition, 4)
    assert committed_of_gone(coordinator) is None


def test_a_coordinator_that_cannot_write_forgets_deleted_topics_when_it_can() -> None:
    coordinator = Coordinator()
    coordinator.commit_offset(5)
    coordinator.turn()
    refuse(coordinator)
    coordinator.service.partitions_deleted([TopicPartition("topic", 0)])
    coordinator.wait(10)
    assert coordinator.committed() == 5
    mend(coordinator)
    assert committed_of_gone(coordinator) is None


def test_a_topic_that_is_made_anew_keeps_its_offsets() -> None:
    coordinator = Coordinator()
    coordinator.commit_offset(5)
    coordinator.turn()
    refuse(coordinator)
    coordinator.service.partitions_deleted([TopicPartition("topic", 0)])
    coordinator.turn()
    coordinator.cluster.put("topic", 1)
    mend(coordinator)
    assert committed_of_gone(coordinator) == 5


# Assignments that are not committed


def test_who_waits_for_an_assignment_that_is_not_committed_is_sent_away_in_time() -> None:
    coordinator = Coordinator()
    members = [Member(coordinator, "a"), Member(coordinator, "b")]
    for member in members:
        member.join()
    coordinator.scheduler.run_until(lambda: all(member.joined for member in members), 60)
    coordinator.log.hold = True
    synced = [member.sync({each.member_id: b"x" for each in members}) for member in members]
    coordinator.wait(5)
    assert [each.result().error_code for each in synced] == [UNAVAILABLE] * 2
    assert coordinator.state() == "PreparingRebalance"
    coordinator.log.hold = False
    coordinator.commit_log()
    for member in members:
        member.join()
    coordinator.wait(1)
    classic_settle(coordinator, *members)
    assert coordinator.state() == "Stable"


def test_a_static_member_whose_new_id_is_not_committed_hears_so_in_time() -> None:
    coordinator = Coordinator()
    member = Member(coordinator, "a", instance_id="i")
    classic_settle(coordinator, member)
    coordinator.log.hold = True
    again = Member(coordinator, "a", instance_id="i")
    joined = again.send_join()
    coordinator.wait(5)
    assert joined.result().error_code == UNAVAILABLE
    coordinator.log.hold = False
    coordinator.commit_log()
    assert coordinator.state() == "Stable"
    last = Member(coordinator, "a", instance_id="i").send_join()
    coordinator.turn()
    assert last.result().error_code == ErrorCode.NONE

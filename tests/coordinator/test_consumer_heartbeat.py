"""Members of a consumer group: joining, epochs, revocation before assignment, sessions, leaving."""

from dataclasses import replace

import pytest
from tests.coordinator.consumers import AT_ONCE, Consumer, described, group_of, settle
from tests.coordinator.coordinator import GROUP, Coordinator
from tests.observability.lines import lines

from ottla.common.errors import (
    ApiError,
    ErrorCode,
    FencedInstanceId,
    FencedMemberEpoch,
    GroupIdNotFound,
    GroupMaxSizeReached,
    InvalidRegularExpression,
    InvalidRequest,
    KafkaStorageError,
    UnknownMemberId,
    UnreleasedInstanceId,
    UnsupportedAssignor,
    UnsupportedVersion,
)
from ottla.coordinator.group.consumer.member import MemberState
from ottla.coordinator.group.settings import GroupSettings
from ottla.metadata.features import FeaturesImage


@pytest.fixture
def coordinator() -> Coordinator:
    coordinator = Coordinator(AT_ONCE)
    coordinator.cluster.put("topic", 6)
    return coordinator


def test_the_first_member_has_everything_at_once(coordinator: Coordinator) -> None:
    member = Consumer(coordinator, "a")
    response = member.join()
    assert (response.member_epoch, response.heartbeat_interval_ms) == (2, 5_000)
    assert member.count == 6
    assert described(coordinator).group_state == "Stable"


def test_a_heartbeat_that_changes_nothing_is_told_nothing(coordinator: Coordinator) -> None:
    member = Consumer(coordinator, "a")
    member.join()
    written = len(coordinator.records())
    assert member.beat().assignment is None
    assert len(coordinator.records()) == written
    assert member.beat(full=True).assignment is not None


def test_a_partition_is_given_only_when_its_owner_has_given_it_up(coordinator: Coordinator) -> None:
    first, second = Consumer(coordinator, "a"), Consumer(coordinator, "b")
    first.join()
    second.join()
    assert (second.epoch, second.count) == (3, 0)
    group = group_of(coordinator)
    assert group.member("b").state is MemberState.UNRELEASED_PARTITIONS
    revoke = first.send(first.request())
    assert revoke.member_epoch == 2
    assert revoke.assignment is not None
    assert group.member("a").state is MemberState.UNREVOKED_PARTITIONS
    second.beat()
    assert second.count == 0
    first.beat(full=True)  # it hears again what it may keep, and gives up the rest
    first.beat()
    assert first.epoch == 3
    second.beat()
    assert (first.count, second.count) == (3, 3)
    assert described(coordinator).group_state == "Stable"


def test_members_that_come_within_the_assignment_interval_wait_for_the_next() -> None:
    coordinator = Coordinator(GroupSettings())
    coordinator.cluster.put("topic", 6)
    first, second = Consumer(coordinator, "a"), Consumer(coordinator, "b")
    first.join()
    second.join()
    assert (second.epoch, second.count) == (2, 0)
    assert described(coordinator).group_state == "Assigning"
    coordinator.wait(1.0)
    second.beat()
    assert second.epoch == 3


def test_a_member_that_is_silent_is_out_and_the_others_take_over(
    coordinator: Coordinator, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "ottla.coordinator.group")
    first, second = Consumer(coordinator, "a"), Consumer(coordinator, "b")
    first.join()
    second.join()
    settle(coordinator, first, second)
    coordinator.wait(30)
    first.beat()
    coordinator.wait(20)
    settle(coordinator, first)
    assert first.count == 6
    with pytest.raises(UnknownMemberId):
        second.beat()
    assert lines(caplog) == [
        f'INFO member fenced member={second.member_id} group=group reason="session expired"'
    ]


def test_a_group_has_a_session_timeout_of_its_own(coordinator: Coordinator) -> None:
    coordinator.cluster.configure(
        GROUP, consumer_session_timeout_ms="60000", consumer_heartbeat_interval_ms="99999"
    )
    member = Consumer(coordinator, "a")
    assert member.join().heartbeat_interval_ms == 15_000  # no more than the broker allows
    coordinator.wait(59)
    member.beat()
    coordinator.wait(61)
    assert described(coordinator).group_state == "Empty"


def test_who_does_not_give_up_in_time_is_out(
    coordinator: Coordinator, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "ottla.coordinator.group")
    first = Consumer(coordinator, "a", rebalance_timeout_ms=10_000)
    second = Consumer(coordinator, "b")
    first.join()
    second.join()
    for _ in range(3):
        coordinator.wait(4)
        first.send(first.request())  # it is alive, but has everything still
    coordinator.wait(4)
    settle(coordinator, second)
    assert second.count == 6
    (told,) = lines(caplog)
    assert told.endswith(f'{first.member_id} group=group reason="partitions not given up in time"')


def test_a_member_leaves(coordinator: Coordinator) -> None:
    first, second = Consumer(coordinator, "a"), Consumer(coordinator, "b")
    first.join()
    second.join()
    settle(coordinator, first, second)
    response = first.leave()
    assert (response.member_id, response.member_epoch) == ("a", -1)
    settle(coordinator, second)
    assert second.count == 6
    second.leave()
    assert described(coordinator).group_state == "Empty"


@pytest.mark.parametrize("epoch", [9, 2])
def test_an_epoch_that_is_not_the_members_is_fenced(coordinator: Coordinator, epoch: int) -> None:
    first, second = Consumer(coordinator, "a"), Consumer(coordinator, "b")
    first.join()
    second.join()
    settle(coordinator, first, second)
    second.leave()
    settle(coordinator, first)
    with pytest.raises(FencedMemberEpoch):
        first.send(first.request(epoch))


def test_the_epoch_before_is_good_as_long_as_an_answer_may_be_lost(
    coordinator: Coordinator,
) -> None:
    first, second = Consumer(coordinator, "a"), Consumer(coordinator, "b")
    first.join()
    second.join()
    settle(coordinator, first, second)
    third = Consumer(coordinator, "c")
    third.join()
    request = second.request()
    for _ in range(2):
        second.beat()
    repeated = second.request(request.member_epoch)
    assert second.send(repeated).member_epoch == second.epoch


def test_a_member_that_comes_back_with_epoch_zero_begins_anew(coordinator: Coordinator) -> None:
    member = Consumer(coordinator, "a")
    member.join()
    assert member.join().member_epoch == 2
    assert member.count == 6


def test_an_unknown_member_and_an_unknown_group(coordinator: Coordinator) -> None:
    member = Consumer(coordinator, "a")
    with pytest.raises(GroupIdNotFound, match=r"Consumer group group not found\."):
        member.send(member.request(3))
    member.join()
    with pytest.raises(UnknownMemberId):
        Consumer(coordinator, "b").send(Consumer(coordinator, "b").request(1))


def test_a_group_has_a_largest_size() -> None:
    coordinator = Coordinator(GroupSettings(consumer_size_max=1))
    coordinator.cluster.put("topic", 1)
    first = Consumer(coordinator, "a")
    first.join()
    with pytest.raises(GroupMaxSizeReached):
        Consumer(coordinator, "b").join()
    first.beat()


def test_a_broker_that_has_no_consumer_protocol_says_so() -> None:
    coordinator = Coordinator(GroupSettings(protocols=("classic",)))
    with pytest.raises(UnsupportedVersion):
        Consumer(coordinator, "a").join()


def test_a_cluster_without_the_feature_has_no_consumer_groups(coordinator: Coordinator) -> None:
    cluster = coordinator.cluster
    cluster.image = replace(cluster.image, features=FeaturesImage())
    with pytest.raises(UnsupportedVersion):
        Consumer(coordinator, "a").join()


def test_who_has_no_member_id_is_given_one_in_the_first_version(coordinator: Coordinator) -> None:
    member = Consumer(coordinator, "")
    assert len(member.send(member.request(), version=0).member_id or "") == 22
    with pytest.raises(InvalidRequest, match="MemberId can't be empty"):
        member.send(member.request())


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"group_id": ""}, InvalidRequest),
        ({"instance_id": ""}, InvalidRequest),
        ({"rack_id": ""}, InvalidRequest),
        ({"rebalance_timeout_ms": -1}, InvalidRequest),
        ({"topic_partitions": None}, InvalidRequest),
        ({"subscribed_topic_names": None}, InvalidRequest),
        ({"member_epoch": -3}, InvalidRequest),
        ({"member_epoch": -2}, InvalidRequest),
        ({"server_assignor": "mine"}, UnsupportedAssignor),
        ({"subscribed_topic_regex": "(["}, InvalidRegularExpression),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(
    coordinator: Coordinator, change: dict[str, object], error: type[ApiError]
) -> None:
    member = Consumer(coordinator, "a")
    request = member.request()
    for name, value in change.items():
        setattr(request, name, value)
    with pytest.raises(error):
        member.send(request)


# Subscriptions and topics


def test_new_partitions_and_new_topics_are_assigned(coordinator: Coordinator) -> None:
    member = Consumer(coordinator, "a", topics=["topic", "later"])
    member.join()
    coordinator.cluster.put("topic", 8)
    member.beat()
    assert member.count == 8
    coordinator.cluster.put("later", 2)
    member.beat()
    assert (member.epoch, member.count) == (4, 10)


def test_a_topic_that_is_deleted_is_taken_away(coordinator: Coordinator) -> None:
    coordinator.cluster.put("other", 2)
    member = Consumer(coordinator, "a", topics=["topic", "other"])
    member.join()
    coordinator.cluster.remove("other")
    member.beat()
    member.beat()
    assert (member.epoch, member.count) == (3, 6)


def test_metadata_that_does_not_concern_the_group_changes_nothing(coordinator: Coordinator) -> None:
    member = Consumer(coordinator, "a")
    member.join()
    written = len(coordinator.records())
    coordinator.cluster.put("other", 3)
    member.beat()
    assert len(coordinator.records()) == written


def test_a_member_that_unsubscribes_gives_up_the_topic_at_once(coordinator: Coordinator) -> None:
    coordinator.cluster.put("other", 2)
    member = Consumer(coordinator, "a", topics=["topic", "other"])
    member.join()
    member.topics = ["other"]
    member.beat(full=True)
    assert member.count == 2


def test_members_choose_the_assignor_by_majority(coordinator: Coordinator) -> None:
    coordinator.cluster.put("other", 6)
    topics = ["topic", "other"]
    members = [Consumer(coordinator, name, topics=topics, assignor="range") for name in "ab"]
    for member in members:
        member.join()
    settle(coordinator, *members)
    assert described(coordinator).assignor_name == "range"
    assert [set(member.owned.values()) for member in members] == [
        {frozenset({0, 1, 2})},
        {frozenset({3, 4, 5})},
    ]


# Regular expressions


def test_a_regular_expression_matches_the_topics_that_there_are(coordinator: Coordinator) -> None:
    coordinator.cluster.put("other", 3)
    member = Consumer(coordinator, "a", regex="to.*")
    member.join()
    assert member.epoch == 1
    coordinator.turn()
    member.beat()
    assert member.count == 6
    assert described(coordinator).members[0].subscribed_topic_regex == "to.*"


def test_a_topic_that_comes_later_is_found_after_a_while(coordinator: Coordinator) -> None:
    member = Consumer(coordinator, "a", regex="t.*")
    member.join()
    coordinator.turn()
    member.beat()
    coordinator.cluster.put("tomorrow", 2)
    member.beat()
    coordinator.turn()
    member.beat()
    assert member.count == 6
    coordinator.wait(11)
    member.beat()
    coordinator.turn()
    member.beat()
    assert member.count == 8


def test_an_expression_goes_with_its_last_member(coordinator: Coordinator) -> None:
    first, second = (Consumer(coordinator, name, regex="t.*") for name in "ab")
    first.join()
    coordinator.turn()
    second.join()
    settle(coordinator, first, second)
    assert (first.count, second.count) == (3, 3)
    first.leave()
    assert list(group_of(coordinator).regexes) == ["t.*"]
    second.leave()
    assert list(group_of(coordinator).regexes) == []


# Static members


def test_a_static_member_that_leaves_for_a_while_keeps_its_partitions(
    coordinator: Coordinator,
) -> None:
    first = Consumer(coordinator, "a", instance_id="one")
    second = Consumer(coordinator, "b", instance_id="two")
    first.join()
    second.join()
    settle(coordinator, first, second)
    before, epoch = first.owned, described(coordinator).group_epoch
    first.leave(-2)
    again = Consumer(coordinator, "c", instance_id="one")
    again.join()
    assert again.owned == before
    assert described(coordinator).group_epoch == epoch
    with pytest.raises(FencedInstanceId):
        first.send(first.request(2))


def test_an_instance_that_is_still_there_cannot_be_replaced(coordinator: Coordinator) -> None:
    Consumer(coordinator, "a", instance_id="one").join()
    with pytest.raises(UnreleasedInstanceId):
        Consumer(coordinator, "b", instance_id="one").join()


def test_a_static_member_that_does_not_come_back_is_out(coordinator: Coordinator) -> None:
    first = Consumer(coordinator, "a", instance_id="one")
    second = Consumer(coordinator, "b")
    first.join()
    second.join()
    settle(coordinator, first, second)
    first.leave(-2)
    for _ in range(2):
        coordinator.wait(30)
        second.beat()
    settle(coordinator, second)
    assert second.count == 6


# Offsets


def test_a_member_commits_with_its_epoch(coordinator: Coordinator) -> None:
    member = Consumer(coordinator, "a")
    member.join()
    assert member.commit(5) is ErrorCode.NONE
    assert member.commit(6, epoch=member.epoch + 1) is ErrorCode.STALE_MEMBER_EPOCH
    assert Consumer(coordinator, "b").commit(6, epoch=1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert coordinator.committed() == 5


def test_a_commit_of_an_older_epoch_is_good_for_what_the_member_kept(
    coordinator: Coordinator,
) -> None:
    first, second = Consumer(coordinator, "a"), Consumer(coordinator, "b")
    first.join()
    second.join()
    settle(coordinator, first, second)
    (kept,), (lost,) = first.owned.values(), second.owned.values()
    assert first.commit(5, partition=min(kept), epoch=2) is ErrorCode.NONE
    assert first.commit(5, partition=min(lost), epoch=2) is ErrorCode.STALE_MEMBER_EPOCH
    assert second.commit(5, partition=min(lost), epoch=2) is ErrorCode.STALE_MEMBER_EPOCH


def test_offsets_are_fetched_with_the_epoch_of_the_member(coordinator: Coordinator) -> None:
    member = Consumer(coordinator, "a")
    member.join()
    member.commit(5)

    def fetch(member_id: str | None, epoch: int) -> ErrorCode:
        service, asked = coordinator.service, [("topic", bytes(16), [0])]
        try:
            coordinator.ask(
                service.fetch_offsets(
                    GROUP, asked, require_stable=False, member_id=member_id, member_epoch=epoch
                )
            )
        except ApiError as error:
            return error.code
        return ErrorCode.NONE

    assert fetch("a", 2) is ErrorCode.NONE
    assert fetch(None, -1) is ErrorCode.NONE
    assert fetch("a", 3) is ErrorCode.STALE_MEMBER_EPOCH
    assert fetch("b", 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_with_members_is_not_deleted_and_an_empty_one_is(coordinator: Coordinator) -> None:
    member = Consumer(coordinator, "a")
    member.join()
    member.commit(5)
    (result,) = coordinator.ask(coordinator.service.delete([GROUP]))
    assert result.error_code == ErrorCode.NON_EMPTY_GROUP
    member.leave()
    (result,) = coordinator.ask(coordinator.service.delete([GROUP]))
    assert result.error_code == ErrorCode.NONE
    assert described(coordinator).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    coordinator.crash()
    assert described(coordinator).error_code == ErrorCode.GROUP_ID_NOT_FOUND


# Restarts and failed writes


def test_a_restart_forgets_nothing(coordinator: Coordinator) -> None:
    members = [
        Consumer(coordinator, "a", instance_id="one"),
        Consumer(coordinator, "b", regex="t.*"),
        Consumer(coordinator, "c"),
    ]
    for member in members:
        member.join()
        coordinator.turn()
    before = described(coordinator)
    coordinator.crash()
    assert described(coordinator) == before
    settle(coordinator, *members)
    assert [member.count for member in members] == [2, 2, 2]


def test_a_session_goes_on_after_a_restart(coordinator: Coordinator) -> None:
    Consumer(coordinator, "a").join()
    coordinator.crash()
    coordinator.wait(46)
    assert described(coordinator).group_state == "Empty"


def test_a_join_that_cannot_be_stored_leaves_no_trace(coordinator: Coordinator) -> None:
    first = Consumer(coordinator, "a")
    first.join()
    before = described(coordinator)
    coordinator.log.refuse = KafkaStorageError()
    assert Consumer(coordinator, "b").beat_code() is ErrorCode.NOT_COORDINATOR
    assert described(coordinator) == before
    coordinator.cluster.put("topic", 7)
    assert first.beat_code() is ErrorCode.NOT_COORDINATOR
    coordinator.log.refuse = None
    first.beat()
    assert first.count == 7

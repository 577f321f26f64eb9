"""A member of a consumer group: what it tells the coordinator, and what becomes of it when lost."""

from collections.abc import Callable, Iterator

import pytest
from tests.client.scripted_broker import TOPIC_ID, ScriptedBroker, metadata
from tests.client.test_cluster import QUICK

from ottla.client.cluster import Cluster
from ottla.client.groups import describe_group, group_offsets
from ottla.client.membership import EMPTY_HANDED_MS, Membership
from ottla.client.system_time import Deadline
from ottla.common.errors import ErrorCode, GroupAuthorizationFailed, UnknownMemberId
from ottla.common.topic_partition import TopicPartition
from ottla.protocol.api import ApiKey
from ottla.protocol.generated.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)
from ottla.protocol.generated.find_coordinator import Coordinator, FindCoordinatorResponse
from ottla.protocol.message import Message

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def answered(epoch: int, *partitions: int, told: bool = True) -> ConsumerGroupHeartbeatResponse:
    topics = [
        ConsumerGroupHeartbeatResponseTopicPartitions(
            topic_id=TOPIC_ID, partitions=list(partitions)
        )
    ]
    return ConsumerGroupHeartbeatResponse(
        member_epoch=epoch,
        heartbeat_interval_ms=60_000,
        assignment=Assignment(topic_partitions=topics if partitions else []) if told else None,
    )


def refused(code: ErrorCode) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=code)


def playing(answers: list[Message]) -> Callable[[Message, int], Message]:
    left = iter(answers)
    return lambda _request, _version: next(left)


class Group:
    """A coordinator that plays its answers one after another."""

    def __init__(self, answers: list[Message]) -> None:
        self.broker = ScriptedBroker(
            {
                ApiKey.METADATA: lambda _request, _version: metadata(self.broker),
                ApiKey.FIND_COORDINATOR: lambda _request, _version: FindCoordinatorResponse(
                    coordinators=[Coordinator(key="g", node_id=0, host="127.0.0.1", port=1)]
                ),
                ApiKey.CONSUMER_GROUP_HEARTBEAT: playing(answers),
            }
        )

    def sent(self) -> list[ConsumerGroupHeartbeatRequest]:
        found = self.broker.requests(ApiKey.CONSUMER_GROUP_HEARTBEAT)
        assert all(isinstance(each, ConsumerGroupHeartbeatRequest) for each in found)
        return found  # type: ignore[return-value]


Joining = Callable[..., tuple[Group, Membership]]


@pytest.fixture
def joined() -> Iterator[Joining]:
    closing: list[Callable[[], None]] = []

    def join(*answers: Message) -> tuple[Group, Membership]:
        group = Group(list(answers))
        group.broker.__enter__()
        cluster = Cluster(group.broker.address, timing=QUICK)
        closing.extend([cluster.close, group.broker.__exit__])
        return group, Membership(cluster, "g", ["t"])

    yield join
    for close in closing:
        close()


def is_due(member: Membership) -> bool:
    return member.due.passed


def is_lost(member: Membership) -> bool:
    return member.is_lost


def test_a_member_joins_takes_what_it_is_given_and_leaves(joined: Joining) -> None:
    group, member = joined(answered(1, 0, 1), answered(1, told=False), answered(-1, told=False))
    assert is_due(member)
    assert member.heartbeat() == [T0, T1]
    assert not is_due(member)
    member.take([T0, T1])
    assert is_due(member), "the coordinator waits for it"
    assert member.heartbeat() is None
    assert not is_due(member)
    member.leave()
    first, second, last = group.sent()
    assert (first.member_epoch, first.subscribed_topic_names) == (0, ["t"])
    assert first.topic_partitions == []
    assert second.topic_partitions is not None
    assert [(each.topic_id, each.partitions) for each in second.topic_partitions] == [
        (TOPIC_ID, [0, 1])
    ]
    assert (second.member_epoch, second.subscribed_topic_names) == (1, None)
    assert last.member_epoch == -1
    assert {each.member_id for each in group.sent()} == {member.member_id}


def test_a_topic_that_is_deleted_while_it_is_held_is_not_told_of(joined: Joining) -> None:
    group, member = joined(answered(1, 0), answered(1, told=False))
    member.heartbeat()
    member.take([T0, TopicPartition("gone", 0)])
    member.heartbeat()
    told = group.sent()[-1].topic_partitions
    assert [each.topic_id for each in told or ()] == [TOPIC_ID]


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH])
def test_a_member_that_was_forgotten_holds_nothing_and_joins_anew(
    joined: Joining, code: ErrorCode
) -> None:
    group, member = joined(answered(4, 0), refused(code), answered(7, 1))
    assert member.heartbeat() == [T0]
    member.take([T0])
    assert member.heartbeat() == []
    assert is_lost(member)
    member.commit({T0: 5})
    assert not group.broker.requests(ApiKey.OFFSET_COMMIT), "it is no member"
    assert member.heartbeat() == [T1]
    assert not is_lost(member)
    assert [each.member_epoch for each in group.sent()] == [0, 4, 0]
    assert group.sent()[-1].subscribed_topic_names == ["t"]


def test_a_topic_that_nobody_can_name_yet_is_asked_for_again(joined: Joining) -> None:
    """The coordinator has heard of it, the broker that tells of topics has not."""
    group, member = joined(answered(1, 0), answered(1, 0), answered(1, told=False))
    hidden = [True]

    def told(_request: Message, _version: int) -> Message:
        answer = metadata(group.broker)
        if hidden:
            answer.topics[0].topic_id = bytes(16)
            answer.topics[0].error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return answer

    group.broker.answers[ApiKey.METADATA] = told
    assert member.heartbeat() == []
    member.take([])
    assert 0 < member.due.milliseconds <= EMPTY_HANDED_MS, "it asks soon, and not at once"
    hidden.clear()
    assert member.heartbeat() == [T0]
    member.take([T0])
    assert member.heartbeat() is None
    second, third = group.sent()[1:]
    assert (second.member_epoch, second.subscribed_topic_names) == (1, ["t"])
    assert second.topic_partitions == []
    assert second.rebalance_timeout_ms > 0
    assert third.subscribed_topic_names is None


def test_what_passes_is_asked_again_and_what_does_not_is_raised(joined: Joining) -> None:
    group, member = joined(
        refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        refused(ErrorCode.NOT_COORDINATOR),
        answered(1),
    )
    assert member.heartbeat() == []
    assert member.due.milliseconds <= EMPTY_HANDED_MS, "it asks again soon"
    assert len(group.sent()) == 3
    _, stranger = joined(refused(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    with pytest.raises(GroupAuthorizationFailed):
        stranger.heartbeat()
    _, unknown = joined(refused(ErrorCode.UNKNOWN_MEMBER_ID))
    with pytest.raises(UnknownMemberId):
        unknown.heartbeat()


def test_two_members_share_a_topic_and_commit(address: str, new_topic: Callable[..., str]) -> None:
    """On ours and on Apache Kafka alike."""
    topic = new_topic(partitions=2)
    parts = {TopicPartition(topic, 0), TopicPartition(topic, 1)}
    with Cluster(address) as one, Cluster(address) as other:
        members = [Membership(one, topic, [topic]), Membership(other, topic, [topic])]
        held: list[set[TopicPartition]] = [set(), set()]

        def settle(wanted: list[int]) -> None:
            deadline = Deadline(one.clock, 30_000)
            while [len(each) for each in held] != wanted or held[0] | held[1] != parts:
                assert not deadline.passed, held
                for at, member in enumerate(members):
                    if wanted[at] == 0 and not held[at]:
                        continue
                    target = member.heartbeat()
                    if target is not None:
                        held[at] = set(target)
                        member.take(target)
                one.clock.wait(0.05)

        settle([2, 0])
        members[0].commit({TopicPartition(topic, 0): 0})
        settle([1, 1])
        members[1].leave()
        held[1] = set()
        settle([2, 0])
        members[0].leave()
        assert group_offsets(one, topic)[TopicPartition(topic, 0)].offset == 0
        assert describe_group(one, topic).state == "Empty"

"""Groups that change their kind while they have members, up and down."""

from struct import pack

import pytest
from tests.coordinator.consumers import AT_ONCE, Consumer, described, group_of
from tests.coordinator.coordinator import GROUP, Coordinator, Member

from ottla.common.errors import ErrorCode, GroupIdNotFound, KafkaStorageError
from ottla.coordinator.group.consumer.embedded import assignment_bytes, read_assignment
from ottla.coordinator.group.settings import GroupSettings
from ottla.protocol.generated.consumer_protocol_assignment import ConsumerProtocolAssignment
from ottla.protocol.generated.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
    TopicPartition,
)
from ottla.protocol.message import to_bytes


@pytest.fixture
def coordinator() -> Coordinator:
    coordinator = Coordinator(AT_ONCE)
    coordinator.cluster.put("topic", 4)
    return coordinator


class Classic(Member):
    """A consumer that speaks the classic protocol and gives up nothing before it must."""

    def __init__(self, coordinator: Coordinator, name: str, instance_id: str | None = None) -> None:
        super().__init__(coordinator, name, instance_id=instance_id)
        self.owned: frozenset[int] = frozenset()
        self.describe_itself()

    def describe_itself(self) -> None:
        topics = [TopicPartition(topic="topic", partitions=sorted(self.owned))]
        body = ConsumerProtocolSubscription(topics=["topic"], owned_partitions=topics)
        self.protocols = {"range": b"\x00\x01" + to_bytes(body, 1)}

    def take(self) -> None:
        """What SyncGroup has brought is what the member has from now on."""
        topics = self.coordinator.cluster.image.topics
        assigned = read_assignment(self.assignment or b"", topics)
        self.owned = next(iter(assigned.values()), frozenset())
        self.describe_itself()

    def rejoin(self) -> None:
        """Join a consumer group, and have its assignment."""
        self.join()
        assert self.joined is not None
        assert self.joined.error_code == ErrorCode.NONE, self.joined.error_code
        self.coordinator.turn()
        self.sync()
        self.coordinator.turn()
        self.take()

    def step(self) -> None:
        """As a client does: heartbeat, and join again when told to."""
        if self.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS:
            self.rejoin()


def classic_group(coordinator: Coordinator, *members: Classic) -> None:
    """A stable classic group in which the members share the topic."""
    for member in members:
        member.join()
    coordinator.scheduler.run_until(lambda: all(member.joined for member in members), 60)
    topics = coordinator.cluster.image.topics
    topic_id = topics.by_name["topic"].topic_id
    parts = {
        member.member_id: assignment_bytes(
            {topic_id: frozenset(range(index, 4, len(members)))}, topics, 1
        )
        for index, member in enumerate(members)
    }
    for member in members:
        member.sync(parts if member.leads else None)
    coordinator.turn()
    for member in members:
        member.take()


def settle(*members: Classic | Consumer) -> None:
    for _ in range(8):
        for member in members:
            member.step() if isinstance(member, Classic) else member.beat()


def held(member: Classic | Consumer) -> frozenset[int]:
    if isinstance(member, Classic):
        return member.owned
    return next(iter(member.owned.values()), frozenset())


def test_a_consumer_that_comes_makes_a_consumer_group_of_a_classic_one(
    coordinator: Coordinator,
) -> None:
    old = [Classic(coordinator, "one"), Classic(coordinator, "two")]
    classic_group(coordinator, *old)
    generation = old[0].generation_id
    new = Consumer(coordinator, "new")
    new.join()
    group = described(coordinator)
    assert (group.group_epoch, len(group.members)) == (generation + 1, 3)
    assert sorted(member.member_type for member in group.members) == [0, 0, 1]
    everybody: list[Classic | Consumer] = [*old, new]
    settle(*everybody)
    shares = [held(member) for member in everybody]
    assert frozenset().union(*shares) == frozenset(range(4))
    assert sum(map(len, shares)) == 4
    assert all(shares)
    assert described(coordinator).group_state == "Stable"
    coordinator.crash()
    settle(*everybody)
    assert [held(member) for member in everybody] == shares


def test_the_group_becomes_classic_again_when_the_last_consumer_goes(
    coordinator: Coordinator,
) -> None:
    old = [Classic(coordinator, "one"), Classic(coordinator, "two")]
    classic_group(coordinator, *old)
    new = Consumer(coordinator, "new")
    new.join()
    settle(*old, new)
    epoch = described(coordinator).group_epoch
    new.leave()
    assert described(coordinator).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert coordinator.state() == "PreparingRebalance"
    assert old[0].heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    classic_group(coordinator, *old)
    assert coordinator.state() == "Stable"
    assert old[0].generation_id > epoch
    coordinator.crash()
    assert [member.heartbeat() for member in old] == [ErrorCode.NONE, ErrorCode.NONE]


def test_the_last_consumer_may_also_fall_silent(coordinator: Coordinator) -> None:
    old = Classic(coordinator, "one")
    classic_group(coordinator, old)
    new = Consumer(coordinator, "new")
    new.join()
    settle(old, new)
    for _ in range(6):
        coordinator.wait(8)
        old.heartbeat()
    assert coordinator.state() == "PreparingRebalance"


def test_a_classic_member_may_be_the_last(coordinator: Coordinator) -> None:
    old, new = Classic(coordinator, "one"), Consumer(coordinator, "new")
    classic_group(coordinator, old)
    new.join()
    settle(old, new)
    old.leave()
    settle(new)
    assert held(new) == frozenset(range(4))
    new.leave()
    assert described(coordinator).group_state == "Empty"


def test_an_empty_group_of_one_kind_becomes_one_of_the_other(coordinator: Coordinator) -> None:
    new = Consumer(coordinator, "new")
    new.join()
    new.commit(5)
    new.leave()
    old = Classic(coordinator, "old")
    classic_group(coordinator, old)
    assert coordinator.state() == "Stable"
    assert coordinator.committed() == 5
    old.leave()
    new.join()
    assert held(new) == frozenset(range(4))
    coordinator.crash()
    assert described(coordinator).group_state == "Stable"
    assert coordinator.committed() == 5


def test_a_static_member_that_comes_back_classic_takes_the_group_down(
    coordinator: Coordinator,
) -> None:
    other = Classic(coordinator, "other")
    classic_group(coordinator, other)
    new = Consumer(coordinator, "new", instance_id="static")
    new.join()
    settle(other, new)
    old = Classic(coordinator, "old", instance_id="static")
    old.owned = frozenset()
    old.join()
    assert old.joined is not None
    assert old.joined.error_code == ErrorCode.NONE
    assert described(coordinator).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert coordinator.group() is not None


@pytest.mark.parametrize(
    ("policy", "upgrades", "downgrades"),
    [("bidirectional", True, True), ("upgrade", True, False), ("disabled", False, False)],
)
def test_the_policy_says_what_may_change(policy: str, upgrades: bool, downgrades: bool) -> None:
    coordinator = Coordinator(GroupSettings(consumer_migration_policy=policy))
    coordinator.cluster.put("topic", 4)
    old, new = Classic(coordinator, "one"), Consumer(coordinator, "new")
    classic_group(coordinator, old)
    if not upgrades:
        with pytest.raises(GroupIdNotFound, match="online upgrade is disabled"):
            new.join()
        return
    new.join()
    new.leave()
    is_classic = described(coordinator).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert is_classic is downgrades


def test_a_group_of_a_custom_assignor_stays_as_it_is(coordinator: Coordinator) -> None:
    old = Classic(coordinator, "one")
    old.join()
    coordinator.scheduler.run_until(lambda: old.joined is not None, 60)
    custom = ConsumerProtocolAssignment(user_data=b"mine")
    old.sync({old.member_id: pack(">h", 1) + to_bytes(custom, 1)})
    coordinator.turn()
    with pytest.raises(GroupIdNotFound, match="custom assignor"):
        Consumer(coordinator, "new").join()
    assert old.heartbeat() == ErrorCode.NONE


def test_an_upgrade_that_cannot_be_stored_leaves_a_classic_group(coordinator: Coordinator) -> None:
    old = Classic(coordinator, "one")
    classic_group(coordinator, old)
    coordinator.log.refuse = KafkaStorageError()
    assert Consumer(coordinator, "new").beat_code() is ErrorCode.NOT_COORDINATOR
    coordinator.log.refuse = None
    assert coordinator.group() is not None
    coordinator.wait(5)
    old.heartbeat()
    coordinator.wait(11)
    assert coordinator.state() in ("Empty", "PreparingRebalance")  # its session counts still


def test_classic_members_are_refused_as_a_classic_group_would(coordinator: Coordinator) -> None:
    old, new = Classic(coordinator, "one"), Consumer(coordinator, "new")
    classic_group(coordinator, old)
    new.join()
    settle(old, new)
    stranger = Member(coordinator, "x", protocols={"other": b""})
    stranger.join()
    assert stranger.joined is not None
    assert stranger.joined.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    old.generation_id += 1
    assert old.heartbeat() == ErrorCode.ILLEGAL_GENERATION
    old.member_id = "new"
    assert old.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    assert GROUP in [
        listed.group_id for listed in coordinator.service.list_groups((), ["consumer"])
    ]
    assert group_of(coordinator).state_name == "Stable"

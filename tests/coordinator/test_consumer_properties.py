"""A consumer group under members that come, go, fall silent and change their minds.

Coordinators crash, writes fail, topics come and grow. Throughout:

- no partition has two owners, in the coordinator's state and in the hands of its members;
- epochs never go back, of the group and of a member that stays;
- a committed offset changes by a commit alone;
- and when all that ends, every partition is read by somebody who wants it.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    rule,
)
from tests.coordinator.consumers import Consumer, described
from tests.coordinator.coordinator import GROUP, Coordinator

from ottla.common.errors import ApiError, ErrorCode, KafkaStorageError
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.settings import GroupSettings

TOPICS = ["topic", "second", "third"]
SUBSCRIPTIONS = st.one_of(
    st.lists(st.sampled_from(TOPICS), min_size=1, unique=True).map(lambda names: (names, None)),
    st.sampled_from(["t.*", "s.*", ".*"]).map(lambda regex: (None, regex)),
)
GONE = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.FENCED_INSTANCE_ID}


class ConsumerGroupMachine(RuleBasedStateMachine):
    members: Bundle[Consumer] = Bundle("members")

    @initialize()
    def start(self) -> None:
        self.coordinator = Coordinator(GroupSettings())
        self.coordinator.cluster.put("topic", 3)
        self.coordinator.cluster.put("__consumer_offsets", 3)
        self.alive: dict[str, Consumer] = {}
        self.numbers = 0
        self.epoch = 1
        self.epochs: dict[str, int] = {}
        self.committed: int | None = None

    # Members

    def _try(self, member: Consumer, *, full: bool = False) -> None:
        """A heartbeat; a member that is told to begin anew gives up everything."""
        try:
            member.beat(full=full)
        except ApiError as error:
            if error.code in GONE:
                self.alive.pop(member.member_id, None)
                member.owned, member.given, member.epoch = {}, {}, -1

    @rule(target=members, subscription=SUBSCRIPTIONS, instance=st.sampled_from([None, "x", "y"]))
    def join(
        self, subscription: tuple[list[str] | None, str | None], instance: str | None
    ) -> Consumer:
        self.numbers += 1
        topics, regex = subscription
        member = Consumer(
            self.coordinator,
            f"member-{self.numbers}",
            topics=topics,
            regex=regex,
            instance_id=instance,
        )
        try:
            member.join()
        except ApiError:
            return member
        self.alive[member.member_id] = member
        for other in list(self.alive.values()):
            if instance is not None and other is not member and other.instance_id == instance:
                self.alive.pop(other.member_id)  # it had left, and this one has its place
        return member

    @rule(member=members)
    def beat(self, member: Consumer) -> None:
        if member.member_id in self.alive:
            self._try(member)

    @rule()
    def all_beat(self) -> None:
        for member in list(self.alive.values()):
            self._try(member)

    @rule(member=members, subscription=SUBSCRIPTIONS)
    def subscribe(
        self, member: Consumer, subscription: tuple[list[str] | None, str | None]
    ) -> None:
        if member.member_id in self.alive:
            names, regex = subscription
            member.topics, member.regex = names or [], regex or ""
            self._try(member, full=True)

    @rule(member=members)
    def lose_an_answer(self, member: Consumer) -> None:
        if member.member_id in self.alive:
            member.is_in_doubt = True
            try:
                member.send(member.request(full=True))
            except ApiError as error:
                if error.code in GONE:
                    self.alive.pop(member.member_id)
                    member.owned, member.given = {}, {}

    @rule(member=consumes(members), for_a_while=st.booleans())
    def leave(self, member: Consumer, for_a_while: bool) -> None:
        if member.member_id not in self.alive:
            return
        epoch = -2 if for_a_while and member.instance_id is not None else -1
        try:
            member.leave(epoch)
        except ApiError:
            return
        self.alive.pop(member.member_id)

    @rule(member=consumes(members))
    def fall_silent(self, member: Consumer) -> None:
        """It still has its partitions, until the coordinator takes it for dead."""
        if self.alive.pop(member.member_id, None) is not None:
            member.owned = {}

    @rule(member=members, offset=st.integers(0, 1000))
    def commit(self, member: Consumer, offset: int) -> None:
        if member.member_id in self.alive and member.commit(offset) is ErrorCode.NONE:
            self.committed = offset

    # The world

    @rule(seconds=st.sampled_from([0.5, 1, 5, 20, 50]))
    def time_passes(self, seconds: float) -> None:
        self.coordinator.wait(seconds)

    @rule(name=st.sampled_from(TOPICS), more=st.integers(1, 2))
    def topic_grows(self, name: str, more: int) -> None:
        cluster = self.coordinator.cluster
        existing = cluster.image.topics.by_name.get(name)
        cluster.put(name, (0 if existing is None else len(existing.partitions)) + more)

    @rule(name=st.sampled_from(TOPICS[1:]))
    def topic_goes(self, name: str) -> None:
        self.coordinator.cluster.remove(name)

    @rule()
    def coordinator_crashes(self) -> None:
        self.coordinator.crash()

    @rule(member=members)
    def a_write_fails(self, member: Consumer) -> None:
        self.coordinator.log.refuse = KafkaStorageError()
        if member.member_id in self.alive:
            self._try(member, full=True)
        self.coordinator.turn()
        self.coordinator.log.refuse = None

    # What must hold

    def _group(self) -> ConsumerGroup | None:
        partition = self.coordinator.service.partition_for(GROUP)
        group = self.coordinator.service.runtime.read(
            partition, lambda shard: shard.groups.get(GROUP)
        )
        assert group is None or isinstance(group, ConsumerGroup)
        return group

    @invariant()
    def no_partition_has_two_owners(self) -> None:
        group = self._group()
        if group is None:
            return
        owners: dict[tuple[bytes, int], str] = {}
        for member in group.members.values():
            for key in member.owned():
                assert key not in owners, f"{member.member_id} and {owners[key]} have {key}"
                owners[key] = member.member_id
        assert owners == dict(group.owners.items())
        held: set[tuple[bytes, int]] = set()
        for consumer in self.alive.values():
            if consumer.member_id not in group.members:
                continue  # its session is over, and it will hear so
            mine = {(topic, each) for topic, parts in consumer.owned.items() for each in parts}
            assert not held & mine
            held |= mine

    @invariant()
    def epochs_never_go_back(self) -> None:
        group = self._group()
        if group is None:
            return
        assert group.epoch >= self.epoch
        assert group.assignment_epoch <= group.epoch
        self.epoch = group.epoch
        for member_id, member in group.members.items():
            if member.epoch >= 0:
                assert member.epoch >= self.epochs.get(member_id, 0)
                assert member.epoch <= group.epoch
                self.epochs[member_id] = member.epoch

    @invariant()
    def an_offset_changes_by_a_commit_alone(self) -> None:
        assert self.coordinator.committed() == self.committed

    def teardown(self) -> None:
        if not hasattr(self, "coordinator"):
            return
        for _ in range(14):  # past sessions, refreshes of expressions and rebalance timeouts
            self.coordinator.wait(12)
            for _ in range(3):
                self.all_beat()
            self.no_partition_has_two_owners()
        if not self.alive:
            return
        group = self._group()
        assert group is not None
        assert described(self.coordinator).group_state == "Stable"
        assert set(group.members) == set(self.alive)
        topics = self.coordinator.cluster.image.topics.by_name
        wanted = {
            (topics[name].topic_id, partition)
            for member in group.members.values()
            for name in group.topics_of(member)
            if name in topics
            for partition in topics[name].partitions
        }
        held = {
            (topic_id, partition)
            for member in self.alive.values()
            for topic_id, partitions in member.owned.items()
            for partition in partitions
        }
        assert held == wanted


TestConsumerGroup = ConsumerGroupMachine.TestCase
TestConsumerGroup.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)

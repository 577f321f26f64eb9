"""Classic groups under everything that may happen to them, in any order.

Clients join, assign, commit, fall silent and come back; writes fail, are committed late, or are
lost; the coordinator forgets all but its log, or moves away and back. Whatever happens:

- nobody is told an assignment that overlaps with another one of the same generation, and no two
  assignments of one generation are ever told,
- each generation that is told is greater than the ones before,
- a committed offset never goes back, and
- a coordinator that loads the log knows what the one before it knew.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.coordinator.coordinator import GROUP, Coordinator, Member

from ottla.common.errors import ApiError, ErrorCode, NotEnoughReplicas, NotLeaderOrFollower
from ottla.common.promise import Promise, run
from ottla.coordinator.group.classic.group import ClassicGroup, ClassicState
from ottla.coordinator.group.service import GROUP_METADATA_TOPIC
from ottla.coordinator.group.settings import GroupSettings
from ottla.protocol.generated.heartbeat import HeartbeatRequest
from ottla.protocol.generated.join_group import JoinGroupResponse
from ottla.protocol.generated.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.generated.offset_commit import OffsetCommitResponse
from ottla.protocol.generated.sync_group import SyncGroupResponse

PARTITIONS = 6
CLIENTS = 4


class Client(Member):
    """Does what a consumer would do next, one step at a time."""

    def __init__(self, coordinator: Coordinator, name: str, instance_id: str | None) -> None:
        super().__init__(coordinator, name, instance_id=instance_id, rebalance_timeout_ms=20_000)
        self.waits = False
        self.connection = 0
        """Answers that come over an earlier one are not heard."""
        self.needs = "join"

    def restart(self) -> None:
        """A new process, which knows nothing of its former self."""
        self.member_id, self.generation_id = "", -1
        self.joined, self.needs = None, "join"
        self.reconnect()

    def reconnect(self) -> None:
        self.connection += 1
        self.waits = False

    def step(self) -> None:
        if self.waits:
            return
        connection = self.connection
        if self.needs == "join":
            self.waits = True
            self.send_join().when_done(lambda done: self.on_join(connection, done))
        elif self.needs == "sync":
            self.waits = True
            syncing = self.sync(self.assignments() if self.leads else None)
            syncing.when_done(lambda done: self.on_sync(connection, done))
        else:
            request = HeartbeatRequest(
                group_id=GROUP,
                generation_id=self.generation_id,
                member_id=self.member_id,
                group_instance_id=self.instance_id,
            )
            beat = run(self.coordinator.scheduler.turn, self.service.heartbeat(request))
            if beat.done:
                try:
                    self.on_error(beat.result().error_code)
                except ApiError as error:
                    self.on_error(error.code)

    def assignments(self) -> dict[str, bytes]:
        """As leader: partitions in turn to the members that we were told of."""
        assert self.joined is not None
        if self.joined.skip_assignment:
            return {}
        members = [member.member_id for member in self.joined.members]
        return {
            member_id: bytes(range(index, PARTITIONS, len(members)))
            for index, member_id in enumerate(members)
        }

    def on_join(self, connection: int, done: Promise[JoinGroupResponse]) -> None:
        if connection != self.connection:
            return
        self.waits = False
        try:
            response = done.result()
        except ApiError as error:
            self.on_error(error.code)
            return
        if response.error_code == ErrorCode.NONE:
            self.joined = response
            self.member_id, self.generation_id = response.member_id, response.generation_id
            self.needs = "sync"
        elif response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
        else:
            self.on_error(response.error_code)

    def on_sync(self, connection: int, done: Promise[SyncGroupResponse]) -> None:
        if connection != self.connection:
            return
        self.waits = False
        try:
            response = done.result()
        except ApiError as error:
            self.on_error(error.code)
            return
        if response.error_code == ErrorCode.NONE:
            self.needs = "heartbeat"
            self.told(response.assignment)
        else:
            self.on_error(response.error_code)

    def told(self, assignment: bytes) -> None:
        raise NotImplementedError

    def on_error(self, code: int) -> None:
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            self.member_id, self.generation_id = "", -1
        elif code == ErrorCode.FENCED_INSTANCE_ID:
            self.restart()
        if code != ErrorCode.NONE:
            self.needs = "join"


class ClassicGroups(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.coordinator = Coordinator(GroupSettings(initial_rebalance_delay_ms=500))
        self.told: dict[int, dict[str, bytes]] = {}
        self.stored_all = True
        self.next_offset = 0
        self.acknowledged = -1
        self.epoch = 0
        self.clients = [self.client(number) for number in range(CLIENTS)]

    def client(self, number: int) -> Client:
        machine = self

        class Watched(Client):
            def told(self, assignment: bytes) -> None:
                owner = self.instance_id or self.member_id
                machine.on_told(self.generation_id, owner, assignment)

        instance_id = f"instance-{number}" if number % 2 else None
        return Watched(self.coordinator, f"client-{number}", instance_id)

    def on_told(self, generation_id: int, owner: str, assignment: bytes) -> None:
        """``owner`` is a member, or an instance, which may be known by several member ids."""
        assert generation_id >= max(self.told, default=0), "a generation came back"
        generation = self.told.setdefault(generation_id, {})
        assert generation.setdefault(owner, assignment) == assignment
        owned = [partition for each in generation.values() for partition in each]
        assert len(owned) == len(set(owned)), "two members own a partition"

    # What happens

    @rule(number=st.integers(0, CLIENTS - 1), times=st.integers(1, 3))
    def client_steps(self, number: int, times: int) -> None:
        for _ in range(times):
            self.clients[number].step()
            self.coordinator.turn()

    @rule(numbers=st.sets(st.integers(0, CLIENTS - 1), min_size=1), rounds=st.integers(1, 10))
    def clients_go_on(self, numbers: set[int], rounds: int) -> None:
        for _ in range(rounds):
            for number in sorted(numbers):
                self.clients[number].step()
            self.coordinator.wait(0.4)

    @rule(number=st.integers(0, CLIENTS - 1))
    def client_leaves(self, number: int) -> None:
        client = self.clients[number]
        if client.member_id and not client.waits:
            member = MemberIdentity(
                member_id=client.member_id, group_instance_id=client.instance_id
            )
            request = LeaveGroupRequest(group_id=GROUP, members=[member])
            run(self.coordinator.scheduler.turn, self.coordinator.service.leave(request))
            self.coordinator.turn()
            client.restart()

    @rule(number=st.integers(0, CLIENTS - 1))
    def client_restarts(self, number: int) -> None:
        self.clients[number].restart()

    @rule(number=st.integers(0, CLIENTS - 1))
    def client_commits(self, number: int) -> None:
        client = self.clients[number]
        offset = self.next_offset = self.next_offset + 1
        client.commit(offset).when_done(lambda done: self.on_commit(offset, done))
        self.coordinator.turn()

    def on_commit(self, offset: int, done: Promise[OffsetCommitResponse]) -> None:
        try:
            done.result()
        except ApiError:
            return
        self.acknowledged = max(self.acknowledged, offset)

    @rule(seconds=st.sampled_from([0.5, 3, 5, 9, 21]))
    def time_passes(self, seconds: float) -> None:
        self.coordinator.wait(seconds)

    @rule()
    def writes_are_refused(self) -> None:
        self.coordinator.log.refuse = NotEnoughReplicas()
        self.stored_all = False

    @rule()
    def writes_are_committed_late(self) -> None:
        self.coordinator.log.hold = True

    @rule()
    def writes_work_again(self) -> None:
        self.coordinator.log.refuse = None
        self.coordinator.log.hold = False
        self.coordinator.commit_log()
        self.coordinator.wait(0.1)

    @rule()
    def coordinator_crashes(self) -> None:
        self.coordinator.crash()
        for client in self.clients:
            client.reconnect()

    @rule()
    def coordinator_moves_away_and_back(self) -> None:
        partition = self.coordinator.service.partition_for(GROUP)
        self.epoch += 2
        self.coordinator.service.resigned(partition, self.epoch - 1)
        self.coordinator.log.lose_uncommitted(
            GROUP_METADATA_TOPIC, partition, NotLeaderOrFollower()
        )
        self.coordinator.service.elected(partition, self.epoch)
        self.coordinator.turn()

    # What holds

    @invariant()
    def a_committed_offset_does_not_go_back(self) -> None:
        found = self.coordinator.committed()
        assert (-1 if found is None else found) >= self.acknowledged

    def is_quiet(self) -> bool:
        log = self.coordinator.log
        group = self.coordinator.group()
        if log.hold or log.refuse or group is None:
            return False
        if group.state is ClassicState.EMPTY:
            return self.stored_all
        return group.state is ClassicState.STABLE

    @precondition(is_quiet)
    @invariant()
    def who_loads_the_log_knows_the_same(self) -> None:
        partition = self.coordinator.service.partition_for(GROUP)
        if self.coordinator.log.high_watermark(
            GROUP_METADATA_TOPIC, partition
        ) < self.coordinator.log.log_end_offset(GROUP_METADATA_TOPIC, partition):
            return
        other = Coordinator(log=self.coordinator.log)
        other.turn()
        assert stored(other.group()) == stored(self.coordinator.group())
        assert other.committed() == self.coordinator.committed()


def stored(group: ClassicGroup | None) -> object:
    assert group is not None
    record = group.to_record({each.member_id: each.assignment for each in group.members.values()})
    record.current_state_timestamp = -1
    record.members.sort(key=lambda member: member.member_id)
    return group.state, record


TestClassicGroups = ClassicGroups.TestCase
TestClassicGroups.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)

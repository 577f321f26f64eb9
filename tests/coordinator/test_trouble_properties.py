"""Groups of both kinds and their offsets under every trouble that their log can have, at length.

Members live as clients do: they join, beat, commit, fetch stable offsets, leave, or die and say
nothing. Meanwhile the log refuses records, commits nothing for longer than every timeout, is full
of what is not committed, is compacted, and moves to a coordinator that begins from it, with a tail
that is not committed; wall clocks are set back and forth; topics grow. However long that goes on,

- every request is answered within its timeout, and

when the trouble is over, soon

- nobody waits any more, and nothing is kept for those that did;
- a consumer that is dead or has left is no member, owns nothing, and has no timers;
- each that lives has its share, and all partitions are somebody's.
"""

from collections.abc import Callable
from operator import attrgetter
from typing import Any, TypeVar

import pytest
from tests.coordinator.consumers import Consumer, partitions_of
from tests.coordinator.coordinator import PARTITIONS, Coordinator, Member

from ottla.common.chance import Chance
from ottla.common.errors import ApiError, ErrorCode, NotEnoughReplicas
from ottla.common.promise import Promise, run, settle_by
from ottla.common.topic_partition import TopicPartition
from ottla.coordinator.group.classic.group import ClassicGroup
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.group import Caller
from ottla.coordinator.group.service import GROUP_METADATA_TOPIC
from ottla.coordinator.group.settings import Bounded, GroupSettings
from ottla.coordinator.outside import EndTransactionMarker
from ottla.coordinator.partition import IN_FLIGHT_MAX
from ottla.protocol.generated.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from ottla.protocol.generated.heartbeat import HeartbeatRequest
from ottla.protocol.generated.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.generated.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

T = TypeVar("T")

TIMEOUT = 5.0
REBALANCE = 30.0
SYNCED = REBALANCE + TIMEOUT + 1.0
"""Others have their rebalance timeout to come, and the assignment must be committed in time."""
JOINED = 2 * SYNCED
HOUR_MS = 3_600_000
GROUPS = ("group", "other")
KINDS = ("consumer", "classic")
TROUBLES = ("refuse", "refuse", "hold", "hold", "move", "clock", "compact", "grow", "full", "gone")
SECONDS = (0.01, 0.5, 3.0, 8.0, 50.0, 120.0)
REST = 400.0
"""Past all sessions, rebalances and intervals, one after the other."""
SETTINGS = GroupSettings(
    consumer_assignment_interval_ms=Bounded(0, 1_000, 15_000), offsets_retention_ms=600_000
)
GONE = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.ILLEGAL_GENERATION,
    }
)


class World:
    def __init__(self, seed: int) -> None:
        self.chance = Chance(seed)
        self.coordinator = Coordinator(SETTINGS)
        self.coordinator.cluster.put("topic", 3)
        self.coordinator.cluster.put("fleeting", 1)
        self.epoch = 0
        self.lives: list[Life] = []
        self.promised: dict[Promise[Any], str] = {}
        self.late: list[str] = []
        self.transactions = 0
        self.open_transactions: dict[int, int] = {}
        """The partitions of those that are not over, by producer id."""

    @property
    def log(self) -> Any:
        return self.coordinator.log

    def pass_by(self, seconds: float) -> Promise[None]:
        over: Promise[None] = Promise(self.coordinator.scheduler.turn)
        self.coordinator.scheduler.call_later(seconds, over.fulfil, None)
        return over

    def ask(
        self, what: str, promise: Promise[T], *, within: float | None = TIMEOUT + 0.1
    ) -> Promise[T]:
        """Remember what was asked until it is answered, and how long that took.

        The client hears it in the next turn, as over a network.
        """
        since = self.coordinator.scheduler.now
        heard: Promise[T] = Promise(self.coordinator.scheduler.turn)

        def came(done: Promise[T]) -> None:
            del self.promised[promise]
            took = self.coordinator.scheduler.now - since
            if within is not None and took > within:
                self.late.append(f"{what} took {took}")
            self.coordinator.scheduler.call_soon(settle_by, heard, done.result)

        self.promised[promise] = what
        promise.when_done(came)
        return heard

    # What goes wrong

    def trouble(self) -> None:
        getattr(self, self.chance.choose(TROUBLES))()

    def refuse(self) -> None:
        self.log.refuse = None if self.log.refuse else NotEnoughReplicas()

    def hold(self) -> None:
        self.log.hold = not self.log.hold
        if not self.log.hold:
            self.commit()

    def commit(self) -> None:
        for partition in range(PARTITIONS):
            self.log.commit(GROUP_METADATA_TOPIC, partition)

    def move(self) -> None:
        """Leadership goes and comes back: all that is not in the log is forgotten."""
        self.epoch += 2
        for partition in range(PARTITIONS):
            self.coordinator.service.resigned(partition, self.epoch - 1)
            self.coordinator.service.elected(partition, self.epoch)

    def clock(self) -> None:
        self.coordinator.scheduler.wall_skew_ms = self.chance.choose((-HOUR_MS, 0, HOUR_MS))

    def compact(self) -> None:
        for partition in range(PARTITIONS):
            self.log.compact(GROUP_METADATA_TOPIC, partition)

    def grow(self) -> None:
        topic = self.coordinator.cluster.image.topics.by_name["topic"]
        if len(topic.partitions) < 8:
            self.coordinator.cluster.put("topic", len(topic.partitions) + 1)

    def full(self) -> None:
        """More is in flight than there is room for."""
        if self.chance.below(4) == 0:
            self.log.hold = True
            for _ in range(IN_FLIGHT_MAX + 10):
                self.ask("commit", self.coordinator.commit_offset(1, group_id=GROUPS[0]))
                self.coordinator.turn()

    def gone(self) -> None:
        self.coordinator.service.partitions_deleted([TopicPartition("fleeting", 0)])

    def heal(self) -> None:
        self.log.refuse = None
        self.log.hold = False
        self.coordinator.scheduler.wall_skew_ms = 0
        self.commit()
        self.coordinator.turn()

    # What goes on

    def begin_life(self) -> None:
        group = self.chance.choose(GROUPS)
        kind = KINDS[GROUPS.index(group)]
        alive = [life for life in self.lives if life.is_alive and life.group == group]
        if len(alive) < 4:
            make = ConsumerLife if kind == "consumer" else ClassicLife
            self.lives.append(make(self, group, len(self.lives)))

    def end_life(self) -> None:
        alive = [life for life in self.lives if life.is_alive]
        if alive:
            self.chance.choose(alive).end(leaves=self.chance.below(2) == 0)

    def commit_offset(self) -> None:
        """Of somebody who is no member, for a group of its own, or in vain."""
        name = self.chance.choose((*GROUPS, "simple"))
        topic = self.chance.choose(("topic", "fleeting"))
        self.ask("commit", self.coordinator.commit_offset(7, group_id=name, topic=topic))

    def fetch_offsets(self) -> None:
        name = self.chance.choose((*GROUPS, "simple"))
        asked = [("topic", bytes(16), [0, 1])]
        service = self.coordinator.service
        self.ask(
            "fetch",
            run(
                self.coordinator.scheduler.turn,
                service.fetch_offsets(name, asked, require_stable=True),
            ),
        )

    def begin_transaction(self) -> None:
        self.transactions += 1
        number = self.transactions
        request = TxnOffsetCommitRequest(
            group_id="simple",
            producer_id=number,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name="topic", partitions=[TxnOffsetCommitRequestPartition(partition_index=0)]
                )
            ],
        )
        service = self.coordinator.service
        self.ask(
            "offsets",
            run(self.coordinator.scheduler.turn, service.commit_transactional_offsets(request, 5)),
        )
        self.open_transactions[number] = service.partition_for("simple")

    def end_transactions(self) -> None:
        for number, partition in self.open_transactions.items():
            self.ask(
                "marker",
                run(self.coordinator.scheduler.turn, self._end(number, partition)),
                within=None,
            )
        self.open_transactions = {}

    async def _end(self, number: int, partition: int) -> None:
        """As a transaction coordinator does: until it is done."""
        marker = EndTransactionMarker(number, 0, 0, number % 2 == 0, 2)
        while True:
            try:
                service = self.coordinator.service
                await self.ask("try", service.complete_transaction(partition, marker))
            except ApiError:
                await self.pass_by(0.2)
            else:
                return

    def walk(self, steps: int) -> None:
        doings: list[Callable[[], None]] = [
            *[self.begin_life] * 4,
            self.end_life,
            self.commit_offset,
            self.fetch_offsets,
            self.begin_transaction,
            self.end_transactions,
            *[self.trouble] * 4,
        ]
        for _ in range(steps):
            self.chance.choose(doings)()
            self.coordinator.wait(self.chance.choose(SECONDS))
        self.heal()
        self.end_transactions()
        self.coordinator.wait(REST)
        self.check()

    # What must be in the end

    def check(self) -> None:
        assert not self.late, self.late
        for life in self.lives:
            life.stop()
        self.coordinator.wait(TIMEOUT)
        assert not self.promised, set(self.promised.values())
        assert self.coordinator.service.runtime.waiting == 0
        topic = self.coordinator.cluster.image.topics.by_name["topic"]
        for name in GROUPS:
            alive = {life.member_id for life in self.lives if life.is_alive and life.group == name}
            group = self._read(name, attrgetter("groups")).get(name)
            if isinstance(group, ConsumerGroup):
                assert set(group.members) == alive
                owners = {index for (_, index) in group.owners if alive}
                assert owners == (set(topic.partitions) if alive else set())
            elif isinstance(group, ClassicGroup):
                assert set(group.members) == alive
                assert group.state_name == ("Stable" if alive else "Empty")
            else:
                assert not alive
            kept = self._read(name, lambda shard: list(shard._timers._timers))
            members = [key[2] for key in kept if isinstance(key, tuple) and len(key) == 3]
            assert set(members) <= {life.member_id for life in self.lives if life.is_alive}
        assert self.coordinator.committed("simple", "fleeting") in (None, 7)

    def _read(self, name: str, what: Callable[[Any], T]) -> T:
        service = self.coordinator.service
        return service.runtime.read(service.partition_for(name), what)


class Life:
    """A member of a group, from its first join to its end."""

    member_id: str

    def __init__(self, world: World, group: str, number: int) -> None:
        self.world = world
        self.group = group
        self.number = number
        self.is_alive = True
        self._goes_on = True
        run(self.world.coordinator.scheduler.turn, self._live()).when_done(
            lambda done: done.result()
        )

    def end(self, *, leaves: bool) -> None:
        self.is_alive = self._goes_on = False
        if leaves:
            self.world.ask("leave", run(self.world.coordinator.scheduler.turn, self.leave()))

    def stop(self) -> None:
        """The test is over."""
        self._goes_on = False

    async def _live(self) -> None:
        while self._goes_on:
            try:
                await self.step()
            except ApiError as error:
                if error.code in GONE:
                    self.begin_again()
            await self.world.pass_by(1.0)

    async def step(self) -> None:
        raise NotImplementedError

    def begin_again(self) -> None:
        raise NotImplementedError

    async def leave(self) -> None:
        raise NotImplementedError


class ConsumerLife(Life):
    def __init__(self, world: World, group: str, number: int) -> None:
        self.consumer = Consumer(
            world.coordinator,
            f"member-{number}",
            regex="t.*" if number % 3 == 0 else None,
            group_id=group,
            rebalance_timeout_ms=30_000,
        )
        self.member_id = self.consumer.member_id
        super().__init__(world, group, number)

    def _send(self, epoch: int) -> Promise[ConsumerGroupHeartbeatResponse]:
        service, caller = self.world.coordinator.service, Caller(1, "client", "/127.0.0.1")
        request = self.consumer.request(epoch, full=True)
        return self.world.ask(
            "beat",
            run(self.world.coordinator.scheduler.turn, service.consumer_heartbeat(request, caller)),
        )

    async def step(self) -> None:
        answer = await self._send(self.consumer.epoch)
        self.consumer.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.consumer.owned = partitions_of(answer.assignment)

    def begin_again(self) -> None:
        self.consumer.epoch, self.consumer.owned = 0, {}

    async def leave(self) -> None:
        try:
            await self._send(-1)
        except ApiError:
            return


class ClassicLife(Life):
    def __init__(self, world: World, group: str, number: int) -> None:
        self.member = Member(
            world.coordinator, f"classic-{number}", group_id=group, rebalance_timeout_ms=30_000
        )
        self.has_joined = False
        super().__init__(world, group, number)

    @property
    def member_id(self) -> str:  # type: ignore[override]
        return self.member.member_id

    async def step(self) -> None:
        if not self.has_joined:
            await self._join()
            return
        request = HeartbeatRequest(
            group_id=self.group,
            generation_id=self.member.generation_id,
            member_id=self.member.member_id,
        )
        service = self.world.coordinator.service
        answer = await self.world.ask(
            "heartbeat", run(self.world.coordinator.scheduler.turn, service.heartbeat(request))
        )
        if answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            self.has_joined = False

    async def _join(self) -> None:
        member = self.member
        answer = await self.world.ask("join", member.send_join(), within=JOINED)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            member.member_id = answer.member_id
            answer = await self.world.ask("join", member.send_join(), within=JOINED)
        if answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
            member.member_id = ""
        if answer.error_code != ErrorCode.NONE:
            return
        member.member_id, member.generation_id = answer.member_id, answer.generation_id
        shares = {each.member_id: b"share" for each in answer.members}
        synced = await self.world.ask("sync", member.sync(shares), within=SYNCED)
        self.has_joined = synced.error_code == ErrorCode.NONE

    def begin_again(self) -> None:
        self.has_joined = False
        self.member.member_id = ""

    async def leave(self) -> None:
        identity = MemberIdentity(member_id=self.member.member_id)
        request = LeaveGroupRequest(group_id=self.group, members=[identity])
        try:
            await self.world.coordinator.service.leave(request)
        except ApiError:
            return


def walk(seed: int, steps: int = 60) -> None:
    World(seed).walk(steps)


def test_groups_come_through_every_trouble_of_their_log() -> None:
    for seed in range(10):
        walk(seed)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_many_groups_come_through_every_trouble_of_their_log(block: int) -> None:
    for seed in range(1_000 + 50 * block, 1_050 + 50 * block):
        walk(seed, 100)

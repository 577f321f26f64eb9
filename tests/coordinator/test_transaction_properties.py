"""Transactions under everything that may happen to them, in any order.

Two producers share a transactional id, in either version of the protocol, and write to partitions
that are real logs; requests and markers arrive late, requests also twice, or nobody waits for
them, partitions have no leader for a while, writes of the coordinator fail, wait for longer than
every timeout, are more than there is room for, or are lost, wall clocks are set back, and the
coordinator forgets all but its log, of which a part may not be committed yet. Whatever happens:

- a reader of committed records sees a transaction whole or not at all, and only when its producer
  asked for the commit,
- once a producer has been given an epoch, one with an earlier epoch appends nothing,
- producer id and epoch never go back,
- a late EndTxn of version 2 never ends the next transaction,
- every request is answered within its timeout, and
- when the trouble is over, every transaction ends, nobody waits at the last stable offset, and
  nothing is kept for those that waited.
"""

from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.coordinator.transaction_cluster import ID, PARTITIONS, SETTINGS, Cluster

from ottla.common.chance import Chance
from ottla.common.errors import ApiError, ErrorCode, NotEnoughReplicas, NotLeaderOrFollower
from ottla.common.promise import Promise, run
from ottla.common.topic_partition import TopicPartition
from ottla.coordinator.partition import IN_FLIGHT_MAX
from ottla.coordinator.transaction.ending import EndTransaction
from ottla.coordinator.transaction.initializing import InitProducerId
from ottla.coordinator.transaction.metadata import ProducerIdAndEpoch
from ottla.coordinator.transaction.service import TRANSACTION_STATE_TOPIC
from ottla.coordinator.transaction.shard import AddPartitions
from ottla.coordinator.transaction.state import TransactionState
from ottla.coordinator.transaction.verification import SupportedOperation
from ottla.records.builder import build_batch
from ottla.records.record import Record

TIMEOUT_MS = 10_000
WALKED = ("0", "0", "1", "1", "commit", "commit", "abort", "init")
ACTIONS = st.sampled_from(WALKED)
"""What a producer does next: a record for a partition, or an end; it begins when it must."""
TROUBLES = ("slow", "late", "down", "refuse", "hold", "crash", "tail", "lose", "clock")
HOUR_MS = 3_600_000
ANSWERED_SECONDS = 2 * SETTINGS.commit_timeout_ms / 1000 + SETTINGS.add_retry_max_ms / 1000 + 0.1
"""A record waits for its partition to be added, and then for the question whether it was."""
WAITING_MAX = 100
"""What two producers may leave behind that waits for a commit."""


FATAL = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_TXN_STATE,
    }
)
"""Upon these a producer has to begin again."""


class Attempt:
    """One transaction, as its producer knows it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.appended: set[tuple[int, bytes]] = set()
        self.commit_asked = False
        self.outcome: bool | None = None
        """Whether it was told that it is committed, or aborted."""


class Client:
    """A transactional producer, one request at a time."""

    def __init__(self, world: "Transactions", version: int) -> None:
        self.world = world
        self.version = version
        self.producer: ProducerIdAndEpoch | None = None
        self.sequences: dict[int, int] = {}
        self.attempt: Attempt | None = None
        self.added: set[int] = set()
        self.waits = False
        self.sends = False
        """Whether it is a record whose answer it waits for."""
        self.gave_up = False
        self.ending: bool | None = None
        """The end that it has asked for, and asks for until it has an answer."""
        self.life = 0
        self.past_ends: list[EndTransaction] = []

    def restart(self, version: int) -> None:
        self.life += 1
        self.version = version
        self.waits = False
        self.producer, self.attempt = None, None

    def ask(self, work: Coroutine[Any, None, Any], told: Any) -> None:
        """Send a request; its answer is heard only in this life."""
        life = self.life
        self.waits, self.sends = True, False

        def heard(done: Promise[Any]) -> None:
            if life != self.life:
                return
            self.waits = False
            try:
                told(done.result())
            except ApiError as error:
                self.refused(error.code)

        promise = run(self.world.cluster.scheduler.turn, work)
        self.world.expect(promise)
        promise.when_done(heard)

    def refused(self, code: ErrorCode) -> None:
        if code in FATAL or self.gave_up:
            self.producer, self.attempt = None, None

    def init(self) -> None:
        request = InitProducerId(ID, TIMEOUT_MS, None)
        self.ask(self.world.cluster.service.init_producer_id(request), self.initialized)

    def initialized(self, producer: ProducerIdAndEpoch) -> None:
        self.producer = producer
        self.sequences = {}
        self.attempt, self.ending, self.gave_up = None, None, False
        self.world.given = max(self.world.given, producer)

    def send(self, index: int) -> None:
        assert self.producer is not None
        if self.attempt is None:
            self.attempt = self.world.new_attempt()
            self.added = set()
        value = b"%d/%d" % (self.attempt.number, self.world.new_number())
        self.ask(self._send(index, value, self.producer, self.attempt), lambda _: None)
        self.sends = True

    def give_up(self) -> None:
        """Wait for a record no longer: abort, while it is on its way, and take a new epoch."""
        self.life += 1
        self.gave_up = True
        self.end(commit=False)

    async def _send(
        self, index: int, value: bytes, producer: ProducerIdAndEpoch, attempt: Attempt
    ) -> None:
        cluster, life, added = self.world.cluster, self.life, self.added
        partition = cluster.partitions[index]
        name = TopicPartition("t", index)
        request = AddPartitions(ID, *producer, frozenset({name}))
        bumps = self.version == 2
        if not bumps and index not in added:
            await cluster.service.add_partitions(request)
            added.add(index)
        sequence = self.sequences.get(index, 0)
        guard = partition.verify(*producer, sequence, supports_epoch_bump=bumps)
        if guard is not None:
            operation = (
                SupportedOperation.ADD_PARTITION if bumps else SupportedOperation.GENERIC_ERROR
            )
            code = (await cluster.verification.verify(request, operation))[name]
            await self.world.network()
            if code is not ErrorCode.NONE:
                if life == self.life:
                    self.refused(code)
                return
        if index in cluster.down:
            return
        now_ms = cluster.scheduler.wall_ms()
        frame = bytearray(
            build_batch(
                [Record(timestamp=now_ms, value=value)],
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                base_sequence=sequence,
                transactional=True,
            )
        )
        partition.append_transactional(memoryview(frame), 0, len(frame), -1, now_ms, guard)
        if producer < self.world.given:
            self.world.wrongs.append("a fenced producer has written")
        attempt.appended.add((index, value))
        if self.attempt is attempt:
            self.sequences[index] = sequence + 1

    def end(self, *, commit: bool) -> None:
        assert self.producer is not None
        attempt = self.attempt
        if commit:
            if attempt is None:
                return  # clients do not commit what they did not begin
            attempt.commit_asked = True
        self.ending = commit
        client_version = 2 if self.version == 2 else 0
        request = EndTransaction(ID, *self.producer, commit, client_version)
        self.past_ends.append(request)

        def ended(producer: ProducerIdAndEpoch) -> None:
            if attempt is not None and self.attempt is attempt:
                attempt.outcome = commit
            self.attempt, self.ending = None, None
            if self.gave_up:
                self.producer = None
            elif self.version == 2:
                self.producer = producer
                self.sequences = {}
                self.world.given = max(self.world.given, producer)

        self.ask(self.world.cluster.service.end(request), ended)


class Transactions(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster()
        self.given = ProducerIdAndEpoch(-1, -1)
        self.highest = ProducerIdAndEpoch(-1, -1)
        self.attempts: list[Attempt] = []
        self._number = 0
        self.clients = [Client(self, 2), Client(self, 1)]
        self.last_seen: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
        self.wrongs: list[str] = []
        self.slow = False
        self.on_the_way: list[Promise[None]] = []
        self.late = False
        self.late_markers: list[Promise[None]] = []
        self.cluster.travel = self.marker_network
        self.promised: dict[Promise[Any], float] = {}
        """What was not answered yet, and when it was asked."""
        self.crowd = 0

    def expect(self, promise: Promise[Any]) -> None:
        if not promise.done:
            self.promised[promise] = self.cluster.scheduler.now
            promise.when_done(self._came)

    def _came(self, done: Promise[Any]) -> None:
        self.promised.pop(done, None)

    def new_attempt(self) -> Attempt:
        self.attempts.append(Attempt(len(self.attempts)))
        return self.attempts[-1]

    def new_number(self) -> int:
        self._number += 1
        return self._number

    def turn(self) -> None:
        self.cluster.scheduler.run_for(0)

    def network(self) -> Promise[None]:
        """The way from the coordinator to the leader of a partition."""
        arrives: Promise[None] = Promise(self.cluster.scheduler.turn)
        self.on_the_way.append(arrives)
        if not self.slow:
            self.deliver()
        return arrives

    def marker_network(self) -> Promise[None]:
        arrives: Promise[None] = Promise(self.cluster.scheduler.turn)
        self.late_markers.append(arrives)
        if not self.late:
            self.deliver_markers()
        return arrives

    def deliver_markers(self) -> None:
        markers, self.late_markers = self.late_markers, []
        for arrives in markers:
            arrives.fulfil(None)

    def deliver(self) -> None:
        on_the_way, self.on_the_way = self.on_the_way, []
        for arrives in on_the_way:
            arrives.fulfil(None)

    # Producers

    @rule(which=st.integers(0, 1), actions=st.lists(ACTIONS, min_size=1, max_size=6))
    def a_producer_acts(self, which: int, actions: list[str]) -> None:
        client = self.clients[which]
        for action in actions:
            if client.waits:
                return
            if client.producer is None or action == "init":
                client.init()
            elif client.ending is not None:
                client.end(commit=client.ending)
            elif action in ("commit", "abort"):
                client.end(commit=action == "commit")
            else:
                client.send(int(action))
            self.turn()

    @rule(which=st.integers(0, 1), back=st.integers(0, 3))
    def an_end_comes_again(self, which: int, back: int) -> None:
        """A request that the network kept; in version 1 it may end the next transaction."""
        client = self.clients[which]
        past = [each for each in client.past_ends if each.client_version == 2]
        if not past:
            return
        late = past[max(-1 - back, -len(past))]
        before = self.cluster.latest()
        self.expect(run(self.cluster.scheduler.turn, self.cluster.service.end(late)))
        self.turn()
        if before is None or before.producer == (late.producer_id, late.producer_epoch):
            return
        if before.state is TransactionState.ONGOING and self.cluster.latest() != before:
            self.wrongs.append("a late end has ended the next transaction")

    @rule(which=st.integers(0, 1), commit=st.booleans())
    def an_end_comes_again_in_the_next_transaction(self, which: int, commit: bool) -> None:
        end = "commit" if commit else "abort"
        self.a_producer_acts(which=which, actions=["0", end, "1"])
        self.an_end_comes_again(which=which, back=0)

    @rule(which=st.integers(0, 1))
    def a_producer_waits_no_longer(self, which: int) -> None:
        client = self.clients[which]
        if client.waits and client.sends and client.producer is not None:
            client.give_up()
            self.turn()

    @rule(which=st.integers(0, 1), index=st.integers(0, PARTITIONS - 1))
    def a_record_comes_after_the_end(self, which: int, index: int) -> None:
        """It was verified while its transaction was open; then the marker came first."""
        was_slow, self.slow = self.slow, True
        self.a_producer_acts(which=which, actions=[str(index)])
        self.a_producer_waits_no_longer(which=which)
        self.cluster.scheduler.run_for(0.2)
        self.slow = was_slow
        if not self.slow:
            self.deliver()
            self.turn()

    @rule(which=st.integers(0, 1), version=st.sampled_from([1, 2]))
    def a_producer_restarts(self, which: int, version: int) -> None:
        self.clients[which].restart(version)

    # The world

    @rule(seconds=st.sampled_from([0.02, 0.2, 3, 12, 90]))
    def time_passes(self, seconds: float) -> None:
        self.cluster.scheduler.run_for(seconds)

    def more_than_there_is_room_for(self) -> None:
        """Other producers come, and nothing is committed."""
        self.cluster.log.hold = True
        for number in range(IN_FLIGHT_MAX + 10):
            request = InitProducerId(f"other-{number}", TIMEOUT_MS, None)
            self.expect(
                run(self.cluster.scheduler.turn, self.cluster.service.init_producer_id(request))
            )
            self.turn()
        self.crowd = IN_FLIGHT_MAX
        self.time_passes(11.0)

    @rule(which=st.integers(0, 1), seconds=st.sampled_from([3, 30]))
    def nothing_is_committed_for_long(self, which: int, seconds: float) -> None:
        """Producers go on asking meanwhile, and what was decided before goes on too."""
        self.a_producer_acts(which=which, actions=["0", "1"])
        self.cluster.down = {0, 1}
        self.a_producer_acts(which=which, actions=["commit"])
        self.cluster.log.hold = True
        self.cluster.down = set()
        for action in ("0", "commit", "init", "1", "abort", "0"):
            self.time_passes(seconds)
            self.a_producer_acts(which=which, actions=[action])
            self.a_producer_acts(which=1 - which, actions=[action])
            self.an_end_comes_again(which=which, back=0)
            self.nobody_waits_for_ever()

    @rule(kind=st.sampled_from(TROUBLES), index=st.integers(0, PARTITIONS - 1))
    def trouble_comes_or_goes(self, kind: str, index: int) -> None:
        log = self.cluster.log
        if kind == "slow":
            self.slow = not self.slow
            if not self.slow:
                self.deliver()
        elif kind == "late":
            self.late = not self.late
            if not self.late:
                self.deliver_markers()
        elif kind == "down":
            self.cluster.down ^= {index}
        elif kind == "clock":
            self.cluster.scheduler.wall_skew_ms = -index * HOUR_MS
        elif kind == "refuse":
            log.refuse = NotEnoughReplicas() if log.refuse is None else None
        elif kind == "hold":
            log.hold = not log.hold
            if not log.hold:
                log.commit(TRANSACTION_STATE_TOPIC, 0)
        else:
            if kind == "lose":
                log.lose_uncommitted(TRANSACTION_STATE_TOPIC, 0, NotLeaderOrFollower())
            if kind == "tail":
                log.hold = True  # the next coordinator finds what is not committed yet
            else:
                log.commit(TRANSACTION_STATE_TOPIC, 0)
            self.late_markers.clear()  # their connections are gone
            self.cluster.crash()
            self.promised.clear()
            self._connections_break()
        self.turn()

    @rule()
    def the_trouble_is_over(self) -> None:
        self.slow = self.late = False
        self.deliver()
        self.deliver_markers()
        self.cluster.down.clear()
        self.cluster.scheduler.wall_skew_ms = 0
        self.cluster.log.refuse = None
        self.cluster.log.hold = False
        self.cluster.log.commit(TRANSACTION_STATE_TOPIC, 0)
        self.turn()

    def _connections_break(self) -> None:
        """Producers that waited try again, with what they have."""
        for client in self.clients:
            if client.waits:
                client.life += 1
                client.waits = False
                client.producer, client.attempt = None, None

    # What must hold

    @invariant()
    def nothing_went_wrong(self) -> None:
        assert not self.wrongs

    @invariant()
    def nobody_waits_for_ever(self) -> None:
        if not self.slow:
            now = self.cluster.scheduler.now
            assert all(now - since <= ANSWERED_SECONDS for since in self.promised.values())
        assert self.cluster.service.runtime.waiting <= WAITING_MAX + self.crowd

    @invariant()
    def epochs_do_not_go_back(self) -> None:
        known = self.cluster.committed()
        if known is not None:
            assert known.producer >= self.highest
            self.highest = known.producer

    @invariant()
    def what_was_seen_stays(self) -> None:
        for index in range(PARTITIONS):
            seen = self.cluster.visible(index)
            assert seen[: len(self.last_seen[index])] == self.last_seen[index]
            self.last_seen[index] = seen

    def teardown(self) -> None:
        cluster = self.cluster
        self.the_trouble_is_over()
        cluster.scheduler.run_for(5 * TIMEOUT_MS / 1000)
        known = cluster.committed()
        assert known is None or known.state.is_idle, "a transaction does not end"
        assert not self.promised
        assert cluster.service.runtime.waiting == 0
        assert not cluster.service.runtime.read(0, lambda shard: len(shard.markers))
        for partition in cluster.partitions:
            assert partition.log.last_stable_offset == partition.log.high_watermark, "it hangs"
        self.check_attempts()

    def check_attempts(self) -> None:
        seen = {(index, v) for index in range(PARTITIONS) for v in self.cluster.visible(index)}
        for attempt in self.attempts:
            visible = {each for each in seen if each[1].startswith(b"%d/" % attempt.number)}
            assert not visible or attempt.commit_asked, "committed, but nobody asked for it"
            assert not visible or attempt.appended <= visible, "a part of a transaction"
            if attempt.outcome is True:
                assert visible >= attempt.appended, "told committed, but is not there"
            if attempt.outcome is False:
                assert not visible, "told aborted, but is there"


TestTransactions = Transactions.TestCase
TestTransactions.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)


def walk(seed: int, steps: int = 30) -> None:
    """The same by plain chance, mostly work and some trouble: it goes deeper in less time."""
    chance = Chance(seed)
    world = Transactions()
    for _ in range(steps):
        share = chance.below(24)
        which = chance.below(2)
        if share < 10:
            actions = [chance.choose(WALKED) for _ in range(chance.below(6) + 1)]
            world.a_producer_acts(which=which, actions=actions)
        elif share < 13:
            world.an_end_comes_again(which=which, back=chance.below(4))
        elif share < 14:
            world.a_producer_restarts(which=which, version=chance.below(2) + 1)
        elif share < 15:
            world.time_passes(seconds=chance.choose((0.02, 0.2, 3.0, 12.0, 90.0)))
            if chance.below(20) == 0:
                world.more_than_there_is_room_for()
            if chance.below(4) == 0:
                world.nothing_is_committed_for_long(which=which, seconds=chance.choose((3.0, 30.0)))
        elif share < 18:
            world.trouble_comes_or_goes(kind=chance.choose(TROUBLES), index=chance.below(2))
        elif share < 19:
            world.an_end_comes_again_in_the_next_transaction(
                which=which, commit=chance.below(2) == 0
            )
        elif share < 20:
            world.a_producer_waits_no_longer(which=which)
        elif share < 22:
            world.a_record_comes_after_the_end(which=which, index=chance.below(2))
        else:
            world.the_trouble_is_over()
        world.nothing_went_wrong()
        world.nobody_waits_for_ever()
        world.epochs_do_not_go_back()
        world.what_was_seen_stays()
    world.teardown()


def test_long_lives_keep_the_same_promises() -> None:
    for seed in range(150):
        walk(seed)


@pytest.mark.parametrize("commit", [True, False])
def test_a_late_end_of_version_2_does_not_end_the_next_transaction(commit: bool) -> None:
    world = Transactions()
    world.a_producer_acts(which=0, actions=["init"])
    world.an_end_comes_again_in_the_next_transaction(which=0, commit=commit)
    world.nothing_went_wrong()
    world.a_producer_acts(which=0, actions=["commit"])
    world.teardown()
    assert [attempt.outcome for attempt in world.attempts] == [commit, True]


@pytest.mark.parametrize("version", [1, 2])
def test_a_record_that_comes_after_its_transaction_ended_is_not_written(version: int) -> None:
    world = Transactions()
    world.a_producer_restarts(which=0, version=version)
    world.a_producer_acts(which=0, actions=["init"])
    world.a_record_comes_after_the_end(which=0, index=0)
    world.nothing_went_wrong()
    world.teardown()
    (attempt,) = world.attempts
    assert (attempt.outcome, attempt.appended) == (False, set())


def test_markers_are_not_sent_again_while_the_end_is_written_but_not_committed() -> None:
    """They would come late, and end what the producer has begun since (seed 275 once)."""
    world = Transactions()
    log, client = world.cluster.log, world.clients[0]
    world.a_producer_restarts(which=0, version=1)
    world.a_producer_acts(which=0, actions=["init", "0", "commit"])
    world.time_passes(seconds=0.2)
    (prepared, complete) = range(2, 4)
    assert len(log.records(TRANSACTION_STATE_TOPIC, 0)) == complete + 1
    log.hold = True
    log.commit(TRANSACTION_STATE_TOPIC, 0, prepared + 1)
    world.late = True
    world.cluster.crash()
    world.time_passes(seconds=1.5)  # the sweep for what was decided and is not ended
    world.trouble_comes_or_goes(kind="hold", index=0)
    world.time_passes(seconds=0.2)
    world.a_producer_acts(which=0, actions=["0"])
    assert client.attempt is not None
    world.trouble_comes_or_goes(kind="late", index=0)
    world.a_producer_acts(which=0, actions=["abort"])
    world.teardown()
    assert [attempt.outcome for attempt in world.attempts] == [True, False]


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_many_long_lives_keep_the_same_promises(block: int) -> None:
    for seed in range(1_000 + 200 * block, 1_200 + 200 * block):
        walk(seed, 60)

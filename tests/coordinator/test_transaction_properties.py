"""Transactions under everything that may happen to them, in any order.

Two producers share a transactional id, in either version of the protocol, and write to partitions
that are real logs; requests arrive late or twice, partitions have no leader for a while, writes of
the coordinator fail, wait or are lost, and the coordinator forgets all but its log. Whatever
happens:

- a reader of committed records sees a transaction whole or not at all, and only when its producer
  asked for the commit,
- once a producer has been given an epoch, one with an earlier epoch appends nothing,
- producer id and epoch never go back,
- a late EndTxn of version 2 never ends the next transaction, and
- when the trouble is over, every transaction ends, and nobody waits at the last stable offset.
"""

from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.coordinator.memory_log import MemoryLog

from ottla.common.chance import Chance
from ottla.common.errors import ApiError, ErrorCode, NotEnoughReplicas, NotLeaderOrFollower
from ottla.common.promise import Promise, fulfilled, run
from ottla.common.topic_partition import TopicPartition
from ottla.config.topic import TopicConfig
from ottla.coordinator.outside import EndTransactionMarker
from ottla.coordinator.transaction.ending import EndTransaction
from ottla.coordinator.transaction.initializing import InitProducerId
from ottla.coordinator.transaction.markers import Codes
from ottla.coordinator.transaction.metadata import ProducerIdAndEpoch, TransactionMetadata
from ottla.coordinator.transaction.service import (
    TRANSACTION_STATE_TOPIC,
    TransactionOutside,
    TransactionService,
)
from ottla.coordinator.transaction.settings import TransactionSettings
from ottla.coordinator.transaction.shard import AddPartitions
from ottla.coordinator.transaction.verification import SupportedOperation, TransactionVerification
from ottla.records.batch import batches, read_header
from ottla.records.builder import build_batch
from ottla.records.control import transaction_marker_batch
from ottla.records.record import Record, iterate
from ottla.replication.partition import Partition
from ottla.simulation.scheduler import SimulatedScheduler
from ottla.storage.log import Log
from ottla.testing.files import MemoryFilesystem

ID = "tx"
NODE_ID = 1
PARTITIONS = 2
TIMEOUT_MS = 10_000
WALKED = ("0", "0", "1", "1", "commit", "commit", "abort", "init")
ACTIONS = st.sampled_from(WALKED)
"""What a producer does next: a record for a partition, or an end; it begins when it must."""
TROUBLES = ("slow", "down", "refuse", "hold", "crash", "lose")
SETTINGS = TransactionSettings(
    timeout_check_interval_ms=1_000, topic_partitions=1, commit_timeout_ms=2_000
)


FATAL = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_TXN_STATE,
    }
)
"""Upon these a producer has to begin again."""


class OnePartition:
    def partition_count(self, topic: str) -> int | None:
        return 1


class ProducerIdsInOrder:
    def __init__(self) -> None:
        self.last = 100

    def next(self) -> Promise[int]:
        self.last += 1
        return fulfilled(self.last)


class Cluster:
    """A coordinator whose log may fail, and partitions that are really there."""

    def __init__(self) -> None:
        self.scheduler = SimulatedScheduler(Chance(7))
        self.log = MemoryLog()
        self.producer_ids = ProducerIdsInOrder()
        self.filesystem = MemoryFilesystem()
        self.filesystem.make_directory("d")
        self.partitions = [self._partition(index) for index in range(PARTITIONS)]
        self.down: set[int] = set()
        self.leader_epoch = 0
        self.start()

    def _partition(self, index: int) -> Partition:
        log = Log.open(
            self.filesystem,
            f"d/t-{index}",
            topic_partition=TopicPartition("t", index),
            topic_id=None,
            config=TopicConfig({}),
            now_ms=self.scheduler.wall_ms(),
        )
        partition = Partition(NODE_ID, "t", bytes(16), index, log)
        partition.lead(NODE_ID, 0, (NODE_ID,))
        return partition

    def start(self) -> None:
        self.service = TransactionService(
            SETTINGS,
            TransactionOutside(
                writer=self.log,
                reader=self.log,
                scheduler=self.scheduler,
                topics=OnePartition(),
                producer_ids=self.producer_ids,
                markers=self,
                version=lambda: 2,
            ),
        )
        self.verification = TransactionVerification(self.service, SETTINGS, self.scheduler)
        self.service.elected(0, self.leader_epoch)
        self.scheduler.run_for(0)

    def crash(self) -> None:
        """Forget everything but the log; what it did not commit may be gone with its leader."""
        now = self.scheduler.now
        self.scheduler = SimulatedScheduler(Chance(7))
        self.scheduler.now = now
        self.log.forget_waiting()
        self.leader_epoch += 1
        self.start()

    def send(
        self, marker: EndTransactionMarker, partitions: tuple[TopicPartition, ...]
    ) -> Promise[Codes]:
        codes: dict[TopicPartition, ErrorCode] = {}
        for each in partitions:
            if each.partition in self.down:
                codes[each] = ErrorCode.NOT_LEADER_OR_FOLLOWER
                continue
            now_ms = self.scheduler.wall_ms()
            batch = transaction_marker_batch(
                commit=marker.committed,
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                coordinator_epoch=marker.coordinator_epoch,
                timestamp=now_ms,
            )
            try:
                self.partitions[each.partition].append_marker(
                    bytes(batch), now_ms, marker.transaction_version
                )
                codes[each] = ErrorCode.NONE
            except ApiError as error:
                codes[each] = error.code
        return fulfilled(codes)

    def committed(self) -> TransactionMetadata | None:
        try:
            return self.service.runtime.read(0, lambda shard: shard.committed(ID))
        except ApiError:
            return None

    def visible(self, index: int) -> list[bytes]:
        """What a reader of committed records has seen so far."""
        log = self.partitions[index].log
        end = log.last_stable_offset
        aborted = sorted(log.aborted_transactions(0, end), key=lambda each: each[1])
        found = log.read(0, 1 << 20, upper_bound_offset=end, at_least_one=True)
        data = b"" if found.region is None else found.region.read()
        values: list[bytes] = []
        dropped: set[int] = set()
        for start, _ in batches(data, 0, len(data)):
            header = read_header(data, start)
            while aborted and aborted[0][1] <= header.base_offset:
                dropped.add(aborted.pop(0)[0])
            if header.is_control:
                dropped.discard(header.producer_id)
            elif header.producer_id not in dropped:
                values += [bytes(record.value or b"") for record in iterate(data, start)]
        return values


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
        self.waits = True

        def heard(done: Promise[Any]) -> None:
            if life != self.life:
                return
            self.waits = False
            try:
                told(done.result())
            except ApiError as error:
                self.refused(error.code)

        run(work).when_done(heard)

    def refused(self, code: ErrorCode) -> None:
        if code in FATAL:
            self.producer, self.attempt = None, None

    def init(self) -> None:
        request = InitProducerId(ID, TIMEOUT_MS, None)
        self.ask(self.world.cluster.service.init_producer_id(request), self.initialized)

    def initialized(self, producer: ProducerIdAndEpoch) -> None:
        self.producer = producer
        self.sequences = {}
        self.attempt = None
        self.world.given = max(self.world.given, producer)

    def send(self, index: int) -> None:
        assert self.producer is not None
        if self.attempt is None:
            self.attempt = self.world.new_attempt()
            self.added = set()
        value = b"%d/%d" % (self.attempt.number, self.world.new_number())
        self.ask(self._send(index, value, self.producer, self.attempt), lambda _: None)

    async def _send(
        self, index: int, value: bytes, producer: ProducerIdAndEpoch, attempt: Attempt
    ) -> None:
        cluster = self.world.cluster
        partition = cluster.partitions[index]
        name = TopicPartition("t", index)
        request = AddPartitions(ID, *producer, frozenset({name}))
        if self.version == 1 and index not in self.added:
            await cluster.service.add_partitions(request)
            self.added.add(index)
        bumps = self.version == 2
        sequence = self.sequences.get(index, 0)
        guard = partition.verify(*producer, sequence, supports_epoch_bump=bumps)
        if guard is not None:
            operation = (
                SupportedOperation.ADD_PARTITION if bumps else SupportedOperation.GENERIC_ERROR
            )
            code = (await cluster.verification.verify(request, operation))[name]
            await self.world.network()
            if code is not ErrorCode.NONE:
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
        client_version = 2 if self.version == 2 else 0
        request = EndTransaction(ID, *self.producer, commit, client_version)
        self.past_ends.append(request)

        def ended(producer: ProducerIdAndEpoch) -> None:
            if attempt is not None and self.attempt is attempt:
                attempt.outcome = commit
            self.attempt = None
            if self.version == 2:
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
        arrives: Promise[None] = Promise()
        self.on_the_way.append(arrives)
        if not self.slow:
            self.deliver()
        return arrives

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
            elif action in ("commit", "abort"):
                client.end(commit=action == "commit")
            else:
                client.send(int(action))
            self.turn()

    @rule(which=st.integers(0, 1), back=st.integers(0, 3))
    def an_end_comes_again(self, which: int, back: int) -> None:
        """A request that the network kept; in version 1 it may end the next transaction."""
        client = self.clients[which]
        late = [each for each in client.past_ends if each.client_version == 2]
        if back < len(late):
            run(self.cluster.service.end(late[-1 - back])).when_done(lambda _: None)
            self.turn()

    @rule(which=st.integers(0, 1), version=st.sampled_from([1, 2]))
    def a_producer_restarts(self, which: int, version: int) -> None:
        self.clients[which].restart(version)

    # The world

    @rule(seconds=st.sampled_from([0.02, 0.2, 3, 12]))
    def time_passes(self, seconds: float) -> None:
        self.cluster.scheduler.run_for(seconds)

    @rule(kind=st.sampled_from(TROUBLES), index=st.integers(0, PARTITIONS - 1))
    def trouble_comes_or_goes(self, kind: str, index: int) -> None:
        log = self.cluster.log
        if kind == "slow":
            self.slow = not self.slow
            if not self.slow:
                self.deliver()
        elif kind == "down":
            self.cluster.down ^= {index}
        elif kind == "refuse":
            log.refuse = NotEnoughReplicas() if log.refuse is None else None
        elif kind == "hold":
            log.hold = not log.hold
            if not log.hold:
                log.commit(TRANSACTION_STATE_TOPIC, 0)
        else:
            if kind == "lose":
                log.lose_uncommitted(TRANSACTION_STATE_TOPIC, 0, NotLeaderOrFollower())
            log.commit(TRANSACTION_STATE_TOPIC, 0)
            self.cluster.crash()
            self._connections_break()
        self.turn()

    @rule()
    def the_trouble_is_over(self) -> None:
        self.slow = False
        self.deliver()
        self.cluster.down.clear()
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
        share = chance.below(20)
        which = chance.below(2)
        if share < 10:
            actions = [chance.choose(WALKED) for _ in range(chance.below(6) + 1)]
            world.a_producer_acts(which=which, actions=actions)
        elif share < 13:
            world.an_end_comes_again(which=which, back=chance.below(4))
        elif share < 14:
            world.a_producer_restarts(which=which, version=chance.below(2) + 1)
        elif share < 15:
            world.time_passes(seconds=chance.choose((0.02, 0.2, 3.0, 12.0)))
        elif share < 18:
            world.trouble_comes_or_goes(kind=chance.choose(TROUBLES), index=chance.below(2))
        else:
            world.the_trouble_is_over()
        world.nothing_went_wrong()
        world.epochs_do_not_go_back()
        world.what_was_seen_stays()
    world.teardown()


def test_long_lives_keep_the_same_promises() -> None:
    for seed in range(150):
        walk(seed)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_many_long_lives_keep_the_same_promises(block: int) -> None:
    for seed in range(1_000 + 200 * block, 1_200 + 200 * block):
        walk(seed, 60)

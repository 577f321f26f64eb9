"""What much of everything may cost: as much more as there is more of it, and no turn for long."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import pairwise

from tests.coordinator.coordinator import GROUP, Coordinator
from tests.coordinator.transaction_cluster import ID, Cluster
from tests.handlers.transactions import TransactionBroker

from ottla.common.errors import ApiError, ErrorCode
from ottla.common.promise import run
from ottla.common.topic_partition import TopicPartition
from ottla.coordinator.group.records import GroupRecord
from ottla.coordinator.group.settings import GroupSettings
from ottla.coordinator.group.shard import GroupShard
from ottla.coordinator.outside import Producer
from ottla.coordinator.shard import Outcome
from ottla.coordinator.sweep import SLICE
from ottla.coordinator.transaction.ending import EndTransaction
from ottla.coordinator.transaction.initializing import InitProducerId
from ottla.coordinator.transaction.service import TRANSACTION_STATE_TOPIC
from ottla.coordinator.transaction.settings import TransactionSettings
from ottla.coordinator.transaction.shard import AddPartitions, TransactionShard
from ottla.coordinator.transaction.state import TransactionState
from ottla.handlers import txn_offset_commit
from ottla.protocol.generated.offset_commit import OffsetCommitRequestPartition
from ottla.protocol.generated.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

TIMES = 8
LINEAR = 3 * TIMES
"""So much more may cost eight times as much work: a square would be 64."""


def growth(cost: Callable[[int], float], size: int) -> float:
    """How much more ``TIMES`` as much costs, at best of a few tries."""
    small = min(cost(size) for _ in range(3))
    return min(cost(TIMES * size) for _ in range(3)) / small


def seconds_of(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


# Requests


def txn_offset_commit_seconds(topics: int, partitions: int) -> float:
    """Every other partition is unknown."""
    broker = TransactionBroker()
    producer = broker.producer()
    names = ["t", *(f"nope-{number}" for number in range(topics - 1))]
    request = TxnOffsetCommitRequest(
        transactional_id=ID,
        group_id="g",
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        topics=[
            TxnOffsetCommitRequestTopic(
                name=name,
                partitions=[
                    TxnOffsetCommitRequestPartition(partition_index=index % 2 * (index + 1))
                    for index in range(partitions)
                ],
            )
            for name in names
        ],
    )
    answers: list[TxnOffsetCommitResponse] = []
    took = seconds_of(
        lambda: answers.append(broker.ask(txn_offset_commit, request, 5, TxnOffsetCommitResponse))
    )
    (answer,) = answers
    codes = [each.error_code for topic in answer.topics for each in topic.partitions]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes.count(unknown) == topics * partitions - partitions // 2
    assert len(answer.topics) == topics
    return took


def test_offsets_of_many_unknown_partitions_cost_by_their_number() -> None:
    assert growth(lambda size: txn_offset_commit_seconds(1, size), 500) < LINEAR


def test_offsets_of_many_unknown_topics_cost_by_their_number() -> None:
    assert growth(lambda size: txn_offset_commit_seconds(size, 2), 250) < LINEAR


# Expiry


RETENTION = GroupSettings(offsets_retention_ms=1_000)
UNTIL_CHECKED = 601.0


def busy_coordinator(
    offsets: int, transactions: int, settings: GroupSettings = RETENTION
) -> Coordinator:
    """Many offsets of one group, and as many open transactions in others on its partition."""
    coordinator = Coordinator(settings)
    runtime, partition = coordinator.service.runtime, coordinator.service.partition_for(GROUP)
    request = coordinator.commit_request(1)
    request.topics[0].partitions = [
        OffsetCommitRequestPartition(partition_index=index) for index in range(offsets)
    ]
    run(coordinator.scheduler.turn, coordinator.service.commit_offsets(request, 9))
    for number in range(transactions):
        commit = TxnOffsetCommitRequest(
            group_id=f"other-{number}",
            topics=[
                TxnOffsetCommitRequestTopic(
                    name="topic", partitions=[TxnOffsetCommitRequestPartition(partition_index=0)]
                )
            ],
        )
        runtime.write_transactional(
            partition,
            Producer(number, 0, None),
            partial(commit_in_transaction, commit),
        )
    coordinator.turn()
    return coordinator


def commit_in_transaction(
    request: TxnOffsetCommitRequest, shard: GroupShard, now_ms: int
) -> Outcome[GroupRecord, TxnOffsetCommitResponse]:
    return shard.offsets.commit_transactional(request, now_ms)


def expiry_seconds(offsets: int, transactions: int) -> float:
    coordinator = busy_coordinator(offsets, transactions)
    took = seconds_of(lambda: coordinator.wait(UNTIL_CHECKED))
    assert coordinator.committed() is None
    return took


def test_expiry_costs_by_the_number_of_offsets_and_of_transactions() -> None:
    assert growth(lambda size: expiry_seconds(size, size), 250) < LINEAR


def test_others_are_served_while_many_offsets_expire() -> None:
    coordinator = busy_coordinator(10 * SLICE, 0)
    partition = coordinator.service.partition_for(GROUP)
    left: list[int] = []

    def look() -> None:
        """Once in each turn, as any request might."""
        found = coordinator.service.runtime.read(
            partition, lambda shard: len(shard.offsets.of_group(GROUP))
        )
        left.append(found)
        if found:
            coordinator.scheduler.call_soon(look)

    check_ms = RETENTION.offsets_retention_check_interval_ms
    left.append(10 * SLICE)
    coordinator.scheduler.call_at(check_ms / 1000, look, ())
    coordinator.wait(UNTIL_CHECKED)
    assert left[-1] == 0
    assert max(before - after for before, after in pairwise(left)) <= SLICE
    assert coordinator.group() is None


def test_a_walk_that_is_longer_than_the_interval_of_checks_comes_to_its_end() -> None:
    """Each turn takes longer than the interval: what came behind a slice was never looked at."""
    settings = replace(RETENTION, offsets_retention_check_interval_ms=1)
    coordinator = busy_coordinator(3 * SLICE, 0, settings)
    here = coordinator.service.partition_for(GROUP)
    names = (f"last-{number}" for number in range(1_000))
    last = next(name for name in names if coordinator.service.partition_for(name) == here)
    run(
        coordinator.scheduler.turn,
        coordinator.service.commit_offsets(coordinator.commit_request(1, group_id=last), 9),
    )
    call_later = coordinator.scheduler.call_later
    coordinator.scheduler.call_later = (  # type: ignore[method-assign]
        lambda seconds, call, *args: call_later(max(seconds, 0.002), call, *args)
    )
    coordinator.wait(0.9)
    again = coordinator.commit_request(2)
    again.topics[0].partitions = [
        OffsetCommitRequestPartition(partition_index=index) for index in range(3 * SLICE)
    ]
    run(coordinator.scheduler.turn, coordinator.service.commit_offsets(again, 9))
    assert coordinator.group(last) is not None
    coordinator.wait(0.3)
    assert coordinator.group() is not None
    assert coordinator.group(last) is None


# Many transactional ids


ABORTED, EXPIRED = 100.0, 190.0
"""The moments of the first checks."""


def many_transactional_ids() -> Cluster:
    """Three slices of them, each with an open transaction of its own."""
    settings = TransactionSettings(
        timeout_check_interval_ms=int(ABORTED * 1000),
        expiration_ms=50_000,
        expiration_check_interval_ms=int(EXPIRED * 1000),
        topic_partitions=1,
    )
    cluster = Cluster(settings)
    for number in range(3 * SLICE):
        transactional_id = f"tx-{number}"
        init = InitProducerId(transactional_id, 60_000, None)
        producer = cluster.ask(cluster.service.init_producer_id(init))
        partitions = frozenset({TopicPartition("t", 0)})
        add = AddPartitions(transactional_id, *producer, partitions, 2)
        cluster.ask(cluster.service.add_partitions(add))
    return cluster


def largest_change_in_a_turn(
    cluster: Cluster, count: Callable[[TransactionShard], int], *, first: int, last: int
) -> int:
    """Look once in each turn of this moment, as any request might, until there are ``last``."""
    counts = [first]

    def look() -> None:
        with suppress(ApiError):  # it is being loaded
            counts.append(cluster.service.runtime.read(0, count))
        if counts[-1] != last:
            cluster.scheduler.call_soon(look)

    look()
    cluster.scheduler.run_for(0)
    assert counts[-1] == last
    return max(abs(before - after) for before, after in pairwise(counts))


def in_state(shard: TransactionShard, state: TransactionState) -> int:
    return sum(each.state is state for each in shard.transactions.values())


def test_many_transactions_are_aborted_and_their_ids_expire_slice_by_slice() -> None:
    cluster = many_transactional_ids()
    cluster.scheduler.now = ABORTED
    ongoing = partial(in_state, state=TransactionState.ONGOING)
    aborted = largest_change_in_a_turn(cluster, ongoing, first=3 * SLICE, last=0)
    assert aborted <= SLICE
    cluster.scheduler.run_for(EXPIRED - ABORTED - 1)
    cluster.scheduler.now = EXPIRED
    expired = largest_change_in_a_turn(
        cluster, lambda shard: len(shard.transactions), first=3 * SLICE, last=0
    )
    assert expired <= SLICE


def test_ends_that_were_decided_are_carried_out_by_a_new_coordinator_slice_by_slice() -> None:
    cluster = many_transactional_ids()
    cluster.down = {0}
    cluster.scheduler.run_for(ABORTED + 1)
    cluster.service.resigned(0)
    cluster.service.elected(0, 1)
    begun = largest_change_in_a_turn(
        cluster, lambda shard: len(shard.markers), first=0, last=3 * SLICE
    )
    assert begun <= SLICE
    cluster.down = set()
    cluster.scheduler.run_for(2)
    done = cluster.service.runtime.read(0, partial(in_state, state=TransactionState.COMPLETE_ABORT))
    assert done == 3 * SLICE


# Transactions whose end is not committed


def test_transactions_that_cannot_be_completed_cost_the_same_for_however_long() -> None:
    """All markers are written; that all is done is in the log, but not committed."""
    cluster = Cluster()
    count = 100
    for number in range(count):
        transactional_id = f"tx-{number}"
        init = InitProducerId(transactional_id, 60_000, None)
        producer = cluster.ask(cluster.service.init_producer_id(init))
        partitions = frozenset({TopicPartition("t", 0)})
        add = AddPartitions(transactional_id, *producer, partitions, 2)
        cluster.ask(cluster.service.add_partitions(add))
        cluster.down = {0, 1}
        end = EndTransaction(transactional_id, *producer, commit=True, client_version=2)
        cluster.ask(cluster.service.end(end))
    cluster.log.hold = True
    cluster.down = set()
    cluster.scheduler.run_for(10)
    waiting, appends = cluster.service.runtime.waiting, cluster.log.appends
    steps = cluster.scheduler.steps
    assert waiting <= 2 * count
    cluster.scheduler.run_for(600)
    assert cluster.service.runtime.waiting <= waiting
    assert cluster.log.appends == appends
    assert cluster.scheduler.steps - steps < 5 * 600  # what looks for late ones, every second
    cluster.log.hold = False
    cluster.log.commit(TRANSACTION_STATE_TOPIC, 0)
    cluster.scheduler.run_for(1)
    assert cluster.service.runtime.waiting == 0
    for number in range(count):
        assert cluster.service.describe(f"tx-{number}").state is TransactionState.COMPLETE_COMMIT

"""What coordinators write is done when all replicas in sync have it, and never on an old word."""

import pytest
from tests.handlers.broker import NODE_ID
from tests.handlers.groups import GroupBroker
from tests.replication.states import lead
from tests.turns import TURN

from ottla.common.errors import (
    ApiError,
    ErrorCode,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    OffsetNotAvailable,
)
from ottla.common.promise import Promise, run
from ottla.common.topic_partition import TopicPartition
from ottla.coordinator.group.service import GROUP_METADATA_TOPIC
from ottla.coordinator.outside import EndTransactionMarker
from ottla.protocol.generated.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.records.builder import build_batch
from ottla.records.record import Record
from ottla.replication.partition import Partition
from ottla.server.transaction_markers import LedMarkers

ALL = (NODE_ID, 2, 3)
GROUP = "g"
MARKER = EndTransactionMarker(
    producer_id=9, producer_epoch=4, coordinator_epoch=6, committed=True, transaction_version=2
)


class ReplicatedBroker(GroupBroker):
    """Its partitions have followers on brokers that are not here: the test speaks for them."""

    def __init__(self) -> None:
        super().__init__()
        for topic in (GROUP_METADATA_TOPIC, "t"):
            for partition in (self.replicas.topic(topic) or {}).values():
                lead(partition, NODE_ID, 1, ALL, replicas=ALL)

    def offsets(self) -> Partition:
        return self.partition(GROUP_METADATA_TOPIC, self.groups.partition_for(GROUP))

    def begin_commit(self, offset: int) -> Promise[OffsetCommitResponse]:
        asked = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        request = OffsetCommitRequest(
            group_id=GROUP, topics=[OffsetCommitRequestTopic(name="t", partitions=[asked])]
        )
        answer = run(TURN, self.groups.commit_offsets(request, 9))
        self.scheduler.run_for(0)
        return answer

    def committed(self, *, require_stable: bool = False) -> Promise[int | None]:
        return run(TURN, self._committed(require_stable))

    async def _committed(self, require_stable: bool) -> int | None:
        asked = [("t", bytes(16), [0])]
        found = await self.groups.fetch_offsets(GROUP, asked, require_stable=require_stable)
        ((_, _, [(_, offset)]),) = found
        return None if isinstance(offset, ErrorCode) else offset.offset


def follow(partition: Partition, *brokers: int) -> None:
    """Let followers fetch up to the end."""
    for broker in brokers:
        partition.fetch_as_follower(
            broker,
            -1,
            partition.log.log_end_offset,
            1 << 20,
            partition.leader_epoch,
            at_least_one=False,
            log_start_offset=0,
        )


@pytest.fixture
def broker() -> ReplicatedBroker:
    return ReplicatedBroker()


def code_of(promise: Promise[OffsetCommitResponse]) -> ErrorCode:
    with pytest.raises(ApiError) as refusal:
        promise.result()
    return refusal.value.code


def test_an_offset_is_committed_when_the_whole_isr_has_it(broker: ReplicatedBroker) -> None:
    answer = broker.begin_commit(5)
    assert not answer.done
    follow(broker.offsets(), 2)
    assert not answer.done
    follow(broker.offsets(), 3)
    assert answer.result().topics[0].partitions[0].error_code == ErrorCode.NONE


def test_nobody_is_shown_an_offset_that_may_still_be_lost(broker: ReplicatedBroker) -> None:
    broker.begin_commit(5)
    stable = broker.committed(require_stable=True)
    assert broker.committed().result() is None
    assert not stable.done
    follow(broker.offsets(), 2, 3)
    assert stable.result() == 5
    assert broker.committed().result() == 5


def test_a_leader_that_is_replaced_acknowledges_nothing_and_is_no_coordinator(
    broker: ReplicatedBroker,
) -> None:
    answer = broker.begin_commit(5)
    partition = broker.offsets()
    lead(partition, 2, 2, ALL, replicas=ALL)
    broker.groups.resigned(partition.index, 2)
    assert code_of(answer) is ErrorCode.NOT_COORDINATOR
    assert code_of(broker.begin_commit(6)) is ErrorCode.NOT_COORDINATOR
    broker.scheduler.run_for(1)


def test_between_a_lost_leadership_and_the_word_of_it_nothing_is_acknowledged(
    broker: ReplicatedBroker,
) -> None:
    first, second = broker.begin_commit(5), broker.begin_commit(6)
    lead(broker.offsets(), 2, 2, ALL, replicas=ALL)
    assert code_of(first) is ErrorCode.NOT_COORDINATOR
    assert code_of(second) is ErrorCode.NOT_COORDINATOR
    broker.scheduler.run_for(1)
    assert code_of(broker.begin_commit(7)) is ErrorCode.NOT_COORDINATOR


def test_a_leader_whom_nobody_follows_any_more_says_after_a_while_that_it_cannot(
    broker: ReplicatedBroker,
) -> None:
    answer = broker.begin_commit(5)
    broker.scheduler.run_for(6)
    assert code_of(answer) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    follow(broker.offsets(), 2, 3)
    assert broker.committed().result() == 5  # it was in the log, and so it may yet count


def test_with_too_few_replicas_nothing_is_written_and_the_state_goes_back(
    broker: ReplicatedBroker,
) -> None:
    partition = broker.offsets()
    lead(partition, NODE_ID, 1, (NODE_ID,), replicas=ALL)
    partition.min_insync_replicas = 2
    assert code_of(broker.begin_commit(5)) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert partition.log.log_end_offset == 0
    assert broker.committed(require_stable=True).result() is None


def test_what_is_appended_tells_of_its_failure_as_the_log_does(broker: ReplicatedBroker) -> None:
    batch = bytes(build_batch([Record(timestamp=1, key=b"k", value=b"v")]))
    appended = broker.internal.append("t", 0, batch)
    partition = broker.partition("t", 0)
    lead(partition, 2, 2, ALL, replicas=ALL)
    with pytest.raises(NotLeaderOrFollower):
        appended.result()
    lead(partition, NODE_ID, 3, (NODE_ID,), replicas=ALL)
    partition.min_insync_replicas = 2
    with pytest.raises(NotEnoughReplicas):
        broker.internal.append("t", 0, batch).result()


class Markers:
    def __init__(self, broker: ReplicatedBroker) -> None:
        self.broker = broker
        self._markers = LedMarkers(
            broker.replicas, broker.metadata, broker.groups, broker.scheduler, timeout_ms=1_000
        )

    def write(self, topic: str = "t") -> Promise[ErrorCode]:
        async def write() -> ErrorCode:
            partition = TopicPartition(topic, 0)
            return (await self._markers.send(MARKER, (partition,)))[partition]

        return run(TURN, write())


@pytest.mark.parametrize("topic", ["t", GROUP_METADATA_TOPIC])
def test_a_marker_is_written_when_the_whole_isr_has_it(
    broker: ReplicatedBroker, topic: str
) -> None:
    answer = Markers(broker).write(topic)
    follow(broker.partition(topic, 0), 2)
    assert not answer.done
    follow(broker.partition(topic, 0), 3)
    assert answer.result() is ErrorCode.NONE


@pytest.mark.parametrize("topic", ["t", GROUP_METADATA_TOPIC])
def test_a_marker_that_is_not_committed_in_time_may_be_sent_again(
    broker: ReplicatedBroker, topic: str
) -> None:
    answer = Markers(broker).write(topic)
    broker.scheduler.run_for(6)
    assert answer.result() is ErrorCode.REQUEST_TIMED_OUT
    follow(broker.partition(topic, 0), 2, 3)


def test_a_group_coordinator_that_is_not_there_is_told_as_a_leader_that_is_not(
    broker: ReplicatedBroker,
) -> None:
    lead(broker.partition(GROUP_METADATA_TOPIC, 0), 2, 2, ALL, replicas=ALL)
    broker.groups.resigned(0, 2)
    answer = Markers(broker).write(GROUP_METADATA_TOPIC)
    assert answer.result() is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_new_leader_tells_no_end_before_it_knows_what_is_committed(
    broker: ReplicatedBroker,
) -> None:
    """Its high watermark is old until its followers fetch: records below its end may count."""
    offsets = broker.offsets()
    broker.begin_commit(5)
    end = offsets.log.log_end_offset
    lead(offsets, NODE_ID, 2, ALL, replicas=ALL)
    assert offsets.log.high_watermark < end
    with pytest.raises(OffsetNotAvailable):
        broker.internal.committed_end(GROUP_METADATA_TOPIC, offsets.index)
    follow(offsets, 2, 3)
    assert broker.internal.committed_end(GROUP_METADATA_TOPIC, offsets.index) == end

"""Transactions as people see them, and what becomes of ids and epochs in the long run."""

import pytest
from tests.handlers.transactions import ID, Producer, TransactionBroker
from tests.replication.states import lead

from ottla.common.errors import ErrorCode, TransactionalIdNotFound
from ottla.common.topic_partition import TopicPartition
from ottla.coordinator.outside import EndTransactionMarker
from ottla.coordinator.shard import Outcome
from ottla.coordinator.transaction.metadata import EPOCH_MAX
from ottla.coordinator.transaction.records import TransactionRecord
from ottla.coordinator.transaction.settings import TransactionSettings
from ottla.coordinator.transaction.state import TransactionState
from ottla.handlers import (
    describe_transactions,
    list_transactions,
    write_txn_markers,
)
from ottla.protocol.generated.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from ottla.protocol.generated.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from ottla.protocol.generated.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

NONE = ErrorCode.NONE


@pytest.fixture
def broker() -> TransactionBroker:
    return TransactionBroker()


def state(broker: TransactionBroker, transactional_id: str = ID) -> TransactionState:
    return broker.transactions.describe(transactional_id).state


# People


def test_transactions_are_described(broker: TransactionBroker) -> None:
    producer = broker.producer()
    broker.send(producer, b"a", partition=1)
    request = DescribeTransactionsRequest(transactional_ids=[ID, "nope", ""])
    answer = broker.ask(describe_transactions, request, 0, DescribeTransactionsResponse)
    known, unknown, empty = answer.transaction_states
    assert (known.transaction_state, known.producer_id) == ("Ongoing", producer.producer_id)
    assert [(t.topic, t.partitions) for t in known.topics] == [("t", [1])]
    assert unknown.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert empty.error_code == ErrorCode.INVALID_REQUEST


def listed(broker: TransactionBroker, version: int = 2, **filters: object) -> list[str]:
    request = ListTransactionsRequest(**filters)  # type: ignore[arg-type]
    answer = broker.ask(list_transactions, request, version, ListTransactionsResponse)
    assert answer.error_code == 0
    return sorted(each.transactional_id for each in answer.transaction_states)


def test_transactions_are_listed_by_state_producer_age_and_name(
    broker: TransactionBroker,
) -> None:
    old = broker.producer("old")
    broker.send(old, b"a", transactional_id="old")
    broker.scheduler.run_for(10)
    young = broker.producer("young")
    broker.send(young, b"a", transactional_id="young", partition=1)
    broker.producer("idle")
    assert listed(broker) == ["idle", "old", "young"]
    assert listed(broker, state_filters=["Ongoing"]) == ["old", "young"]
    assert listed(broker, state_filters=["Ongoing", "what"]) == ["old", "young"]
    assert listed(broker, state_filters=["what"]) == []
    assert listed(broker, producer_id_filters=[young.producer_id]) == ["young"]
    assert listed(broker, state_filters=["Ongoing"], duration_filter=8_000) == ["old"]
    assert listed(broker, transactional_id_pattern="[oy].*") == ["old", "young"]
    assert listed(broker, transactional_id_pattern="ol") == []
    broker.producer("übrig")
    assert listed(broker, transactional_id_pattern=".*") == ["idle", "old", "young"]


def test_a_pattern_that_is_none_is_refused(broker: TransactionBroker) -> None:
    request = ListTransactionsRequest(transactional_id_pattern="(")
    answer = broker.ask(list_transactions, request, 2, ListTransactionsResponse)
    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_people_may_end_a_transaction_on_a_partition(broker: TransactionBroker) -> None:
    producer = broker.producer()
    broker.send(producer, b"a")
    marker = WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        topics=[
            WritableTxnMarkerTopic(name="t", partition_indexes=[0]),
            WritableTxnMarkerTopic(name="nope", partition_indexes=[0]),
        ],
        coordinator_epoch=0,
    )
    request = WriteTxnMarkersRequest(markers=[marker])
    answer = broker.ask(write_txn_markers, request, 1, WriteTxnMarkersResponse)
    (result,) = answer.markers
    assert [(t.name, t.partitions[0].error_code) for t in result.topics] == [
        ("t", NONE),
        ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert broker.log_of("t").last_stable_offset == 2
    assert broker.committed_values() == []
    assert broker.transactions.describe(ID).partitions == (TopicPartition("t", 0),)


# Time and numbers run out


def test_markers_that_are_not_committed_in_time_are_kept_once(broker: TransactionBroker) -> None:
    """A marker is not written again while it is in the log; of those that asked nothing is kept."""
    producer = broker.producer()
    broker.send(producer, b"a")
    partition = broker.partition("t")
    lead(partition, 1, 1, (1, 2))
    marker = EndTransactionMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        coordinator_epoch=0,
        committed=False,
        transaction_version=1,
    )
    where = (TopicPartition("t", 0),)
    sent = [broker.markers.send(marker, where) for _ in range(50)]
    broker.scheduler.run_for(31)
    assert [each.result() for each in sent] == [{where[0]: ErrorCode.REQUEST_TIMED_OUT}] * 50
    assert partition.log.log_end_offset == 2
    assert len(partition._acknowledgements) == 1
    assert list(broker.markers._uncommitted.values()) == [[]]


def test_a_transactional_id_that_nobody_uses_is_forgotten() -> None:
    broker = TransactionBroker()
    settings = TransactionSettings(expiration_ms=5_000, expiration_check_interval_ms=1_000)
    broker.start_transactions(settings=settings)
    producer = broker.producer()
    broker.send(producer, b"a")
    broker.scheduler.run_for(10)
    assert state(broker) is TransactionState.ONGOING  # what is open does not expire
    broker.ended(producer)
    broker.scheduler.run_for(10)
    with pytest.raises(TransactionalIdNotFound):
        state(broker)
    broker.start_transactions()
    with pytest.raises(TransactionalIdNotFound):
        state(broker)


def use_up(broker: TransactionBroker) -> Producer:
    """A producer that has the last epoch that is given to one."""
    producer = broker.producer()
    worn = broker.transactions.describe(ID)._replace(producer_epoch=EPOCH_MAX - 1)
    broker.transactions.runtime.write(
        0, lambda _shard, _now_ms: Outcome([TransactionRecord(ID, worn)], None)
    )
    broker.scheduler.run_for(0)
    return producer._replace(epoch=EPOCH_MAX - 1)


def test_a_producer_whose_epochs_are_used_up_goes_on_with_another_id(
    broker: TransactionBroker,
) -> None:
    worn = use_up(broker)
    assert broker.send(worn, b"a") is NONE
    partition = broker.partition("t")
    lead(partition, -1, 1, (1,))
    fresh = broker.ended(worn)
    assert fresh.epoch == 0
    assert fresh.producer_id > worn.producer_id
    broker.transactions.stop()  # the new id is not lost with the coordinator
    lead(partition, partition.node_id, 2, (1,))
    broker.start_transactions()
    broker.scheduler.run_for(1)
    assert broker.ended(worn) == fresh
    assert broker.send(fresh, b"b") is NONE
    broker.ended(fresh)
    assert broker.committed_values() == [b"a", b"b"]


def test_who_begins_when_the_epochs_are_used_up_gets_another_id(
    broker: TransactionBroker,
) -> None:
    worn = use_up(broker)
    assert broker.send(worn, b"a") is NONE
    assert broker.begin() is ErrorCode.CONCURRENT_TRANSACTIONS
    assert broker.transactions.describe(ID).producer_epoch == EPOCH_MAX
    assert broker.end(worn, commit=False) is ErrorCode.PRODUCER_FENCED  # nobody has the last one
    fresh = broker.producer()
    assert fresh.epoch == 0
    assert fresh.producer_id > worn.producer_id
    assert broker.begin(expected=worn) is ErrorCode.PRODUCER_FENCED


def test_who_was_fenced_with_the_last_epoch_does_not_get_it(broker: TransactionBroker) -> None:
    worn = use_up(broker)
    assert broker.send(worn, b"a") is NONE
    assert broker.begin() is ErrorCode.CONCURRENT_TRANSACTIONS
    broker.scheduler.run_for(0)
    assert broker.begin(expected=worn) is ErrorCode.PRODUCER_FENCED
    assert broker.producer().epoch == 0


# Markers that are not committed


def test_a_marker_that_is_asked_for_again_is_not_written_again(broker: TransactionBroker) -> None:
    producer = broker.producer()
    broker.send(producer, b"a")
    partition = broker.partition("t")
    broker.transactions.stop()  # it would abort the transaction in time
    lead(partition, partition.node_id, 1, (partition.node_id, 2))  # and broker 2 has nothing
    end = partition.log.log_end_offset
    marker = EndTransactionMarker(producer.producer_id, producer.epoch + 1, 0, True, 2)
    place = TopicPartition("t", 0)
    for _ in range(10):
        sent = broker.markers.send(marker, (place,))
        assert not sent.done
        broker.scheduler.run_for(30)
        assert sent.result() == {place: ErrorCode.REQUEST_TIMED_OUT}
    assert partition.log.log_end_offset == end + 1
    sent = broker.markers.send(marker, (place,))
    lead(partition, partition.node_id, 1, (partition.node_id,))
    assert sent.result() == {place: NONE}
    assert broker.committed_values() == [b"a"]
    assert not broker.markers._uncommitted
    broker.markers.send(marker, (place,))
    assert partition.log.log_end_offset == end + 2


def test_a_marker_whose_leader_is_replaced_is_written_by_the_next(
    broker: TransactionBroker,
) -> None:
    producer = broker.producer()
    broker.send(producer, b"a")
    partition = broker.partition("t")
    lead(partition, partition.node_id, 1, (partition.node_id, 2))
    marker = EndTransactionMarker(producer.producer_id, producer.epoch + 1, 0, True, 2)
    place = TopicPartition("t", 0)
    sent = broker.markers.send(marker, (place,))
    lead(partition, 2, 2, (partition.node_id, 2))
    assert sent.result() == {place: ErrorCode.NOT_LEADER_OR_FOLLOWER}
    lead(partition, partition.node_id, 3, (partition.node_id,))
    assert broker.markers.send(marker, (place,)).result() == {place: NONE}

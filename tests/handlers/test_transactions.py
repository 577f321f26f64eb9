"""Transactions from request to log: who may write, what readers see, who is told what."""

import pytest
from tests.handlers.transactions import ID, V1, V2, Producer, TransactionBroker
from tests.observability.lines import lines
from tests.replication.states import lead
from tests.turns import TURN

from ottla.common.errors import ErrorCode
from ottla.common.promise import Promise
from ottla.config.topic import TopicConfig
from ottla.coordinator.transaction.markers import Codes
from ottla.coordinator.transaction.settings import TransactionSettings
from ottla.coordinator.transaction.shard import AddPartitions
from ottla.coordinator.transaction.state import TransactionState
from ottla.coordinator.transaction.verification import TransactionVerification
from ottla.handlers import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    init_producer_id,
    offset_fetch,
    txn_offset_commit,
    write_txn_markers,
)
from ottla.metadata.topics import TopicsImage
from ottla.protocol.generated.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from ottla.protocol.generated.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.protocol.generated.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from ottla.protocol.generated.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from ottla.protocol.generated.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from ottla.protocol.generated.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from ottla.storage.log import Log

NONE = ErrorCode.NONE


@pytest.fixture
def broker() -> TransactionBroker:
    return TransactionBroker()


def state(broker: TransactionBroker, transactional_id: str = ID) -> TransactionState:
    return broker.transactions.describe(transactional_id).state


# What readers see


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_of_version_1_is_seen_whole_or_not_at_all(
    broker: TransactionBroker, commit: bool
) -> None:
    producer = broker.producer()
    assert broker.add(producer, 0, 1) == {0: NONE, 1: NONE}
    for partition in (0, 1):
        assert broker.send(producer, b"a", b"b", partition=partition, version=V1) is NONE
    assert broker.committed_values() == []
    assert broker.ended(producer, commit=commit, version=4) == producer
    for partition in (0, 1):
        assert broker.committed_values(partition) == ([b"a", b"b"] if commit else [])
    assert state(broker).label == ("CompleteCommit" if commit else "CompleteAbort")


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_of_version_2_needs_no_adding_and_ends_its_epoch(
    broker: TransactionBroker, commit: bool
) -> None:
    producer = broker.producer()
    assert broker.send(producer, b"a") is NONE
    assert broker.send(producer._replace(sequence=1), b"b") is NONE
    assert broker.committed_values() == []
    after = broker.ended(producer, commit=commit)
    assert after == (producer.producer_id, producer.epoch + 1, 0)
    assert broker.committed_values() == ([b"a", b"b"] if commit else [])
    assert broker.send(after, b"c") is NONE
    broker.ended(after)
    assert broker.committed_values() == ([b"a", b"b", b"c"] if commit else [b"c"])


# Hanging transactions cannot arise


@pytest.mark.parametrize(
    ("version", "code"),
    [(10, ErrorCode.INVALID_TXN_STATE), (V1, ErrorCode.TRANSACTION_ABORTABLE)],
)
def test_a_partition_that_was_not_added_takes_no_batch_of_version_1(
    broker: TransactionBroker, version: int, code: ErrorCode
) -> None:
    producer = broker.producer()
    broker.add(producer, 1)
    assert broker.send(producer, b"a", version=version) is code
    assert broker.log_of("t").log_end_offset == 0


def test_a_batch_that_comes_after_the_end_is_refused_in_version_1(
    broker: TransactionBroker,
) -> None:
    producer = broker.producer()
    broker.add(producer, 0)
    broker.send(producer, b"a", version=V1)
    broker.ended(producer, version=4)
    late = producer._replace(sequence=1)
    assert broker.send(late, b"b", version=V1) is ErrorCode.TRANSACTION_ABORTABLE
    assert broker.committed_values() == [b"a"]


def test_a_batch_of_the_epoch_before_is_refused_in_version_2(broker: TransactionBroker) -> None:
    producer = broker.producer()
    broker.send(producer, b"a")
    after = broker.ended(producer)
    late = producer._replace(sequence=1)
    assert broker.send(late, b"b") is ErrorCode.INVALID_PRODUCER_EPOCH
    assert broker.send(after, b"c") is NONE
    assert broker.send(late, b"b") is ErrorCode.INVALID_PRODUCER_EPOCH
    broker.ended(after)
    assert broker.committed_values() == [b"a", b"c"]


def test_a_marker_between_the_question_and_the_append_refuses_the_batch(
    broker: TransactionBroker,
) -> None:
    producer = broker.producer()
    asked = broker.start_produce(producer, b"a")
    assert not asked.done
    marker = WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0])],
    )
    broker.start(write_txn_markers, WriteTxnMarkersRequest(markers=[marker]), 1)
    assert broker.read_produce(asked) is ErrorCode.INVALID_TXN_STATE
    assert broker.log_of("t").log_end_offset == 1


def test_batches_that_wait_for_verification_keep_their_order(broker: TransactionBroker) -> None:
    producer = broker.producer()
    asked = [
        broker.start_produce(producer._replace(sequence=number), b"%d" % number)
        for number in range(5)
    ]
    assert [broker.read_produce(each) for each in asked] == [NONE] * 5
    broker.ended(producer)
    assert broker.committed_values() == [b"0", b"1", b"2", b"3", b"4"]
    assert broker.services.transactional_appends == {}


@pytest.mark.parametrize("version", [V1, V2])
def test_a_producer_that_nobody_knows_writes_nothing(
    broker: TransactionBroker, version: int
) -> None:
    stranger = Producer(77, 0)
    asked = broker.start_produce(stranger, b"a", transactional_id="other", version=version)
    told = broker.produced(asked, version)
    assert told.error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert told.log_start_offset == -1, "nothing was looked at"
    assert broker.log_of("t").log_end_offset == 0


def test_a_coordinator_that_is_not_here_lets_producers_try_again(
    broker: TransactionBroker,
) -> None:
    producer = broker.producer()
    broker.transactions.resigned(0)
    assert broker.send(producer, b"a") is ErrorCode.NOT_ENOUGH_REPLICAS


class SilentCoordinators:
    """A coordinator that takes every question and answers none."""

    async def add_partitions(self, _request: AddPartitions) -> Codes:
        return await Promise(TURN)

    verify_partitions = add_partitions


@pytest.mark.parametrize("version", [V1, V2])
def test_a_coordinator_that_says_nothing_keeps_no_batch_for_ever(
    broker: TransactionBroker, version: int
) -> None:
    """Each has its own deadline, also those behind it; later ones would wait longer and longer."""
    producer = broker.producer()
    services, settings = broker.services, TransactionSettings()
    silent = TransactionVerification(SilentCoordinators(), settings, broker.scheduler)
    services.verification, before = silent, services.verification
    asked = []
    for number in range(3):
        batch = producer._replace(sequence=number)
        asked.append(broker.start_produce(batch, b"%d" % number, version=version))
        broker.scheduler.run_for(5)
    assert not any(each.done for each in asked)
    for each in asked:
        broker.scheduler.run_for(15.1 if each is asked[0] else 5.1)
        assert each.done
        assert broker.read_produce(each, version) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert services.transactional_appends == {}
    assert broker.log_of("t").log_end_offset == 0
    services.verification = before
    if version == V1:
        broker.add(producer, 0)
    assert broker.send(producer, b"again", version=version) is NONE


def test_a_long_line_of_batches_behind_one_that_waits_is_appended_in_order(
    broker: TransactionBroker,
) -> None:
    """As of a producer that has more than one connection, each with all that it may have open."""
    producer, count = broker.producer(), 1000
    services, settings = broker.services, TransactionSettings()
    silent = TransactionVerification(SilentCoordinators(), settings, broker.scheduler)
    services.verification, before = silent, services.verification
    asked = [
        broker.start_produce(producer._replace(sequence=number), b"v", version=V2)
        for number in [0, *range(count)]
    ]
    services.verification = before
    broker.scheduler.run_for(31)
    codes = [broker.read_produce(each, V2) for each in asked]
    assert codes == [ErrorCode.NOT_ENOUGH_REPLICAS, *[NONE] * count]
    assert services.transactional_appends == {}


def test_batches_that_wait_for_verification_count_as_memory(broker: TransactionBroker) -> None:
    producer = broker.producer()
    services, settings = broker.services, TransactionSettings()
    services.verification = TransactionVerification(
        SilentCoordinators(), settings, broker.scheduler
    )
    asked = [
        broker.start_produce(producer._replace(sequence=number), bytes(1000)) for number in range(3)
    ]
    assert 3000 < broker.peer.held < 4000
    broker.scheduler.run_for(31)
    assert all(each.done for each in asked)
    assert broker.peer.held == 0


def test_a_transactional_batch_waits_for_its_flush_in_the_background(
    broker: TransactionBroker,
) -> None:
    producer = broker.producer()
    broker.log_of("t").configure(TopicConfig({"flush.messages": "1"}))
    flushes: list[Promise[None]] = []

    def flush(_log: Log) -> Promise[None]:
        flushes.append(Promise(TURN))
        return flushes[-1]

    broker.replicas.outside.flush = flush
    asked = broker.start_produce(producer, b"a")
    broker.scheduler.run_for(1)
    log = broker.log_of("t")
    assert (asked.done, log.log_end_offset, log.recovery_point) == (False, 1, 0)
    assert broker.peer.held == 0, "it is written, and its frame is not needed any more"
    log.flush(0)
    flushes.pop().fulfil(None)
    assert broker.read_produce(asked) is NONE


def test_without_verification_a_batch_of_version_1_is_taken_as_it_is(
    broker: TransactionBroker,
) -> None:
    producer = broker.producer()
    switched_off = {"transaction.partition.verification.enable": "false"}
    broker.services.config = type(broker.services.config)(
        {**broker.services.config.originals, **switched_off}
    )
    assert broker.send(producer, b"a", version=V1) is NONE


# Fencing


def test_a_second_producer_of_the_same_id_shuts_out_the_first(broker: TransactionBroker) -> None:
    first = broker.producer()
    assert broker.send(first, b"a") is NONE
    assert broker.begin() is ErrorCode.CONCURRENT_TRANSACTIONS  # the open one is aborted first
    second = broker.producer()
    assert second.producer_id == first.producer_id
    assert second.epoch > first.epoch + 1
    assert broker.send(first._replace(sequence=1), b"b") is ErrorCode.INVALID_PRODUCER_EPOCH
    assert broker.end(first) is ErrorCode.PRODUCER_FENCED
    assert broker.end(first, version=1) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert broker.add(first, 0) == {0: ErrorCode.PRODUCER_FENCED}
    assert broker.add(first, 0, version=1) == {0: ErrorCode.INVALID_PRODUCER_EPOCH}
    assert broker.begin(expected=first) is ErrorCode.PRODUCER_FENCED
    assert broker.begin(expected=first, version=3) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert broker.committed_values() == []
    assert broker.send(second, b"c") is NONE
    broker.ended(second)
    assert broker.committed_values() == [b"c"]


def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker = TransactionBroker()
    broker.start_transactions(settings=TransactionSettings(timeout_check_interval_ms=1_000))
    producer = broker.producer()
    assert broker.send(producer, b"a") is NONE
    broker.scheduler.run_for(59)
    assert state(broker) is TransactionState.ONGOING
    caplog.set_level("INFO", "ottla.coordinator.transaction")
    broker.scheduler.run_for(3)
    (told,) = lines(caplog)
    fields = f"producer_id={producer.producer_id} timeout_ms=60000 partitions=1"
    assert told == f"INFO transaction aborted: timed out transactional_id=tx {fields}"
    assert state(broker) is TransactionState.COMPLETE_ABORT
    assert broker.send(producer._replace(sequence=1), b"b") is ErrorCode.INVALID_PRODUCER_EPOCH
    assert broker.end(producer) is ErrorCode.INVALID_TXN_STATE
    assert broker.end(producer, version=4) is ErrorCode.PRODUCER_FENCED
    assert lines(caplog)[1:] == ["INFO producer fenced transactional_id=tx"] * 2
    assert broker.ended(producer, commit=False) == (producer.producer_id, producer.epoch + 1, 0)
    assert broker.log_of("t").last_stable_offset == broker.log_of("t").high_watermark
    assert broker.committed_values() == []


# The next transaction is not ended by a late request


def test_a_late_end_does_not_end_the_next_transaction_in_version_2(
    broker: TransactionBroker,
) -> None:
    producer = broker.producer()
    broker.send(producer, b"a")
    after = broker.ended(producer)
    assert broker.send(after, b"b") is NONE
    assert broker.end(producer) is ErrorCode.PRODUCER_FENCED
    assert broker.end(producer, commit=False) is ErrorCode.PRODUCER_FENCED
    assert state(broker) is TransactionState.ONGOING
    assert broker.committed_values() == [b"a"]


def test_an_end_that_is_repeated_is_answered_as_the_first_time(broker: TransactionBroker) -> None:
    producer = broker.producer()
    broker.send(producer, b"a")
    after = broker.ended(producer)
    assert broker.ended(producer) == after
    assert broker.end(producer, commit=False) is ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize(("version", "commit"), [(4, True), (4, False), (5, True)])
def test_what_did_not_begin_cannot_be_ended(
    broker: TransactionBroker, version: int, commit: bool
) -> None:
    producer = broker.producer()
    refused = broker.end(producer, commit=commit, version=version)
    assert refused is ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize("version", range(5))
def test_version_1_cannot_abort_what_was_added_to_a_coordinator_that_stood_still(
    broker: TransactionBroker, version: int
) -> None:
    # Kafka refuses it with the same code, which librdkafka takes as fatal.
    producer = broker.producer()
    assert broker.end(producer, commit=False, version=version) is ErrorCode.INVALID_TXN_STATE
    assert state(broker) is TransactionState.EMPTY
    assert broker.send(producer, b"a") is NONE
    assert broker.ended(producer, version=version) == producer
    assert broker.end(producer, commit=False, version=version) is ErrorCode.INVALID_TXN_STATE
    assert state(broker) is TransactionState.COMPLETE_COMMIT


def test_version_2_may_abort_what_it_does_not_know_to_have_begun(
    broker: TransactionBroker,
) -> None:
    producer = broker.producer()
    after = broker.ended(producer, commit=False)
    assert after.epoch == producer.epoch + 1
    assert state(broker) is TransactionState.COMPLETE_ABORT


# Requests that are refused


def test_no_partition_is_added_when_one_does_not_exist(broker: TransactionBroker) -> None:
    producer = broker.producer()
    assert broker.add(producer, 0, 9) == {
        0: ErrorCode.OPERATION_NOT_ATTEMPTED,
        9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert state(broker) is TransactionState.EMPTY


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_timeout_must_be_one_that_the_broker_allows(
    broker: TransactionBroker, timeout_ms: int
) -> None:
    request = InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=timeout_ms)
    answer = broker.ask(init_producer_id, request, 5, InitProducerIdResponse)
    assert answer.error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT


def test_brokers_ask_for_several_transactions_at_once(broker: TransactionBroker) -> None:
    first, second = broker.producer("a"), broker.producer("b")
    topics = [AddPartitionsToTxnTopic(name="t", partitions=[0])]

    def ask(*, verify_only: bool) -> list[ErrorCode]:
        request = AddPartitionsToTxnRequest(
            transactions=[
                AddPartitionsToTxnTransaction(
                    transactional_id=transactional_id,
                    producer_id=producer.producer_id,
                    producer_epoch=producer.epoch,
                    verify_only=verify_only,
                    topics=topics,
                )
                for transactional_id, producer in (("a", first), ("b", second))
            ]
        )
        answer = broker.ask(add_partitions_to_txn, request, 5, AddPartitionsToTxnResponse)
        return [
            ErrorCode(result.topic_results[0].results_by_partition[0].partition_error_code)
            for result in answer.results_by_transaction
        ]

    assert ask(verify_only=True) == [ErrorCode.TRANSACTION_ABORTABLE] * 2
    assert ask(verify_only=False) == [NONE] * 2
    assert ask(verify_only=True) == [NONE] * 2


# Offsets


def commit_offset(
    broker: TransactionBroker,
    producer: Producer,
    offset: int,
    *,
    version: int,
    generation: int = -1,
) -> ErrorCode:
    request = TxnOffsetCommitRequest(
        transactional_id=ID,
        group_id="g",
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        topics=[
            TxnOffsetCommitRequestTopic(
                name="t",
                partitions=[
                    TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
                ],
            )
        ],
    )
    if generation >= 0:
        request.generation_id = generation
    answer = broker.ask(txn_offset_commit, request, version, TxnOffsetCommitResponse)
    return ErrorCode(answer.topics[0].partitions[0].error_code)


def fetch_offset(broker: TransactionBroker, *, stable: bool) -> tuple[int, ErrorCode]:
    request = OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(
                group_id="g", topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
            )
        ],
        require_stable=stable,
    )
    answer = broker.ask(offset_fetch, request, 9, OffsetFetchResponse)
    partition = answer.groups[0].topics[0].partitions[0]
    return partition.committed_offset, ErrorCode(partition.error_code)


def add_offsets(broker: TransactionBroker, producer: Producer) -> ErrorCode:
    request = AddOffsetsToTxnRequest(
        transactional_id=ID,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        group_id="g",
    )
    answer = broker.ask(add_offsets_to_txn, request, 4, AddOffsetsToTxnResponse)
    return ErrorCode(answer.error_code)


@pytest.mark.parametrize("version", [3, 5])
@pytest.mark.parametrize("commit", [True, False])
def test_offsets_count_when_their_transaction_commits(
    broker: TransactionBroker, version: int, commit: bool
) -> None:
    producer = broker.producer()
    if version < 5:
        assert commit_offset(broker, producer, 5, version=version) is ErrorCode.INVALID_TXN_STATE
        assert add_offsets(broker, producer) is NONE
    assert commit_offset(broker, producer, 5, version=version) is NONE
    assert fetch_offset(broker, stable=False) == (-1, NONE)
    assert fetch_offset(broker, stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    broker.ended(producer, commit=commit, version=version)
    assert fetch_offset(broker, stable=True) == (5 if commit else -1, NONE)


def test_offsets_of_a_generation_that_is_not_are_refused(broker: TransactionBroker) -> None:
    producer = broker.producer()
    refused = commit_offset(broker, producer, 5, version=5, generation=3)
    assert refused is ErrorCode.ILLEGAL_GENERATION


def test_offsets_of_a_topic_that_is_not_are_refused(broker: TransactionBroker) -> None:
    request = TxnOffsetCommitRequest(
        transactional_id=ID,
        group_id="g",
        topics=[
            TxnOffsetCommitRequestTopic(
                name="nope", partitions=[TxnOffsetCommitRequestPartition(partition_index=0)]
            )
        ],
    )
    answer = broker.ask(txn_offset_commit, request, 5, TxnOffsetCommitResponse)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# After a restart


@pytest.mark.parametrize("commit", [True, False])
def test_an_end_that_was_decided_is_carried_out_after_a_restart(
    broker: TransactionBroker, commit: bool
) -> None:
    producer = broker.producer()
    broker.send(producer, b"a")
    partition = broker.partition("t")
    lead(partition, -1, 1, (1,))  # nobody leads it: its marker cannot be written
    broker.ended(producer, commit=commit)
    broker.scheduler.run_for(5)
    assert state(broker).is_prepared
    broker.transactions.stop()
    lead(partition, partition.node_id, 2, (1,))
    assert broker.committed_values() == []
    broker.start_transactions()
    broker.scheduler.run_for(1)
    assert state(broker).label == ("CompleteCommit" if commit else "CompleteAbort")
    assert broker.committed_values() == ([b"a"] if commit else [])


def test_a_marker_that_failed_is_tried_again(broker: TransactionBroker) -> None:
    producer = broker.producer()
    broker.send(producer, b"a")
    partition = broker.partition("t")
    lead(partition, -1, 1, (1,))
    after = broker.ended(producer)
    assert broker.add(after, 1) == {1: ErrorCode.CONCURRENT_TRANSACTIONS}
    assert broker.begin() is ErrorCode.CONCURRENT_TRANSACTIONS
    lead(partition, partition.node_id, 2, (1,))
    broker.scheduler.run_for(1)
    assert state(broker) is TransactionState.COMPLETE_COMMIT
    assert broker.committed_values() == [b"a"]


def test_a_topic_that_is_gone_does_not_keep_a_transaction_from_its_end(
    broker: TransactionBroker,
) -> None:
    producer = broker.producer()
    broker.send(producer, b"a")
    topics = broker.metadata.image.topics
    names = {name: topic for name, topic in topics.by_name.items() if name != "t"}
    broker.set_image(topics=TopicsImage(names, topics.by_id))
    broker.ended(producer)
    broker.scheduler.run_for(1)
    assert state(broker) is TransactionState.COMPLETE_COMMIT


def test_an_end_of_version_2_is_not_taken_for_one_that_a_producer_of_version_1_sent(
    broker: TransactionBroker,
) -> None:
    fenced = broker.producer()
    second = broker.producer()
    broker.add(second, 0)
    broker.ended(second, commit=False, version=4)
    assert broker.end(fenced, commit=False) is ErrorCode.PRODUCER_FENCED

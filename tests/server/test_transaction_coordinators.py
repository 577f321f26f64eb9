"""Questions about transactions go to the broker that coordinates them (KIP-890)."""

import pytest
from tests.coordinator.memory_log import MemoryLog
from tests.server.brokers_asked import BrokersAsked, Metadata
from tests.turns import TURN, virtual_time

from ottla.common.errors import CoordinatorNotAvailable, ErrorCode, InvalidProducerIdMapping
from ottla.common.promise import Promise, fulfilled, run
from ottla.common.topic_partition import TopicPartition
from ottla.coordinator.outside import EndTransactionMarker
from ottla.coordinator.transaction.markers import Codes
from ottla.coordinator.transaction.service import (
    TRANSACTION_STATE_TOPIC,
    TransactionOutside,
    TransactionService,
)
from ottla.coordinator.transaction.settings import TransactionSettings
from ottla.coordinator.transaction.shard import AddPartitions
from ottla.coordinator.transaction.verification import SupportedOperation, TransactionVerification
from ottla.metadata.delta import MetadataDelta
from ottla.protocol.generated.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from ottla.server.transaction_coordinators import ClusterCoordinators

NODE_ID = 1
SETTINGS = TransactionSettings(topic_partitions=1)
PARTITION = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)
ASKED = AddPartitions("tx", 9, 4, frozenset({PARTITION}))


class World:
    """A broker, one partition of transactions that ``leader`` leads, and the way to the others."""

    def __init__(self, leader: int) -> None:
        self.scheduler = virtual_time(3)
        self.channel = BrokersAsked()
        self.metadata = Metadata()
        self.metadata.put(TRANSACTION_STATE_TOPIC, leader)
        log = MemoryLog()
        own = TransactionService(
            SETTINGS, TransactionOutside(log, log, self.scheduler, self, self, self, lambda: 2)
        )
        if leader == NODE_ID:
            own.elected(0, 0)
        self.scheduler.run_for(0)
        self.coordinators = ClusterCoordinators(
            own, self.metadata, self.channel, self.scheduler, node_id=NODE_ID
        )
        self.verification = TransactionVerification(self.coordinators, SETTINGS, self.scheduler)

    def partition_count(self, topic: str) -> int | None:
        return 1

    def next(self) -> Promise[int]:
        return fulfilled(TURN, 100)

    def send(
        self, _marker: EndTransactionMarker, partitions: tuple[TopicPartition, ...]
    ) -> Promise[Codes]:
        return fulfilled(TURN, dict.fromkeys(partitions, ErrorCode.NONE))

    def verify(
        self,
        asked: AddPartitions = ASKED,
        operation: SupportedOperation = SupportedOperation.GENERIC_ERROR,
    ) -> Promise[Codes]:
        promise = run(TURN, self.verification.verify(asked, operation))
        self.scheduler.run_for(0)
        return promise

    def answer(self, code: ErrorCode) -> AddPartitionsToTxnRequest:
        """Let the coordinator say the same of all that it was asked."""
        _, request, answer = self.channel.take(2)
        assert isinstance(request, AddPartitionsToTxnRequest)
        answer.fulfil(
            AddPartitionsToTxnResponse(
                results_by_transaction=[
                    AddPartitionsToTxnResult(
                        transactional_id=transaction.transactional_id,
                        topic_results=[
                            AddPartitionsToTxnTopicResult(
                                name=topic.name,
                                results_by_partition=[
                                    AddPartitionsToTxnPartitionResult(
                                        partition_index=index, partition_error_code=code
                                    )
                                    for index in topic.partitions
                                ],
                            )
                            for topic in transaction.topics
                        ],
                    )
                    for transaction in request.transactions
                ]
            )
        )
        return request


def test_a_coordinator_that_is_here_is_asked_without_the_network() -> None:
    world = World(leader=NODE_ID)
    answer = world.verify()
    assert answer.result() == {PARTITION: InvalidProducerIdMapping.code}
    assert not world.channel.asked


def test_one_that_is_elsewhere_is_asked_to_verify_only() -> None:
    world = World(leader=2)
    answer = world.verify()
    request = world.answer(ErrorCode.NONE)
    assert answer.result() == {PARTITION: ErrorCode.NONE}
    (transaction,) = request.transactions
    assert transaction.verify_only
    assert (transaction.producer_id, transaction.producer_epoch) == (9, 4)


def test_for_a_client_of_version_2_the_partition_is_added() -> None:
    world = World(leader=2)
    answer = world.verify(operation=SupportedOperation.ADD_PARTITION)
    request = world.answer(ErrorCode.NONE)
    assert not request.transactions[0].verify_only
    assert answer.result() == {PARTITION: ErrorCode.NONE}


def test_an_end_that_is_not_complete_is_asked_about_again() -> None:
    world = World(leader=2)
    answer = world.verify(operation=SupportedOperation.ADD_PARTITION)
    world.answer(ErrorCode.CONCURRENT_TRANSACTIONS)
    assert not answer.done
    world.scheduler.run_for(SETTINGS.add_retry_ms / 1000)
    world.answer(ErrorCode.NONE)
    assert answer.result() == {PARTITION: ErrorCode.NONE}


def test_transactions_share_a_request_but_not_with_themselves() -> None:
    world = World(leader=2)
    for asked in (ASKED, ASKED._replace(transactional_id="other"), ASKED):
        run(TURN, world.verification.verify(asked, SupportedOperation.GENERIC_ERROR))
    world.scheduler.run_for(0)
    first = world.answer(ErrorCode.NONE)
    assert [each.transactional_id for each in first.transactions] == ["tx", "other"]
    world.scheduler.run_for(0)
    assert [each.transactional_id for each in world.answer(ErrorCode.NONE).transactions] == ["tx"]


def test_errors_are_told_as_a_producer_knows_them() -> None:
    world = World(leader=2)
    answer = world.verify(operation=SupportedOperation.DEFAULT_ERROR)
    world.answer(ErrorCode.TRANSACTION_ABORTABLE)
    assert answer.result() == {PARTITION: ErrorCode.INVALID_TXN_STATE}
    answer = world.verify()
    world.answer(ErrorCode.PRODUCER_FENCED)
    assert answer.result() == {PARTITION: ErrorCode.INVALID_PRODUCER_EPOCH}


def test_a_coordinator_that_is_cut_off_can_be_asked_again() -> None:
    world = World(leader=2)
    answer = world.verify()
    world.channel.cut(2)
    assert answer.result() == {PARTITION: ErrorCode.NETWORK_EXCEPTION}


def test_a_coordinator_that_is_replaced_is_not_waited_for() -> None:
    world = World(leader=2)
    answer = world.verify()
    delta = MetadataDelta(world.metadata.image)
    world.metadata.put(TRANSACTION_STATE_TOPIC, 3)
    topic = world.metadata.image.topics.by_name[TRANSACTION_STATE_TOPIC]
    delta.topics._delta(topic.topic_id).changed.update(topic.partitions)
    world.coordinators.changed(world.metadata.image, delta)
    assert answer.result() == {PARTITION: ErrorCode.NOT_COORDINATOR}
    world.answer(ErrorCode.NONE)  # late, and of no consequence
    world.verify()
    assert world.channel.take(3)


@pytest.mark.parametrize("leader", [-1, 2])
def test_without_a_broker_that_is_alive_there_is_no_coordinator(leader: int) -> None:
    world = World(leader=leader)
    world.metadata.fence(2)
    asked = ASKED._replace(partitions=frozenset({PARTITION, OTHER}))
    assert world.verify(asked).result() == dict.fromkeys(
        (PARTITION, OTHER), CoordinatorNotAvailable.code
    )


def test_a_refusal_of_the_whole_request_is_no_matter_of_the_client() -> None:
    world = World(leader=2)
    answer = world.verify()
    refused = AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    world.channel.take(2).answer.fulfil(refused)
    assert answer.result() == {PARTITION: ErrorCode.INVALID_TXN_STATE}

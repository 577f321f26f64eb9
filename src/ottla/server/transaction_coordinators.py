"""The coordinator of a transactional id, on whichever broker it is (KIP-890).

The leader of a partition asks it whether a transaction is open there, or makes the partition part
of it. The questions of one turn to one broker travel together. What passes by itself (the broker is
away, or coordinates no longer) is told as an error upon which clients try again.
"""

from typing import NamedTuple

from ottla.common.environment import Scheduler
from ottla.common.errors import CoordinatorNotAvailable, ErrorCode
from ottla.common.promise import Promise
from ottla.common.topic_partition import TopicPartition
from ottla.coordinator.transaction.markers import Codes
from ottla.coordinator.transaction.service import TRANSACTION_STATE_TOPIC, TransactionService
from ottla.coordinator.transaction.shard import AddPartitions
from ottla.handlers.context import MetadataSource
from ottla.protocol.generated.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.protocol.message import Message
from ottla.server.broker_batches import BrokerBatches, Channel


class _Question(NamedTuple):
    asked: AddPartitions
    verify_only: bool
    answer: Promise[Codes]

    def transaction(self) -> AddPartitionsToTxnTransaction:
        topics: dict[str, AddPartitionsToTxnTopic] = {}
        for topic, index in sorted(self.asked.partitions):
            topics.setdefault(topic, AddPartitionsToTxnTopic(name=topic)).partitions.append(index)
        return AddPartitionsToTxnTransaction(
            transactional_id=self.asked.transactional_id,
            producer_id=self.asked.producer_id,
            producer_epoch=self.asked.producer_epoch,
            verify_only=self.verify_only,
            topics=list(topics.values()),
        )


class ClusterCoordinators:
    def __init__(
        self,
        own: TransactionService,
        metadata: MetadataSource,
        channel: Channel,
        scheduler: Scheduler,
        *,
        node_id: int,
    ) -> None:
        self._own = own
        self._metadata = metadata
        self._node_id = node_id
        self._batches = BrokerBatches[_Question](
            channel,
            scheduler,
            key=lambda question: question.asked.transactional_id,
            make=lambda questions: AddPartitionsToTxnRequest(
                transactions=[question.transaction() for question in questions]
            ),
            answered=_answered,
        )

    async def add_partitions(self, request: AddPartitions) -> Codes:
        leader = self._leader(request.transactional_id)
        if leader == self._node_id:
            return await self._own.add_partitions(request)
        return await self._ask(leader, request, verify_only=False)

    async def verify_partitions(self, request: AddPartitions) -> Codes:
        leader = self._leader(request.transactional_id)
        if leader == self._node_id:
            return await self._own.verify_partitions(request)
        return await self._ask(leader, request, verify_only=True)

    def _leader(self, transactional_id: str) -> int:
        image = self._metadata.image
        topic = image.topics.by_name.get(TRANSACTION_STATE_TOPIC)
        if topic is None:
            raise CoordinatorNotAvailable
        leader = topic.partitions[self._own.partition_for(transactional_id)].leader
        broker = image.brokers.get(leader)
        if leader != self._node_id and (broker is None or broker.fenced):
            raise CoordinatorNotAvailable
        return leader

    def _ask(self, leader: int, request: AddPartitions, *, verify_only: bool) -> Promise[Codes]:
        question = _Question(request, verify_only, Promise())
        self._batches.ask(leader, question)
        return question.answer


def _answered(questions: list[_Question], response: Message | None) -> None:
    codes: dict[str, dict[TopicPartition, ErrorCode]] = {}
    otherwise = ErrorCode.NETWORK_EXCEPTION
    if response is not None:
        assert isinstance(response, AddPartitionsToTxnResponse)
        if response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            otherwise = ErrorCode.INVALID_TXN_STATE  # that is between brokers
        elif response.error_code:
            otherwise = ErrorCode(response.error_code)
        for result in response.results_by_transaction:
            of_one = codes.setdefault(result.transactional_id, {})
            for topic in result.topic_results:
                for each in topic.results_by_partition:
                    name = TopicPartition(topic.name, each.partition_index)
                    of_one[name] = ErrorCode(each.partition_error_code)
    for question in questions:
        known = codes.get(question.asked.transactional_id, {})
        question.answer.fulfil(
            {each: known.get(each, otherwise) for each in sorted(question.asked.partitions)}
        )

"""The coordinator of a transactional id, on whichever broker it is (KIP-890).

The leader of a partition asks it whether a transaction is open there, or makes the partition part
of it. The questions of one turn to one broker travel together. What passes by itself (the broker is
away, or coordinates no longer) is told as an error upon which clients try again; a broker that was
replaced is not waited for.
"""

from ottla.common.environment import Scheduler
from ottla.common.errors import CoordinatorNotAvailable, ErrorCode
from ottla.common.promise import Promise
from ottla.common.topic_partition import TopicPartition
from ottla.common.turn import Turn
from ottla.coordinator.transaction.markers import Codes
from ottla.coordinator.transaction.service import TRANSACTION_STATE_TOPIC, TransactionService
from ottla.coordinator.transaction.shard import AddPartitions
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.protocol.generated.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.requests.context import MetadataSource
from ottla.server.broker_batches import BrokerBatches, Channel


class _Question:
    __slots__ = ("answer", "asked", "node_id", "verify_only")

    def __init__(
        self, asked: AddPartitions, node_id: int, turn: Turn, *, verify_only: bool
    ) -> None:
        self.asked = asked
        self.node_id = node_id
        self.verify_only = verify_only
        self.answer: Promise[Codes] = Promise(turn)

    def settle(self, codes: Codes, otherwise: ErrorCode) -> None:
        """Answer, unless that was done; what ``codes`` do not tell of is told ``otherwise``."""
        if not self.answer.done:
            partitions = sorted(self.asked.partitions)
            self.answer.fulfil({each: codes.get(each, otherwise) for each in partitions})

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
        self._turn = scheduler.turn
        self._metadata = metadata
        self._node_id = node_id
        self._waiting: dict[_Question, None] = {}
        self._batches = BrokerBatches[_Question, AddPartitionsToTxnResponse](
            channel,
            scheduler,
            key=lambda question: question.asked.transactional_id,
            make=lambda questions: AddPartitionsToTxnRequest(
                transactions=[question.transaction() for question in questions]
            ),
            answered=self._answered,
        )

    def changed(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """The metadata log has moved on: a former coordinator need not answer."""
        topic = image.topics.by_name.get(TRANSACTION_STATE_TOPIC)
        if topic is None or topic.topic_id not in delta.topics.changed:
            return
        for question in list(self._waiting):
            partition = self._own.partition_for(question.asked.transactional_id)
            if topic.partitions[partition].leader != question.node_id:
                del self._waiting[question]
                question.settle({}, ErrorCode.NOT_COORDINATOR)

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
        question = _Question(request, leader, self._turn, verify_only=verify_only)
        self._waiting[question] = None
        self._batches.ask(leader, question)
        return question.answer

    def _answered(
        self, questions: list[_Question], response: AddPartitionsToTxnResponse | None
    ) -> None:
        codes, otherwise = _codes(response)
        for question in questions:
            self._waiting.pop(question, None)
            question.settle(codes.get(question.asked.transactional_id, {}), otherwise)


def _codes(response: AddPartitionsToTxnResponse | None) -> tuple[dict[str, Codes], ErrorCode]:
    """The codes by transactional id, and what is to be said of what has none."""
    codes: dict[str, Codes] = {}
    otherwise = ErrorCode.NETWORK_EXCEPTION
    if response is not None:
        if response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            otherwise = ErrorCode.INVALID_TXN_STATE  # that is between brokers
        elif response.error_code:
            otherwise = ErrorCode(response.error_code)
        for result in response.results_by_transaction:
            codes[result.transactional_id] = {
                TopicPartition(topic.name, each.partition_index): ErrorCode(
                    each.partition_error_code
                )
                for topic in result.topic_results
                for each in topic.results_by_partition
            }
    return codes, otherwise

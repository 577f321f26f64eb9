"""A transaction that one process fills and another ends.

A task writes its rows in a transaction of its own and leaves it open; the driver ends it later, by
the producer id and epoch that came with the task's message. Coordinators allow that: they ask for
the id and the epoch, not for the connection.

* The next to take the transactional id (:meth:`Transaction.begin`) gets a newer epoch. What the
  last owner left open is aborted, and what it tries from then on is refused.
* A marker, an offset of a group that is committed with the transaction, says that it took place.
  It is read after ``begin``: then nothing of an earlier owner is undecided any more.

Spoken is the protocol of transactions before version 2: partitions are added explicitly. Each
transaction begins with a new epoch anyway, which is what version 2 is for, and every broker from
0.11 on takes part.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, TypeVar

from ottla.client.cluster import Cluster
from ottla.client.errors import refusal
from ottla.client.groups import coordinator_of
from ottla.client.leaders import by_topic
from ottla.common.errors import ApiError, ErrorCode
from ottla.common.topic_partition import TopicPartition
from ottla.protocol.generated.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from ottla.protocol.generated.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from ottla.protocol.generated.end_txn import EndTxnRequest, EndTxnResponse
from ottla.protocol.generated.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ottla.protocol.generated.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from ottla.protocol.generated.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.protocol.generated.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from ottla.protocol.generated.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from ottla.protocol.message import Message

M = TypeVar("M", bound=Message)

_TRANSACTION: Final = 1
_SEVERAL_KEYS_FROM: Final = 4
_SEVERAL_GROUPS_FROM: Final = 8
_TOPIC_NAMES_HIGHEST: Final = 9
# The last versions in which partitions are added explicitly.
PRODUCE_HIGHEST: Final = 11
_ADD_PARTITIONS_HIGHEST: Final = 3
_TXN_OFFSET_COMMIT_HIGHEST: Final = 4
_END_TXN_HIGHEST: Final = 4


class Prepared(NamedTuple):
    """An open transaction, by all that is needed to end it."""

    transactional_id: str
    producer_id: int
    epoch: int


class Marker(NamedTuple):
    offset: int
    note: str


class Transaction:
    """The transaction of a transactional id, from the side that fills it."""

    def __init__(self, cluster: Cluster, transactional_id: str) -> None:
        self._cluster = cluster
        self._id = transactional_id
        self._coordinator = _Coordinator(cluster, transactional_id)
        self._added: set[TopicPartition] = set()
        self.producer_id = self.epoch = -1

    def begin(self, timeout_ms: int) -> None:
        """Take over the id; whatever was open under it is aborted when this returns."""
        response = self._coordinator.ask(
            InitProducerIdRequest(transactional_id=self._id, transaction_timeout_ms=timeout_ms),
            InitProducerIdResponse,
            lambda answer: answer.error_code,
        )
        self.producer_id, self.epoch = response.producer_id, response.producer_epoch

    @property
    def prepared(self) -> Prepared:
        return Prepared(self._id, self.producer_id, self.epoch)

    def add(self, partitions: Iterable[TopicPartition]) -> None:
        """See to it that partitions belong to the transaction, before they are written to."""
        new = [each for each in partitions if each not in self._added]
        if not new:
            return
        self._coordinator.ask(
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self._id,
                v3_and_below_producer_id=self.producer_id,
                v3_and_below_producer_epoch=self.epoch,
                v3_and_below_topics=[
                    AddPartitionsToTxnTopic(name=topic, partitions=indexes)
                    for topic, indexes in by_topic(new).items()
                ],
            ),
            AddPartitionsToTxnResponse,
            _first_refused_partition,
            highest=_ADD_PARTITIONS_HIGHEST,
        )
        self._added.update(new)

    def mark(self, group: str, where: TopicPartition, marker: Marker) -> None:
        """Commit an offset of a group with the transaction."""
        self._coordinator.ask(
            AddOffsetsToTxnRequest(
                transactional_id=self._id,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                group_id=group,
            ),
            AddOffsetsToTxnResponse,
            lambda answer: answer.error_code,
        )
        partition = TxnOffsetCommitRequestPartition(
            partition_index=where.partition,
            committed_offset=marker.offset,
            committed_metadata=marker.note,
        )
        request = TxnOffsetCommitRequest(
            transactional_id=self._id,
            group_id=group,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=where.topic, partitions=[partition])],
        )
        self._cluster.ask_again(
            request,
            TxnOffsetCommitResponse,
            node_id=lambda: coordinator_of(self._cluster, group),
            failed=lambda answer: _refusal(
                answer.topics[0].partitions[0].error_code, f"the marker of {self._id}"
            ),
            highest=_TXN_OFFSET_COMMIT_HIGHEST,
        )


def end(cluster: Cluster, prepared: Prepared, *, commit: bool) -> None:
    """End a transaction; once more does no harm.

    ProducerFenced or InvalidProducerEpoch when its id has another owner by now, or it took too
    long and was aborted.
    """
    _Coordinator(cluster, prepared.transactional_id).ask(
        EndTxnRequest(
            transactional_id=prepared.transactional_id,
            producer_id=prepared.producer_id,
            producer_epoch=prepared.epoch,
            committed=commit,
        ),
        EndTxnResponse,
        lambda answer: answer.error_code,
        highest=_END_TXN_HIGHEST,
    )


def read_marker(cluster: Cluster, group: str, where: TopicPartition | None = None) -> Marker | None:
    """The marker of a group that stands at ``where``; for None the newest, wherever it stands."""
    named = [] if where is None else [(where.topic, [where.partition])]

    def request(version: int) -> OffsetFetchRequest:
        if version < _SEVERAL_GROUPS_FROM:
            old = [OffsetFetchRequestTopic(name=n, partition_indexes=some) for n, some in named]
            return OffsetFetchRequest(group_id=group, topics=old or None, require_stable=True)
        topics = [OffsetFetchRequestTopics(name=n, partition_indexes=some) for n, some in named]
        wanted = OffsetFetchRequestGroup(group_id=group, topics=topics or None)
        return OffsetFetchRequest(groups=[wanted], require_stable=True)

    def failed(answer: OffsetFetchResponse) -> ApiError | None:
        code = answer.groups[0].error_code if answer.groups else answer.error_code
        codes = [code, *(each.error_code for each in _partitions(answer))]
        return _refusal(next((each for each in codes if each), 0), f"the markers of {group}")

    response = cluster.ask_again(
        request,
        OffsetFetchResponse,
        node_id=lambda: coordinator_of(cluster, group),
        failed=failed,
        highest=_TOPIC_NAMES_HIGHEST,
    )
    markers = [
        Marker(each.committed_offset, each.metadata or "")
        for each in _partitions(response)
        if each.committed_offset >= 0
    ]
    return max(markers, default=None)


def write_marker(cluster: Cluster, group: str, where: TopicPartition, marker: Marker) -> None:
    """Commit an offset of a group, with no transaction."""
    partition = OffsetCommitRequestPartition(
        partition_index=where.partition,
        committed_offset=marker.offset,
        committed_metadata=marker.note,
    )
    topic = OffsetCommitRequestTopic(
        name=where.topic, topic_id=cluster.topic(where.topic).topic_id, partitions=[partition]
    )
    cluster.ask_again(
        OffsetCommitRequest(group_id=group, topics=[topic]),
        OffsetCommitResponse,
        node_id=lambda: coordinator_of(cluster, group),
        failed=lambda answer: _refusal(
            answer.topics[0].partitions[0].error_code, f"the marker of {group}"
        ),
    )


def _partitions(answer: OffsetFetchResponse) -> list[Any]:
    topics = answer.groups[0].topics if answer.groups else answer.topics
    return [each for topic in topics for each in topic.partitions]


def _first_refused_partition(answer: AddPartitionsToTxnResponse) -> int:
    """Its own code, if one has: the others are told that nothing was attempted for them."""
    codes = [
        each.partition_error_code
        for topic in answer.results_by_topic_v3_and_below
        for each in topic.results_by_partition
        if each.partition_error_code
    ]
    own = [code for code in codes if code != ErrorCode.OPERATION_NOT_ATTEMPTED]
    return (own or codes or [ErrorCode.NONE])[0]


def _refusal(code: int, what: str) -> ApiError | None:
    return refusal(code, f"{what}: {ErrorCode(code).name}") if code else None


class _Coordinator:
    """Who coordinates a transactional id; looked for anew when it does not answer as it should."""

    def __init__(self, cluster: Cluster, transactional_id: str) -> None:
        self._cluster = cluster
        self._id = transactional_id
        self._node_id: int | None = None

    def ask(
        self,
        request: Message,
        answer: type[M],
        code: Callable[[M], int],
        *,
        highest: int | None = None,
    ) -> M:
        asked = False

        def node_id() -> int:
            nonlocal asked
            if asked or self._node_id is None:
                self._node_id = self._find()
            asked = True
            return self._node_id

        return self._cluster.ask_again(
            request,
            answer,
            node_id=node_id,
            failed=lambda response: _refusal(code(response), f"transactional id {self._id}"),
            highest=highest,
        )

    def _find(self) -> int:
        def request(version: int) -> FindCoordinatorRequest:
            if version < _SEVERAL_KEYS_FROM:
                return FindCoordinatorRequest(key=self._id, key_type=_TRANSACTION)
            return FindCoordinatorRequest(coordinator_keys=[self._id], key_type=_TRANSACTION)

        def failed(response: FindCoordinatorResponse) -> ApiError | None:
            found = response.coordinators
            code = found[0].error_code if found else response.error_code
            return _refusal(code, f"the coordinator of transactional id {self._id}")

        response = self._cluster.ask_again(request, FindCoordinatorResponse, failed=failed)
        found = response.coordinators
        node_id = found[0].node_id if found else response.node_id
        if node_id not in self._cluster.metadata.brokers:
            self._cluster.refresh()
        return node_id

"""Transactions as their coordinators and the partitions know them, and ending one by hand.

A transaction hangs when a partition holds it open and no coordinator knows of it: nobody will end
it, and readers of committed records wait. Brokers of today do not let that happen (KIP-890); what
older ones left is found, and may be aborted on that partition alone (KIP-664).
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from ottla.client.cluster import Cluster
from ottla.client.errors import refusal
from ottla.client.leaders import ask_leaders, by_topic
from ottla.common.errors import ApiError
from ottla.common.topic_partition import TopicPartition
from ottla.protocol.generated.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from ottla.protocol.generated.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from ottla.protocol.generated.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
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

_TRANSACTION: Final = 1
NO_OFFSET: Final = -1


class ListedTransaction(NamedTuple):
    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


class DescribedTransaction(NamedTuple):
    transactional_id: str
    coordinator: int
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    start_ms: int | None
    """When it began; None while none is open."""
    partitions: list[TopicPartition]


class PartitionProducer(NamedTuple):
    """A producer as a partition knows it."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    last_sequence: int
    last_timestamp: int
    transaction_start_offset: int | None
    """Where its open transaction begins."""


class OpenTransaction(NamedTuple):
    """A transaction that a partition holds open."""

    partition: TopicPartition
    producer: PartitionProducer


def list_transactions(
    cluster: Cluster,
    *,
    states: Iterable[str] = (),
    producer_ids: Iterable[int] = (),
    longer_than_ms: int = -1,
    pattern: str | None = None,
) -> list[ListedTransaction]:
    """The transactions of all coordinators, as far as they pass the filters."""
    request = ListTransactionsRequest(
        state_filters=list(states),
        producer_id_filters=list(producer_ids),
        duration_filter=longer_than_ms,
        transactional_id_pattern=pattern,
    )
    listed = []
    for node_id in sorted(cluster.refresh().brokers):
        response = cluster.ask_again(
            request,
            ListTransactionsResponse,
            node_id=node_id,
            failed=lambda each: refusal(each.error_code) if each.error_code else None,
        )
        listed += [
            ListedTransaction(
                each.transactional_id, node_id, each.producer_id, each.transaction_state
            )
            for each in response.transaction_states
        ]
    return sorted(listed)


def describe_transaction(cluster: Cluster, transactional_id: str) -> DescribedTransaction:
    deadline = cluster.deadline()
    cluster.refresh()

    def coordinator() -> int:
        found = cluster.ask_again(
            FindCoordinatorRequest(key_type=_TRANSACTION, coordinator_keys=[transactional_id]),
            FindCoordinatorResponse,
            failed=lambda each: (
                refusal(each.coordinators[0].error_code)
                if each.coordinators[0].error_code
                else None
            ),
            deadline=deadline,
        )
        return found.coordinators[0].node_id

    node_id = coordinator()
    response = cluster.ask_again(
        DescribeTransactionsRequest(transactional_ids=[transactional_id]),
        DescribeTransactionsResponse,
        node_id=coordinator,
        failed=lambda each: (
            refusal(each.transaction_states[0].error_code)
            if each.transaction_states[0].error_code
            else None
        ),
        deadline=deadline,
    )
    state = response.transaction_states[0]
    start_ms = state.transaction_start_time_ms
    return DescribedTransaction(
        transactional_id,
        node_id,
        state.producer_id,
        state.producer_epoch,
        state.transaction_state,
        state.transaction_timeout_ms,
        start_ms if start_ms >= 0 else None,
        [TopicPartition(t.topic, index) for t in state.topics for index in t.partitions],
    )


def describe_producers(
    cluster: Cluster, partitions: Iterable[TopicPartition]
) -> tuple[dict[TopicPartition, list[PartitionProducer]], dict[TopicPartition, ApiError]]:
    """Who writes to each partition, by idempotence or transaction."""

    def request(asked: list[TopicPartition]) -> DescribeProducersRequest:
        return DescribeProducersRequest(
            topics=[
                TopicRequest(name=topic, partition_indexes=indexes)
                for topic, indexes in by_topic(asked).items()
            ]
        )

    return ask_leaders(cluster, partitions, request, DescribeProducersResponse, _producers)


def _producers(
    response: DescribeProducersResponse,
) -> Iterator[tuple[TopicPartition, int, list[PartitionProducer]]]:
    for topic in response.topics:
        for partition in topic.partitions:
            producers = [
                PartitionProducer(
                    each.producer_id,
                    each.producer_epoch,
                    each.coordinator_epoch,
                    each.last_sequence,
                    each.last_timestamp,
                    None
                    if each.current_txn_start_offset == NO_OFFSET
                    else each.current_txn_start_offset,
                )
                for each in partition.active_producers
            ]
            name = TopicPartition(topic.name, partition.partition_index)
            yield name, partition.error_code, producers


def find_hanging(
    cluster: Cluster, partitions: Iterable[TopicPartition], *, before_ms: int
) -> tuple[list[OpenTransaction], dict[TopicPartition, ApiError]]:
    """Open transactions without a record since ``before_ms`` that no coordinator knows of."""
    described, refused = describe_producers(cluster, partitions)
    candidates = [
        OpenTransaction(partition, producer)
        for partition, producers in sorted(described.items())
        for producer in producers
        if producer.transaction_start_offset is not None and producer.last_timestamp < before_ms
    ]
    if not candidates:
        return [], refused
    producer_ids = sorted({each.producer.producer_id for each in candidates})
    known = {
        each.producer_id: describe_transaction(cluster, each.transactional_id)
        for each in list_transactions(cluster, producer_ids=producer_ids)
    }
    hanging = [
        each
        for each in candidates
        if each.producer.producer_id not in known
        or each.partition not in known[each.producer.producer_id].partitions
    ]
    return hanging, refused


def abort(cluster: Cluster, transaction: OpenTransaction) -> None:
    """Write an abort marker on the partition, in the name of the transaction's coordinator."""
    topic, partition = transaction.partition
    producer = transaction.producer
    marker = WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[partition])],
        coordinator_epoch=max(producer.coordinator_epoch, 0),
    )

    def request(_: list[TopicPartition]) -> WriteTxnMarkersRequest:
        return WriteTxnMarkersRequest(markers=[marker])

    _, refused = ask_leaders(
        cluster, [transaction.partition], request, WriteTxnMarkersResponse, _markers
    )
    for error in refused.values():
        raise error


def _markers(response: WriteTxnMarkersResponse) -> Iterator[tuple[TopicPartition, int, None]]:
    for marker in response.markers:
        for topic in marker.topics:
            for each in topic.partitions:
                yield TopicPartition(topic.name, each.partition_index), each.error_code, None

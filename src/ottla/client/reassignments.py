"""Replicas on the move, elections of leaders, and brokers that leave for good."""

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from ottla.client.cluster import Cluster
from ottla.client.errors import SomeRefused, refusal
from ottla.client.leaders import by_topic
from ottla.common.errors import ApiError, ErrorCode
from ottla.common.topic_partition import TopicPartition
from ottla.protocol.generated.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.generated.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from ottla.protocol.generated.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)
from ottla.protocol.generated.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)


class Reassignment(NamedTuple):
    """One that goes on. ``replicas`` holds the added and the removed ones too."""

    replicas: list[int]
    adding: list[int]
    removing: list[int]


class ElectionType(IntEnum):
    PREFERRED = 0
    UNCLEAN = 1


def alter_reassignments(
    cluster: Cluster, targets: Mapping[TopicPartition, Sequence[int] | None]
) -> dict[TopicPartition, None]:
    """Move partitions to these replicas; None takes back what goes on. SomeRefused as ever."""
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=cluster.timing.request_timeout_ms,
        topics=[
            ReassignableTopic(
                name=topic,
                partitions=[
                    ReassignablePartition(
                        partition_index=index,
                        replicas=_listed(targets[TopicPartition(topic, index)]),
                    )
                    for index in indexes
                ],
            )
            for topic, indexes in by_topic(targets).items()
        ],
    )
    cluster.refresh()
    response = cluster.ask_again(
        request,
        AlterPartitionReassignmentsResponse,
        node_id=cluster.controller,
        failed=lambda answer: _refusal(answer.error_code, answer.error_message),
    )
    done: dict[TopicPartition, None] = {}
    refused: dict[TopicPartition, ApiError] = {}
    for topic in response.responses:
        for item in topic.partitions:
            partition = TopicPartition(topic.name, item.partition_index)
            if item.error_code:
                refused[partition] = refusal(item.error_code, item.error_message)
            else:
                done[partition] = None
    if refused:
        raise SomeRefused(refused, done)
    return done


def _listed(replicas: Sequence[int] | None) -> list[int] | None:
    return None if replicas is None else list(replicas)


def _refusal(code: int, message: str | None) -> ApiError | None:
    return refusal(code, message) if code else None


def list_reassignments(
    cluster: Cluster, partitions: Iterable[TopicPartition] | None = None
) -> dict[TopicPartition, Reassignment]:
    """What goes on, of these partitions or of all."""
    topics = (
        None
        if partitions is None
        else [
            ListPartitionReassignmentsTopics(name=topic, partition_indexes=indexes)
            for topic, indexes in by_topic(partitions).items()
        ]
    )
    cluster.refresh()
    response = cluster.ask_again(
        ListPartitionReassignmentsRequest(
            timeout_ms=cluster.timing.request_timeout_ms, topics=topics
        ),
        ListPartitionReassignmentsResponse,
        node_id=cluster.controller,
        failed=lambda answer: _refusal(answer.error_code, answer.error_message),
    )
    return {
        TopicPartition(topic.name, item.partition_index): Reassignment(
            item.replicas, item.adding_replicas, item.removing_replicas
        )
        for topic in response.topics
        for item in topic.partitions
    }


def elect_leaders(
    cluster: Cluster, election: ElectionType, partitions: Iterable[TopicPartition] | None = None
) -> dict[TopicPartition, bool]:
    """Elect leaders, of these partitions or of all; whether an election was needed."""
    asked = (
        None
        if partitions is None
        else [
            TopicPartitions(topic=topic, partitions=indexes)
            for topic, indexes in by_topic(partitions).items()
        ]
    )
    cluster.refresh()
    response = cluster.ask_again(
        ElectLeadersRequest(
            election_type=election,
            topic_partitions=asked,
            timeout_ms=cluster.timing.request_timeout_ms,
        ),
        ElectLeadersResponse,
        node_id=cluster.controller,
        failed=lambda answer: _refusal(answer.error_code, None),
    )
    done: dict[TopicPartition, bool] = {}
    refused: dict[TopicPartition, ApiError] = {}
    for result in response.replica_election_results:
        for item in result.partition_result:
            partition = TopicPartition(result.topic, item.partition_id)
            if item.error_code in {ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED}:
                done[partition] = item.error_code == ErrorCode.NONE
            else:
                refused[partition] = refusal(item.error_code, item.error_message)
    if refused:
        raise SomeRefused(refused, done)
    return done


def unregister_broker(cluster: Cluster, node_id: int) -> None:
    """Forget a broker that is stopped and will not come back."""
    cluster.refresh()
    cluster.ask_again(
        UnregisterBrokerRequest(broker_id=node_id),
        UnregisterBrokerResponse,
        node_id=cluster.controller,
        failed=lambda answer: _refusal(answer.error_code, answer.error_message),
    )

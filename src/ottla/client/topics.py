"""Topics and partitions: made, deleted, described."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from ottla.client.cluster import Cluster
from ottla.client.descriptions import (
    CreatedTopic,
    NewTopic,
    PartitionDescription,
    TopicDescription,
)
from ottla.client.errors import SomeRefused, refusal
from ottla.client.metadata import TopicMetadata
from ottla.common.errors import ApiError, ErrorCode
from ottla.protocol.api import ApiKey
from ottla.protocol.generated.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from ottla.protocol.generated.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.protocol.generated.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from ottla.protocol.generated.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)
from ottla.protocol.message import Message

M = TypeVar("M", bound=Message)
T = TypeVar("T")
_STATES_FROM = 6
"""From this version on DeleteTopics names topics in structs, which may hold an id instead."""


def _check(refused: Mapping[str, ApiError], done: Mapping[str, object]) -> None:
    if refused:
        raise SomeRefused(refused, done)


def _not_controller(codes: Iterable[int]) -> ApiError | None:
    if ErrorCode.NOT_CONTROLLER in codes:
        return refusal(ErrorCode.NOT_CONTROLLER)
    return None


def create_topics(
    cluster: Cluster, topics: Iterable[NewTopic], *, validate_only: bool = False
) -> dict[str, CreatedTopic]:
    request = CreateTopicsRequest(
        topics=[_creatable(topic) for topic in topics],
        timeout_ms=cluster.timing.request_timeout_ms,
        validate_only=validate_only,
    )
    cluster.refresh()
    response = cluster.ask_again(
        request,
        CreateTopicsResponse,
        node_id=cluster.controller,
        failed=lambda answer: _not_controller(item.error_code for item in answer.topics),
    )
    done: dict[str, CreatedTopic] = {}
    refused: dict[str, ApiError] = {}
    for item in response.topics:
        if item.error_code:
            refused[item.name] = refusal(item.error_code, item.error_message)
        else:
            done[item.name] = CreatedTopic(
                item.topic_id, item.num_partitions, item.replication_factor
            )
    _check(refused, done)
    return done


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=-1 if topic.assignments else topic.partitions,
        replication_factor=-1 if topic.assignments else topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=partition, broker_ids=list(replicas))
            for partition, replicas in topic.assignments.items()
        ],
        configs=[
            CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()
        ],
    )


def delete_topics(cluster: Cluster, names: Iterable[str]) -> None:
    wanted = list(names)

    def request(version: int) -> DeleteTopicsRequest:
        request = DeleteTopicsRequest(timeout_ms=cluster.timing.request_timeout_ms)
        if version >= _STATES_FROM:
            request.topics = [DeleteTopicState(name=name) for name in wanted]
        else:
            request.topic_names = wanted
        return request

    cluster.refresh()
    response = cluster.ask_again(
        request,
        DeleteTopicsResponse,
        node_id=cluster.controller,
        failed=lambda answer: _not_controller(item.error_code for item in answer.responses),
    )
    refused = {
        item.name or "": refusal(item.error_code, item.error_message)
        for item in response.responses
        if item.error_code
    }
    for name in wanted:
        cluster.metadata.forget(name)
    _check(refused, {name: None for name in wanted if name not in refused})


def create_partitions(
    cluster: Cluster,
    counts: Mapping[str, int],
    *,
    assignments: Mapping[str, Sequence[Sequence[int]]] | None = None,
    validate_only: bool = False,
) -> None:
    """Raise topics to a new number of partitions; ``assignments`` are of the added ones."""
    named = assignments or {}
    request = CreatePartitionsRequest(
        topics=[
            CreatePartitionsTopic(
                name=name,
                count=count,
                assignments=[
                    CreatePartitionsAssignment(broker_ids=list(replicas))
                    for replicas in named[name]
                ]
                if name in named
                else None,
            )
            for name, count in counts.items()
        ],
        timeout_ms=cluster.timing.request_timeout_ms,
        validate_only=validate_only,
    )
    cluster.refresh()
    response = cluster.ask_again(
        request,
        CreatePartitionsResponse,
        node_id=cluster.controller,
        failed=lambda answer: _not_controller(item.error_code for item in answer.results),
    )
    refused = {
        item.name: refusal(item.error_code, item.error_message)
        for item in response.results
        if item.error_code
    }
    for name in counts:
        cluster.metadata.forget(name)
    _check(refused, {name: None for name in counts if name not in refused})


def describe_topics(
    cluster: Cluster, names: Iterable[str], *, page_partitions: int = 2000
) -> dict[str, TopicDescription]:
    """Topics with their partitions, page by page where brokers have the API for that."""
    wanted = list(dict.fromkeys(names))
    if not wanted:
        return {}
    deadline = cluster.deadline()
    cluster.refresh(deadline=deadline)
    if cluster.connection(-1, deadline).serves(ApiKey.DESCRIBE_TOPIC_PARTITIONS):
        return _describe_by_page(cluster, wanted, page_partitions)
    metadata = cluster.refresh(wanted, deadline=deadline)
    done: dict[str, TopicDescription] = {}
    refused: dict[str, ApiError] = {}
    for name in wanted:
        topic = metadata.topics.get(name)
        if topic is None or topic.error_code:
            code = topic.error_code if topic else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            refused[name] = refusal(code)
        else:
            done[name] = _from_metadata(topic)
    _check(refused, done)
    return done


def _from_metadata(topic: TopicMetadata) -> TopicDescription:
    partitions = [
        PartitionDescription(
            item.partition,
            item.leader,
            item.leader_epoch,
            item.replicas,
            item.isr,
            item.offline_replicas,
            [],
            [],
        )
        for item in topic.partitions.values()
    ]
    return TopicDescription(topic.name, topic.topic_id, topic.internal, partitions)


def _describe_by_page(
    cluster: Cluster, names: list[str], page_partitions: int
) -> dict[str, TopicDescription]:
    done: dict[str, TopicDescription] = {}
    refused: dict[str, ApiError] = {}
    cursor: DescribeTopicPartitionsRequestCursor | None = None
    while True:
        request = DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=name) for name in names],
            response_partition_limit=page_partitions,
            cursor=cursor,
        )
        response = cluster.ask_again(request, DescribeTopicPartitionsResponse)
        for topic in response.topics:
            name = topic.name or ""
            if topic.error_code:
                refused[name] = refusal(topic.error_code)
                continue
            description = done.setdefault(
                name, TopicDescription(name, topic.topic_id, topic.is_internal, [])
            )
            description.partitions.extend(_partitions(topic))
        following = response.next_cursor
        if following is None:
            break
        assert cursor is None or (following.topic_name, following.partition_index) > (
            cursor.topic_name,
            cursor.partition_index,
        ), "the broker pages in circles"
        cursor = DescribeTopicPartitionsRequestCursor(
            topic_name=following.topic_name, partition_index=following.partition_index
        )
    _check(refused, done)
    return {name: done[name] for name in names if name in done}


def _partitions(topic: DescribeTopicPartitionsResponseTopic) -> list[PartitionDescription]:
    return [
        PartitionDescription(
            item.partition_index,
            item.leader_id,
            item.leader_epoch,
            item.replica_nodes,
            item.isr_nodes,
            item.offline_replicas,
            item.eligible_leader_replicas or [],
            item.last_known_elr or [],
        )
        for item in topic.partitions
    ]

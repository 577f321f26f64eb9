"""Requests that go to the leader of each partition, and are asked again where leaders moved."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from ottla.client.cluster import Cluster
from ottla.client.errors import BrokerUnavailable, refusal
from ottla.client.system_time import Deadline
from ottla.common.errors import RETRIABLE, ApiError, ErrorCode
from ottla.common.topic_partition import TopicPartition
from ottla.protocol.message import Message

M = TypeVar("M", bound=Message)
V = TypeVar("V")


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """The partitions of each topic, as most requests list them."""
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return topics


def by_leader(
    cluster: Cluster, partitions: Iterable[TopicPartition]
) -> tuple[dict[int, list[TopicPartition]], dict[TopicPartition, ApiError]]:
    """The partitions that each node leads, and why some have no leader that is known."""
    led: dict[int, list[TopicPartition]] = {}
    leaderless: dict[TopicPartition, ApiError] = {}
    for partition in partitions:
        leader = cluster.metadata.leader(partition)
        if leader >= 0:
            led.setdefault(leader, []).append(partition)
        else:
            code = cluster.metadata.error(partition)
            leaderless[partition] = refusal(code, f"{partition}: {code.name}")
    return led, leaderless


def ask_leaders(
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    request: Callable[[list[TopicPartition]], Message],
    answer: type[M],
    read: Callable[[M], Iterable[tuple[TopicPartition, int, V]]],
    *,
    deadline: Deadline | None = None,
) -> tuple[dict[TopicPartition, V], dict[TopicPartition, ApiError]]:
    """Ask until each partition has an answer or a refusal that will not pass.

    ``request`` makes the request for partitions of one leader; ``read`` takes the answer apart into
    partition, error code and value.
    """
    deadline = deadline or cluster.deadline()
    wanted = pending = list(dict.fromkeys(partitions))
    done: dict[TopicPartition, V] = {}
    refused: dict[TopicPartition, ApiError] = {}
    told: dict[TopicPartition, ApiError] = {}
    """What a leader said last; worth more than that there was no time to hear it again."""
    attempt = 0
    while pending:
        cluster.know({partition.topic for partition in pending}, deadline)
        led, passing = by_leader(cluster, pending)
        for node_id, group in led.items():
            try:
                response = cluster.ask(node_id, request(group), answer, deadline)
            except BrokerUnavailable as error:
                lost = refusal(ErrorCode.NETWORK_EXCEPTION, str(error))
                known = told if deadline.passed else {}
                passing.update({partition: known.get(partition, lost) for partition in group})
                continue
            for partition, code, value in read(response):
                if code == ErrorCode.NONE:
                    done[partition] = value
                elif code in RETRIABLE:
                    passing[partition] = told[partition] = refusal(code)
                else:
                    refused[partition] = refusal(code)
        pending = list(passing)
        attempt += 1
        if pending:
            cluster.expire_metadata()
            if deadline.passed or _is_hopeless(passing):
                refused.update(passing)
                break
            cluster.pause(attempt, deadline)
    return {partition: done[partition] for partition in wanted if partition in done}, refused


def _is_hopeless(passing: dict[TopicPartition, ApiError]) -> bool:
    """A topic or partition that does not exist is not worth waiting for."""
    return bool(passing) and all(
        error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for error in passing.values()
    )

"""Topics and partitions as clients see them: leaders that they can reach, replicas they cannot."""

from collections.abc import Iterable
from typing import Final, NamedTuple, TypeAlias

from ottla.common.errors import ErrorCode, InvalidTopicException
from ottla.controller.topic_names import check_topic_name
from ottla.metadata.topics import PartitionImage
from ottla.requests.endpoints import NO_NODE, Brokers, alive

CONSUMER_OFFSETS: Final = "__consumer_offsets"
TRANSACTION_STATE: Final = "__transaction_state"
SHARE_GROUP_STATE: Final = "__share_group_state"
INTERNAL_TOPICS: Final = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE})


class ShownPartition(NamedTuple):
    """A partition from a client's point of view."""

    error: ErrorCode
    leader: int
    replicas: list[int]
    isr: list[int]
    offline: list[int]


SeenBrokers: TypeAlias = dict[int, tuple[bool, tuple[bytes, ...]]]
"""Of each registered broker, whether it is there for clients, and its log directories."""


def seen_brokers(brokers: Brokers, listener_name: str) -> SeenBrokers:
    """All that ``show_partition`` looks at."""
    return {
        node_id: (alive(brokers, node_id, listener_name), broker.log_dirs)
        for node_id, broker in brokers.items()
    }


def show_partition(
    brokers: Brokers,
    partition: PartitionImage,
    listener_name: str,
    *,
    errors_of_version_0: bool = False,
    listener_errors: bool = True,
) -> ShownPartition:
    """Show a partition to a client of a listener.

    Version 0 of Metadata leaves out replicas that are not there and says so by an error; versions
    before 6 do not know LISTENER_NOT_FOUND.
    """
    replicas, isr = list(partition.replicas), list(partition.isr)
    if errors_of_version_0:
        replicas = [node for node in replicas if alive(brokers, node, listener_name)]
        isr = [node for node in isr if alive(brokers, node, listener_name)]
    offline = [
        node
        for node in partition.replicas
        if not alive(brokers, node, listener_name)
        or not brokers[node].has_online_directory(partition.directory_of(node))
    ]
    leader = partition.leader
    if not alive(brokers, leader, listener_name):
        error = ErrorCode.LEADER_NOT_AVAILABLE
        if leader in brokers and listener_errors:
            error = ErrorCode.LISTENER_NOT_FOUND
        return ShownPartition(error, NO_NODE, replicas, isr, offline)
    missing = len(replicas) < len(partition.replicas) or len(isr) < len(partition.isr)
    error = ErrorCode.REPLICA_NOT_AVAILABLE if missing else ErrorCode.NONE
    return ShownPartition(error, leader, replicas, isr, offline)


def reason_unknown(name: str) -> ErrorCode:
    """Why a topic of this name is not there: nobody made it, or nobody can."""
    try:
        check_topic_name(name)
    except InvalidTopicException:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def distinct(names: Iterable[str]) -> list[str]:
    """Each name once, in the order of its first mention."""
    return list(dict.fromkeys(names))

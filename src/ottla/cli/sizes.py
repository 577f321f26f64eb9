"""How many bytes partitions have: on the disks of brokers, and in the remote store.

The first is what DescribeLogDirs answers, one request to each broker that has a replica; the other
is only looked for where a topic has remote storage, since it takes reading a topic.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ottla.cli.output import Output
from ottla.client.errors import BrokerUnavailable, SomeRefused
from ottla.common.topic_partition import TopicPartition

if TYPE_CHECKING:
    from ottla.client.admin import Admin
    from ottla.client.descriptions import LogDirDescription, TopicDescription


class Replica(NamedTuple):
    """A replica of a partition: in which log directory of its broker it lies."""

    log_dir: str
    size: int


Replicas = Mapping[TopicPartition, Mapping[int, Replica]]
"""By partition and broker, as far as brokers have answered."""


def describe_replicas(
    admin: "Admin", topics: Iterable["TopicDescription"], output: Output
) -> Replicas:
    """Where all replicas lie and how large they are; brokers that do not say so are passed over."""
    replicas: dict[TopicPartition, dict[int, Replica]] = {}
    hosts: dict[int, list[TopicPartition]] = {}
    for topic in topics:
        for each in topic.partitions:
            partition = TopicPartition(topic.name, each.partition)
            replicas[partition] = {}
            for node_id in each.replicas:
                hosts.setdefault(node_id, []).append(partition)
    alive = admin.cluster.metadata.brokers or admin.cluster.refresh().brokers
    for node_id in sorted(hosts.keys() & alive.keys()):
        for log_dir in _ask(admin, node_id, hosts[node_id], output):
            for found in log_dir.replicas:
                if not found.is_future:
                    partition = TopicPartition(found.topic, found.partition)
                    replicas[partition][node_id] = Replica(log_dir.path, found.size)
    return replicas


def _ask(
    admin: "Admin", node_id: int, partitions: list[TopicPartition], output: Output
) -> list["LogDirDescription"]:
    try:
        return admin.describe_log_dirs([node_id], partitions=partitions)[node_id]
    except (SomeRefused, BrokerUnavailable) as error:
        output.talk(f"broker {node_id} does not tell the size of its replicas: {error}")
        return []


def one_size(replicas: Mapping[int, Replica], leader: int) -> int | None:
    """The bytes of the leader's replica, or of the largest where that one is not known."""
    if leader in replicas:
        return replicas[leader].size
    return max((each.size for each in replicas.values()), default=None)

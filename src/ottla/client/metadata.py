"""What a client knows of a cluster: its brokers, its topics, and who leads which partition."""

from typing import NamedTuple

from ottla.client.connection import Address
from ottla.common.errors import ErrorCode
from ottla.common.topic_partition import TopicPartition
from ottla.protocol.generated.describe_cluster import DescribeClusterResponse
from ottla.protocol.generated.metadata import MetadataResponse, MetadataResponseTopic


class BrokerMetadata(NamedTuple):
    node_id: int
    address: Address
    rack: str | None


class PartitionMetadata(NamedTuple):
    partition: int
    leader: int
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    offline_replicas: list[int]
    error_code: int


class TopicMetadata(NamedTuple):
    name: str
    topic_id: bytes
    internal: bool
    partitions: dict[int, PartitionMetadata]
    error_code: int

    @property
    def exists(self) -> bool:
        return self.error_code == ErrorCode.NONE and bool(self.partitions)


class ClusterMetadata:
    """A picture of the cluster, made of one Metadata answer or several."""

    __slots__ = ("brokers", "cluster_id", "controller_id", "topics")

    def __init__(self) -> None:
        self.cluster_id: str | None = None
        self.controller_id = -1
        self.brokers: dict[int, BrokerMetadata] = {}
        self.topics: dict[str, TopicMetadata] = {}

    def learn(self, response: MetadataResponse) -> None:
        """Take over an answer; topics that it does not speak of stay as they were."""
        self.cluster_id = response.cluster_id
        self.controller_id = response.controller_id
        self.brokers = {
            broker.node_id: BrokerMetadata(
                broker.node_id, Address(broker.host, broker.port), broker.rack
            )
            for broker in response.brokers
        }
        for topic in response.topics:
            if topic.name is not None:
                self.topics[topic.name] = _topic(topic.name, topic)

    def learn_controllers(self, response: DescribeClusterResponse) -> None:
        """Take over what a controller says of its kind; they stand in the brokers' place."""
        self.cluster_id = response.cluster_id
        self.controller_id = response.controller_id
        self.brokers = {
            node.broker_id: BrokerMetadata(node.broker_id, Address(node.host, node.port), node.rack)
            for node in response.brokers
        }

    def forget(self, topic: str) -> None:
        """What is known of a topic has shown to be wrong."""
        self.topics.pop(topic, None)

    def leader(self, partition: TopicPartition) -> int:
        """The node that leads a partition; -1 when none is known."""
        topic = self.topics.get(partition.topic)
        if topic is None or topic.error_code != ErrorCode.NONE:
            return -1
        found = topic.partitions.get(partition.partition)
        if found is None or found.leader not in self.brokers:
            return -1
        return found.leader

    def error(self, partition: TopicPartition) -> ErrorCode:
        """Why :meth:`leader` knows none."""
        topic = self.topics.get(partition.topic)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if topic.error_code != ErrorCode.NONE:
            return ErrorCode(topic.error_code)
        if partition.partition not in topic.partitions:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.LEADER_NOT_AVAILABLE


def _topic(name: str, topic: MetadataResponseTopic) -> TopicMetadata:
    partitions = {
        item.partition_index: PartitionMetadata(
            item.partition_index,
            item.leader_id,
            item.leader_epoch,
            item.replica_nodes,
            item.isr_nodes,
            item.offline_replicas,
            item.error_code,
        )
        for item in topic.partitions
    }
    return TopicMetadata(
        name, topic.topic_id, topic.is_internal, dict(sorted(partitions.items())), topic.error_code
    )

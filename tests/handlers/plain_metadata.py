"""What Metadata answers, worked out from the image for each request alone."""

from ottla.common.errors import ErrorCode
from ottla.common.identifiers import ZERO_UUID
from ottla.controller.topic_names import check_topic_name
from ottla.metadata.brokers import BrokerImage
from ottla.metadata.image import MetadataImage
from ottla.metadata.topics import PartitionImage, TopicImage
from ottla.protocol.generated.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

ON_TOPIC, ON_CLUSTER = 3576, 8096
"""Everything, as Kafka says it."""
INTERNAL = {"__consumer_offsets", "__transaction_state", "__share_group_state"}


class PlainMetadata:
    """Of a broker without an authorizer that makes no topics by itself."""

    def __init__(
        self, image: MetadataImage, version: int, listener: str, own_id: int, dialled: str
    ) -> None:
        self.image = image
        self.version = version
        self.listener = listener
        self.own_id = own_id
        self.dialled = dialled

    def answer(self, request: MetadataRequest, cluster_id: str) -> MetadataResponse:
        topics = self._topics(request)
        if request.include_topic_authorized_operations:
            for topic in topics:
                if topic.name is not None:
                    topic.topic_authorized_operations = ON_TOPIC
        response = MetadataResponse(
            brokers=self._brokers(),
            cluster_id=cluster_id,
            controller_id=self._controller(),
            topics=topics,
        )
        if request.include_cluster_authorized_operations:
            response.cluster_authorized_operations = ON_CLUSTER
        return response

    def _brokers(self) -> list[MetadataResponseBroker]:
        found = []
        for node_id in sorted(self.image.brokers):
            broker = self.image.brokers[node_id]
            if not self._is_there(node_id):
                continue
            endpoint = broker.listeners[self.listener]
            host = endpoint.host
            if node_id == self.own_id and host in ("", "0.0.0.0", "::"):
                host = self.dialled
            found.append(
                MetadataResponseBroker(
                    node_id=node_id, host=host, port=endpoint.port, rack=broker.rack
                )
            )
        return found

    def _controller(self) -> int:
        unfenced = [node_id for node_id, b in self.image.brokers.items() if not b.fenced]
        if self.own_id in unfenced:
            return self.own_id
        return min(unfenced, default=-1)

    def _is_there(self, node_id: int) -> bool:
        broker = self.image.brokers.get(node_id)
        return broker is not None and not broker.fenced and self.listener in broker.listeners

    def _topics(self, request: MetadataRequest) -> list[MetadataResponseTopic]:
        by_name, by_id = self.image.topics.by_name, self.image.topics.by_id
        asked = request.topics
        if asked is None or (self.version == 0 and not asked):
            return [self._topic(by_name[name]) for name in sorted(by_name)]
        ids = [topic.topic_id for topic in asked if topic.topic_id != ZERO_UUID]
        if ids:
            ids = list(dict.fromkeys(ids))
            return [
                MetadataResponseTopic(
                    error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id
                )
                for topic_id in ids
                if topic_id not in by_id
            ] + [self._topic(by_id[topic_id]) for topic_id in ids if topic_id in by_id]
        names = list(dict.fromkeys(topic.name or "" for topic in asked))
        return [self._topic(by_name[name]) for name in names if name in by_name] + [
            MetadataResponseTopic(
                error_code=_why_unknown(name), name=name, is_internal=name in INTERNAL
            )
            for name in names
            if name not in by_name
        ]

    def _topic(self, topic: TopicImage) -> MetadataResponseTopic:
        return MetadataResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            is_internal=topic.name in INTERNAL,
            partitions=[
                self._partition(index, topic.partitions[index])
                for index in sorted(topic.partitions)
            ],
        )

    def _partition(self, index: int, partition: PartitionImage) -> MetadataResponsePartition:
        there = {node for node in partition.replicas if self._is_there(node)}
        replicas, isr = list(partition.replicas), list(partition.isr)
        error = ErrorCode.NONE
        if self.version == 0:
            replicas = [node for node in replicas if node in there]
            isr = [node for node in isr if self._is_there(node)]
            if (len(replicas), len(isr)) != (len(partition.replicas), len(partition.isr)):
                error = ErrorCode.REPLICA_NOT_AVAILABLE
        leader = partition.leader
        if not self._is_there(leader):
            known = leader in self.image.brokers and self.version >= 6
            error = ErrorCode.LISTENER_NOT_FOUND if known else ErrorCode.LEADER_NOT_AVAILABLE
            leader = -1
        return MetadataResponsePartition(
            error_code=error,
            partition_index=index,
            leader_id=leader,
            leader_epoch=partition.leader_epoch,
            replica_nodes=replicas,
            isr_nodes=isr,
            offline_replicas=[
                node
                for node, directory in zip(partition.replicas, partition.directories, strict=True)
                if node not in there or not _has(self.image.brokers[node], directory)
            ],
        )


def _has(broker: BrokerImage, directory: bytes) -> bool:
    """Small numbers are no directories; one of them says that it is lost."""
    number = int.from_bytes(directory, "big")
    if number < 100:
        return number != 2
    return not broker.log_dirs or directory in broker.log_dirs


def _why_unknown(name: str) -> ErrorCode:
    try:
        check_topic_name(name)
    except Exception:  # noqa: BLE001 - whatever is wrong with it
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

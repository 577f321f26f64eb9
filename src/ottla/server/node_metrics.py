"""What is known of a node as a whole, by Kafka's names; asked for when somebody looks.

Figures of each partition are series, which are read one by one, so that a page of many partitions
can be made in slices.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final

from ottla.metadata.cache import MetadataCache
from ottla.network.server import SocketServer
from ottla.observability.metrics import Registry, State, Value
from ottla.observability.names import Form, MetricName
from ottla.protocol.api import APIS
from ottla.raft.driver import RaftDriver
from ottla.replication.partition import Partition
from ottla.replication.replicas import Replicas
from ottla.replication.topic_counts import CountedTopics
from ottla.requests.dispatch import BrokerDispatcher
from ottla.requests.request_counts import RequestCounts
from ottla.storage.manager import LogManager

_LOG: Final = MetricName("kafka.log", "Log")
_PARTITION: Final = MetricName("kafka.cluster", "Partition")
_RAFT: Final = MetricName("kafka.server", "raft-metrics")
_CONTROLLER: Final = MetricName("kafka.controller", "KafkaController")
_SOCKETS: Final = MetricName("kafka.server", "socket-server-metrics")
_TOPICS: Final = MetricName("kafka.server", "BrokerTopicMetrics")
_REQUESTS: Final = MetricName("kafka.network", "RequestMetrics")
_METADATA: Final = MetricName("kafka.server", "broker-metadata-metrics")


def register_raft(registry: Registry, raft: RaftDriver) -> None:
    """This node's part in the quorum of the metadata log."""
    node = raft.node
    for attribute, ask in (
        ("current-leader", lambda: node.leader_id),
        ("current-epoch", lambda: node.epoch),
        ("high-watermark", lambda: raft.high_watermark),
        ("log-end-offset", lambda: node.log_end_offset),
        ("number-of-voters", lambda: len(node.voters.ids)),
    ):
        registry.gauge(_RAFT._replace(attribute=attribute), ask)

    def role() -> str:
        return type(node.role).__name__.lower()

    registry.register(_RAFT._replace(attribute="current-state"), State(role))


def register_metadata(registry: Registry, metadata: MetadataCache) -> None:
    """The cluster as this node knows it: how far, and who is there."""

    def brokers(*, are_active: bool) -> Callable[[], float]:
        return lambda: sum(
            1 for each in metadata.image.brokers.values() if each.is_active == are_active
        )

    registry.gauge(_CONTROLLER._replace(name="ActiveBrokerCount"), brokers(are_active=True))
    registry.gauge(_CONTROLLER._replace(name="FencedBrokerCount"), brokers(are_active=False))
    registry.gauge(
        _CONTROLLER._replace(name="GlobalTopicCount"), lambda: len(metadata.image.topics.by_name)
    )
    registry.gauge(
        _METADATA._replace(attribute="last-applied-record-offset"), lambda: metadata.image.offset
    )


def register_active(registry: Registry, raft: RaftDriver) -> None:
    """Whether the controller of this node is the one that acts."""
    registry.gauge(
        _CONTROLLER._replace(name="ActiveControllerCount"), lambda: 1 if raft.is_leader else 0
    )


def register_connections(
    registry: Registry, server: SocketServer, listeners: Iterable[str]
) -> None:
    for name in listeners:
        registry.gauge(
            _SOCKETS.tagged(listener=name)._replace(attribute="connection-count"),
            partial(server.connections_at, name),
        )


def register_requests(registry: Registry, dispatcher: BrokerDispatcher) -> None:
    """What clients and followers ask for, and how long it takes, as the dispatcher counts it."""

    def asked(key: int) -> Callable[[], Iterator[Value]]:
        def count() -> Iterator[Value]:
            yield (), sum(dispatcher.counts[key].by_version)

        return count

    for name, key in (("TotalProduceRequestsPerSec", 0), ("TotalFetchRequestsPerSec", 1)):
        registry.series(_TOPICS._replace(name=name), asked(key), Form.COUNTER)

    def by_version() -> Iterator[Value | None]:
        for key, counts in list(dispatcher.counts.items()):
            for version, number in enumerate(counts.by_version):
                tags = (("request", APIS[key].name), ("version", str(version)))
                yield (tags, number) if number else None

    registry.series(_REQUESTS._replace(name="RequestsPerSec"), by_version, Form.COUNTER)

    def register_times(key: int, counts: RequestCounts) -> None:
        for name, histogram in (
            ("TotalTimeMs", counts.total),
            ("LocalTimeMs", counts.local),
            ("RemoteTimeMs", counts.remote),
        ):
            named = _REQUESTS._replace(name=name).tagged(request=APIS[key].name)
            registry.register(named, histogram)

    for key, counts in dispatcher.counts.items():
        register_times(key, counts)
    dispatcher.on_counts = register_times


def register_topics(registry: Registry, topics: CountedTopics) -> None:
    """What came and went: of all topics together, and of each."""

    def counted(attribute: str) -> Callable[[], Iterator[Value]]:
        def values() -> Iterator[Value]:
            total = getattr(topics.gone, attribute)
            for topic, counts in list(topics.by_topic.items()):
                value = getattr(counts, attribute)
                total += value
                yield (("topic", topic),), value
            yield (), total

        return values

    for name, attribute in (
        ("MessagesInPerSec", "messages_in"),
        ("BytesInPerSec", "bytes_in"),
        ("BytesOutPerSec", "bytes_out"),
        ("FailedProduceRequestsPerSec", "failed_produces"),
        ("FailedFetchRequestsPerSec", "failed_fetches"),
    ):
        registry.series(_TOPICS._replace(name=name), counted(attribute), Form.COUNTER)


def register_storage(registry: Registry, logs: LogManager) -> None:
    """The log directories, and each log in them."""
    offline = MetricName("kafka.log", "LogManager", "OfflineLogDirectoryCount")
    registry.gauge(offline, lambda: len(logs.directories) - len(logs.online_directories))


def register_partitions(registry: Registry, replicas: Replicas) -> None:
    """Each partition of which this broker has a replica."""
    register_topics(registry, replicas.outside.topics)

    def each(
        read: Callable[[Partition], float | None],
    ) -> Callable[[], Iterator[Value | None]]:
        def values() -> Iterator[Value | None]:
            for partition in list(replicas.partitions()):
                value = read(partition)
                tags = (("topic", partition.topic), ("partition", str(partition.index)))
                yield None if value is None else (tags, value)

        return values

    def of_leader(read: Callable[[Partition], float]) -> Callable[[Partition], float | None]:
        return lambda partition: read(partition) if partition.is_leader else None

    for name, read in (
        ("Size", lambda partition: partition.log.size()),
        ("LogStartOffset", lambda partition: partition.log.log_start_offset),
        ("LogEndOffset", lambda partition: partition.log.log_end_offset),
        ("NumLogSegments", lambda partition: len(partition.log.segments)),
    ):
        registry.series(_LOG._replace(name=name), each(read))
    for name, led in (
        ("ReplicasCount", lambda partition: len(partition.replicas)),
        ("InSyncReplicasCount", lambda partition: len(partition.isr)),
        ("UnderReplicated", lambda partition: len(partition.isr) < partition.replication_factor),
        ("UnderMinIsr", lambda partition: partition.is_under_min_isr),
        ("AtMinIsr", lambda partition: len(partition.isr) == partition.effective_min_isr),
    ):
        registry.series(_PARTITION._replace(name=name), each(of_leader(led)))

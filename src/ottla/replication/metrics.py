"""What is known of this broker's replicas, by Kafka's names; asked for when somebody looks."""

from typing import Final

from ottla.observability.metrics import Gauge, Registry
from ottla.observability.names import MetricName
from ottla.replication.fetchers import Fetchers
from ottla.replication.replicas import Replicas

_BEAN: Final = MetricName("kafka.server", "ReplicaManager")
_MANAGER: Final = MetricName("kafka.server", "ReplicaFetcherManager")
_STATS: Final = MetricName("kafka.server", "FetcherStats")
_TOPICS: Final = MetricName("kafka.server", "BrokerTopicMetrics")
_FETCHERS: Final = "Replica"
"""The client that all fetchers together are, among Kafka's names."""


def register(registry: Registry, replicas: Replicas) -> None:
    """Let ``registry`` know the figures of ``replicas``."""
    outside = replicas.outside
    counts = outside.counts
    for name, instrument in (
        ("PartitionCount", Gauge(lambda: counts.present)),
        ("LeaderCount", Gauge(lambda: counts.led)),
        ("UnderReplicatedPartitions", Gauge(lambda: counts.under_replicated)),
        ("UnderMinIsrPartitionCount", Gauge(lambda: counts.under_min_isr)),
        ("AtMinIsrPartitionCount", Gauge(lambda: counts.at_min_isr)),
        ("OfflineReplicaCount", Gauge(lambda: replicas.offline_count)),
        ("IsrExpandsPerSec", outside.isr_expands),
        ("IsrShrinksPerSec", outside.isr_shrinks),
        ("FailedIsrUpdatesPerSec", outside.failed_isr_updates),
    ):
        registry.register(_BEAN._replace(name=name), instrument)


def register_fetchers(registry: Registry, fetchers: Fetchers) -> None:
    """Let ``registry`` know how the followed partitions come on."""
    lag = Gauge(lambda: max(fetchers.lags().values(), default=0))
    failed = Gauge(lambda: fetchers.failed_partitions)
    for bean, name, instrument in (
        (_MANAGER.tagged(clientId=_FETCHERS), "MaxLag", lag),
        (_MANAGER.tagged(clientId=_FETCHERS), "FailedPartitionsCount", failed),
        (_STATS.tagged(clientId=_FETCHERS), "RequestsPerSec", fetchers.requests),
        (_TOPICS, "ReplicationBytesInPerSec", fetchers.bytes_in),
    ):
        registry.register(bean._replace(name=name), instrument)

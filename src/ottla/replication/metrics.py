"""What is known of this broker's replicas, by Kafka's names; asked for when somebody looks."""

from collections.abc import Callable
from typing import Final

from ottla.observability.metrics import Gauge, Registry
from ottla.observability.names import MetricName
from ottla.replication.partition import Partition
from ottla.replication.replicas import Replicas

_BEAN: Final = MetricName("kafka.server", "ReplicaManager")


def register(registry: Registry, replicas: Replicas) -> None:
    """Let ``registry`` know the figures of ``replicas``."""

    def count(which: Callable[[Partition], bool]) -> Gauge:
        return Gauge(lambda: sum(1 for partition in replicas.partitions() if which(partition)))

    surroundings = replicas.surroundings
    for name, instrument in (
        ("PartitionCount", count(lambda _partition: True)),
        ("LeaderCount", count(lambda partition: partition.is_leader)),
        ("UnderReplicatedPartitions", count(_is_under_replicated)),
        ("UnderMinIsrPartitionCount", count(lambda partition: partition.is_under_min_isr)),
        ("AtMinIsrPartitionCount", count(_is_at_min_isr)),
        ("OfflineReplicaCount", Gauge(lambda: replicas.offline_count)),
        ("IsrExpandsPerSec", surroundings.isr_expands),
        ("IsrShrinksPerSec", surroundings.isr_shrinks),
        ("FailedIsrUpdatesPerSec", surroundings.failed_isr_updates),
    ):
        registry.register(_BEAN._replace(name=name), instrument)


def _is_under_replicated(partition: Partition) -> bool:
    return partition.is_leader and len(partition.isr) < partition.replication_factor


def _is_at_min_isr(partition: Partition) -> bool:
    return partition.is_leader and len(partition.isr) == partition.effective_min_isr

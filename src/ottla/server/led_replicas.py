"""The partitions that a broker leads, as its settings want them: ISRs, throttle, figures."""

from collections.abc import Callable

from ottla.common.environment import Scheduler
from ottla.metadata.brokers import BrokerImage
from ottla.observability.metrics import Registry
from ottla.replication import metrics
from ottla.replication.alter_partition import Controller
from ottla.replication.driver import LeaderDriver
from ottla.replication.leader_throttle import LeaderThrottle
from ottla.replication.partition import Partition
from ottla.replication.quota import ReplicationQuota, ThrottledReplicas
from ottla.replication.replicas import Replicas
from ottla.requests.context import MetadataSource
from ottla.server.settings import Settings


class LedReplicas:
    def __init__(
        self,
        replicas: Replicas,
        controller: Controller,
        metadata: MetadataSource,
        settings: Settings,
        scheduler: Scheduler,
        broker_epoch: Callable[[], int],
        registry: Registry,
    ) -> None:
        config = settings.broker
        self._metadata = metadata
        self._settings = settings
        self._node_id = config.node_id
        self._driver = LeaderDriver(
            replicas,
            controller,
            scheduler,
            node_id=config.node_id,
            broker_epoch=broker_epoch,
            registration=self._registration,
            replica_lag_time_max_ms=config.replica_lag_time_max_ms,
        )
        quota = ReplicationQuota(
            window_count=config.replication_quota_window_num,
            window_seconds=config.replication_quota_window_size_seconds,
        )
        replicas.leader_throttle = self._throttle = LeaderThrottle(
            quota, self._is_throttled, scheduler
        )
        metrics.register(registry, replicas)

    def start(self) -> None:
        self.reconfigured()
        self._driver.start()

    def stop(self) -> None:
        self._driver.stop()

    def reconfigured(self) -> None:
        """A dynamic setting of the broker has changed."""
        rate = self._settings.throttles.leader_replication_throttled_rate
        self._throttle.quota.bytes_per_second = rate

    def _registration(self, broker_id: int) -> BrokerImage | None:
        return self._metadata.image.brokers.get(broker_id)

    def _is_throttled(self, partition: Partition) -> bool:
        named = self._settings.topic(partition.topic).leader_replication_throttled_replicas
        return bool(named) and partition.index in ThrottledReplicas(named, self._node_id)

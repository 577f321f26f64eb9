"""The partitions that a broker leads, as its settings want them: their ISRs and the throttle."""

from ottla.common.environment import Scheduler
from ottla.metadata.brokers import BrokerImage
from ottla.replication.alter_partition import AlterPartitions, Controller
from ottla.replication.driver import LeaderDriver
from ottla.replication.leader_throttle import LeaderThrottle
from ottla.replication.partition import Partition
from ottla.replication.quota import ReplicationQuota, ThrottledReplicas
from ottla.replication.replicas import Replicas
from ottla.requests.context import MetadataSource
from ottla.server.lifecycle import BrokerLifecycle
from ottla.server.settings import Settings


class KnownBrokers:
    """The brokers as the metadata log has them, and this one's epoch as it was registered."""

    def __init__(self, metadata: MetadataSource, lifecycle: BrokerLifecycle) -> None:
        self._metadata = metadata
        self._lifecycle = lifecycle

    def registration(self, broker_id: int) -> BrokerImage | None:
        return self._metadata.image.brokers.get(broker_id)

    def broker_epoch(self) -> int:
        return self._lifecycle.epoch


class LedReplicas:
    """Made before ``Replicas``, which take what they propose ISRs with and their throttle."""

    def __init__(
        self,
        controller: Controller,
        brokers: KnownBrokers,
        settings: Settings,
        scheduler: Scheduler,
    ) -> None:
        config = settings.broker
        self._settings = settings
        self._scheduler = scheduler
        self._node_id = config.node_id
        self._driver: LeaderDriver | None = None
        self.alter_partitions = AlterPartitions(
            controller, scheduler, node_id=config.node_id, broker_epoch=brokers.broker_epoch
        )
        quota = ReplicationQuota(
            window_count=config.replication_quota_window_num,
            window_seconds=config.replication_quota_window_size_seconds,
        )
        self.throttle = LeaderThrottle(quota, self._is_throttled, scheduler)

    def start(self, replicas: Replicas) -> None:
        """Look after the ISRs of ``replicas``."""
        self.reconfigured()
        self._driver = LeaderDriver(replicas, self._scheduler)
        self._driver.start()

    def stop(self) -> None:
        self.alter_partitions.stop()
        if self._driver is not None:
            self._driver.stop()

    def reconfigured(self) -> None:
        """A dynamic setting of the broker has changed."""
        rate = self._settings.throttles.leader_replication_throttled_rate
        self.throttle.quota.bytes_per_second = rate

    def _is_throttled(self, partition: Partition) -> bool:
        named = self._settings.topic(partition.topic).leader_replication_throttled_replicas
        return bool(named) and partition.index in ThrottledReplicas(named, self._node_id)

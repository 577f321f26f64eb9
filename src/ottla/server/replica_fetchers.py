"""The fetchers of a broker as its settings want them, and the throttle that they share (KIP-73)."""

from typing import Final

from ottla.config.broker import BrokerConfig
from ottla.config.limits import LONG_MAX
from ottla.network.broker_channel import BrokerChannel
from ottla.replication import metrics
from ottla.replication.fetchers import Fetchers
from ottla.replication.fetching import FetchSettings
from ottla.replication.partition import Partition
from ottla.replication.quota import ReplicationQuota, ThrottledReplicas
from ottla.server.lifecycle import BrokerLifecycle
from ottla.server.settings import Settings
from ottla.server.shared_server import SharedServer

NO_BOUND: Final = LONG_MAX


class ReplicaFetchers:
    """Its ``fetchers`` follow what ``Replicas`` says is to be followed."""

    def __init__(
        self, shared: SharedServer, settings: Settings, lifecycle: BrokerLifecycle
    ) -> None:
        config = shared.config
        self._shared = shared
        self._settings = settings
        self._node_id = config.node_id
        self._quota = ReplicationQuota(
            window_count=config.replication_quota_window_num,
            window_seconds=config.replication_quota_window_size_seconds,
        )
        self.fetchers = Fetchers(
            node_id=config.node_id,
            scheduler=shared.scheduler,
            make_channel=self._channel,
            settings=_fetch_settings(config),
            per_leader=config.num_replica_fetchers,
            broker_epoch=lambda: lifecycle.epoch,
            quota=self._quota,
            is_throttled=self._is_throttled,
        )
        metrics.register_fetchers(shared.metrics, self.fetchers)

    def _channel(self, number: int) -> BrokerChannel:
        timeout_ms = self._shared.config.replica_socket_timeout_ms
        return self._shared.broker_channel(f"fetcher-{number}", timeout_ms)

    def _is_throttled(self, partition: Partition) -> bool:
        named = self._settings.topic(partition.topic).follower_replication_throttled_replicas
        return bool(named) and partition.index in ThrottledReplicas(named, self._node_id)

    def reconfigured(self, config: BrokerConfig) -> None:
        """Settings of the broker have changed."""
        rate = self._settings.throttles.follower_replication_throttled_rate
        self._quota.bytes_per_second = float("inf") if rate == NO_BOUND else rate
        self.fetchers.reconfigured(_fetch_settings(config), config.num_replica_fetchers)

    def topics_reconfigured(self) -> None:
        """Settings of topics have changed, perhaps which of their replicas are throttled."""
        self.fetchers.throttles_changed()

    def stop(self) -> None:
        self.fetchers.stop()


def _fetch_settings(config: BrokerConfig) -> FetchSettings:
    return FetchSettings(
        min_bytes=config.replica_fetch_min_bytes,
        max_bytes=config.replica_fetch_max_bytes,
        response_max_bytes=config.replica_fetch_response_max_bytes,
        wait_max_ms=config.replica_fetch_wait_max_ms,
        backoff_ms=config.replica_fetch_backoff_ms,
    )

"""The settings of the group coordinator, read once from those of the broker."""

from dataclasses import dataclass
from typing import Final, NamedTuple

from ottla.config.broker import BrokerConfig

MINUTE_MS: Final = 60_000
NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * MINUTE_MS
"""How long a new member waits for a rebalance to end before it is dropped; not configurable."""


class Bounded(NamedTuple):
    """The broker's value, and between which a group may have one of its own."""

    low: int
    value: int
    high: int

    def nearest(self, value: int) -> int:
        return min(max(value, self.low), self.high)


_SESSION_TIMEOUT: Final = Bounded(45_000, 45_000, 60_000)
_HEARTBEAT_INTERVAL: Final = Bounded(5_000, 5_000, 15_000)
_ASSIGNMENT_INTERVAL: Final = Bounded(0, 1_000, 15_000)


@dataclass(frozen=True, slots=True)
class GroupSettings:
    initial_rebalance_delay_ms: int = 3_000
    session_timeout_ms_min: int = 6_000
    session_timeout_ms_max: int = 30 * MINUTE_MS
    size_max: int = 2**31 - 1
    offset_metadata_bytes_max: int = 4_096
    offsets_retention_ms: int = 7 * 24 * 60 * MINUTE_MS
    offsets_retention_check_interval_ms: int = 10 * MINUTE_MS
    offsets_commit_timeout_ms: int = 5_000
    offsets_load_buffer_bytes: int = 5 << 20
    offsets_topic_partitions: int = 50
    offsets_topic_compression: int = 0
    protocols: tuple[str, ...] = ("classic", "consumer", "streams")
    consumer_session_timeout_ms: Bounded = _SESSION_TIMEOUT
    consumer_heartbeat_interval_ms: Bounded = _HEARTBEAT_INTERVAL
    consumer_assignment_interval_ms: Bounded = _ASSIGNMENT_INTERVAL
    consumer_size_max: int = 2**31 - 1
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    """The first is that of members that name none."""
    consumer_migration_policy: str = "bidirectional"
    consumer_regex_refresh_interval_ms: int = 10 * MINUTE_MS

    @property
    def may_upgrade(self) -> bool:
        return self.consumer_migration_policy in ("bidirectional", "upgrade")

    @property
    def may_downgrade(self) -> bool:
        return self.consumer_migration_policy in ("bidirectional", "downgrade")

    @classmethod
    def from_broker(cls, config: BrokerConfig) -> "GroupSettings":
        return cls(
            initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
            session_timeout_ms_min=config.group_min_session_timeout_ms,
            session_timeout_ms_max=config.group_max_session_timeout_ms,
            size_max=config.group_max_size,
            offset_metadata_bytes_max=config.offset_metadata_max_bytes,
            offsets_retention_ms=config.offsets_retention_minutes * MINUTE_MS,
            offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
            offsets_commit_timeout_ms=config.offsets_commit_timeout_ms,
            offsets_load_buffer_bytes=config.offsets_load_buffer_size,
            offsets_topic_partitions=config.offsets_topic_num_partitions,
            offsets_topic_compression=config.offsets_topic_compression_codec,
            protocols=tuple(config.group_coordinator_rebalance_protocols),
            consumer_session_timeout_ms=Bounded(
                config.group_consumer_min_session_timeout_ms,
                config.group_consumer_session_timeout_ms,
                config.group_consumer_max_session_timeout_ms,
            ),
            consumer_heartbeat_interval_ms=Bounded(
                config.group_consumer_min_heartbeat_interval_ms,
                config.group_consumer_heartbeat_interval_ms,
                config.group_consumer_max_heartbeat_interval_ms,
            ),
            consumer_assignment_interval_ms=Bounded(
                config.group_consumer_min_assignment_interval_ms,
                config.group_consumer_assignment_interval_ms,
                config.group_consumer_max_assignment_interval_ms,
            ),
            consumer_size_max=config.group_consumer_max_size,
            consumer_assignors=tuple(config.group_consumer_assignors),
            consumer_migration_policy=config.group_consumer_migration_policy.lower(),
            consumer_regex_refresh_interval_ms=config.group_consumer_regex_refresh_interval_ms,
        )

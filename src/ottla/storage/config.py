"""What a log needs to know of its topic's settings, and what it makes of them."""

from typing import Final, Protocol

from ottla.common.identifiers import METADATA_TOPIC
from ottla.records.batch import CREATE_TIME, LOG_APPEND_TIME
from ottla.records.rules import AppendRules


class LogConfig(Protocol):
    """The settings by Kafka's names, with underscores; ``TopicConfig`` has them all."""

    @property
    def cleanup_policy(self) -> frozenset[str]: ...
    @property
    def compression_type(self) -> str: ...
    @property
    def compression_gzip_level(self) -> int: ...
    @property
    def compression_lz4_level(self) -> int: ...
    @property
    def compression_zstd_level(self) -> int: ...
    @property
    def delete_retention_ms(self) -> int: ...
    @property
    def file_delete_delay_ms(self) -> int: ...
    @property
    def flush_messages(self) -> int: ...
    @property
    def flush_ms(self) -> int: ...
    @property
    def index_interval_bytes(self) -> int: ...
    @property
    def max_compaction_lag_ms(self) -> int: ...
    @property
    def max_message_bytes(self) -> int: ...
    @property
    def message_timestamp_after_max_ms(self) -> int: ...
    @property
    def message_timestamp_before_max_ms(self) -> int: ...
    @property
    def message_timestamp_type(self) -> str: ...
    @property
    def local_retention_bytes(self) -> int: ...
    @property
    def local_retention_ms(self) -> int: ...
    @property
    def remote_log_copy_disable(self) -> bool: ...
    @property
    def remote_storage_enable(self) -> bool: ...
    @property
    def min_cleanable_dirty_ratio(self) -> float: ...
    @property
    def min_compaction_lag_ms(self) -> int: ...
    @property
    def retention_bytes(self) -> int: ...
    @property
    def retention_ms(self) -> int: ...
    @property
    def segment_bytes(self) -> int: ...
    @property
    def segment_index_bytes(self) -> int: ...
    @property
    def segment_jitter_ms(self) -> int: ...
    @property
    def segment_ms(self) -> int: ...


AS_RETENTION: Final = -2
"""A local retention that is not set apart from the whole one."""
NEVER_REMOTE: Final = (
    METADATA_TOPIC,
    "__consumer_offsets",
    "__remote_log_metadata",
    "__share_group_state",
    "__transaction_state",
)


def has_remote_part(topic: str, config: LogConfig) -> bool:
    """Whether older segments of a topic may lie in a remote store alone."""
    return (
        config.remote_storage_enable
        and "compact" not in config.cleanup_policy
        and topic not in NEVER_REMOTE
    )


def local_retention(config: LogConfig) -> tuple[int, int]:
    """Bytes and milliseconds for which a copied segment stays on this disk too; -1 for ever."""
    size, age_ms = config.local_retention_bytes, config.local_retention_ms
    return (
        config.retention_bytes if size == AS_RETENTION else size,
        config.retention_ms if age_ms == AS_RETENTION else age_ms,
    )


def append_rules(config: LogConfig) -> AppendRules:
    """What an append to a topic with these settings must be."""
    append_time = config.message_timestamp_type == "LogAppendTime"
    return AppendRules(
        max_message_bytes=config.max_message_bytes,
        compression_type=config.compression_type,
        gzip_level=config.compression_gzip_level,
        lz4_level=config.compression_lz4_level,
        zstd_level=config.compression_zstd_level,
        timestamp_type=LOG_APPEND_TIME if append_time else CREATE_TIME,
        timestamp_before_max_ms=config.message_timestamp_before_max_ms,
        timestamp_after_max_ms=config.message_timestamp_after_max_ms,
        compacted="compact" in config.cleanup_policy,
    )

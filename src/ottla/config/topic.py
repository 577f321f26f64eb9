"""The settings of a topic.

A topic that says nothing about a key follows the broker's setting of a similar name; ``SYNONYMS``
says which. The later names of a list are the same in coarser units, or a fallback.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Self

from ottla.common.errors import InvalidConfig
from ottla.config.definition import (
    Boolean,
    ConfigSet,
    Double,
    Int,
    Key,
    List,
    Long,
    OptionalInt,
    String,
)
from ottla.config.kinds import Kind, Value, invalid
from ottla.config.limits import LONG_MAX
from ottla.config.validators import REPLICAS, at_least, between, between_or, distinct, one_of

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig

SYNONYMS: Final[Mapping[str, tuple[str, ...]]] = {
    "cleanup.policy": ("log.cleanup.policy",),
    "compression.gzip.level": ("compression.gzip.level",),
    "compression.lz4.level": ("compression.lz4.level",),
    "compression.type": ("compression.type",),
    "compression.zstd.level": ("compression.zstd.level",),
    "delete.retention.ms": ("log.cleaner.delete.retention.ms",),
    "file.delete.delay.ms": ("log.segment.delete.delay.ms",),
    "flush.messages": ("log.flush.interval.messages",),
    "flush.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    "index.interval.bytes": ("log.index.interval.bytes",),
    "local.retention.bytes": ("log.local.retention.bytes",),
    "local.retention.ms": ("log.local.retention.ms",),
    "max.compaction.lag.ms": ("log.cleaner.max.compaction.lag.ms",),
    "max.message.bytes": ("message.max.bytes",),
    "message.timestamp.after.max.ms": ("log.message.timestamp.after.max.ms",),
    "message.timestamp.before.max.ms": ("log.message.timestamp.before.max.ms",),
    "message.timestamp.type": ("log.message.timestamp.type",),
    "min.cleanable.dirty.ratio": ("log.cleaner.min.cleanable.ratio",),
    "min.compaction.lag.ms": ("log.cleaner.min.compaction.lag.ms",),
    "min.insync.replicas": ("min.insync.replicas",),
    "preallocate": ("log.preallocate",),
    "retention.bytes": ("log.retention.bytes",),
    "retention.ms": ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    "segment.bytes": ("log.segment.bytes",),
    "segment.index.bytes": ("log.index.size.max.bytes",),
    "segment.jitter.ms": ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    "segment.ms": ("log.roll.ms", "log.roll.hours"),
    "unclean.leader.election.enable": ("unclean.leader.election.enable",),
}


class Policies(Key[frozenset[str]]):
    """A list whose order does not matter."""

    kind = Kind.LIST


class TopicConfig(ConfigSet):
    """What holds for the partitions of one topic."""

    cleanup_policy = Policies(
        ("delete",),
        "What happens to old segments: delete, compact, or both.",
        distinct("compact", "delete"),
    )
    compression_type = String(
        "producer",
        "How record batches are stored: a codec, or as the producer sent them.",
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
    )
    compression_gzip_level = Int(
        -1, "Level for gzip when the broker compresses.", between_or(1, 9, -1)
    )
    compression_lz4_level = Int(9, "Level for lz4 when the broker compresses.", between(1, 17))
    compression_zstd_level = Int(
        3, "Level for zstd when the broker compresses.", between(-131_072, 22)
    )
    delete_retention_ms = Long(
        86_400_000, "Time for which tombstones are kept by compaction.", at_least(0)
    )
    file_delete_delay_ms = Long(
        60_000, "How long a removed segment stays on disk under another name.", at_least(0)
    )
    flush_messages = Long(
        LONG_MAX, "Records after which a partition is flushed to disk.", at_least(1)
    )
    flush_ms = Long(LONG_MAX, "Time after which a partition is flushed to disk.", at_least(0))
    follower_replication_throttled_replicas = List(
        (), "Replicas whose followers are throttled, as partition:broker, ..., or *.", REPLICAS
    )
    index_interval_bytes = Int(
        4_096, "Bytes of records between two entries of the offset index.", at_least(0)
    )
    internal_segment_bytes = OptionalInt(
        None, "Like segment.bytes, without a lower bound; for tests.", internal=True
    )
    leader_replication_throttled_replicas = List(
        (), "Replicas whose leaders are throttled, as partition:broker, ..., or *.", REPLICAS
    )
    local_retention_bytes = Long(
        -2,
        "Size that a tiered partition keeps on local disk; -2 for retention.bytes.",
        at_least(-2),
    )
    local_retention_ms = Long(
        -2, "Age that a tiered partition keeps on local disk; -2 for retention.ms.", at_least(-2)
    )
    max_compaction_lag_ms = Long(
        LONG_MAX, "Time after which a record is due for compaction.", at_least(1)
    )
    max_message_bytes = Int(
        1_048_588, "The largest record batch that is accepted, as it is stored.", at_least(0)
    )
    message_timestamp_after_max_ms = Long(
        3_600_000, "How far a record's time may lie after the broker's.", at_least(0)
    )
    message_timestamp_before_max_ms = Long(
        LONG_MAX, "How far a record's time may lie before the broker's.", at_least(0)
    )
    message_timestamp_type = String(
        "CreateTime",
        "Whose time a record bears: its creation, or its append.",
        one_of("CreateTime", "LogAppendTime"),
    )
    min_cleanable_dirty_ratio = Double(
        0.5, "Share of a log that must be uncompacted before it is compacted.", between(0, 1)
    )
    min_compaction_lag_ms = Long(0, "Time for which a record is never compacted away.", at_least(0))
    min_insync_replicas = Int(
        1, "Replicas that must have a record before acks=all is answered.", at_least(1)
    )
    preallocate = Boolean(False, "Whether the file of a new segment is made at full size.")
    remote_log_copy_disable = Boolean(
        False, "Whether nothing more is copied to the remote store, which stays readable."
    )
    remote_log_delete_on_disable = Boolean(
        False, "Whether remote segments are deleted when tiered storage is turned off."
    )
    remote_storage_enable = Boolean(
        False, "Whether older segments of this topic go to the remote store."
    )
    retention_bytes = Long(
        -1, "Size of a partition above which its oldest segments go; -1 for no bound."
    )
    retention_ms = Long(604_800_000, "Age at which segments go; -1 for never.", at_least(-1))
    segment_bytes = Int(1_073_741_824, "Size at which a new segment begins.", at_least(1_048_576))
    segment_index_bytes = Int(10_485_760, "The largest offset index, in bytes.", at_least(4))
    segment_jitter_ms = Long(
        0,
        "The most that is taken off segment.ms by chance, so that not all roll at once.",
        at_least(0),
    )
    segment_ms = Long(
        604_800_000,
        "Age at which a new segment begins even when the old one is not full.",
        at_least(1),
    )
    unclean_leader_election_enable = Boolean(
        False, "Whether a replica that is not in sync may lead when no other is left."
    )

    def __init__(
        self, originals: Mapping[str, str], defaults: Mapping[str, Value] | None = None
    ) -> None:
        super().__init__(originals, defaults)
        policies = self.values["cleanup.policy"]
        assert isinstance(policies, tuple)
        self.resolve(
            cleanup_policy=frozenset(policies),
            segment_bytes=self.internal_segment_bytes or self.segment_bytes,
        )

    @classmethod
    def from_broker(cls, broker: "BrokerConfig", overrides: Mapping[str, str]) -> Self:
        """The settings of a topic with these overrides on this broker."""
        return cls(overrides, topic_defaults(broker))

    @property
    def compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def deleted(self) -> bool:
        """Whether old segments go by age and size."""
        return "delete" in self.cleanup_policy


def usable_overrides(overrides: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Settings of a topic without those that cannot be, and why these are left out."""
    usable: dict[str, str] = {}
    reasons: list[str] = []
    for name, value in overrides.items():
        key = TopicConfig.keys.get(name)
        try:
            if key is not None:
                key.parse(value)
        except InvalidConfig as error:
            reasons.append(str(error))
        else:
            usable[name] = value
    return usable, reasons


def check_topic(config: TopicConfig, *, tiered: bool, was_remote: bool = False) -> None:
    """Refuse settings of a topic that contradict each other; ``tiered``: is a remote store on.

    ``was_remote``: whether older segments may be in the remote store already.
    """
    lag_min, lag_max = config.min_compaction_lag_ms, config.max_compaction_lag_ms
    if lag_min > lag_max:
        raise InvalidConfig(
            f"conflict topic config setting min.compaction.lag.ms ({lag_min}) > "
            f"max.compaction.lag.ms ({lag_max})"
        )
    if not config.remote_storage_enable:
        if was_remote and not config.remote_log_delete_on_disable:
            raise InvalidConfig(
                "It is invalid to disable remote storage without deleting remote data. If you want "
                "to keep the remote data and turn to read only, please set "
                "`remote.storage.enable=true,remote.log.copy.disable=true`. If you want to disable "
                "remote storage and delete all remote data, please set "
                "`remote.storage.enable=false,remote.log.delete.on.disable=true`."
            )
        return
    if not tiered:
        raise InvalidConfig(
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured "
            "with remote log storage."
        )
    if config.compacted:
        raise InvalidConfig(
            "Remote log storage only supports topics with cleanup.policy=delete or "
            "cleanup.policy being an empty list."
        )
    _check_local("bytes", config.local_retention_bytes, config.retention_bytes)
    _check_local("ms", config.local_retention_ms, config.retention_ms)
    if config.remote_log_copy_disable:
        _check_same("bytes", config.local_retention_bytes, config.retention_bytes)
        _check_same("ms", config.local_retention_ms, config.retention_ms)


def _check_local(unit: str, local: int, whole: int) -> None:
    """What is kept on local disk is part of what is kept at all; -2 stands for all of it."""
    if local == -2 or whole == -1:
        return
    name = f"local.retention.{unit}"
    if local == -1:
        raise invalid(
            name, local, f"Value must not be -1 as retention.{unit} value is set as {whole}."
        )
    if local > whole:
        raise invalid(
            name, local, f"Value must not be more than retention.{unit} property value: {whole}"
        )


def _check_same(unit: str, local: int, whole: int) -> None:
    """What is not copied any more is kept on local disk for as long as it is kept at all."""
    if local not in (-2, whole):
        raise InvalidConfig(
            f"When `remote.log.copy.disable` is set to true, the `local.retention.{unit}` and "
            f"`retention.{unit}` must be set to the identical value because there will be no more "
            "logs copied to the remote storage."
        )


def topic_defaults(broker: "BrokerConfig") -> dict[str, Value]:
    """What a topic without settings of its own has on this broker."""
    return {
        name: getattr(broker, synonyms[0].replace(".", "_")) for name, synonyms in SYNONYMS.items()
    }

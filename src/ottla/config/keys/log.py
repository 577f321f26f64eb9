"""The log on disk: where it lies, how it is cut into segments, how long it is kept."""

from ottla.config.definition import (
    CLUSTER_WIDE,
    PER_BROKER,
    Boolean,
    ConfigSet,
    Int,
    List,
    Long,
    OptionalInt,
    String,
)
from ottla.config.limits import LONG_MAX
from ottla.config.validators import at_least, distinct, one_of


class LogKeys(ConfigSet):
    """The log on disk: where it lies, how it is cut into segments, how long it is kept."""

    log_dir = List(
        ("/tmp/kafka-logs",),  # noqa: S108 - Kafka's default
        "The directory for data, when log.dirs is not set.",
        distinct(empty=False),
    )
    log_dirs = List(None, "The directories for data.", distinct(empty=False))
    cordoned_log_dirs = List(
        (), "Directories that take no new partitions; * for all.", distinct(), PER_BROKER
    )
    log_dir_failure_timeout_ms = Long(
        30_000, "A broker that cannot report a failed directory for so long stops.", at_least(1)
    )
    log_segment_bytes = Int(
        1_073_741_824, "Size at which a new segment begins.", at_least(1_048_576), CLUSTER_WIDE
    )
    log_segment_delete_delay_ms = Long(
        60_000,
        "How long a removed segment stays on disk under another name.",
        at_least(0),
        CLUSTER_WIDE,
    )
    log_roll_ms = Long(
        None,
        "Age at which a new segment begins even when the old one is not full.",
        scope=CLUSTER_WIDE,
    )
    log_roll_hours = Int(168, "The same in hours, when log.roll.ms is not set.", at_least(1))
    log_roll_jitter_ms = Long(
        None,
        "The most that is taken off log.roll.ms by chance, so that not all roll at once.",
        scope=CLUSTER_WIDE,
    )
    log_roll_jitter_hours = Int(
        0, "The same in hours, when log.roll.jitter.ms is not set.", at_least(0)
    )
    log_index_interval_bytes = Int(
        4_096,
        "Bytes of records between two entries of the offset index.",
        at_least(0),
        CLUSTER_WIDE,
    )
    log_index_size_max_bytes = Int(
        10_485_760, "The largest offset index, in bytes.", at_least(4), CLUSTER_WIDE
    )
    log_preallocate = Boolean(
        False, "Whether the file of a new segment is made at full size.", scope=CLUSTER_WIDE
    )
    log_flush_interval_messages = Long(
        LONG_MAX, "Records after which a partition is flushed to disk.", at_least(1), CLUSTER_WIDE
    )
    log_flush_interval_ms = Long(
        None,
        "Time after which a partition is flushed to disk; else log.flush.scheduler.interval.ms.",
        scope=CLUSTER_WIDE,
    )
    log_flush_scheduler_interval_ms = Long(
        LONG_MAX, "Time between checks for partitions that must be flushed."
    )
    log_flush_offset_checkpoint_interval_ms = Int(
        60_000, "Time between checkpoints of the recovery points.", at_least(0)
    )
    log_flush_start_offset_checkpoint_interval_ms = Int(
        60_000, "Time between checkpoints of the log start offsets.", at_least(0)
    )
    log_retention_bytes = Long(
        -1,
        "Size of a partition above which its oldest segments go; -1 for no bound.",
        scope=CLUSTER_WIDE,
    )
    log_retention_ms = Long(None, "Age at which segments go; -1 for never.", scope=CLUSTER_WIDE)
    log_retention_minutes = OptionalInt(
        None, "The same in minutes, when log.retention.ms is not set."
    )
    log_retention_hours = Int(168, "The same in hours, when neither of the finer ones is set.")
    log_retention_check_interval_ms = Long(
        300_000, "Time between searches for segments that may go.", at_least(1)
    )
    log_cleanup_policy = List(
        ("delete",),
        "What happens to old segments: delete, compact, or both.",
        distinct("compact", "delete"),
        CLUSTER_WIDE,
    )
    log_local_retention_bytes = Long(
        -2,
        "Size that a tiered partition keeps on local disk; -2 for log.retention.bytes.",
        at_least(-2),
        CLUSTER_WIDE,
    )
    log_local_retention_ms = Long(
        -2,
        "Age that a tiered partition keeps on local disk; -2 for log.retention.ms.",
        at_least(-2),
        CLUSTER_WIDE,
    )
    log_initial_task_delay_ms = Long(
        30_000,
        "How long after the start the first background work begins.",
        at_least(0),
        internal=True,
    )
    log_message_timestamp_type = String(
        "CreateTime",
        "Whose time a record bears: its creation, or its append.",
        one_of("CreateTime", "LogAppendTime"),
        CLUSTER_WIDE,
    )
    log_message_timestamp_before_max_ms = Long(
        LONG_MAX, "How far a record's time may lie before the broker's.", at_least(0), CLUSTER_WIDE
    )
    log_message_timestamp_after_max_ms = Long(
        3_600_000, "How far a record's time may lie after the broker's.", at_least(0), CLUSTER_WIDE
    )
    num_recovery_threads_per_data_dir = Int(
        2,
        "Threads for each directory that load logs at start and flush them at stop.",
        at_least(1),
        CLUSTER_WIDE,
    )
    producer_id_expiration_ms = Int(
        86_400_000,
        "A producer id that is silent for so long is forgotten by a partition.",
        at_least(1),
        CLUSTER_WIDE,
    )
    producer_id_expiration_check_interval_ms = Int(
        600_000,
        "Time between searches for producer ids that may be forgotten.",
        at_least(1),
        internal=True,
    )

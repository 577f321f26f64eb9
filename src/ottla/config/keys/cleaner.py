"""Compaction: when records with an old key are taken out, and by how much work."""

from ottla.config.definition import CLUSTER_WIDE, Boolean, ConfigSet, Double, Int, Long
from ottla.config.limits import DOUBLE_MAX, LONG_MAX
from ottla.config.validators import at_least, between


class CleanerKeys(ConfigSet):
    """Compaction: when records with an old key are taken out, and by how much work."""

    log_cleaner_enable = Boolean(True, "Whether compaction runs.")
    log_cleaner_threads = Int(1, "Threads that compact.", at_least(0), CLUSTER_WIDE)
    log_cleaner_backoff_ms = Long(
        15_000, "How long to wait when there is nothing to compact.", at_least(0), CLUSTER_WIDE
    )
    log_cleaner_dedupe_buffer_size = Long(
        134_217_728, "Memory for the keys of one compaction, over all threads.", scope=CLUSTER_WIDE
    )
    log_cleaner_io_buffer_size = Int(
        524_288, "Memory for reading and writing, over all threads.", at_least(0), CLUSTER_WIDE
    )
    log_cleaner_io_buffer_load_factor = Double(
        0.9, "How full the memory for keys may become.", scope=CLUSTER_WIDE
    )
    log_cleaner_io_max_bytes_per_second = Double(
        DOUBLE_MAX, "Bytes per second that compaction reads and writes at most.", scope=CLUSTER_WIDE
    )
    log_cleaner_min_cleanable_ratio = Double(
        0.5,
        "Share of a log that must be uncompacted before it is compacted.",
        between(0, 1),
        CLUSTER_WIDE,
    )
    log_cleaner_min_compaction_lag_ms = Long(
        0, "Time for which a record is never compacted away.", at_least(0), CLUSTER_WIDE
    )
    log_cleaner_max_compaction_lag_ms = Long(
        LONG_MAX, "Time after which a record is due for compaction.", at_least(1), CLUSTER_WIDE
    )
    log_cleaner_delete_retention_ms = Long(
        86_400_000, "Time for which tombstones are kept.", at_least(0), CLUSTER_WIDE
    )

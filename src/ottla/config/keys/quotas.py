"""Quotas: the windows by which rates are measured."""

from ottla.config.definition import CLUSTER_WIDE, Class, ConfigSet, Int, Long
from ottla.config.limits import LONG_MAX
from ottla.config.validators import at_least


class QuotaKeys(ConfigSet):
    """Quotas: the windows by which rates are measured."""

    quota_window_num = Int(11, "Samples that a client quota is measured by.", at_least(1))
    quota_window_size_seconds = Int(1, "Length of each of those samples.", at_least(1))
    replication_quota_window_num = Int(
        11, "Samples that a replication quota is measured by.", at_least(1)
    )
    replication_quota_window_size_seconds = Int(1, "Length of each of those samples.", at_least(1))
    alter_log_dirs_replication_quota_window_num = Int(
        11, "Samples that the quota for moves between directories is measured by.", at_least(1)
    )
    alter_log_dirs_replication_quota_window_size_seconds = Int(
        1, "Length of each of those samples.", at_least(1)
    )
    controller_quota_window_num = Int(
        11, "Samples that the quota for changes of metadata is measured by.", at_least(1)
    )
    controller_quota_window_size_seconds = Int(1, "Length of each of those samples.", at_least(1))
    client_quota_callback_class = Class(
        None, "A Java class that decides about client quotas; refused at the start."
    )


class ThrottleKeys(ConfigSet):
    """Bounds for replication that exist only as dynamic settings of brokers."""

    leader_replication_throttled_rate = Long(
        LONG_MAX,
        "Bytes per second of throttled replicas that leaders send.",
        at_least(0),
        CLUSTER_WIDE,
    )
    follower_replication_throttled_rate = Long(
        LONG_MAX,
        "Bytes per second of throttled replicas that followers take.",
        at_least(0),
        CLUSTER_WIDE,
    )
    replica_alter_log_dirs_io_max_bytes_per_second = Long(
        LONG_MAX, "Bytes per second that moves between directories take.", at_least(0), CLUSTER_WIDE
    )

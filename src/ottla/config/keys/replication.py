"""Followers, and the leader's view of them."""

from ottla.config.definition import CLUSTER_WIDE, Boolean, ConfigSet, Int, Long, OptionalString
from ottla.config.validators import at_least


class ReplicationKeys(ConfigSet):
    """Followers, and the leader's view of them."""

    num_replica_fetchers = Int(1, "Fetchers for each source broker.", at_least(1), CLUSTER_WIDE)
    num_replica_alter_log_dirs_threads = Int(
        None, "Threads that move replicas between directories."
    )
    replica_fetch_backoff_ms = Int(
        1_000, "How long a follower waits after a failed fetch.", at_least(0)
    )
    replica_fetch_max_bytes = Int(
        1_048_576, "Bytes that a follower fetches of each partition.", at_least(0)
    )
    replica_fetch_min_bytes = Int(
        1, "Bytes that must be there before a follower's fetch is answered."
    )
    replica_fetch_response_max_bytes = Int(
        10_485_760, "Bytes that a follower's fetch is answered with at most.", at_least(0)
    )
    replica_fetch_wait_max_ms = Int(500, "How long a follower's fetch waits for records.")
    replica_high_watermark_checkpoint_interval_ms = Long(
        5_000, "Time between checkpoints of the high watermarks."
    )
    replica_lag_time_max_ms = Long(30_000, "A follower that is behind for so long leaves the ISR.")
    replica_selector_class = OptionalString(
        None, "A Java class that chooses which replica a consumer reads."
    )
    replica_socket_receive_buffer_bytes = Int(
        65_536, "SO_RCVBUF of a follower's connection to its leader."
    )
    replica_socket_timeout_ms = Int(30_000, "How long a follower waits for the answer to a fetch.")
    follower_fetch_last_tiered_offset_enable = Boolean(
        False,
        "Whether an empty follower begins after what is already in tiered storage.",
        scope=CLUSTER_WIDE,
    )
    controller_socket_timeout_ms = Int(
        30_000, "How long a broker waits for the controller's answer."
    )

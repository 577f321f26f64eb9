"""Share groups, and the coordinator that keeps their state."""

from ottla.config.definition import CLUSTER_WIDE, ConfigSet, Int, List, Short, String
from ottla.config.validators import at_least, between, distinct


class ShareGroupKeys(ConfigSet):
    """Share groups, and the coordinator that keeps their state."""

    group_share_session_timeout_ms = Int(
        45_000, "A member of a share group that is silent for so long is removed.", at_least(1)
    )
    group_share_min_session_timeout_ms = Int(
        45_000, "The shortest session timeout that a share group may be given.", at_least(1)
    )
    group_share_max_session_timeout_ms = Int(
        60_000, "The longest session timeout that a share group may be given.", at_least(1)
    )
    group_share_heartbeat_interval_ms = Int(
        5_000, "How often members of a share group are told to heartbeat.", at_least(1)
    )
    group_share_min_heartbeat_interval_ms = Int(
        5_000, "The shortest heartbeat interval that a share group may be given.", at_least(1)
    )
    group_share_max_heartbeat_interval_ms = Int(
        15_000, "The longest heartbeat interval that a share group may be given.", at_least(1)
    )
    group_share_assignment_interval_ms = Int(
        1_000, "Time between two assignments of a share group.", at_least(0), CLUSTER_WIDE
    )
    group_share_min_assignment_interval_ms = Int(
        0, "The shortest assignment interval that a share group may be given.", at_least(0)
    )
    group_share_max_assignment_interval_ms = Int(
        15_000, "The longest assignment interval that a share group may be given.", at_least(0)
    )
    group_share_max_size = Int(200, "Members of a share group.", between(1, 1_000))
    group_share_assignors = List(
        ("simple",), "The assignors of share groups.", distinct(empty=False)
    )
    group_share_max_share_sessions = Int(
        2_000, "Share sessions that the broker remembers.", at_least(1)
    )
    group_share_delivery_count_limit = Int(
        5, "How often a record is delivered before it is given up.", between(2, 10)
    )
    group_share_min_delivery_count_limit = Int(
        2, "The lowest delivery limit that a share group may be given.", between(2, 5)
    )
    group_share_max_delivery_count_limit = Int(
        10, "The highest delivery limit that a share group may be given.", between(5, 25)
    )
    group_share_partition_max_record_locks = Int(
        2_000,
        "Records of a share-partition that may be acquired at the same time.",
        between(100, 10_000),
    )
    group_share_min_partition_max_record_locks = Int(
        100,
        "The lowest number of acquired records that a share group may be given.",
        between(100, 2_000),
    )
    group_share_max_partition_max_record_locks = Int(
        4_000,
        "The highest number of acquired records that a share group may be given.",
        between(2_000, 10_000),
    )
    group_share_record_lock_duration_ms = Int(
        30_000, "How long an acquired record is held for its member.", between(1_000, 3_600_000)
    )
    group_share_min_record_lock_duration_ms = Int(
        15_000, "The shortest hold that a share group may be given.", between(1_000, 30_000)
    )
    group_share_max_record_lock_duration_ms = Int(
        60_000, "The longest hold that a share group may be given.", between(30_000, 3_600_000)
    )
    group_share_initialize_retry_interval_ms = Int(
        30_000,
        "Time between attempts to set up the state of a share-partition.",
        at_least(1),
        internal=True,
    )
    group_share_persister_class_name = String(
        "org.apache.kafka.server.share.persister.DefaultStatePersister",
        "The Java class that keeps the state of share groups.",
        internal=True,
    )
    share_coordinator_threads = Int(1, "Threads of the share coordinator.", at_least(1))
    share_coordinator_append_linger_ms = Int(
        -1,
        "How long writes of share state are gathered; -1 as long as others are in flight.",
        at_least(-1),
    )
    share_coordinator_cached_buffer_max_bytes = Int(
        1_048_588,
        "The largest buffer that the share coordinator keeps for reuse.",
        at_least(524_288),
        CLUSTER_WIDE,
    )
    share_coordinator_load_buffer_size = Int(
        5_242_880, "Bytes that are read at once when share state is loaded.", at_least(1)
    )
    share_coordinator_write_timeout_ms = Int(
        5_000, "How long a write of share state waits for its replicas.", at_least(1)
    )
    share_coordinator_snapshot_update_records_per_snapshot = Int(
        500, "Updates of share state between two snapshots of it.", between(0, 500)
    )
    share_coordinator_cold_partition_snapshot_interval_ms = Int(
        300_000,
        "Time between snapshots of share-partitions that do not change.",
        at_least(1),
        internal=True,
    )
    share_coordinator_state_topic_prune_interval_ms = Int(
        300_000,
        "Time between removals of share state that is no longer needed.",
        at_least(1),
        internal=True,
    )
    share_coordinator_state_topic_num_partitions = Int(
        50, "Partitions of the share state topic.", at_least(1)
    )
    share_coordinator_state_topic_replication_factor = Short(
        3, "Replicas of the share state topic.", at_least(1)
    )
    share_coordinator_state_topic_min_isr = Short(
        2, "Replicas of the share state topic that must have a write.", at_least(1)
    )
    share_coordinator_state_topic_segment_bytes = Int(
        104_857_600, "Segment size of the share state topic.", at_least(1)
    )
    share_coordinator_state_topic_compression_codec = Int(
        0, "The codec of the share state topic; 0 for none."
    )

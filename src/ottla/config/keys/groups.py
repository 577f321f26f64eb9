"""Classic and consumer groups, and their committed offsets."""

from ottla.config.definition import CLUSTER_WIDE, ConfigSet, Int, List, Long, Short, String
from ottla.config.limits import INT_MAX
from ottla.config.validators import at_least, distinct, one_of_in_any_case


class GroupKeys(ConfigSet):
    """Classic and consumer groups, and their committed offsets."""

    group_min_session_timeout_ms = Int(
        6_000, "The shortest session timeout that a member of a classic group may ask for."
    )
    group_max_session_timeout_ms = Int(
        1_800_000, "The longest session timeout that a member of a classic group may ask for."
    )
    group_initial_rebalance_delay_ms = Int(
        3_000, "How long an empty classic group waits for more members before it assigns."
    )
    group_max_size = Int(INT_MAX, "Members of a classic group.", at_least(1))
    group_coordinator_rebalance_protocols = List(
        ("classic", "consumer", "streams"),
        "The kinds of groups that are served.",
        distinct("consumer", "classic", "share", "streams", empty=False),
    )
    group_coordinator_threads = Int(4, "Threads of the group coordinator.", at_least(1))
    group_coordinator_background_threads = Int(
        2, "Threads for the group coordinator's longer work.", at_least(1)
    )
    group_coordinator_append_linger_ms = Int(
        -1,
        "How long writes of groups are gathered; -1 as long as others are in flight.",
        at_least(-1),
    )
    group_coordinator_cached_buffer_max_bytes = Int(
        1_048_588,
        "The largest buffer that the group coordinator keeps for reuse.",
        at_least(524_288),
        CLUSTER_WIDE,
    )
    group_consumer_session_timeout_ms = Int(
        45_000, "A member of a consumer group that is silent for so long is removed.", at_least(1)
    )
    group_consumer_min_session_timeout_ms = Int(
        45_000, "The shortest session timeout that a consumer group may be given.", at_least(1)
    )
    group_consumer_max_session_timeout_ms = Int(
        60_000, "The longest session timeout that a consumer group may be given.", at_least(1)
    )
    group_consumer_heartbeat_interval_ms = Int(
        5_000, "How often members of a consumer group are told to heartbeat.", at_least(1)
    )
    group_consumer_min_heartbeat_interval_ms = Int(
        5_000, "The shortest heartbeat interval that a consumer group may be given.", at_least(1)
    )
    group_consumer_max_heartbeat_interval_ms = Int(
        15_000, "The longest heartbeat interval that a consumer group may be given.", at_least(1)
    )
    group_consumer_assignment_interval_ms = Int(
        1_000, "Time between two assignments of a consumer group.", at_least(0), CLUSTER_WIDE
    )
    group_consumer_min_assignment_interval_ms = Int(
        0, "The shortest assignment interval that a consumer group may be given.", at_least(0)
    )
    group_consumer_max_assignment_interval_ms = Int(
        15_000, "The longest assignment interval that a consumer group may be given.", at_least(0)
    )
    group_consumer_max_size = Int(INT_MAX, "Members of a consumer group.", at_least(1))
    group_consumer_assignors = List(
        ("uniform", "range"),
        "The assignors of consumer groups; the first is used when a member names none.",
        distinct(empty=False),
    )
    group_consumer_migration_policy = String(
        "bidirectional",
        "Whether groups may turn from classic to consumer groups and back while they have members.",
        one_of_in_any_case("DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL"),
    )
    group_consumer_regex_refresh_interval_ms = Int(
        600_000,
        "Time between searches for topics that match a subscribed pattern.",
        at_least(10_000),
        internal=True,
    )
    offset_metadata_max_bytes = Int(4_096, "The longest text that may be committed with an offset.")
    offsets_commit_timeout_ms = Int(
        5_000, "How long a commit waits for the replicas of the offsets topic.", at_least(1)
    )
    offsets_load_buffer_size = Int(
        5_242_880, "Bytes that are read at once when the offsets topic is loaded.", at_least(1)
    )
    offsets_retention_minutes = Int(
        10_080, "How long the offsets of a group without members are kept.", at_least(1)
    )
    offsets_retention_check_interval_ms = Long(
        600_000, "Time between searches for offsets that may go.", at_least(1)
    )
    offsets_topic_compression_codec = Int(0, "The codec of the offsets topic; 0 for none.")
    offsets_topic_num_partitions = Int(50, "Partitions of the offsets topic.", at_least(1))
    offsets_topic_replication_factor = Short(3, "Replicas of the offsets topic.", at_least(1))
    offsets_topic_segment_bytes = Int(
        104_857_600, "Segment size of the offsets topic.", at_least(1)
    )

"""Streams groups."""

from ottla.config.definition import CLUSTER_WIDE, ConfigSet, Int
from ottla.config.limits import INT_MAX
from ottla.config.validators import at_least


class StreamsGroupKeys(ConfigSet):
    """Streams groups."""

    group_streams_session_timeout_ms = Int(
        45_000, "A member of a streams group that is silent for so long is removed.", at_least(1)
    )
    group_streams_min_session_timeout_ms = Int(
        45_000, "The shortest session timeout that a streams group may be given.", at_least(1)
    )
    group_streams_max_session_timeout_ms = Int(
        60_000, "The longest session timeout that a streams group may be given.", at_least(1)
    )
    group_streams_heartbeat_interval_ms = Int(
        5_000, "How often members of a streams group are told to heartbeat.", at_least(1)
    )
    group_streams_min_heartbeat_interval_ms = Int(
        5_000, "The shortest heartbeat interval that a streams group may be given.", at_least(1)
    )
    group_streams_max_heartbeat_interval_ms = Int(
        15_000, "The longest heartbeat interval that a streams group may be given.", at_least(1)
    )
    group_streams_assignment_interval_ms = Int(
        1_000, "Time between two assignments of a streams group.", at_least(0), CLUSTER_WIDE
    )
    group_streams_min_assignment_interval_ms = Int(
        0, "The shortest assignment interval that a streams group may be given.", at_least(0)
    )
    group_streams_max_assignment_interval_ms = Int(
        15_000, "The longest assignment interval that a streams group may be given.", at_least(0)
    )
    group_streams_max_size = Int(INT_MAX, "Members of a streams group.", at_least(1))
    group_streams_num_standby_replicas = Int(0, "Standby copies of each task.", at_least(0))
    group_streams_max_standby_replicas = Int(
        2, "The most standby copies that a streams group may be given.", at_least(0)
    )
    group_streams_initial_rebalance_delay_ms = Int(
        3_000,
        "How long an empty streams group waits for more members before it assigns.",
        at_least(0),
    )

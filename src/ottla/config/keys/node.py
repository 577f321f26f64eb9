"""What this node is: its roles, its identity, its place in the cluster."""

from ottla.config.definition import (
    CLUSTER_WIDE,
    REQUIRED,
    Boolean,
    ConfigSet,
    Int,
    List,
    Long,
    OptionalString,
)
from ottla.config.limits import LONG_MAX
from ottla.config.validators import at_least, distinct


class NodeKeys(ConfigSet):
    """What this node is: its roles, its identity, its place in the cluster."""

    process_roles = List(
        REQUIRED,
        "What this node is: a broker, a controller, or both.",
        distinct("broker", "controller", empty=False),
    )
    node_id = Int(
        REQUIRED, "The number of this node; no other node of the cluster may have it.", at_least(0)
    )
    broker_id = Int(-1, "The old name of node.id; when both are set they must be equal.")
    broker_rack = OptionalString(
        None, "Where the broker stands; replicas of a partition are spread over racks."
    )
    broker_heartbeat_interval_ms = Int(
        2_000, "Time between a broker's heartbeats to the controller."
    )
    broker_session_timeout_ms = Int(9_000, "A broker that is silent for so long is fenced.")
    initial_broker_registration_timeout_ms = Int(
        60_000, "How long a starting broker tries to register before it gives up."
    )
    server_max_startup_time_ms = Long(
        LONG_MAX, "A start that takes longer than this is given up.", at_least(0), internal=True
    )
    controlled_shutdown_enable = Boolean(
        True, "Whether a stopping broker first hands its partitions to others."
    )
    background_threads = Int(
        10, "Threads for background work such as flushing and retention.", at_least(1), CLUSTER_WIDE
    )
    num_io_threads = Int(8, "Threads that handle requests.", at_least(1), CLUSTER_WIDE)
    config_providers = List(
        (),
        "Names of the providers that look up indirect values in settings.",
        distinct(),
        CLUSTER_WIDE,
    )
    unstable_api_versions_enable = Boolean(
        False, "Whether unfinished versions of APIs are offered.", internal=True
    )
    unstable_feature_versions_enable = Boolean(
        False, "Whether unfinished versions of features may be set.", internal=True
    )

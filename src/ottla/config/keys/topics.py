"""How topics come to be, and what holds for a topic that says nothing else."""

from ottla.config.definition import CLUSTER_WIDE, Boolean, Class, ConfigSet, Int, Long, String
from ottla.config.validators import at_least, between, between_or, one_of


class TopicKeys(ConfigSet):
    """How topics come to be, and what holds for a topic that says nothing else."""

    auto_create_topics_enable = Boolean(
        True, "Whether a topic that is asked for and does not exist is created."
    )
    delete_topic_enable = Boolean(True, "Whether topics may be deleted.")
    num_partitions = Int(1, "Partitions of a topic whose creation names no number.", at_least(1))
    default_replication_factor = Int(1, "Replicas of a partition whose creation names no number.")
    min_insync_replicas = Int(
        1,
        "Replicas that must have a record before acks=all is answered.",
        at_least(1),
        CLUSTER_WIDE,
    )
    message_max_bytes = Int(
        1_048_588,
        "The largest record batch that is accepted, as it is stored.",
        at_least(0),
        CLUSTER_WIDE,
    )
    compression_type = String(
        "producer",
        "How record batches are stored: a codec, or as the producer sent them.",
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        CLUSTER_WIDE,
    )
    compression_gzip_level = Int(
        -1, "Level for gzip when the broker compresses.", between_or(1, 9, -1), CLUSTER_WIDE
    )
    compression_lz4_level = Int(
        9, "Level for lz4 when the broker compresses.", between(1, 17), CLUSTER_WIDE
    )
    compression_zstd_level = Int(
        3, "Level for zstd when the broker compresses.", between(-131_072, 22), CLUSTER_WIDE
    )
    unclean_leader_election_enable = Boolean(
        False,
        "Whether a replica that is not in sync may lead when no other is left.",
        scope=CLUSTER_WIDE,
    )
    unclean_leader_election_interval_ms = Long(
        300_000,
        "Time between the searches for partitions that need an unclean leader.",
        at_least(1),
        internal=True,
    )
    auto_leader_rebalance_enable = Boolean(
        True, "Whether leadership is moved back to preferred replicas by itself."
    )
    leader_imbalance_check_interval_seconds = Long(
        300, "Time between checks whether leaders are the preferred replicas.", at_least(1)
    )
    create_topic_policy_class_name = Class(
        None, "A Java class that may refuse the creation of topics."
    )
    alter_config_policy_class_name = Class(
        None, "A Java class that may refuse changes of settings."
    )

"""The controllers' quorum, and the metadata log that it keeps."""

from ottla.config.definition import Boolean, ConfigSet, Int, Long, OptionalInt, String
from ottla.config.endpoints import BOOTSTRAP_SERVERS, VOTERS, ServerList, VoterList
from ottla.config.validators import at_least


class QuorumKeys(ConfigSet):
    """The controllers' quorum, and the metadata log that it keeps."""

    controller_quorum_voters = VoterList(
        (), "The controllers as id@host:port, ...; the old, fixed form of a quorum.", VOTERS
    )
    controller_quorum_bootstrap_servers = ServerList(
        (), "Controllers as host:port, ... from which the quorum is found.", BOOTSTRAP_SERVERS
    )
    controller_quorum_auto_join_enable = Boolean(
        False, "Whether a controller joins the quorum as a voter by itself."
    )
    controller_quorum_election_timeout_ms = Int(
        1_000, "How long a candidate waits for votes before it tries again.", at_least(0)
    )
    controller_quorum_election_backoff_max_ms = Int(
        1_000, "The longest pause between elections that fail.", at_least(0)
    )
    controller_quorum_fetch_timeout_ms = Int(
        2_000, "A leader that is silent for so long is replaced.", at_least(0)
    )
    controller_quorum_fetch_max_bytes = Int(
        1_048_576, "Bytes of the metadata log that one fetch brings.", at_least(1)
    )
    controller_quorum_fetch_snapshot_max_bytes = Int(
        1_048_576, "Bytes of a snapshot that one fetch brings.", at_least(1)
    )
    controller_quorum_request_timeout_ms = Int(
        2_000, "How long a request within the quorum waits for its answer.", at_least(0)
    )
    controller_quorum_retry_backoff_ms = Int(
        20, "How long to wait before a failed request within the quorum is sent again.", at_least(0)
    )
    controller_quorum_append_linger_ms = Int(
        25, "How long the leader gathers writes before it flushes them.", at_least(0)
    )
    controller_performance_sample_period_ms = Long(
        60_000,
        "Time between two reports on how long the controller's work takes.",
        at_least(100),
        internal=True,
    )
    controller_performance_always_log_threshold_ms = Long(
        2_000,
        "Work of the controller that takes longer is always reported.",
        at_least(0),
        internal=True,
    )
    metadata_log_dir = String(
        None, "The directory of the metadata log; else the first of the data directories."
    )
    metadata_log_segment_bytes = Int(
        1_073_741_824, "Size at which the metadata log begins a new segment.", at_least(8_388_608)
    )
    metadata_log_segment_ms = Long(
        604_800_000, "Age at which the metadata log begins a new segment."
    )
    metadata_log_max_record_bytes_between_snapshots = Long(
        20_971_520, "Bytes of metadata records after which a snapshot is made.", at_least(1)
    )
    metadata_log_max_snapshot_interval_ms = Long(
        3_600_000,
        "Time after which a snapshot is made when there is anything new; 0 for never.",
        at_least(0),
    )
    metadata_max_retention_bytes = Long(
        104_857_600, "Size of metadata log and snapshots above which the oldest go."
    )
    metadata_max_retention_ms = Long(
        604_800_000, "Age at which parts of the metadata log and snapshots go."
    )
    metadata_max_idle_interval_ms = Int(
        500,
        "How often the leader writes a no-op when nothing else is written; 0 for never.",
        at_least(0),
    )
    internal_metadata_log_segment_bytes = OptionalInt(
        None, "Like metadata.log.segment.bytes, without a lower bound; for tests.", internal=True
    )
    internal_metadata_max_batch_size_in_bytes = Int(
        8_388_608, "The largest batch of the metadata log; for tests.", internal=True
    )
    internal_metadata_delete_delay_millis = Long(
        60_000,
        "How long a removed part of the metadata log stays on disk; for tests.",
        internal=True,
    )

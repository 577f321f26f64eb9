"""Tiered storage: older segments in a remote store."""

from ottla.config.definition import (
    CLUSTER_WIDE,
    Boolean,
    ConfigSet,
    Double,
    Int,
    Long,
    OptionalString,
    String,
)
from ottla.config.limits import LONG_MAX
from ottla.config.validators import NON_EMPTY, at_least, between


class RemoteStorageKeys(ConfigSet):
    """Tiered storage: older segments in a remote store."""

    remote_log_storage_system_enable = Boolean(False, "Whether tiered storage is on.")
    remote_log_storage_manager_class_name = OptionalString(
        None, "The Java class that stores segments remotely.", NON_EMPTY
    )
    remote_log_storage_manager_class_path = OptionalString(None, "Where that class is loaded from.")
    remote_log_storage_manager_impl_prefix = String(
        "rsm.config.", "The prefix of settings that are meant for that class.", NON_EMPTY
    )
    remote_log_metadata_manager_class_name = String(
        "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
        "The Java class that knows which segments are stored remotely.",
        NON_EMPTY,
    )
    remote_log_metadata_manager_class_path = OptionalString(
        None, "Where that class is loaded from."
    )
    remote_log_metadata_manager_impl_prefix = String(
        "rlmm.config.", "The prefix of settings that are meant for that class.", NON_EMPTY
    )
    remote_log_metadata_manager_listener_name = OptionalString(
        None, "The listener that it uses to reach this cluster.", NON_EMPTY
    )
    remote_log_metadata_custom_metadata_max_bytes = Int(
        128, "Bytes of its own that the store may keep with each segment.", at_least(0)
    )
    remote_log_index_file_cache_total_size_bytes = Long(
        1_073_741_824,
        "Bytes of remote indexes that are kept on local disk.",
        at_least(1),
        CLUSTER_WIDE,
    )
    remote_log_index_file_cache_ttl_ms = Long(
        900_000,
        "How long an unused remote index is kept on local disk; -1 for as long as there is room.",
        at_least(-1),
        internal=True,
    )
    remote_log_manager_thread_pool_size = Int(
        2, "Threads for remote work that has no pool of its own.", at_least(1)
    )
    remote_log_manager_copier_thread_pool_size = Int(
        10, "Threads that copy segments to the remote store.", at_least(1), CLUSTER_WIDE
    )
    remote_log_manager_expiration_thread_pool_size = Int(
        10, "Threads that remove expired remote segments.", at_least(1), CLUSTER_WIDE
    )
    remote_log_manager_follower_thread_pool_size = Int(
        2, "Threads for the remote work of followers.", at_least(1), CLUSTER_WIDE
    )
    remote_log_manager_task_interval_ms = Long(
        30_000, "Time between searches for remote work.", at_least(1)
    )
    remote_log_manager_task_retry_backoff_ms = Long(
        500, "The first pause after failed remote work.", at_least(1), internal=True
    )
    remote_log_manager_task_retry_backoff_max_ms = Long(
        30_000, "The longest pause after failed remote work.", at_least(1), internal=True
    )
    remote_log_manager_task_retry_jitter = Double(
        0.2, "Share by which that pause varies.", between(0, 0.5), internal=True
    )
    remote_log_manager_copy_max_bytes_per_second = Long(
        LONG_MAX, "Bytes per second copied to the remote store.", at_least(1), CLUSTER_WIDE
    )
    remote_log_manager_copy_quota_window_num = Int(
        11, "Samples that this rate is measured by.", at_least(1)
    )
    remote_log_manager_copy_quota_window_size_seconds = Int(
        1, "Length of each of those samples.", at_least(1)
    )
    remote_log_manager_fetch_max_bytes_per_second = Long(
        LONG_MAX, "Bytes per second read from the remote store.", at_least(1), CLUSTER_WIDE
    )
    remote_log_manager_fetch_quota_window_num = Int(
        11, "Samples that this rate is measured by.", at_least(1)
    )
    remote_log_manager_fetch_quota_window_size_seconds = Int(
        1, "Length of each of those samples.", at_least(1)
    )
    remote_log_reader_threads = Int(
        10, "Threads that read from the remote store.", at_least(1), CLUSTER_WIDE
    )
    remote_log_reader_max_pending_tasks = Int(
        100, "Reads from the remote store that may wait.", at_least(1)
    )
    remote_fetch_max_wait_ms = Int(
        500, "How long a fetch waits for the remote store.", at_least(1), CLUSTER_WIDE
    )
    remote_list_offsets_request_timeout_ms = Long(
        30_000,
        "How long a search for offsets waits for the remote store.",
        at_least(1),
        CLUSTER_WIDE,
    )

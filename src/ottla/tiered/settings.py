"""What the broker's settings say about the work for the remote tier."""

from typing import NamedTuple

from ottla.config.broker import BrokerConfig


class RemoteLogSettings(NamedTuple):
    """By Kafka's names, without ``remote.log.``."""

    broker_id: int
    copier_threads: int
    expiration_threads: int
    reader_threads: int
    reader_pending_max: int
    task_interval_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    retry_jitter: float
    copy_bytes_per_second: int
    fetch_bytes_per_second: int

    @staticmethod
    def of(config: BrokerConfig) -> "RemoteLogSettings":
        return RemoteLogSettings(
            broker_id=config.node_id,
            copier_threads=config.remote_log_manager_copier_thread_pool_size,
            expiration_threads=config.remote_log_manager_expiration_thread_pool_size,
            reader_threads=config.remote_log_reader_threads,
            reader_pending_max=config.remote_log_reader_max_pending_tasks,
            task_interval_ms=config.remote_log_manager_task_interval_ms,
            retry_backoff_ms=config.remote_log_manager_task_retry_backoff_ms,
            retry_backoff_max_ms=config.remote_log_manager_task_retry_backoff_max_ms,
            retry_jitter=config.remote_log_manager_task_retry_jitter,
            copy_bytes_per_second=config.remote_log_manager_copy_max_bytes_per_second,
            fetch_bytes_per_second=config.remote_log_manager_fetch_max_bytes_per_second,
        )

"""The settings of the transaction coordinator, read once from those of the broker."""

from dataclasses import dataclass

from ottla.config.broker import BrokerConfig


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    timeout_ms_max: int = 900_000
    expiration_ms: int = 604_800_000
    expiration_check_interval_ms: int = 3_600_000
    timeout_check_interval_ms: int = 10_000
    load_buffer_bytes: int = 5_242_880
    topic_partitions: int = 50
    commit_timeout_ms: int = 30_000
    add_retry_ms: int = 20
    add_retry_max_ms: int = 100

    @classmethod
    def from_broker(cls, config: BrokerConfig) -> "TransactionSettings":
        return cls(
            timeout_ms_max=config.transaction_max_timeout_ms,
            expiration_ms=config.transactional_id_expiration_ms,
            expiration_check_interval_ms=(
                config.transaction_remove_expired_transaction_cleanup_interval_ms
            ),
            timeout_check_interval_ms=(
                config.transaction_abort_timed_out_transaction_cleanup_interval_ms
            ),
            load_buffer_bytes=config.transaction_state_log_load_buffer_size,
            topic_partitions=config.transaction_state_log_num_partitions,
            commit_timeout_ms=config.request_timeout_ms,
            add_retry_ms=config.add_partitions_to_txn_retry_backoff_ms,
            add_retry_max_ms=config.add_partitions_to_txn_retry_backoff_max_ms,
        )

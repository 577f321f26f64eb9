"""Transactions, and the topic that keeps their state."""

from ottla.config.definition import CLUSTER_WIDE, Boolean, ConfigSet, Int, Short
from ottla.config.validators import at_least


class TransactionKeys(ConfigSet):
    """Transactions, and the topic that keeps their state."""

    transaction_max_timeout_ms = Int(
        900_000, "The longest timeout that a transaction may ask for.", at_least(1)
    )
    transactional_id_expiration_ms = Int(
        604_800_000, "A transactional id that is idle for so long is forgotten.", at_least(1)
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms = Int(
        10_000, "Time between searches for transactions that have timed out.", at_least(1)
    )
    transaction_remove_expired_transaction_cleanup_interval_ms = Int(
        3_600_000, "Time between searches for transactional ids that may be forgotten.", at_least(1)
    )
    transaction_partition_verification_enable = Boolean(
        True,
        "Whether a partition asks the coordinator if a transaction is really open.",
        scope=CLUSTER_WIDE,
    )
    transaction_two_phase_commit_enable = Boolean(
        False, "Whether transactions may be led by an outside coordinator."
    )
    transaction_state_log_load_buffer_size = Int(
        5_242_880, "Bytes that are read at once when the transaction topic is loaded.", at_least(1)
    )
    transaction_state_log_num_partitions = Int(
        50, "Partitions of the transaction topic.", at_least(1)
    )
    transaction_state_log_replication_factor = Short(
        3, "Replicas of the transaction topic.", at_least(1)
    )
    transaction_state_log_min_isr = Int(
        2, "Replicas of the transaction topic that must have a write.", at_least(1)
    )
    transaction_state_log_segment_bytes = Int(
        104_857_600, "Segment size of the transaction topic.", at_least(1)
    )
    add_partitions_to_txn_retry_backoff_ms = Int(
        20,
        "How long the broker waits before it adds a partition to a transaction once more.",
        at_least(1),
    )
    add_partitions_to_txn_retry_backoff_max_ms = Int(
        100, "How long the broker keeps trying to add a partition to a transaction.", at_least(0)
    )

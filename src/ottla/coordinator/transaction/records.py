"""The records of ``__transaction_state``: a transactional id, and the whole of what is known of it.

The version of a value follows the cluster's ``transaction.version``: 0 is what Kafka before 4.0
wrote; 1 has tagged fields, among them the producer ids before and after this one.
"""

from typing import Final, NamedTuple

from ottla.common.errors import ProtocolViolation
from ottla.common.topic_partition import TopicPartition
from ottla.coordinator.framing import PREFIX_SIZE, prefix_of, prefixed
from ottla.coordinator.transaction.metadata import TransactionMetadata
from ottla.coordinator.transaction.state import TransactionState
from ottla.protocol.generated.transaction_records import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)
from ottla.protocol.message import from_bytes

_KEY_VERSION: Final = 0


class TransactionRecord(NamedTuple):
    transactional_id: str
    metadata: TransactionMetadata | None
    """None is a tombstone."""
    version: int = 1
    """Of the value."""


class TransactionRecordFormat:
    def encode(self, record: TransactionRecord) -> tuple[bytes, bytes | None]:
        key = TransactionLogKey(transactional_id=record.transactional_id)
        encoded = prefixed(key.API_KEY, key, _KEY_VERSION)
        if record.metadata is None:
            return encoded, None
        return encoded, prefixed(
            record.version, _value(record.metadata, record.version), record.version
        )

    def decode(self, key: bytes, value: bytes | None) -> TransactionRecord | None:
        if prefix_of(key) != TransactionLogKey.API_KEY:
            return None
        transactional_id = from_bytes(
            TransactionLogKey, key[PREFIX_SIZE:], _KEY_VERSION
        ).transactional_id
        if value is None:
            return TransactionRecord(transactional_id, None)
        version = prefix_of(value)
        if not TransactionLogValue.LOWEST_VERSION <= version <= TransactionLogValue.HIGHEST_VERSION:
            return None
        decoded = from_bytes(TransactionLogValue, value[PREFIX_SIZE:], version)
        return TransactionRecord(transactional_id, _metadata(decoded), version)


def _value(metadata: TransactionMetadata, version: int) -> TransactionLogValue:
    value = TransactionLogValue(
        producer_id=metadata.producer_id,
        producer_epoch=metadata.producer_epoch,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_status=metadata.state.value,
        transaction_partitions=None,
        transaction_last_update_timestamp_ms=metadata.last_update_ms,
        transaction_start_timestamp_ms=metadata.start_ms,
    )
    if version > 0:
        value.client_transaction_version = metadata.client_version
        value.previous_producer_id = metadata.previous_producer_id
        value.next_producer_id = metadata.next_producer_id
    if metadata.state is not TransactionState.EMPTY:
        topics: dict[str, list[int]] = {}
        for topic, partition in metadata.partitions:
            topics.setdefault(topic, []).append(partition)
        value.transaction_partitions = [
            PartitionsSchema(topic=topic, partition_ids=ids) for topic, ids in topics.items()
        ]
    return value


def _metadata(value: TransactionLogValue) -> TransactionMetadata:
    try:
        state = TransactionState(value.transaction_status)
    except ValueError:
        raise ProtocolViolation(
            f"a transaction in the unknown state {value.transaction_status}"
        ) from None
    return TransactionMetadata(
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=state,
        partitions=tuple(
            sorted(
                {
                    TopicPartition(topic.topic, partition)
                    for topic in value.transaction_partitions or []
                    for partition in topic.partition_ids
                }
            )
        ),
        start_ms=value.transaction_start_timestamp_ms,
        last_update_ms=value.transaction_last_update_timestamp_ms,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        client_version=value.client_transaction_version,
    )

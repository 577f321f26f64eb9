"""Making record batches."""

from collections.abc import Iterable, Sequence
from typing import Final

from ottla.records.batch import (
    CONTROL_BIT,
    CREATE_TIME,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    seal,
)
from ottla.records.compression import compress
from ottla.records.record import Header, Record, encode_record

RECORD_OVERHEAD_MAX: Final = 36
"""More than any record takes beside its key, value and headers."""


class BatchBuilder:
    """A batch that grows record by record.

    The timestamp of the first record becomes the base of the others. ``size`` is what the batch
    would take without compression, which is what a producer compares with its limit.
    """

    __slots__ = ("_base_timestamp", "_last_offset_delta", "_max_timestamp", "_records", "count")

    def __init__(self) -> None:
        self.count = 0
        self._records = bytearray()
        self._base_timestamp = NO_TIMESTAMP
        self._max_timestamp = NO_TIMESTAMP
        self._last_offset_delta = -1

    @property
    def size(self) -> int:
        return HEADER_SIZE + len(self._records)

    def append(
        self,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header] = (),
        offset_delta: int | None = None,
    ) -> int:
        """Add a record and return its offset delta, which is the next one unless given."""
        if offset_delta is None:
            offset_delta = self._last_offset_delta + 1
        assert offset_delta > self._last_offset_delta
        if self.count == 0:
            self._base_timestamp = timestamp
            self._max_timestamp = timestamp
        elif timestamp > self._max_timestamp:
            self._max_timestamp = timestamp
        encode_record(
            self._records, timestamp - self._base_timestamp, offset_delta, key, value, headers
        )
        self.count += 1
        self._last_offset_delta = offset_delta
        return offset_delta

    def build(
        self,
        *,
        base_offset: int = 0,
        codec: int = 0,
        level: int | None = None,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        leader_epoch: int = NO_LEADER_EPOCH,
        transactional: bool = False,
        control: bool = False,
        timestamp_type: int = CREATE_TIME,
        append_time: int = NO_TIMESTAMP,
        last_offset_delta: int | None = None,
    ) -> bytearray:
        """The batch; it may be built again with other values.

        ``append_time`` takes the place of the largest timestamp when the type is LOG_APPEND_TIME.
        ``last_offset_delta`` may reach beyond the last record, as it does after compaction.
        """
        attributes = codec
        if timestamp_type == LOG_APPEND_TIME:
            attributes |= TIMESTAMP_TYPE_BIT
        if transactional:
            attributes |= TRANSACTIONAL_BIT
        if control:
            attributes |= CONTROL_BIT
        payload = self._records if codec == 0 else compress(codec, self._records, level)
        batch = bytearray(HEADER_SIZE)
        batch += payload
        HEADER.pack_into(
            batch,
            0,
            base_offset,
            len(batch) - LOG_OVERHEAD,
            leader_epoch,
            MAGIC,
            0,
            attributes,
            self._last_offset_delta if last_offset_delta is None else last_offset_delta,
            self._base_timestamp,
            append_time if timestamp_type == LOG_APPEND_TIME else self._max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            self.count,
        )
        seal(batch, 0, len(batch))
        return batch


def build_batch(
    records: Iterable[Record],
    *,
    base_offset: int = 0,
    codec: int = 0,
    level: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    leader_epoch: int = NO_LEADER_EPOCH,
    transactional: bool = False,
    control: bool = False,
    timestamp_type: int = CREATE_TIME,
    append_time: int = NO_TIMESTAMP,
    keep_offsets: bool = False,
) -> bytes:
    """A batch of ``records``, one offset after the other, or at their own with ``keep_offsets``."""
    builder = BatchBuilder()
    for record in records:
        builder.append(
            record.timestamp,
            record.key,
            record.value,
            record.headers,
            record.offset - base_offset if keep_offsets else None,
        )
    return bytes(
        builder.build(
            base_offset=base_offset,
            codec=codec,
            level=level,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            leader_epoch=leader_epoch,
            transactional=transactional,
            control=control,
            timestamp_type=timestamp_type,
            append_time=append_time,
        )
    )

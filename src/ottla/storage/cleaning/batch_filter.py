"""Which batches of a group stay, and how they are written.

1. A batch of which every record stays is copied as it is, together with its neighbours.
2. A batch that is written anew keeps its codec, base offset, last offset, leader epoch, producer
   id, epoch and sequence. Without any record it is kept if it is the last of its producer, or the
   last before the part that is not cleaned, so that sequences and offsets are not forgotten.
3. A batch with tombstones that stay, or with a marker that nothing needs any more, gets a delete
   horizon the first time: when that has passed, they go. It stands where the base timestamp stood.
4. A message of magic 0 or 1 that is written anew becomes a batch of magic 2: rule 3 needs one.

Counterpart: the ``RecordFilter`` of ``Cleaner.cleanInto``.
"""

from typing import Final, NamedTuple

from ottla.common.errors import CorruptMessage
from ottla.records.batch import (
    CODEC_MASK,
    CONTROL_BIT,
    CREATE_TIME,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    read_header,
    seal,
)
from ottla.records.builder import BatchBuilder
from ottla.records.compression import ACCEPTED_MAX, compress, decompress
from ottla.records.legacy import messages
from ottla.records.record import Record, iterate
from ottla.storage.cleaning.cleaned_transactions import CleanedTransactions
from ottla.storage.cleaning.compaction import Choice, choose, copy_runs, copy_shifted
from ottla.storage.cleaning.offset_map import OffsetMap
from ottla.storage.cleaning.plan import GroupPlan

HORIZON_MAX: Final = (1 << 63) - 1
NO_OFFSET: Final = -1


def unpacked_records(chunk: bytes, at: int, header: BatchHeader) -> tuple[bytes, int]:
    """The records of a batch, unpacked: the bytes, and where in them they begin."""
    if header.codec == 0 and at + header.size == len(chunk):
        return chunk, at + HEADER_SIZE
    payload = chunk[at + HEADER_SIZE : at + header.size]
    if header.codec == 0:
        return payload, 0
    return decompress(header.codec, payload, ACCEPTED_MAX), 0


def control_records(chunk: bytes, at: int, header: BatchHeader) -> list[Record]:
    return iterate(chunk[at : at + header.size], check_crc=False)


class UnpackedBatch(NamedTuple):
    """A batch as it would be written today, its records unpacked."""

    header: BatchHeader
    data: bytes
    start: int
    """Where in ``data`` the records begin."""


def unpacked(chunk: bytes, at: int, header: BatchHeader) -> UnpackedBatch:
    """The batch at ``at``; a message of an old format as the batch that it would be in magic 2."""
    if header.magic == MAGIC:
        return UnpackedBatch(header, *unpacked_records(chunk, at, header))
    found = messages(chunk[at : at + header.size], limit=ACCEPTED_MAX, check_crc=False)
    first, last = found[0].offset, found[-1].offset
    if last != header.last_offset:
        raise CorruptMessage(f"a message at {header.last_offset} of others up to {last}")
    # What it wraps may be of magic 0, and has no time then, whatever the wrapper says.
    has_append_time = header.timestamp_type == LOG_APPEND_TIME
    builder, before = BatchBuilder(), NO_OFFSET
    for offset, timestamp, key, value in found:
        if offset <= before:
            raise CorruptMessage(f"offsets do not rise within the message at {last}")
        builder.append(timestamp, key, value, (), offset - first)
        has_append_time &= timestamp == header.max_timestamp
        before = offset
    batch = bytes(
        builder.build(
            base_offset=first,
            timestamp_type=LOG_APPEND_TIME if has_append_time else CREATE_TIME,
            append_time=header.max_timestamp,
        )
    )
    plain = read_header(batch)
    return UnpackedBatch(
        plain._replace(attributes=plain.attributes | header.codec), batch, HEADER_SIZE
    )


class BatchFilter:
    """Decides about the batches of one group, in order."""

    def __init__(
        self, plan: GroupPlan, offsets: OffsetMap, transactions: CleanedTransactions
    ) -> None:
        self._plan = plan
        self._offsets = offsets
        self._transactions = transactions
        horizon = plan.now_ms + plan.delete_retention_ms
        self._new_horizon = horizon if horizon <= HORIZON_MAX else None
        self.bytes_read = 0
        self.records_read = 0
        self.records_written = 0
        self.without_key = 0
        self._last_offset = NO_OFFSET
        """Of the batch before."""

    def filter(
        self, chunk: bytes, batches: list[tuple[int, BatchHeader]]
    ) -> tuple[bytes | memoryview, list[tuple[int, int, int]]]:
        """What stays of a chunk; of each batch its size, last offset and largest timestamp."""
        parts: list[bytes | memoryview] = []
        written: list[tuple[int, int, int]] = []
        view = memoryview(chunk)
        run_start = run_end = 0  # batches that are copied as they are
        for at, header in batches:
            self.bytes_read += header.size
            batch = self._filter_batch(chunk, at, header)
            self._last_offset = header.last_offset
            if batch is None:
                continue
            if batch is chunk:  # all of it stays, as it was
                if run_end != at:
                    if run_end > run_start:
                        parts.append(view[run_start:run_end])
                    run_start = at
                run_end = at + header.size
                written.append((header.size, header.last_offset, header.max_timestamp))
                continue
            if run_end > run_start:
                parts.append(view[run_start:run_end])
            run_start = run_end = 0
            parts.append(batch)
            anew = read_header(batch)
            written.append((anew.size, anew.last_offset, anew.max_timestamp))
        if run_end > run_start:
            parts.append(view[run_start:run_end])
        return parts[0] if len(parts) == 1 else b"".join(parts), written

    def _filter_batch(self, chunk: bytes, at: int, header: BatchHeader) -> bytes | None:
        """What stays of a batch: ``chunk`` itself if all, None if nothing."""
        transactions = self._transactions
        horizon = header.delete_horizon_ms
        if header.is_control:
            is_marker_of_nothing = transactions.is_of_nothing(
                header, control_records(chunk, at, header)
            )
            discard = is_marker_of_nothing and horizon is not None and horizon <= self._plan.now_ms
        else:
            is_marker_of_nothing = False
            discard = transactions.is_aborted(header)
        keep_empty = (
            self._is_last_of_producer(header)
            or header.last_offset + 1 == self._plan.upper_bound_offset
        )
        if discard:
            self.records_read += header.record_count
            return _empty_batch(header) if keep_empty else None
        wraps = header.wraps
        header, data, start = unpacked(chunk, at, header)
        if wraps and header.base_offset <= self._last_offset:
            raise CorruptMessage(
                f"a wrapper from {header.base_offset} on, after {self._last_offset}"
            )
        self.records_read += header.record_count
        choice = choose(
            data,
            start,
            header.record_count,
            header.base_offset,
            self._offsets,
            NO_OFFSET if header.is_control else self._offsets.latest_offset,
            horizon is None or self._plan.now_ms < horizon,
        )
        self.without_key += choice.without_key
        self.records_written += choice.count
        if choice.count == 0:
            return _empty_batch(header) if keep_empty else None
        sets_horizon = horizon is None and (choice.has_tombstones or is_marker_of_nothing)
        if sets_horizon and self._new_horizon is not None:
            return _rewritten_batch(header, data, choice, self._new_horizon)
        if choice.count == header.record_count:
            return chunk
        return _rewritten_batch(header, data, choice, horizon)

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        """Whether the log's knowledge of a producer comes from this batch.

        That is its last data batch, or if there is none the marker that has its epoch.
        """
        last = self._plan.last_records.get(header.producer_id)
        if last is None or header.producer_id < 0:
            return False
        last_data_offset, epoch = last
        if last_data_offset >= 0:
            return header.last_offset == last_data_offset
        return header.is_control and header.producer_epoch == epoch


def _empty_batch(header: BatchHeader) -> bytes:
    kept = TIMESTAMP_TYPE_BIT | TRANSACTIONAL_BIT | CONTROL_BIT
    return _batch(header, header.attributes & kept, NO_TIMESTAMP, header.max_timestamp, 0, b"")


def _rewritten_batch(
    header: BatchHeader, data: bytes, choice: Choice, horizon: int | None
) -> bytes:
    """The batch with the records that stay; a delete horizon takes the base timestamp's place."""
    is_append_time = header.timestamp_type == LOG_APPEND_TIME
    old_base = header.base_timestamp
    max_timestamp = header.max_timestamp if is_append_time else old_base + choice.max_delta
    if horizon is not None:
        base = horizon
    elif is_append_time:
        base = header.max_timestamp
    else:
        base = old_base + choice.first_delta
    if is_append_time:
        records = copy_shifted(data, choice.runs, header.max_timestamp - base, fixed=True)
    elif base == old_base:
        records = copy_runs(data, choice.runs)
    else:
        records = copy_shifted(data, choice.runs, old_base - base, fixed=False)
    attributes = header.attributes & ~DELETE_HORIZON_BIT
    if horizon is not None:
        attributes |= DELETE_HORIZON_BIT
    payload = compress(attributes & CODEC_MASK, records)
    return _batch(header, attributes, base, max_timestamp, choice.count, payload)


def _batch(
    header: BatchHeader,
    attributes: int,
    base_timestamp: int,
    max_timestamp: int,
    record_count: int,
    payload: bytes,
) -> bytes:
    batch = bytearray(HEADER_SIZE)
    batch += payload
    HEADER.pack_into(
        batch,
        0,
        header.base_offset,
        len(batch) - LOG_OVERHEAD,
        header.partition_leader_epoch,
        MAGIC,
        0,
        attributes,
        header.last_offset_delta,
        base_timestamp,
        max_timestamp,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        record_count,
    )
    seal(batch, 0, len(batch))
    return bytes(batch)

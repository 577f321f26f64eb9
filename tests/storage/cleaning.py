"""Cleaning a log in a test: at once, in this thread, and reading it as its consumers do."""

from typing import NamedTuple

from tests.storage import logs

from ottla.config.topic import TopicConfig
from ottla.records.batch import batches, read_header
from ottla.records.builder import build_batch
from ottla.records.control import ControlType, read_transaction_marker, transaction_marker_batch
from ottla.records.record import Record, iterate
from ottla.records.rules import AppendOrigin
from ottla.storage.cleaning.cleanable import log_to_clean
from ottla.storage.cleaning.cleaner import Cleaner
from ottla.storage.cleaning.log_cleaning import Cleaning
from ottla.storage.files import Filesystem
from ottla.storage.log import Log

SLOTS = 1000


def compacted(**changed: object) -> TopicConfig:
    return logs.settings(**{"cleanup_policy": "compact", "internal_segment_bytes": 600, **changed})


def clean(
    files: Filesystem,
    log: Log,
    checkpoint: int | None,
    now_ms: int,
    *,
    slots: int = SLOTS,
    buffer_size: int = 4096,
) -> int:
    """Clean what may be cleaned now, whole; where the clean part ends."""
    to_clean, _ = log_to_clean(log, checkpoint, now_ms)
    if to_clean.cleanable_bytes == 0:
        return to_clean.first_dirty_offset
    cleaning = Cleaning(to_clean, now_ms)
    cleaner = Cleaner(files, buffer_size=buffer_size)
    built = cleaner.build_map(cleaning.map_plan(slots, 0.9))
    for group in cleaning.mapped(built):
        cleaner.clean(cleaning.group_plan(group))
        cleaning.swap(group)
        files.sync_directory(log.directory)
    return cleaning.end_offset


def put(
    log: Log,
    records: list[tuple[bytes, bytes | None]],
    *,
    now_ms: int = logs.NOW,
    producer_id: int = -1,
    producer_epoch: int = -1,
    sequence: int = -1,
    transactional: bool = False,
    codec: int = 0,
    epoch: int = 0,
) -> int:
    """Append one batch; its first offset."""
    data = bytearray(
        build_batch(
            [
                Record(key=key, value=value, timestamp=now_ms + number)
                for number, (key, value) in enumerate(records)
            ],
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=sequence,
            transactional=transactional,
            codec=codec,
        )
    )
    info = log.append_as_leader(data, 0, len(data), leader_epoch=epoch, now_ms=now_ms)
    log.set_high_watermark(log.log_end_offset)
    return info.first_offset


def end_transaction(
    log: Log, producer_id: int, producer_epoch: int, *, commit: bool, now_ms: int = logs.NOW
) -> int:
    """Append a marker; its offset."""
    data = transaction_marker_batch(
        commit=commit,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        coordinator_epoch=0,
        timestamp=now_ms,
    )
    info = log.append_as_leader(
        data, 0, len(data), leader_epoch=0, now_ms=now_ms, origin=AppendOrigin.COORDINATOR
    )
    log.set_high_watermark(log.log_end_offset)
    return info.first_offset


class Seen(NamedTuple):
    offset: int
    key: bytes
    value: bytes | None
    timestamp: int


def read_uncommitted(log: Log) -> list[Seen]:
    return _read(log, log.log_end_offset, committed=False)


def read_committed(log: Log, *, max_bytes: int = 300) -> list[Seen]:
    """As a consumer does: aborted transactions are told by the log, and end at their marker."""
    return _read(log, log.last_stable_offset, committed=True, max_bytes=max_bytes)


def _read(log: Log, upper: int, *, committed: bool, max_bytes: int = 300) -> list[Seen]:
    found: list[Seen] = []
    offset = log.log_start_offset
    while offset < upper:
        fetched = log.read(offset, max_bytes, upper_bound_offset=upper, at_least_one=True)
        if fetched.region is None:
            break
        data = fetched.region.read()
        aborted = sorted(
            log.aborted_transactions(offset, fetched.next_offset), key=lambda entry: entry[1]
        )
        found += [
            seen for seen in _visible(data, aborted if committed else []) if seen.offset >= offset
        ]
        assert fetched.next_offset > offset
        offset = fetched.next_offset
    return found


def _visible(data: bytes, aborted: list[tuple[int, int]]) -> list[Seen]:
    found: list[Seen] = []
    open_aborted: set[int] = set()
    for position, size in batches(data):
        batch = data[position : position + size]
        header = read_header(batch)
        while aborted and aborted[0][1] <= header.last_offset:
            open_aborted.add(aborted.pop(0)[0])
        records = iterate(batch)
        if header.is_control:
            if records and read_transaction_marker(records[0]).control_type is ControlType.ABORT:
                open_aborted.discard(header.producer_id)
            continue
        if header.is_transactional and header.producer_id in open_aborted:
            continue
        for record in records:
            assert record.key is not None
            found.append(Seen(record.offset, record.key, record.value, record.timestamp))
    return found


def newest(seen: list[Seen]) -> dict[bytes, bytes]:
    """The table that the log stands for."""
    table: dict[bytes, bytes] = {}
    for record in seen:
        if record.value is None:
            table.pop(record.key, None)
        else:
            table[record.key] = record.value
    return table

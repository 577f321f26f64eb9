"""The files of a log as rows: segments, indexes, snapshots and checkpoints. Nothing is changed.

Each reader takes a path and gives the noun, the columns and the rows of its kind of file.
"""

import posixpath
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from ottla.cli.decoding import control_value, metadata_value
from ottla.cli.output import Column, Row
from ottla.cli.values import shown, shown_headers
from ottla.common.identifiers import METADATA_TOPIC
from ottla.inspection.read_only import FILES
from ottla.records.batch import CREATE_TIME, MAGIC, is_intact, read_header
from ottla.records.compression import NAMES
from ottla.records.control import read_control_type
from ottla.records.record import Record, iterate
from ottla.storage.checkpoints import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LEADER_EPOCHS,
    LOG_START_OFFSETS,
    META_PROPERTIES,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    decode_partition_metadata,
    read_epochs,
    read_offsets,
)
from ottla.storage.file_records import BatchPlace, bodies
from ottla.storage.offset_index import OffsetIndex
from ottla.storage.producer_snapshots import decode_snapshot
from ottla.storage.segment import offset_of_file
from ottla.storage.time_index import TimeIndex
from ottla.storage.transaction_index import TransactionIndex

_UNBOUNDED: Final = (1 << 63) - 1


class Content(NamedTuple):
    """What a file holds."""

    noun: str
    columns: tuple[Column, ...]
    rows: Iterable[Row]


class Selection(NamedTuple):
    """Which part of a segment is wanted."""

    records: bool = False
    first_offset: int = 0
    limit: int = _UNBOUNDED
    progress: Callable[[int], None] = lambda _: None
    """Hears how many bytes were read."""


def batches_of(path: str) -> Iterator[tuple[BatchPlace, bytes]]:
    """Each batch of a segment or metadata snapshot with its bytes."""
    file = FILES.open(path)
    try:
        yield from bodies(file, 0, file.size())
    finally:
        file.close()


BATCH_COLUMNS: Final = (
    *map(Column, ("base_offset", "last_offset", "count", "leader_epoch", "max_timestamp")),
    *map(Column, ("codec", "size", "position")),
    Column("producer_id"),
    Column("producer_epoch", wide=True),
    Column("base_sequence", wide=True),
    Column("timestamp_type", wide=True),
    Column("transactional", wide=True),
    Column("control"),
    Column("crc", wide=True),
    Column("crc_valid"),
)
RECORD_COLUMNS: Final = (
    *map(Column, ("offset", "timestamp", "key", "value")),
    Column("headers", wide=True),
    Column("control"),
)


def segment(path: str, selection: Selection) -> Content:
    rows = _records(path, selection) if selection.records else _batches(path, selection)
    columns = RECORD_COLUMNS if selection.records else BATCH_COLUMNS
    return Content("records" if selection.records else "batches", columns, rows)


def _batches(path: str, selection: Selection) -> Iterator[Row]:
    count = 0
    for place, data in batches_of(path):
        selection.progress(place.size)
        if place.last_offset < selection.first_offset:
            continue
        if count == selection.limit:
            return
        count += 1
        yield _batch_row(place, data)


def _batch_row(place: BatchPlace, data: bytes) -> Row:
    header = read_header(data)
    row: dict[str, object] = {
        "base_offset": place.base_offset,
        "last_offset": place.last_offset,
        "size": place.size,
        "position": place.position,
        "magic": header.magic,
    }
    row |= {
        "max_timestamp": header.max_timestamp,
        "codec": NAMES[header.codec] if header.codec < len(NAMES) else str(header.codec),
        "crc": header.crc,
        "crc_valid": is_intact(data, 0, len(data)),
    }
    if header.magic != MAGIC:
        return row
    return {
        **row,
        "count": header.record_count,
        "leader_epoch": header.partition_leader_epoch,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "timestamp_type": (
            "CreateTime" if header.timestamp_type == CREATE_TIME else "LogAppendTime"
        ),
        "transactional": header.is_transactional,
        "control": header.is_control,
    }


def _records(path: str, selection: Selection) -> Iterator[Row]:
    count = 0
    metadata = path.endswith(".checkpoint") or _is_metadata_log(path)
    for place, data in batches_of(path):
        selection.progress(place.size)
        if place.last_offset < selection.first_offset:
            continue
        control = read_header(data).is_control
        for record in iterate(data, check_crc=False):
            if record.offset < selection.first_offset:
                continue
            if count == selection.limit:
                return
            count += 1
            yield _record_row(record, control=control, metadata=metadata)


def _is_metadata_log(path: str) -> bool:
    directory = posixpath.dirname(posixpath.abspath(path))
    return posixpath.basename(directory).startswith(f"{METADATA_TOPIC}-")


def _record_row(record: Record, *, control: bool, metadata: bool) -> Row:
    row = {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": shown(record.key),
        "value": shown(record.value),
        "headers": shown_headers(record.headers),
    }
    if control:
        kind = read_control_type(record.key)
        return {**row, "key": None, "value": control_value(kind, record), "control": kind.name}
    if metadata and record.value is not None:
        return {**row, "value": metadata_value(record.value)}
    return row


def _used(index: OffsetIndex | TimeIndex) -> list[tuple[int, int]]:
    """The entries without the room behind them that a running broker has set aside."""
    entries = index.all()
    while entries and entries[-1] == (0, 0):
        entries.pop()
    return entries


def _offset_index(path: str, _: Selection) -> Content:
    index = OffsetIndex(FILES, path, _base_offset(path), _UNBOUNDED)
    rows = [{"offset": index.base_offset + each, "position": at} for each, at in _used(index)]
    return Content("entries", (Column("offset"), Column("position")), rows)


def _time_index(path: str, _: Selection) -> Content:
    index = TimeIndex(FILES, path, _base_offset(path), _UNBOUNDED)
    rows = [{"timestamp": at, "offset": index.base_offset + each} for at, each in _used(index)]
    return Content("entries", (Column("timestamp"), Column("offset")), rows)


def _transaction_index(path: str, _: Selection) -> Content:
    index = TransactionIndex(FILES, path, _base_offset(path))
    names = ("producer_id", "first_offset", "last_offset", "last_stable_offset")
    rows = [entry._asdict() for entry in index.entries]
    return Content("aborted_transactions", tuple(map(Column, names)), rows)


def _producers(path: str, _: Selection) -> Content:
    names = (
        "producer_id",
        "epoch",
        "last_sequence",
        "last_data_offset",
        "last_timestamp",
        "coordinator_epoch",
        "transaction_first_offset",
    )
    rows = [
        {name: getattr(entry, name) for name in names}
        for entry in decode_snapshot(FILES.read(path))
    ]
    return Content("producers", tuple(map(Column, names)), rows)


def _epochs(path: str, _: Selection) -> Content:
    rows = [entry._asdict() for entry in read_epochs(FILES, path)]
    return Content("epochs", (Column("epoch"), Column("start_offset")), rows)


def _offsets(path: str, _: Selection) -> Content:
    rows = [
        {"topic": partition.topic, "partition": partition.partition, "offset": offset}
        for partition, offset in read_offsets(FILES, path).items()
    ]
    return Content("offsets", tuple(map(Column, ("topic", "partition", "offset"))), rows)


def _topic_id(path: str, _: Selection) -> Content:
    from ottla.common.identifiers import uuid_text

    topic_id = decode_partition_metadata(FILES.read(path))
    return Content("partition_metadata", (Column("topic_id"),), [{"topic_id": uuid_text(topic_id)}])


def _properties(path: str, _: Selection) -> Content:
    from ottla.cli.files import read_properties

    rows = [{"name": name, "value": value} for name, value in read_properties(path).items()]
    return Content("properties", (Column("name"), Column("value")), rows)


Reader = Callable[[str, Selection], Content]

_BY_NAME: Final[dict[str, Reader]] = {
    LEADER_EPOCHS: _epochs,
    PARTITION_METADATA: _topic_id,
    META_PROPERTIES: _properties,
    RECOVERY_POINTS: _offsets,
    LOG_START_OFFSETS: _offsets,
    HIGH_WATERMARKS: _offsets,
    CLEANER_OFFSETS: _offsets,
}
_BY_SUFFIX: Final[dict[str, Reader]] = {
    ".log": segment,
    ".checkpoint": segment,
    ".index": _offset_index,
    ".timeindex": _time_index,
    ".txnindex": _transaction_index,
    ".snapshot": _producers,
}


def reader_of(path: str) -> Reader | None:
    """What reads this file, judged by its name; None when we do not know such files."""
    name = posixpath.basename(path)
    return _BY_NAME.get(name) or _BY_SUFFIX.get(posixpath.splitext(name)[1])


def _base_offset(path: str) -> int:
    offset = offset_of_file(posixpath.basename(path))
    if offset is None:
        raise ValueError(f"{path}: the name does not begin with an offset of 20 digits")
    return offset

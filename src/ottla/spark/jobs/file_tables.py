"""Tables as files that Arrow reads, each of them on its own: no JVM, on any executor.

Parquet, CSV and JSON (an object in each line) in a directory or a single file, with the columns of
paths such as ``day=2026-01-31``; Delta, Iceberg and the Parquet tables of pipelines, which have a
log of their own, as of one version, which stays what it is.

A table is cut into parts, by files and, where these are large, by their row groups: the same parts
each time, in the same order, as long as the files are the same.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow.fs import FileType

from ottla.common.errors import InvalidRequest
from ottla.spark.jobs.export import open_target

FORMATS: Final = ("parquet", "csv", "json", "delta", "iceberg")
PART_BYTES: Final = 128 << 20
"""A larger file of Parquet is cut between row groups."""
ROWS_AT_ONCE: Final = 1 << 15
_PIPELINE: Final = "pipeline"
"""Instead of parquet: a directory with the log of a pipeline's table."""
_LOG: Final = "_log"


class Part(NamedTuple):
    """A file, or some row groups of it."""

    path: str
    bytes: int
    row_groups: tuple[int, ...] = ()
    """None: all of them."""


@dataclass(frozen=True, slots=True)
class FileTable:
    format: str
    location: str
    version: int | None = None
    """Of Delta and pipelines its version, of Iceberg the id of a snapshot."""
    schema: pa.Schema | None = None
    """As files have it."""

    @property
    def columns(self) -> pa.Schema:
        """As rows have it: the types that values of a topic can be made of."""
        assert self.schema is not None
        return pa.schema([pa.field(each.name, _plain(each.type)) for each in self.schema])


def _plain(kind: pa.DataType) -> pa.DataType:
    for is_one, plain in _PLAIN:
        if is_one(kind):
            return plain
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(pa.field("element", _plain(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, _plain(each.type)) for each in kind])
    return kind


_PLAIN: Final = (
    (pa.types.is_large_string, pa.string()),
    (pa.types.is_string_view, pa.string()),
    (pa.types.is_large_binary, pa.binary()),
    (pa.types.is_binary_view, pa.binary()),
    (pa.types.is_fixed_size_binary, pa.binary()),
    (pa.types.is_uint8, pa.int16()),
    (pa.types.is_uint16, pa.int32()),
    (pa.types.is_uint32, pa.int64()),
    (pa.types.is_date64, pa.date32()),
    (pa.types.is_float16, pa.float32()),
)


class NoTable(InvalidRequest):
    """There is nothing that can be read as a table of that format."""


def find_table(kind: str, location: str, version: int | None) -> FileTable:
    """A table with its columns; the newest version if none is named. NoTable when it is none."""
    table = FileTable(kind, location, version)
    for kept in (_fragments, _iceberg, _tasks):
        kept.cache_clear()  # files may have come since
    try:
        if kind == "delta":
            opened = _delta(table)
            columns = opened.to_pyarrow_dataset().schema
            return replace(table, version=int(opened.version()), schema=columns)
        if kind == "iceberg":
            scan = _iceberg(table)[1]
            snapshot = scan.snapshot()
            if snapshot is None:
                raise NoTable(f"{location} has no snapshot yet")
            columns = scan.projection().as_arrow()
            return replace(table, version=int(snapshot.snapshot_id), schema=columns)
        if kind == "parquet" and _has_log(location):
            table = replace(table, format=_PIPELINE)
            log, snapshot = _pipeline(table)
            columns = log.file_schema(snapshot)
            return replace(table, version=int(snapshot.version), schema=columns)
        if version is not None:
            raise NoTable(f"{location}: plain files have no versions, only tables with a log do")
        return replace(table, schema=_dataset(table).schema)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise NoTable(f"{location} cannot be read as {kind}: {_line(error)}") from error


def parts_of(table: FileTable) -> list[Part]:
    """In an order that does not change."""
    if table.format == "iceberg":
        return sorted(Part(path, task.file.file_size_in_bytes) for path, task in _tasks(table))
    fragments = _fragments(table)
    parts: list[Part] = []
    for path in sorted(fragments):
        fragment = fragments[path]
        size = fragment.filesystem.get_file_info(fragment.path).size or 0
        if size > PART_BYTES and isinstance(fragment, ds.ParquetFileFragment):
            parts += _row_groups(path, fragment)
        else:
            parts.append(Part(path, size))
    return parts


def _row_groups(path: str, fragment: ds.ParquetFileFragment) -> Iterator[Part]:
    numbers: list[int] = []
    size = 0
    for group in fragment.row_groups:
        numbers.append(group.id)
        size += group.total_byte_size
        if size >= PART_BYTES:
            yield Part(path, size, tuple(numbers))
            numbers, size = [], 0
    if numbers:
        yield Part(path, size, tuple(numbers))


def read_part(table: FileTable, part: Part) -> Iterator[pa.RecordBatch]:
    """The rows of a part, in their order."""
    columns = table.columns
    for batch in _read(table, part):
        yield batch if batch.schema.equals(columns) else batch.cast(columns, safe=False)


def _read(table: FileTable, part: Part) -> Iterator[pa.RecordBatch]:
    if table.format == "iceberg":
        from pyiceberg.io.pyarrow import ArrowScan

        opened, scan = _iceberg(table)
        task = dict(_tasks(table))[part.path]
        reader = ArrowScan(opened.metadata, opened.io, scan.projection(), scan.row_filter)
        yield from reader.to_record_batches([task])
        return
    fragment = _fragments(table)[part.path]
    if part.row_groups:
        fragment = fragment.subset(row_group_ids=list(part.row_groups))
    yield from fragment.to_batches(schema=table.schema, batch_size=ROWS_AT_ONCE)


@lru_cache(maxsize=4)
def _fragments(table: FileTable) -> dict[str, Any]:
    """By path; listed once in each process."""
    if table.format == "delta":
        dataset = _delta(table).to_pyarrow_dataset()
    elif table.format == _PIPELINE:
        files, root = open_target(table.location)
        paths = [f"{root}/{each.path}" for each in _pipeline(table)[1].files]
        if not paths:
            return {}
        dataset = ds.dataset(paths, format="parquet", filesystem=files, schema=table.schema)
    else:
        dataset = _dataset(table)
    return {fragment.path: fragment for fragment in dataset.get_fragments()}


def _dataset(table: FileTable) -> ds.Dataset:
    files, root = open_target(table.location)
    dataset = ds.dataset(
        root, format=table.format, filesystem=files, partitioning="hive", schema=table.schema
    )
    if not dataset.files:
        raise NoTable(f"{table.location} has no files")
    return dataset


def _has_log(location: str) -> bool:
    files, root = open_target(location)
    return bool(files.get_file_info(f"{root}/{_LOG}").type is FileType.Directory)


def _pipeline(table: FileTable) -> tuple[Any, Any]:
    """Its log, and the version that is meant."""
    from ottla.client.system_time import SystemTime
    from ottla.spark.tables.errors import BadTable, VersionGone
    from ottla.spark.tables.logs import open_log
    from ottla.spark.tables.spec import PARQUET, TableSpec

    log = open_log(TableSpec("backfill", PARQUET, table.location), SystemTime())
    try:
        snapshot = log.newest() if table.version is None else log.at(table.version)
    except (BadTable, VersionGone) as error:
        raise NoTable(f"{table.location}: {_line(error)}") from error
    if snapshot is None:
        raise NoTable(f"{table.location} has nothing committed yet")
    return log, snapshot


def _delta(table: FileTable) -> Any:
    try:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError
    except ImportError as error:
        raise NoTable("reading Delta needs deltalake: pip install 'ottla[lake]'") from error
    try:
        return DeltaTable(table.location, version=table.version)
    except DeltaError as error:
        raise NoTable(f"{table.location} cannot be read as delta: {_line(error)}") from error


@lru_cache(maxsize=4)
def _iceberg(table: FileTable) -> tuple[Any, Any]:
    """The table and the scan of all of its rows."""
    try:
        from pyiceberg.table import StaticTable
    except ImportError as error:
        raise NoTable("reading Iceberg needs pyiceberg: pip install 'ottla[lake]'") from error
    opened = StaticTable.from_metadata(_metadata(table.location))
    return opened, opened.scan(snapshot_id=table.version)


@lru_cache(maxsize=4)
def _tasks(table: FileTable) -> tuple[tuple[str, Any], ...]:
    _, scan = _iceberg(table)
    return tuple((task.file.file_path, task) for task in scan.plan_files())


def _metadata(location: str) -> str:
    """The newest file of metadata, where a directory of this machine is named."""
    path = location.removeprefix("file://")
    if location.endswith(".json") or not os.path.isdir(path):  # noqa: PTH112 - may be an address
        return location
    found = sorted(Path(path, "metadata").glob("*.metadata.json"), key=_number)
    if not found:
        raise NoTable(f"{location} has no metadata of Iceberg")
    return str(found[-1])


def _number(path: Path) -> tuple[int, float]:
    """``00003-....metadata.json`` and ``v3.metadata.json`` both."""
    digits = path.name.removeprefix("v").partition("-")[0].partition(".")[0]
    return int(digits) if digits.isdecimal() else -1, path.stat().st_mtime


def _line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]

"""Data files: written out of Arrow where the rows are, on executors above all.

A file has a name that no other has, and is of no table until a commit names it: a task that is run
twice leaves a file that vacuum removes. It is on the disk before anybody hears of it. The footer
travels to the driver with the name, since the formats keep statistics of their own.
"""

import io
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ottla.spark.tables.store import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FOLDER: Final = "data"
ROW_GROUP_BYTES: Final = 64 << 20
"""Rows are held back until there are so many."""
FILE_BYTES: Final = 1 << 30
"""About, before compression; then a new file is begun."""
OPEN_MAX: Final = 64
"""Partitions that one task writes at once."""
HELD_MAX: Final = 256 << 20
"""Rows that one task holds back for all of them; then the most of one go, in a smaller group."""
RESULT: Final = "path string, rows bigint, size bigint, partition array<string>, footer binary"

Partition = tuple[str | None, ...]


class WrittenFile(NamedTuple):
    """``path`` is relative to the table's location; the footer is a Parquet file without rows."""

    path: str
    rows: int
    size: int
    partition: Partition
    footer: bytes

    def metadata(self) -> pq.FileMetaData:
        return pq.read_metadata(pa.BufferReader(self.footer))


@dataclass(frozen=True)
class Target:
    """Where data files go, with which columns, and what stands together in one."""

    store: Store
    schema: pa.Schema
    partition_by: tuple[str, ...] = ()
    codec: str = "zstd"


@dataclass
class _OpenFile:
    """A data file that is being written."""

    target: Target
    partition: Partition
    path: str = field(default_factory=lambda: f"{FOLDER}/{uuid.uuid4()}.parquet")
    rows: int = 0
    size: int = 0
    held_bytes: int = 0
    _held: list[pa.RecordBatch] = field(default_factory=list)
    _writer: pq.ParquetWriter | None = None

    def write(self, rows: pa.RecordBatch) -> None:
        self._held.append(rows)
        self.held_bytes += rows.nbytes
        self.rows += rows.num_rows
        self.size += rows.nbytes
        if self.held_bytes >= ROW_GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what is held back, in a group of its own."""
        if not self._held:
            return
        store, schema = self.target.store, self.target.schema
        if self._writer is None:
            codec = None if self.target.codec == "none" else self.target.codec
            store.make_directory(FOLDER)
            self._writer = pq.ParquetWriter(
                store.full(self.path),
                schema,
                filesystem=store.files,
                compression=codec,
                store_schema=False,
            )
        table = pa.Table.from_batches(self._held)
        self._writer.write_table(table, row_group_size=max(table.num_rows, 1))
        self._held, self.held_bytes = [], 0

    def close(self) -> WrittenFile:
        self.flush()
        assert self._writer is not None
        self._writer.close()
        footer = io.BytesIO()
        self._writer.writer.metadata.write_metadata_file(footer)
        store = self.target.store
        store.sync(self.path)
        size = store.files.get_file_info(store.full(self.path)).size
        return WrittenFile(self.path, self.rows, size, self.partition, footer.getvalue())


def write_batches(batches: Iterable[pa.RecordBatch], target: Target) -> Iterator[WrittenFile]:
    """Each file as it is done; none when there are no rows."""
    opened: dict[Partition, _OpenFile] = {}
    for batch in batches:
        for partition, rows in _split(_cast(batch, target.schema), target.partition_by):
            file = opened.get(partition)
            if file is None:
                if len(opened) >= OPEN_MAX:
                    yield from (each.close() for each in opened.values())
                    opened.clear()
                file = opened[partition] = _OpenFile(target, partition)
            file.write(rows)
            if file.size >= FILE_BYTES:
                yield opened.pop(partition).close()
        while sum(each.held_bytes for each in opened.values()) > HELD_MAX:
            max(opened.values(), key=lambda each: each.held_bytes).flush()
    yield from (each.close() for each in opened.values())


def _cast(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [batch.column(name) for name in schema.names]
    return pa.RecordBatch.from_arrays(
        [
            column if column.type == field.type else column.cast(field.type)
            for column, field in zip(columns, schema, strict=True)
        ],
        schema=schema,
    )


def _split(
    batch: pa.RecordBatch, partition_by: Sequence[str]
) -> Iterator[tuple[Partition, pa.RecordBatch]]:
    """The rows of each partition, in their order."""
    if not batch.num_rows:
        return
    if not partition_by:
        yield (), batch
        return
    names = list(partition_by)
    values = pa.Table.from_batches([batch.select(names)]).append_column(
        "", pa.array(range(batch.num_rows), pa.int32())
    )
    groups = values.group_by(names, use_threads=False).aggregate([("", "list")])
    for row in range(groups.num_rows):
        partition = tuple(_text(groups.column(name)[row]) for name in names)
        yield partition, batch.take(groups.column("_list")[row].values)


def _text(value: pa.Scalar) -> str | None:
    """As Hive and Delta write it: ``true``, ``7``, ``2026-01-31``."""
    if not value.is_valid:
        return None
    return str(pc.cast(value, pa.string()).as_py())


def write_frame(frame: "DataFrame", target: Target) -> list[WrittenFile]:
    """The rows of a DataFrame, by its own tasks: they do not come here.

    Columns go by numbers, since ``mapInArrow`` has trouble with dots in names.
    """
    names = target.schema.names

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        named = (pa.RecordBatch.from_arrays(batch.columns, names) for batch in batches)
        for file in write_batches(named, target):
            yield pa.RecordBatch.from_pylist([file._asdict()], schema=_RESULT)

    numbered = frame.select(*map(quoted, names)).toDF(*(f"_{i}" for i in range(len(names))))
    rows = numbered.mapInArrow(work, RESULT).collect()
    return [WrittenFile(row[0], row[1], row[2], tuple(row[3]), bytes(row[4])) for row in rows]


def quoted(name: str) -> str:
    """A column's name as Spark's SQL takes it, whatever is in it."""
    return f"`{name.replace('`', '``')}`"


_RESULT: Final = pa.schema(
    [
        pa.field("path", pa.string()),
        pa.field("rows", pa.int64()),
        pa.field("size", pa.int64()),
        pa.field("partition", pa.list_(pa.string())),
        pa.field("footer", pa.binary()),
    ]
)

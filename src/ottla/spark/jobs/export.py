"""Ranges of topics to Parquet, written by the executors out of Arrow.

One file for each range, ``topic=<topic>/partition=<n>/<start>-<end>.parquet``, which appears whole:
it is written under a name that no other attempt has, and moved. A range that is done again replaces
its own file.
"""

import uuid
from contextlib import suppress
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from ottla.spark.codec.schema import Columns
from ottla.spark.source.formatted_reads import formatted_schema
from ottla.spark.source.options import SourceOptions
from ottla.spark.source.ranges import OffsetRange
from ottla.spark.source.reader import read_range

COLUMNS = ("key", "value", "offset", "timestamp", "timestampType", "headers")
"""Topic and partition stand in the path."""
CODECS = ("zstd", "snappy", "lz4", "gzip", "none")


class Target(NamedTuple):
    """Where to: a directory, or an address that Arrow knows (``file://``, ``s3://``, ``gs://``)."""

    url: str
    codec: str = "zstd"
    columns: tuple[str, ...] = COLUMNS


class Exported(NamedTuple):
    """``path`` is None where a range had no records."""

    topic: str
    partition: int
    start_offset: int
    end_offset: int
    rows: int
    bytes: int
    path: str | None


def export_range(wanted: OffsetRange, options: SourceOptions, target: Target) -> Exported:
    files, root = open_target(target.url)
    folder = f"{root}/topic={wanted.topic}/partition={wanted.partition}"
    path = f"{folder}/{wanted.start:020d}-{wanted.end:020d}.parquet"
    partial = f"{folder}/.{wanted.start:020d}-{wanted.end:020d}.{uuid.uuid4().hex}.part"
    files.create_dir(folder, recursive=True)
    columns = Columns(target.columns)
    schema = formatted_schema(columns, options.formats.values)
    codec = None if target.codec == "none" else target.codec
    rows = 0
    try:
        with pq.ParquetWriter(partial, schema, filesystem=files, compression=codec) as writer:
            for table in read_range(wanted, options, columns):
                writer.write_batch(table)
                rows += table.num_rows
    except BaseException:
        with suppress(OSError):
            files.delete_file(partial)
        raise
    done = Exported(wanted.topic, wanted.partition, wanted.start, wanted.end, rows, 0, None)
    if not rows:
        files.delete_file(partial)
        return done
    files.move(partial, path)
    return done._replace(bytes=files.get_file_info(path).size, path=path)


def open_target(url: str) -> tuple[fs.FileSystem, str]:
    """PyArrow's error, a ValueError, for an address that it does not know."""
    try:
        files, root = fs.FileSystem.from_uri(url)
    except pa.ArrowInvalid:
        if "://" in url:
            raise
        import os

        files, root = fs.LocalFileSystem(), os.path.abspath(url)  # noqa: PTH100
    return files, root.rstrip("/")

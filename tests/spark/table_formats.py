"""Tables of each format for tests, and their rows as somebody else reads them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyiceberg.table import StaticTable
from pyspark.sql import DataFrame, SparkSession

from ottla.client.system_time import SystemTime
from ottla.spark.tables.commits import CommitLog
from ottla.spark.tables.logged_table import LoggedTable
from ottla.spark.tables.logs import open_log
from ottla.spark.tables.spec import TableSpec
from ottla.spark.tables.table import open_table

FORMATS: Final = ("parquet", "delta", "iceberg")
slow = pytest.mark.slow
MOSTLY_PARQUET: Final = ("parquet", *(pytest.param(each, marks=slow) for each in FORMATS[1:]))
"""What is the same for all formats is tried with all of them in `make test-all`."""
Rows = list[tuple[Any, ...]]


class Crash(Exception):
    """Ends a write where a process might end."""


def crash_at(wanted: str) -> Callable[[str], None]:
    def at(step: str) -> None:
        if step == wanted:
            raise Crash(step)

    return at


def spec_of(kind: str, directory: Path, *partition_by: str) -> TableSpec:
    return TableSpec("shop.orders", kind, str(directory / "orders"), partition_by)


def opened(spec: TableSpec, at_step: Callable[[str], None] | None = None) -> LoggedTable:
    """Another one each time, as in another process."""
    return open_table(spec, at_step=at_step)


def numbers(spark: SparkSession, start: int, end: int, note: str = "new") -> DataFrame:
    return spark.range(start, end, 1, 1).selectExpr("id", f"'{note}' as note")


def rows_of(spark: SparkSession, spec: TableSpec) -> Rows:
    """By Spark; and the same by a library that others wrote."""
    table = opened(spec)
    rows = sorted(tuple(row.asDict(recursive=True).values()) for row in table.read(spark).collect())
    assert sorted(elsewhere(spec)) == rows
    return rows


def log_of(spec: TableSpec) -> CommitLog:
    return open_log(spec, SystemTime())


def elsewhere(spec: TableSpec) -> Rows:
    """By the library of each format; of Parquet the files that the newest version names."""
    if spec.format == "delta":
        return [
            tuple(row.values()) for row in DeltaTable(spec.location).to_pyarrow_table().to_pylist()
        ]
    if spec.format == "iceberg":
        scan = StaticTable.from_metadata(spec.location).scan()
        return [tuple(row.values()) for row in scan.to_arrow().to_pylist()]
    newest = log_of(spec).newest()
    assert newest is not None
    rows: Rows = []
    for file in newest.files:
        content = pq.read_table(f"{spec.location}/{file.path}")
        rows += [
            tuple(row.get(name) for name in newest.schema.names) for row in content.to_pylist()
        ]
    return rows

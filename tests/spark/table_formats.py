"""Tables of each format for tests, and their rows as somebody else reads them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from ottla.client.system_time import SystemTime
from ottla.spark.tables.commits import CommitLog
from ottla.spark.tables.logs import open_log
from ottla.spark.tables.spec import TableSpec
from ottla.spark.tables.table import Table, open_table

FORMATS: Final = ("parquet",)
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


def opened(spec: TableSpec, at_step: Callable[[str], None] | None = None) -> Table:
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
    """The files that the newest version names, one by one."""
    newest = log_of(spec).newest()
    assert newest is not None
    rows: Rows = []
    for file in newest.files:
        content = pq.read_table(f"{spec.location}/{file.path}")
        rows += [
            tuple(row.get(name) for name in newest.schema.names) for row in content.to_pylist()
        ]
    return rows

"""Which log a table has; the libraries of a format are imported when it is asked for."""

from ottla.common.clock import Clock
from ottla.spark.tables.commits import CommitLog
from ottla.spark.tables.parquet_log import ParquetLog
from ottla.spark.tables.spec import TableSpec
from ottla.spark.tables.store import Store


def open_log(spec: TableSpec, clock: Clock) -> CommitLog:
    return ParquetLog(spec, Store(spec.location, spec.options), clock)

"""Which log a table has; the library of a format is imported when it is asked for."""

import re
from typing import Final

from ottla.common.clock import Clock
from ottla.spark.tables.commits import CommitLog
from ottla.spark.tables.errors import BadTable
from ottla.spark.tables.spec import DELTA, ICEBERG, PARQUET, TableSpec
from ottla.spark.tables.store import Store

_MISTAKEN: Final = {
    PARQUET: re.compile(r"\\"),
    DELTA: re.compile(r"\\|%[0-9A-Fa-f]{2}"),
    ICEBERG: re.compile(r"[\\#?]"),
}
"""In a place: what the libraries of a format, or Spark, take for something else."""


def open_log(spec: TableSpec, clock: Clock) -> CommitLog:
    store = Store(spec.location, spec.options)
    if found := _MISTAKEN[spec.format].search(store.root):
        raise BadTable(
            f"table {spec.name}: {store.root} has a {found[0]}, and rows that are written there "
            f"could not be read as {spec.format} again: choose another place"
        )
    try:
        if spec.format == DELTA:
            from ottla.spark.tables.delta_log import DeltaLog

            return DeltaLog(spec, store, clock)
        if spec.format == ICEBERG:
            from ottla.spark.tables.iceberg_log import IcebergLog

            return IcebergLog(spec, store, clock)
    except ImportError as error:
        raise BadTable(
            f"table {spec.name}: {error}; {spec.format} needs pip install 'ottla[lake]'"
        ) from error
    from ottla.spark.tables.parquet_log import ParquetLog

    return ParquetLog(spec, store, clock)

"""Which log a table has; the library of a format is imported when it is asked for."""

from ottla.common.clock import Clock
from ottla.spark.tables.commits import CommitLog
from ottla.spark.tables.errors import BadTable
from ottla.spark.tables.spec import DELTA, ICEBERG, TableSpec
from ottla.spark.tables.store import Store


def open_log(spec: TableSpec, clock: Clock) -> CommitLog:
    store = Store(spec.location, spec.options)
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

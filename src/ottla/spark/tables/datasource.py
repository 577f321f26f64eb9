"""What Spark calls to read a table file by file: streams, and tables in object stores.

Only the names are Spark's. It finds this in the module ``pyspark_ottla_table``, and imports it in a
new process for each step of a query's planning: what does the work is imported where it is used.
"""

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import StructType

from ottla.client.system_time import SystemTime
from ottla.spark.tables.errors import TableChanged, TableNotFound
from ottla.spark.tables.spec import SOURCE, TableSpec

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.spark.tables.table_stream import TableStream

try:
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
except ImportError:  # Spark 4.1, where it is one batch in any case
    if not TYPE_CHECKING:

        class SupportsTriggerAvailableNow:
            pass


class TableDataSource(DataSource):
    """``Table.read_stream``, and ``Table.read`` where Spark cannot read the files itself."""

    @classmethod
    def name(cls) -> str:
        return SOURCE

    def schema(self) -> StructType:
        from ottla.spark.tables.logs import open_log

        spec = TableSpec.from_options(self.options)
        newest = open_log(spec, SystemTime()).newest()
        if newest is None:
            raise TableNotFound(f"table {spec.name} is not there yet, at {spec.location}")
        return newest.schema

    def reader(self, schema: StructType) -> "TableReader":
        version = self.options.get("version")
        return TableReader(
            TableSpec.from_options(self.options), schema, None if version is None else int(version)
        )

    def streamReader(self, schema: StructType) -> "TableStreamReader":
        return TableStreamReader(TableSpec.from_options(self.options), schema)


class _FileReader:
    def __init__(self, spec: TableSpec, schema: StructType) -> None:
        self._spec = spec
        self._schema = schema

    def read(self, partition: InputPartition | None) -> "Iterator[pa.RecordBatch]":
        # A query over nothing still has one task: its partition holds None, or is it in Spark 4.1.
        if partition is None or partition.value is None:
            return iter(())
        from ottla.spark.tables.columns import arrow_columns
        from ottla.spark.tables.store import Store
        from ottla.spark.tables.table_stream import read_files

        store = Store(self._spec.location, self._spec.options)
        return read_files(store, partition.value, arrow_columns(self._schema))


class TableReader(_FileReader, DataSourceReader):
    def __init__(self, spec: TableSpec, schema: StructType, version: int | None) -> None:
        super().__init__(spec, schema)
        self._version = version

    def partitions(self) -> list[InputPartition]:
        from ottla.spark.tables.table_stream import START, TableStream, tasks

        stream = TableStream(self._spec, SystemTime())
        version = stream.latest() if self._version is None else self._version
        return [InputPartition(files) for files in tasks(stream.files(START, version))]


class TableStreamReader(_FileReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """In the driver for the whole query; executors get a copy, which only reads."""

    def __init__(self, spec: TableSpec, schema: StructType) -> None:
        super().__init__(spec, schema)
        self._opened: TableStream | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}

    @property
    def _stream(self) -> "TableStream":
        if self._opened is None:
            from ottla.spark.tables.table_stream import TableStream

            self._opened = TableStream(self._spec, SystemTime())
        return self._opened

    def initialOffset(self) -> dict[str, Any]:
        from ottla.spark.tables.table_stream import START

        return self._offset(START)

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, Any]:  # noqa: ARG002
        return self._offset(self._stream.latest())

    def _offset(self, version: int) -> dict[str, Any]:
        """The table is named: a query that reads another one by now must not go on from here."""
        return {"version": version, "table": self._spec.name}

    def _version(self, offset: Mapping[str, Any]) -> int:
        if "version" not in offset or offset.get("table", self._spec.name) != self._spec.name:
            raise TableChanged(
                f"table {self._spec.name}: the checkpoint of this query is of another source, at "
                f"{json.dumps(dict(offset))}: begin anew with a new checkpoint (for a flow of a "
                "pipeline delete checkpoints/<flow>), or read what was read before"
            )
        return int(offset["version"])

    def prepareForTriggerAvailableNow(self) -> None:
        self._stream.freeze()

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[InputPartition]:
        from ottla.spark.tables.table_stream import tasks

        files = self._stream.files(self._version(start), self._version(end))
        return [InputPartition(each) for each in tasks(files)]

    def commit(self, end: Mapping[str, Any]) -> None:
        """The checkpoint is all that there is."""

    def stop(self) -> None:
        self._opened = None

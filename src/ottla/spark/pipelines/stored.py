"""The tables of a pipeline: where each lies, and what follows a view that changes.

A view is replaced whole; a stream that reads it follows its changes instead: rows that are new or
different since the last time, in a table of their own beside it.
"""

import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from pyspark.errors import ParseException
from pyspark.sql.types import StructType

from ottla.spark.pipelines.graph import CHANGES
from ottla.spark.pipelines.model import Dataset, Flow, LatestState, Pipeline, PipelineError
from ottla.spark.tables.errors import BadTable
from ottla.spark.tables.logged_table import LoggedTable
from ottla.spark.tables.spec import TableSpec
from ottla.spark.tables.table import Table, open_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BEGINNING: Final = "beginning"
TRIMMED_AFTER: Final = timedelta(days=1)
"""No micro-batch takes so long that its files could be taken for those of a writer that died."""


class StoredTables:
    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._locks: dict[str, threading.Lock] = {}

    def open(self, dataset: Dataset) -> Table:
        return open_table(self.spec(dataset))

    def check(self, dataset: Dataset) -> None:
        """What is said of a table can be; nothing is made."""
        try:
            self.open(dataset)
            if dataset.schema is not None:
                self._schema(dataset)
        except (BadTable, ParseException) as error:
            told = str(error).strip().splitlines()[0]
            raise PipelineError(f"{dataset.place}: {dataset.name}: {told}") from error

    def spec(self, dataset: Dataset) -> TableSpec:
        pipeline = self._pipeline
        form = dataset.format or pipeline.table_format
        options = pipeline.table_options if form == pipeline.table_format else {}
        return TableSpec(
            name=dataset.name,
            format=form,
            location=pipeline.path("tables", dataset.name),
            partition_by=dataset.partition_by,
            options={**options, **dataset.options},
        )

    def changes(self, view: Dataset) -> LoggedTable:
        """Always of our own format: nobody else reads it."""
        name = f"{view.name}{CHANGES}"
        return open_table(TableSpec(name, "parquet", self._pipeline.path("tables", name)))

    def rewriting(self, dataset: Dataset) -> threading.Lock:
        """Held while rows of a table that is cleaned are written.

        Files that are yet to be committed are not to be taken for those of a writer that died.
        """
        return self._locks.setdefault(dataset.name, threading.Lock())

    def clean(self, dataset: Dataset) -> None:
        """Remove files of old versions of a table that is rewritten, and of writers that died."""
        with self.rewriting(dataset):
            self.vacuum(self.open(dataset))

    def trim(self, dataset: Dataset, read: int | None) -> None:
        """Forget commits of a table that is appended to, as far as all its followers have read."""
        older_than = max(timedelta(seconds=self._pipeline.keep_seconds), TRIMMED_AFTER)
        self.open(dataset).vacuum(older_than, read)

    def vacuum(self, table: Table) -> None:
        table.vacuum(timedelta(seconds=self._pipeline.keep_seconds))

    def follow(self, view: Dataset, spark: "SparkSession") -> "DataFrame":
        """All rows that a view has now, and later those that are new or different."""
        content = self.open(view).read(spark)
        changes = self.changes(view)
        newest = changes.log.newest()
        if newest is None or (not newest.files and newest.compacted < 0):  # nothing was told yet
            changes.append(content, writer=BEGINNING, batch=0)
        return changes.read_stream(spark)

    def columns(self, dataset: Dataset, flow: Flow, frame: "DataFrame") -> StructType:
        """Of a table that does not exist yet."""
        if dataset.schema is not None:
            return self._schema(dataset)
        return (frame if flow.latest is None else shaped(flow.latest, frame)).schema

    def fitted(self, dataset: Dataset, frame: "DataFrame") -> "DataFrame":
        """With the columns that were declared, if they were."""
        return frame if dataset.schema is None else frame.to(self._schema(dataset))

    @staticmethod
    def _schema(dataset: Dataset) -> StructType:
        schema = dataset.schema
        if not isinstance(schema, StructType):
            schema = StructType.fromDDL(str(schema))
        assert isinstance(schema, StructType)
        return schema


def shaped(latest: LatestState, frame: "DataFrame") -> "DataFrame":
    """The columns that are kept of each key."""
    wanted: Sequence[str] = latest.columns if latest.columns is not None else frame.columns
    return frame.select(*[name for name in wanted if name not in latest.without])

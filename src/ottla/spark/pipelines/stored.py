"""The tables of a pipeline: where each lies, and what follows a view that changes.

A view is replaced whole; who reads it as a stream follows its changes instead: rows that are new or
different since the last time, in a table of their own beside it.
"""

import logging
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from pyspark.sql.types import StructType

from ottla.spark.pipelines.model import Dataset, Flow, LatestState, Pipeline
from ottla.spark.tables.spec import TableSpec
from ottla.spark.tables.table import Table, open_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CHANGES: Final = "__changes"
_log = logging.getLogger(__name__)

BEGINNING: Final = "beginning"


class StoredTables:
    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline

    def open(self, dataset: Dataset) -> Table:
        return open_table(self.spec(dataset))

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

    def changes(self, view: Dataset) -> Table:
        """Always of our own format: nobody else reads it."""
        name = f"{view.name}{CHANGES}"
        return open_table(TableSpec(name, "parquet", self._pipeline.path("tables", name)))

    def clean(self, dataset: Dataset) -> None:
        """Remove files of old versions, and of writers that died.

        Not of tables that streams follow: they need the commits since they were last at work.
        """
        older_than = timedelta(seconds=self._pipeline.keep_seconds)
        try:
            self.open(dataset).vacuum(older_than)
        except OSError as error:  # next time, perhaps
            _log.warning("table %s: old files could not be removed: %s", dataset.name, error)

    def follow(self, view: Dataset, spark: "SparkSession") -> "DataFrame":
        """All rows that a view has now, and later those that are new or different."""
        changes = self.changes(view)
        if not changes.exists():
            content = self.open(view).read(spark)
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

"""Iceberg tables for tests: a catalog that is nothing but the newest file of metadata."""

from pathlib import Path
from typing import Any

from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.io import load_file_io
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.serializers import ToOutputFile
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import update_table_metadata


class OneTable(NoopCatalog):
    """Commits by writing the next file."""

    def __init__(self, location: Path) -> None:
        super().__init__("one")
        self._location = location
        self._number = 0
        self._table: Table | None = None

    def create(self, schema: Schema) -> Table:
        metadata = new_table_metadata(
            schema, UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, f"file://{self._location}"
        )
        self._table = self._written(metadata)
        return self._table

    def _written(self, metadata: Any) -> Table:
        path = f"file://{self._location}/metadata/{self._number:05d}-x.metadata.json"
        self._number += 1
        io = load_file_io({}, path)
        ToOutputFile.table_metadata(metadata, io.new_output(path))
        return Table(("db", "t"), metadata, path, io, self)

    def load_table(self, identifier: Any) -> Table:
        assert self._table is not None
        return self._table

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        for each in requirements:
            each.validate(table.metadata)
        self._table = self._written(update_table_metadata(table.metadata, updates))
        answer: dict[str, Any] = {
            "metadata": self._table.metadata,
            "metadata-location": self._table.metadata_location,
        }
        return CommitTableResponse(**answer)

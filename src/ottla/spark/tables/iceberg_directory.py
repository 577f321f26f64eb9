"""An Iceberg catalog that is nothing but the table's own directory.

``metadata/v<n>.metadata.json`` is made only if there is none, which decides between writers, and
``metadata/version-hint.text`` says about where to look: the layout of Iceberg's Hadoop tables, so
that Iceberg's readers find the table by its path alone. There is no other catalog to keep, to back
up or to lose.
"""

import re
from typing import TYPE_CHECKING, Final

from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder
from pyiceberg.table.update import TableRequirement, TableUpdate, update_table_metadata
from pyiceberg.typedef import EMPTY_DICT, Identifier, Properties

from ottla.spark.tables.store import Store

if TYPE_CHECKING:
    import pyarrow as pa

METADATA: Final = "metadata"
HINT: Final = f"{METADATA}/version-hint.text"
NAME: Final = re.compile(METADATA + r"/v(\d+)\.metadata\.json")


class DirectoryCatalog(NoopCatalog):
    """Of one table, whatever it is called."""

    def __init__(self, store: Store, properties: Properties) -> None:
        super().__init__("directory", **properties)
        self._store = store

    def version(self) -> int:
        """Of the metadata; 0 when there is no table."""
        found = (NAME.fullmatch(file.path) for file in self._store.list(METADATA))
        return max((int(each[1]) for each in found if each), default=0)

    def table_exists(self, identifier: str | Identifier) -> bool:  # noqa: ARG002
        return self.version() > 0

    def load_table(self, identifier: str | Identifier) -> Table:
        version = self.version()
        if not version:
            raise NoSuchTableError(f"there is no Iceberg table at {self._store.location}")
        return self._table(identifier, self._read(version), version)

    def _read(self, version: int) -> TableMetadata:
        return TableMetadataUtil.parse_raw(self._store.read(_path(version)).decode())

    def create_table(
        self,
        identifier: str | Identifier,
        schema: "Schema | pa.Schema",
        location: str | None = None,  # noqa: ARG002
        partition_spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
        sort_order: SortOrder = UNSORTED_SORT_ORDER,
        properties: Properties = EMPTY_DICT,
    ) -> Table:
        metadata = new_table_metadata(
            location=self._store.url,
            schema=self._convert_schema_if_needed(schema),
            partition_spec=partition_spec,
            sort_order=sort_order,
            properties=properties,
        )
        try:
            self._put(metadata, 1)
        except FileExistsError as error:
            raise TableAlreadyExistsError(f"{self._store.location} has a table") from error
        return self._table(identifier, metadata, 1)

    def commit_table(
        self,
        table: Table,  # noqa: ARG002
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
    ) -> CommitTableResponse:
        version = self.version()
        current = self._read(version)
        for requirement in requirements:
            requirement.validate(current)
        updated = update_table_metadata(
            base_metadata=current,
            updates=updates,
            metadata_location=self._location(version),
        )
        try:
            self._put(updated, version + 1)
        except FileExistsError as error:
            raise CommitFailedException(f"version {version + 1} is there already") from error
        return CommitTableResponse.model_validate(
            {"metadata": updated, "metadata-location": self._location(version + 1)}
        )

    def _put(self, metadata: TableMetadata, version: int) -> None:
        self._sync(metadata)
        self._store.put_new(_path(version), metadata.model_dump_json().encode())
        self._store.put(HINT, str(version).encode())

    def _sync(self, metadata: TableMetadata) -> None:
        """What pyiceberg has written for the newest snapshot; it does not wait for the disk."""
        snapshot = metadata.current_snapshot()
        if snapshot is None:
            return
        io = self._load_file_io(metadata.properties, self._store.url)
        made = [
            each.manifest_path
            for each in snapshot.manifests(io)
            if each.added_snapshot_id == snapshot.snapshot_id
        ]
        for address in (*made, snapshot.manifest_list):
            self._store.sync(address.removeprefix(f"{self._store.url}/"))

    def _table(self, identifier: str | Identifier, metadata: TableMetadata, version: int) -> Table:
        location = self._location(version)
        return Table(
            identifier=self.identifier_to_tuple(identifier),
            metadata=metadata,
            metadata_location=location,
            io=self._load_file_io(metadata.properties, location),
            catalog=self,
        )

    def _location(self, version: int) -> str:
        return f"{self._store.url}/{_path(version)}"


def _path(version: int) -> str:
    return f"{METADATA}/v{version}.metadata.json"

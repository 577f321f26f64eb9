"""The log of an Iceberg table, kept by pyiceberg: no jar, on every version of Spark.

Versions are the sequence numbers of snapshots. The batch of each writer is a property of the table
(``ottla.batch.<writer>``), set by the same commit as its snapshot and not lost when snapshots
expire. Without ``catalog.*`` options the table's directory is its own catalog.
"""

import itertools
import json
from typing import Final

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyspark.sql.types import StructType

from ottla.common.clock import Clock
from ottla.spark.tables.columns import arrow_columns, evolved
from ottla.spark.tables.commits import Change, DataFile, Snapshot
from ottla.spark.tables.data_files import WrittenFile
from ottla.spark.tables.errors import BadTable, CommitConflict, VersionGone
from ottla.spark.tables.iceberg_directory import METADATA, NAME, DirectoryCatalog
from ottla.spark.tables.iceberg_types import (
    file_columns,
    iceberg_columns,
    partition_value,
    spark_columns,
)
from ottla.spark.tables.parquet_log import KEPT_MS, unneeded
from ottla.spark.tables.spec import TableSpec
from ottla.spark.tables.store import Store

BATCH: Final = "ottla.batch."
NAMESPACE: Final = "default"
FIRST_PARTITION_ID: Final = 1000
"""As Iceberg numbers them."""
NO_RETRIES: Final = {"commit.retry.num-retries": "0"}
"""Whether a commit may be repeated upon another version is decided above."""


class IcebergLog:
    def __init__(self, spec: TableSpec, store: Store, clock: Clock) -> None:
        self._spec = spec
        self._store = store
        self._clock = clock
        self._catalog = self._open_catalog()
        self._identifier = spec.name if "." in spec.name else f"{NAMESPACE}.{spec.name}"

    def _open_catalog(self) -> Catalog:
        properties = _file_options(self._spec)
        given = self._spec.catalog
        if not given:
            return DirectoryCatalog(self._store, properties)
        name = given.pop("name", "ottla")
        return load_catalog(name, **properties, **given)

    def _look(self) -> Table | None:
        try:
            table = self._catalog.load_table(self._identifier)
        except NoSuchTableError:
            return None
        there = [field.name for field in table.spec().fields]
        if there != [*self._spec.partition_by]:
            raise BadTable(
                f"table {self._spec.name} is partitioned by {', '.join(there) or 'nothing'}, not "
                f"by {', '.join(self._spec.partition_by) or 'nothing'}: say so, or write to a new "
                "table"
            )
        self._check_names(table)
        return table

    def _check_names(self, table: Table) -> None:
        """Files are read by the names of columns, which are those of the time of writing."""
        current = table.schema()
        for schema in table.schemas().values():
            for number in schema.field_ids & current.field_ids:
                old, new = schema.find_column_name(number), current.find_column_name(number)
                if old != new:
                    raise BadTable(
                        f"table {self._spec.name}: column {new} was {old} before, which only "
                        "Iceberg's own readers know: read and write it with them"
                    )

    def version(self) -> int:
        table = self._look()
        return -1 if table is None else _version(table)

    def newest(self) -> Snapshot | None:
        table = self._look()
        return None if table is None else self._snapshot(table, _version(table))

    def at(self, version: int) -> Snapshot:
        table = self._look()
        known = {0, *(each.sequence_number for each in table.snapshots())} if table else set()
        if table is None or version not in known:
            raise VersionGone(
                f"version {version} of table {self._spec.name} is not there (any more): vacuum "
                "removes old ones; a stream that stood there begins anew with a new checkpoint"
            )
        return self._snapshot(table, version)

    def _snapshot(self, table: Table, version: int) -> Snapshot:
        files = tuple(
            DataFile(self._relative(file.file_path), file.record_count, file.file_size_in_bytes)
            for file in self._files(table, version).values()
        )

        def last_batch(writer: str) -> int | None:
            text = table.properties.get(f"{BATCH}{writer}")
            return None if text is None else int(text)

        return Snapshot(version, spark_columns(table.schema()), files, last_batch)

    def _files(self, table: Table, version: int) -> dict[str, IcebergFile]:
        found = [each for each in table.snapshots() if each.sequence_number == version]
        if not found:
            return {}
        files: dict[str, IcebergFile] = {}
        for task in table.scan(snapshot_id=found[0].snapshot_id).plan_files():
            if task.delete_files:
                raise BadTable(
                    f"table {self._spec.name}: somebody deleted rows by delete files, which only "
                    "Iceberg's own readers know: rewrite its data files with them first"
                )
            files[task.file.file_path] = task.file
        return files

    def _relative(self, path: str) -> str:
        if not path.startswith(f"{self._store.url}/"):
            raise BadTable(
                f"table {self._spec.name}: {path} does not lie below {self._store.url}: read it "
                "with Iceberg's own readers"
            )
        return path[len(self._store.url) + 1 :]

    def columns(self, schema: StructType) -> StructType:
        return iceberg_columns(schema)

    def file_schema(self, snapshot: Snapshot) -> pa.Schema:  # noqa: ARG002
        table = self._look()
        assert table is not None
        return file_columns(table.schema())

    def prepare(self, schema: StructType) -> Snapshot:
        while True:
            table = self._look()
            try:
                if table is None:
                    self._create(arrow_columns(schema))
                    continue
                there = spark_columns(table.schema())
                wanted = evolved(self._spec.name, there, schema)
                if wanted == there:
                    return self._snapshot(table, _version(table))
                with table.update_schema() as update:
                    update.union_by_name(arrow_columns(wanted))
            except (CommitFailedException, TableAlreadyExistsError):
                continue

    def _create(self, columns: pa.Schema) -> None:
        without_ids = Catalog._convert_schema_if_needed(columns)  # noqa: SLF001 - no other does it
        schema = assign_fresh_schema_ids(without_ids)
        fields = [
            PartitionField(schema.find_field(name).field_id, number, IdentityTransform(), name)
            for number, name in enumerate(self._spec.partition_by, FIRST_PARTITION_ID)
        ]
        if self._spec.catalog:
            self._catalog.create_namespace_if_not_exists(self._identifier.rpartition(".")[0])
        self._catalog.create_table(
            self._identifier,
            schema,
            location=self._store.url,
            partition_spec=PartitionSpec(*fields),
        )

    def commit(self, base: Snapshot, change: Change) -> None:
        table = self._look()
        if table is None or _version(table) != base.version:
            raise CommitConflict(f"table {self._spec.name} is no more at version {base.version}")
        table.metadata = table.metadata.model_copy(
            update={"properties": {**table.metadata.properties, **NO_RETRIES}}
        )
        transaction = table.transaction()
        told = {"ottla.operation": change.operation, "ottla.batches": json.dumps(change.batches)}
        update = transaction.update_snapshot(told)
        with update.overwrite() if change.removed else update.merge_append() as files:
            for added in change.added:
                files.append_data_file(self._data_file(table, added))
            there = self._files(table, base.version) if change.removed else {}
            for removed in change.removed:
                files.delete_data_file(there[f"{self._store.url}/{removed.path}"])
        transaction.set_properties(
            {f"{BATCH}{writer}": str(batch) for writer, batch in change.batches.items()}
        )
        try:
            transaction.commit_transaction()
        except CommitFailedException as error:
            raise CommitConflict(f"table {self._spec.name}: {error}") from error

    def _data_file(self, table: Table, file: WrittenFile) -> IcebergFile:
        schema = table.schema()
        statistics = data_file_statistics_from_parquet_metadata(
            parquet_metadata=file.metadata(),
            stats_columns=compute_statistics_plan(schema, table.properties),
            parquet_column_mapping=parquet_path_to_id_mapping(schema),
        )
        return IcebergFile.from_args(
            content=DataFileContent.DATA,
            file_path=f"{self._store.url}/{file.path}",
            file_format=FileFormat.PARQUET,
            partition=self._partition(schema, file),
            file_size_in_bytes=file.size,
            sort_order_id=None,
            spec_id=table.metadata.default_spec_id,
            equality_ids=None,
            key_metadata=None,
            **statistics.to_serialized_dict(),
        )

    def _partition(self, schema: Schema, file: WrittenFile) -> Record:
        named = zip(self._spec.partition_by, file.partition, strict=True)
        return Record(
            *(partition_value(schema.find_field(name).field_type, text) for name, text in named)
        )

    # Cleaning up

    def vacuum(self, before_ms: int, keep_from: int | None = None) -> list[str]:
        table = self._look()
        if table is None:
            return []
        self._expire(table, before_ms, keep_from)
        table = self._look()
        assert table is not None
        needed: set[str] = set()
        kept: set[str] = set()
        for snapshot in table.snapshots():
            kept.add(snapshot.manifest_list)
            kept.update(manifest.manifest_path for manifest in snapshot.manifests(table.io))
            needed.update(map(self._relative, self._files(table, snapshot.sequence_number or 0)))
        removed = unneeded(self._store, needed, before_ms)
        self._store.delete(removed)
        self._store.delete(self._old_metadata(table, kept, before_ms))
        return removed

    def _expire(self, table: Table, before_ms: int, keep_from: int | None) -> None:
        """A snapshot is as old as the one after it: until then it was the newest."""
        snapshots = sorted(table.snapshots(), key=lambda each: each.sequence_number or 0)
        old = [
            each.snapshot_id
            for each, later in itertools.pairwise(snapshots)
            if later.timestamp_ms < before_ms
            and (keep_from is None or (each.sequence_number or 0) < keep_from)
        ]
        if old:
            table.maintenance.expire_snapshots().by_ids(old).commit()

    def _old_metadata(self, table: Table, kept: set[str], before_ms: int) -> list[str]:
        """Numbers of metadata files are not free again as long as somebody may take them."""
        gone_ms = min(before_ms, self._clock.wall_ms() - KEPT_MS)
        kept = {self._relative(path) for path in {*kept, table.metadata_location}}
        return [
            file.path
            for file in self._store.list(METADATA)
            if file.path not in kept
            and (file.path.endswith(".avro") or NAME.fullmatch(file.path))
            and file.modified_ms < gone_ms
        ]

    def drop(self) -> None:
        if self._spec.catalog and self._catalog.table_exists(self._identifier):
            self._catalog.drop_table(self._identifier)
        self._store.delete_all()


def _version(table: Table) -> int:
    """Zero as long as there is no snapshot."""
    newest = table.current_snapshot()
    return 0 if newest is None else newest.sequence_number or 0


def _file_options(spec: TableSpec) -> dict[str, str]:
    names = {
        "endpoint": "s3.endpoint",
        "region": "s3.region",
        "access.key.id": "s3.access-key-id",
        "secret.access.key": "s3.secret-access-key",
    }
    return {theirs: spec.options[ours] for ours, theirs in names.items() if ours in spec.options}

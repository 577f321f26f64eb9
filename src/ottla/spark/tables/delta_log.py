"""The log of a Delta table, kept by deltalake: no jar, on every version of Spark.

The batch of each writer is Delta's own ``txn`` action, as Spark's Delta sink has it. The library's
own retries are off: whether a commit may be repeated upon another version is decided above. Nor
does the library wait for the disk: a commit is made durable once it is there.
"""

import json
import re
from datetime import date
from math import ceil
from typing import Any, Final

import pyarrow as pa
from deltalake import DeltaTable, Field, Schema
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import (
    AddAction,
    CommitProperties,
    RemoveAction,
    Transaction,
    create_table_with_add_actions,
)
from pyspark.sql.types import StructType

from ottla.common.clock import Clock
from ottla.spark.tables.columns import arrow_columns, evolved
from ottla.spark.tables.commits import Change, DataFile, Snapshot
from ottla.spark.tables.data_files import FOLDER, WrittenFile
from ottla.spark.tables.errors import BadTable, CommitConflict, SchemaMismatch, VersionGone
from ottla.spark.tables.spec import TableSpec
from ottla.spark.tables.store import Store

LOG: Final = "_delta_log"
READER_FEATURES: Final = {"timestampNtz"}
"""With others the files alone do not tell what is in the table."""
TEXT_MAX: Final = 32
"""Longer texts are left out of the statistics."""
_MOMENT_MS: Final = 60_000
"""Deltalake counts whole hours, which are rounded up; what passed since the call is no hour."""
_FORBIDDEN: Final = re.compile(r"[ ,;{}()\n\t=]")


class DeltaLog:
    def __init__(self, spec: TableSpec, store: Store, clock: Clock) -> None:
        self._spec = spec
        self._store = store
        self._clock = clock
        self._opened: DeltaTable | None = None
        self._last: bytes | None = None
        """The newest commit of what is opened: no other table has the same."""

    def _open(self, version: int | None = None) -> DeltaTable:
        place = self._store.root if self._store.is_local else self._store.url
        return DeltaTable(place, version, storage_options=_storage_options(self._spec))

    def _look(self) -> DeltaTable | None:
        """At the newest version."""
        if self._opened is not None and self._is_same(self._opened):
            self._opened.update_incremental()
        else:
            try:
                self._opened = self._open()
            except TableNotFoundError:
                self._opened = None
                return None
            self._check(self._opened)
        self._last = self._read(self._opened.version())
        return self._opened

    def _is_same(self, table: DeltaTable) -> bool:
        """As it was when we looked last; not another, made since somebody dropped that one."""
        return self._last is not None and self._read(table.version()) == self._last

    def _read(self, version: int) -> bytes | None:
        try:
            return self._store.read(f"{LOG}/{version:020d}.json")
        except FileNotFoundError:  # it may have been summed up, and removed
            return None

    def _check(self, table: DeltaTable) -> None:
        protocol = table.protocol()
        features = set(protocol.reader_features or ()) - READER_FEATURES
        if protocol.min_reader_version == 2:  # before features had names
            features.add("columnMapping")
        if features:
            raise BadTable(
                f"table {self._spec.name} has {', '.join(sorted(features))}, which only Delta's "
                "own readers know: read and write it with them"
            )
        there = table.metadata().partition_columns
        if there != [*self._spec.partition_by]:
            raise BadTable(
                f"table {self._spec.name} is partitioned by {', '.join(there) or 'nothing'}, not "
                f"by {', '.join(self._spec.partition_by) or 'nothing'}: that is for ever; say so, "
                "or write to a new table"
            )

    def version(self) -> int:
        table = self._look()
        return -1 if table is None else table.version()

    def newest(self) -> Snapshot | None:
        table = self._look()
        return None if table is None else self._snapshot(table)

    def at(self, version: int) -> Snapshot:
        try:
            return self._snapshot(self._open(version))
        except DeltaError as error:
            raise VersionGone(
                f"version {version} of table {self._spec.name} is not there (any more): {error}"
            ) from error

    def _snapshot(self, table: DeltaTable) -> Snapshot:
        added = pa.table(table.get_add_actions(flatten=False)).to_pylist()
        files = tuple(
            DataFile(
                each["path"],
                each["num_records"] or 0,
                each["size_bytes"],
                tuple(_text(each["partition"][name]) for name in self._spec.partition_by),
            )
            for each in added
        )
        for file in files if self._spec.partition_by else ():
            if not file.path.startswith(f"{FOLDER}/"):
                raise BadTable(
                    f"table {self._spec.name}: {file.path} was written by somebody else, and may "
                    f"lack the columns {', '.join(self._spec.partition_by)}: read it with Delta"
                )
        schema = StructType.fromJson(json.loads(table.schema().to_json()))
        return Snapshot(table.version(), schema, files, table.transaction_version)

    def columns(self, schema: StructType) -> StructType:
        for name in schema.fieldNames():
            if _FORBIDDEN.search(name):
                raise SchemaMismatch(
                    f"table {self._spec.name}: Delta has no column named {name!r}; rename it "
                    "without blanks and any of ,;{}()="
                )
        return schema

    def file_schema(self, snapshot: Snapshot) -> pa.Schema:
        return arrow_columns(snapshot.schema)

    def prepare(self, schema: StructType) -> Snapshot:
        while True:
            table = self._look()
            try:
                if table is None:
                    self._create(schema)
                    continue
                there = self._snapshot(table)
                wanted = evolved(self._spec.name, there.schema, schema)
                new = wanted.fields[len(there.schema.fields) :]
                if not new:
                    return there
                table.alter.add_columns(
                    [Field.from_json(json.dumps(each.jsonValue())) for each in new],
                    commit_properties=CommitProperties(max_commit_retries=0),
                )
                self._sync(there.version + 1)
            except CommitFailedError:
                continue

    def _create(self, schema: StructType) -> None:
        self._store.make_directory(LOG)
        place = self._store.root if self._store.is_local else self._store.url
        create_table_with_add_actions(
            place,
            Schema.from_json(schema.json()),
            [],
            mode="ignore",
            partition_by=[*self._spec.partition_by],
            name=self._spec.name,
            storage_options=_storage_options(self._spec),
            commit_properties=CommitProperties(max_commit_retries=0),
        )
        self._sync(0)

    def commit(self, base: Snapshot, change: Change) -> None:
        table = self._opened
        if table is None or table.version() != base.version:
            raise CommitConflict(f"table {self._spec.name} is no more at version {base.version}")
        now = self._clock.wall_ms()
        names = self._spec.partition_by
        actions: list[AddAction | RemoveAction] = [
            AddAction(
                file.path,
                file.size,
                dict(zip(names, file.partition, strict=True)),
                now,
                data_change=True,
                stats=_statistics(file),
            )
            for file in change.added
        ]
        actions += [
            RemoveAction(
                file.path,
                data_change=True,
                deletion_timestamp=now,
                size=file.size,
                partition_values=dict(zip(names, file.partition, strict=True)),
            )
            for file in change.removed
        ]
        done = [Transaction(writer, batch) for writer, batch in change.batches.items()]
        try:
            table.create_write_transaction(
                actions,
                "append",
                table.schema(),
                [*names],
                commit_properties=CommitProperties(
                    custom_metadata={"ottla.operation": change.operation},
                    max_commit_retries=0,
                    app_transactions=done,
                ),
            )
        except CommitFailedError as error:
            raise CommitConflict(f"table {self._spec.name}: {error}") from error
        self._sync(base.version + 1)
        self._last = self._read(table.version())

    def _sync(self, version: int) -> None:
        self._store.sync(f"{LOG}/{version:020d}.json")

    def vacuum(self, before_ms: int, keep_from: int | None = None) -> list[str]:  # noqa: ARG002
        """Versions are forgotten by deltalake, after the time that the table's settings say."""
        table = self._look()
        if table is None:
            return []
        age_ms = self._clock.wall_ms() - before_ms - _MOMENT_MS
        hours = max(0, ceil(age_ms / 3_600_000))
        return table.vacuum(
            retention_hours=hours, dry_run=False, enforce_retention_duration=False, full=True
        )

    def drop(self) -> None:
        self._opened = None
        self._store.delete_all()


def _text(value: Any) -> str | None:
    """Deltalake reads partition values of the column's type, and wants to be given texts."""
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


def _statistics(file: WrittenFile) -> str:
    """What others skip files by: of whole numbers, dates and short texts at the top level."""
    footer = file.metadata()
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for column in range(footer.num_columns):
        parts = [
            footer.row_group(group).column(column).statistics
            for group in range(footer.num_row_groups)
        ]
        name = footer.schema.column(column).path
        if "." in name or any(part is None or not part.has_null_count for part in parts):
            continue
        nulls[name] = sum(part.null_count for part in parts)
        known = [part for part in parts if part.has_min_max]
        if len(known) == len(parts) and all(_is_told(part.min, part.max) for part in known):
            least[name] = _told(min(part.min for part in known))
            most[name] = _told(max(part.max for part in known))
    content = {"numRecords": file.rows, "nullCount": nulls, "minValues": least, "maxValues": most}
    return json.dumps(content)


def _is_told(*values: Any) -> bool:
    return all(
        (isinstance(value, int) and not isinstance(value, bool))
        or (isinstance(value, str) and len(value) <= TEXT_MAX)
        or type(value) is date
        for value in values
    )


def _told(value: Any) -> Any:
    return value if isinstance(value, (int, str)) else value.isoformat()


def _storage_options(spec: TableSpec) -> dict[str, str]:
    names = {
        "endpoint": "AWS_ENDPOINT_URL",
        "region": "AWS_REGION",
        "access.key.id": "AWS_ACCESS_KEY_ID",
        "secret.access.key": "AWS_SECRET_ACCESS_KEY",
        "allow.http": "AWS_ALLOW_HTTP",
    }
    return {theirs: spec.options[ours] for ours, theirs in names.items() if ours in spec.options}

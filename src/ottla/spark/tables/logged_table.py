"""A table by its log of commits: how rows come in exactly once, whatever the format.

A write looks whether its batch is there, writes data files that nobody sees, and commits them with
the batch's number upon the version that it looked at. If somebody else was faster, it looks again.
So a crash at any point leaves either nothing but files without a table, or all of the batch.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f
from pyspark.sql.types import StringType, StructType
from pyspark.sql.window import Window

from ottla.common.clock import Clock
from ottla.spark.tables.columns import evolved, table_columns
from ottla.spark.tables.commits import Change, CommitLog, DataFile, Snapshot
from ottla.spark.tables.data_files import Target, WrittenFile, quoted, write_frame
from ottla.spark.tables.errors import BadTable, CommitConflict, SchemaMismatch, TableNotFound
from ottla.spark.tables.parquet_log import COMPACT
from ottla.spark.tables.spec import DELTA, PARQUET, SOURCE, TableSpec
from ottla.spark.tables.store import Store

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

RETENTION: Final = timedelta(days=7)
ATTEMPTS: Final = 50
"""Each that fails is a commit of somebody else."""
_NEW, _POSITION, _RANK, _DELETED = "__new", "__position", "__rank", "__deleted"


class LoggedTable:
    """See ``ottla.spark.tables.table.Table``."""

    def __init__(
        self,
        spec: TableSpec,
        log: CommitLog,
        clock: Clock,
        *,
        at_step: Callable[[str], None] | None = None,
    ) -> None:
        self.spec = spec
        self.log = log
        self._clock = clock
        self._store = Store(spec.location, spec.options)
        self._at = at_step or (lambda _step: None)

    def exists(self) -> bool:
        return self.log.version() >= 0

    def schema(self) -> StructType:
        return self._newest().schema

    def create(self, schema: StructType) -> None:
        self.log.prepare(self._columns(schema))

    def last_batch(self, writer: str) -> int:
        newest = self.log.newest()
        last = None if newest is None else newest.last_batch(writer)
        return -1 if last is None else last

    # Writing

    def append(self, frame: "DataFrame", *, writer: str, batch: int) -> int:
        frame = self._kept(frame)
        base = self._prepare(frame, writer, batch)
        if base is None:
            return 0
        added = self._write(frame, base)
        change = Change("append", added, (), {writer: batch})
        return _rows(added) if self._commit(base, lambda _: change) else 0

    def replace(self, frame: "DataFrame", *, writer: str, batch: int) -> int:
        frame = self._kept(frame)
        base = self._prepare(frame, writer, batch)
        if base is None:
            return 0
        added = self._write(frame, base)

        def change(base: Snapshot) -> Change:
            return Change("replace", added, base.files, {writer: batch})

        return _rows(added) if self._commit(base, change) else 0

    def upsert(
        self,
        frame: "DataFrame",
        keys: Sequence[str],
        *,
        writer: str,
        batch: int,
        order_by: Sequence[str] = (),
        deletes: str | None = None,
    ) -> int:
        frame = self._kept(frame)
        self._check_names(frame, keys, order_by)
        base = self._prepare(frame, writer, batch)
        if base is None:
            return 0
        deleted = f.lit(False) if deletes is None else f.coalesce(f.expr(deletes), f.lit(False))
        marks = {_NEW: f.lit(True), _POSITION: f.monotonically_increasing_id(), _DELETED: deleted}
        new = frame.withColumns(marks).persist()  # twice the same rows, also if asked twice

        def change(base: Snapshot) -> Change:
            touched = self._touched(base, new, keys)
            added = self._write(self._merged(base, touched, new, keys, order_by), base)
            return Change("upsert", added, touched, {writer: batch})

        try:
            rows = new.count()
            return rows if self._commit(base, change) else 0
        finally:
            new.unpersist()

    def compact(self, frame: "DataFrame", base: Snapshot) -> bool:
        """Say anew what was there, in these rows: for streams that begin later.

        Those that have read all of ``base`` pass over it, others fail: the caller knows that there
        are none. False, and nothing done, when ``base`` is not the newest version any more.
        """
        if self.spec.format != PARQUET:
            raise BadTable(f"table {self.spec.name}: only Parquet tables can be compacted")
        added = self._write(frame, base)
        try:
            self.log.commit(base, Change(COMPACT, added, base.files, {}))
        except CommitConflict:
            return False
        self._at("committed")
        return True

    def _columns(self, schema: StructType) -> StructType:
        made = table_columns(self.spec.name, schema, self.spec.partition_by)
        return self.log.columns(made)

    def _kept(self, frame: "DataFrame") -> "DataFrame":
        """Rows as the format keeps them: to Delta an empty text to partition by is null."""
        if self.spec.format != DELTA:
            return frame
        texts = {
            field.name
            for field in frame.schema.fields
            if field.name in self.spec.partition_by and isinstance(field.dataType, StringType)
        }
        for name in sorted(texts):
            frame = frame.withColumn(name, f.nullif(f.col(quoted(name)), f.lit("")))
        return frame

    def _prepare(self, frame: "DataFrame", writer: str, batch: int) -> Snapshot | None:
        """A table for these rows; None when they are in it."""
        wanted = self._columns(frame.schema)
        newest = self.log.newest()
        if newest is not None and _is_done(newest, {writer: batch}):
            return None
        if newest is None or evolved(self.spec.name, newest.schema, wanted) != newest.schema:
            newest = self.log.prepare(wanted)
            self._at("prepared")
        return newest

    def _write(self, frame: "DataFrame", base: Snapshot) -> list[WrittenFile]:
        written = write_frame(frame, self.target(base))
        self._at("written")
        return written

    def target(self, base: Snapshot) -> Target:
        """Where data files go that are to be committed."""
        schema = self.log.file_schema(base)
        return Target(self._store, schema, self.spec.partition_by, self.spec.codec)

    def commit(self, base: Snapshot, change: Change) -> bool:
        """Files that were written by the caller, which goes on from where ``base`` stands.

        False, and nothing done, when one of the writers stands elsewhere by now: what it has
        written since may be a part of this.
        """
        stands = {writer: base.last_batch(writer) for writer in change.batches}

        def upon(newest: Snapshot) -> Change | None:
            now = {writer: newest.last_batch(writer) for writer in stands}
            return change if now == stands else None

        return self._commit(base, upon)

    def _commit(self, base: Snapshot, change_upon: Callable[[Snapshot], Change | None]) -> bool:
        for _ in range(ATTEMPTS):
            change = change_upon(base)
            if change is None or _is_done(base, change.batches):
                return False
            if not change.added and not change.removed:
                return True
            try:
                self.log.commit(base, change)
            except CommitConflict:
                self._at("conflict")
                base = self._newest()
                if _is_done(base, change.batches):
                    return False
            else:
                self._at("committed")
                return True
        raise CommitConflict(
            f"table {self.spec.name}: {ATTEMPTS} times somebody else was faster; write it from "
            "fewer places at once, or less often"
        )

    # Upserts

    def _check_names(
        self, frame: "DataFrame", keys: Sequence[str], order_by: Sequence[str]
    ) -> None:
        if not keys:
            raise SchemaMismatch(f"table {self.spec.name}: an upsert needs keys")
        for name in (*keys, *order_by):
            if name not in frame.columns:
                raise SchemaMismatch(
                    f"table {self.spec.name}: there is no column {name} in the rows to upsert, "
                    f"only {', '.join(frame.columns)}"
                )

    def _touched(
        self, base: Snapshot, new: "DataFrame", keys: Sequence[str]
    ) -> tuple[DataFile, ...]:
        """Files that have a row of one of the keys; they are written anew."""
        if not base.files or not self._store.is_local:
            return base.files
        old = self.frame(new.sparkSession, base, base.files)
        named = old.select(*map(quoted, keys), f.col("_metadata.file_name").alias(_POSITION))
        same = [f.col(f"o.{quoted(key)}").eqNullSafe(f.col(f"n.{quoted(key)}")) for key in keys]
        joined = named.alias("o").join(new.alias("n"), _all(same), "left_semi")
        found = {row[0] for row in joined.select(_POSITION).distinct().collect()}
        return tuple(file for file in base.files if file.path.rpartition("/")[2] in found)

    def _merged(
        self,
        base: Snapshot,
        touched: Sequence[DataFile],
        new: "DataFrame",
        keys: Sequence[str],
        order_by: Sequence[str],
    ) -> "DataFrame":
        """One row for each key, of the touched files and the new ones."""
        marks = {_NEW: f.lit(False), _POSITION: f.lit(0).cast("bigint"), _DELETED: f.lit(False)}
        old = self.frame(new.sparkSession, base, touched).withColumns(marks)
        rows = old.unionByName(new, allowMissingColumns=True)
        newest_first = [f.col(quoted(name)).desc_nulls_last() for name in order_by]
        newest_first += [f.col(_NEW).desc(), f.col(_POSITION).desc()]
        window = Window.partitionBy(*map(quoted, keys)).orderBy(*newest_first)
        ranked = rows.withColumn(_RANK, f.row_number().over(window))
        return ranked.where((f.col(_RANK) == 1) & ~f.col(_DELETED))

    # Reading

    def _newest(self) -> Snapshot:
        newest = self.log.newest()
        if newest is None:
            raise TableNotFound(
                f"table {self.spec.name} is not there yet, at {self.spec.location}: it is made by "
                "the first write"
            )
        return newest

    def read(self, spark: "SparkSession") -> "DataFrame":
        newest = self._newest()
        return self.frame(spark, newest, newest.files)

    def frame(
        self, spark: "SparkSession", snapshot: Snapshot, files: Sequence[DataFile]
    ) -> "DataFrame":
        """The rows of these files, with the columns of that version.

        Spark itself reads a directory; from an object store, for which it has no jars, Arrow does.
        """
        if not files:
            return spark.createDataFrame([], snapshot.schema)
        if self._store.is_local:
            paths = [_as_glob(f"{self._store.url}/{file.path}") for file in files]
            return spark.read.schema(snapshot.schema).parquet(*paths)
        options = {**self.spec.as_options(), "version": str(snapshot.version)}
        return spark.read.format(SOURCE).options(**options).schema(snapshot.schema).load()

    def read_stream(self, spark: "SparkSession") -> "DataFrame":
        schema = self._newest().schema
        options = self.spec.as_options()
        return spark.readStream.format(SOURCE).options(**options).schema(schema).load()

    # Cleaning up

    def vacuum(self, older_than: timedelta = RETENTION, keep_from: int | None = None) -> list[str]:
        before_ms = self._clock.wall_ms() - int(older_than.total_seconds() * 1000)
        return self.log.vacuum(before_ms, keep_from)

    def drop(self) -> None:
        self.log.drop()


def _is_done(snapshot: Snapshot, batches: Mapping[str, int]) -> bool:
    """Batches of several writers are committed in one step: all or none is there."""
    for writer, batch in batches.items():
        last = snapshot.last_batch(writer)
        if last is not None and last >= batch:
            return True
    return False


def _as_glob(path: str) -> str:
    """A path that Spark takes for itself alone: it looks for patterns in all of them."""
    return re.sub(r"[]\[{}*?]", r"\\\g<0>", path)


def _rows(files: Iterable[WrittenFile]) -> int:
    return sum(file.rows for file in files)


def _all(conditions: Sequence["Column"]) -> "Column":
    first, *others = conditions
    for each in others:
        first &= each
    return first

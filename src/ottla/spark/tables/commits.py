"""What every format has in common: a log of commits, each of which makes a version of the table.

A commit adds and removes data files and says up to which batch each writer has come, all in one
step that happens or does not. It is made upon a version; if that is no longer the newest, nothing
happens, and the caller looks at what is there now before trying again.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

import pyarrow as pa
from pyspark.sql.types import StructType

from ottla.spark.tables.data_files import Partition, WrittenFile


class DataFile(NamedTuple):
    """``path`` is relative to the table's location, or an address of its own."""

    path: str
    rows: int
    size: int
    partition: Partition = ()


class Snapshot(NamedTuple):
    """A version of a table."""

    version: int
    schema: StructType
    files: tuple[DataFile, ...]
    last_batch: Callable[[str], int | None]
    """Of a writer."""
    compacted: int = -1
    """The last version that only says anew what was there, for streams that begin later."""


class Change(NamedTuple):
    """``batches`` has for each writer the batch that the change completes."""

    operation: str
    added: Sequence[WrittenFile]
    removed: Sequence[DataFile]
    batches: Mapping[str, int]


class CommitLog(Protocol):
    """Versions are whole numbers that grow; -1 is before the first."""

    def newest(self) -> Snapshot | None:
        """None when there is no table."""
        ...

    def at(self, version: int) -> Snapshot:
        """VersionGone when it is not kept any more."""
        ...

    def version(self) -> int:
        """The newest; cheaper than all that is in it."""
        ...

    def columns(self, schema: StructType) -> StructType:
        """These columns as the format has them: not each has every type."""
        ...

    def prepare(self, schema: StructType) -> Snapshot:
        """Make the table, or give it the columns that it has not; may be repeated."""
        ...

    def file_schema(self, snapshot: Snapshot) -> pa.Schema:
        """Of data files that are to be added."""
        ...

    def commit(self, base: Snapshot, change: Change) -> None:
        """CommitConflict, and nothing done, when ``base`` is not the newest."""
        ...

    def vacuum(self, before_ms: int, keep_from: int | None = None) -> list[str]:
        """Forget versions, and remove files that no version needs, both older than that.

        Versions from ``keep_from`` on stay in any case: somebody is there.
        """
        ...

    def drop(self) -> None: ...

"""A table and what can be done with it, whatever its format.

``open_table`` gives one; nothing is made until the first write. Each write belongs to a batch of a
writer: batches of a writer are numbered upwards, and one that is in the table already (or an
earlier one) is not written again. A writer is one checkpoint of one query: a query with a new
checkpoint needs a new name, or its batches are taken for old ones.
"""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

from pyspark.sql.types import StructType

from ottla.client.system_time import SystemTime
from ottla.common.clock import Clock
from ottla.spark.tables.logged_table import RETENTION, LoggedTable
from ottla.spark.tables.logs import open_log
from ottla.spark.tables.spec import TableSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Table(Protocol):
    spec: TableSpec

    def exists(self) -> bool: ...

    def schema(self) -> StructType:
        """TableNotFound when there is none yet."""
        ...

    def create(self, schema: StructType) -> None:
        """Make it without rows, so that it can be read; one that exists gets new columns."""
        ...

    def last_batch(self, writer: str) -> int:
        """The last batch of a writer that is there; -1 when there is none."""
        ...

    def append(self, frame: "DataFrame", *, writer: str, batch: int) -> int:
        """Add rows; how many they were, none when the batch was there already."""
        ...

    def replace(self, frame: "DataFrame", *, writer: str, batch: int) -> int:
        """These rows instead of all that are there, in one step."""
        ...

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
        """Keep one row for each key: the one with the greatest ``order_by``, else the last one.

        Where ``deletes``, a condition in SQL, holds for that row, the key goes.
        """
        ...

    def read(self, spark: "SparkSession") -> "DataFrame":
        """The newest version, which stays the same however often the DataFrame is used."""
        ...

    def read_stream(self, spark: "SparkSession") -> "DataFrame":
        """All rows and, as they are committed, later ones, each once.

        Fails with TableChanged once rows that it has read are replaced or updated.
        """
        ...

    def vacuum(self, older_than: timedelta = RETENTION, keep_from: int | None = None) -> list[str]:
        """Remove what failed writers left, and old versions; the paths of data files removed.

        Queries and writers that take longer than that lose files under their hands. Versions from
        ``keep_from`` on stay, for streams that stand there.
        """
        ...

    def drop(self) -> None:
        """Remove it with all its files."""
        ...


def open_table(
    spec: TableSpec,
    *,
    clock: Clock | None = None,
    at_step: Callable[[str], None] | None = None,
) -> LoggedTable:
    """A :class:`Table`. ``at_step`` is told what was just done, so that tests can crash there."""
    clock = clock or SystemTime()
    return LoggedTable(spec, open_log(spec, clock), clock, at_step=at_step)

"""Materialized views: computed anew when something that they read has changed.

The result replaces the content in one step. If somebody follows the view as a stream, the rows that
are new or different go to the table of its changes as well. Both must happen, once, whatever dies
in between: so result and changes are computed and kept aside first (``staging``), then both are
stored under one number, then what was kept aside goes. A later run finishes what it finds there.

Changes that all followers have read give way to the content of the view, which is what a follower
begins with a later follower.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ottla.spark.pipelines.evaluation import Evaluation
from ottla.spark.pipelines.followers import Followers
from ottla.spark.pipelines.graph import Graph
from ottla.spark.pipelines.hadoop_files import Directories
from ottla.spark.pipelines.model import Dataset, Flow, Pipeline
from ottla.spark.pipelines.stored import StoredTables
from ottla.spark.tables.data_files import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STAGING: Final = "staging"
DONE: Final = "_SUCCESS"


class Views:
    """Of one pipeline; used by one thread at a time."""

    def __init__(
        self,
        pipeline: Pipeline,
        graph: Graph,
        tables: StoredTables,
        evaluation: Evaluation,
        spark: "SparkSession",
        followers: Followers,
        at_step: Callable[[str], None] = lambda _: None,
    ) -> None:
        """``at_step`` is told what was just done, so that tests can crash there."""
        self._pipeline = pipeline
        self._graph = graph
        self._tables = tables
        self._evaluation = evaluation
        self._spark = spark
        self._files = Directories(spark)
        self._followers = followers
        self._at = at_step

    def refresh(self, flow: Flow) -> int:
        """Compute a view anew; how many rows it has now."""
        view = self._graph.datasets[flow.target]
        # A former follower may come back: the changes in between are told, too.
        followed = bool(self._graph.followers(view.name)) or self._tables.changes(view).exists()
        if followed:
            self._finish_staged(view)
        else:
            self._files.delete(self._pipeline.address(STAGING, view.name))
        with self._evaluation.frame_of(flow) as frame:
            if flow.settings:  # they are in force only here
                return self._store(view, frame, followed)
        return self._store(view, frame, followed)

    def _store(self, view: Dataset, frame: "DataFrame", followed: bool) -> int:
        frame = self._tables.fitted(view, frame)
        tables = [self._tables.open(view), *([self._tables.changes(view)] if followed else [])]
        batch = 1 + max(table.last_batch(self._writer(view)) for table in tables)
        if not followed:
            return tables[0].replace(frame, writer=self._writer(view), batch=batch)
        for table in tables:  # columns that do not fit are refused while nothing is kept aside
            table.create(frame.schema)
        self._stage(view, frame, batch)
        return self._finish(view, batch)

    def _stage(self, view: Dataset, frame: "DataFrame", batch: int) -> None:
        content, changes = self._place(view, batch, "content"), self._place(view, batch, "changes")
        frame.write.parquet(content)
        self._at("computed")
        before = self._tables.open(view).read(self._spark)
        same = [before[quoted(each.name)].cast(each.dataType) for each in frame.schema]
        names = frame.schema.names
        staged = self._spark.read.parquet(content).select(*map(quoted, names))
        staged.exceptAll(before.select(*same).toDF(*names)).write.parquet(changes)
        self._at("staged")

    def _finish(self, view: Dataset, batch: int) -> int:
        """May be repeated: both tables take a batch once."""
        read = self._spark.read
        changes = read.parquet(self._place(view, batch, "changes"))
        content = read.parquet(self._place(view, batch, "content"))
        writer = self._writer(view)
        if not changes.isEmpty():
            self._tables.changes(view).append(changes, writer=writer, batch=batch)
        self._at("changes told")
        rows = self._tables.open(view).replace(content, writer=writer, batch=batch)
        self._at("replaced")
        self._files.delete(self._place(view, batch))
        return rows

    def _finish_staged(self, view: Dataset) -> None:
        for name in self._files.names(self._pipeline.address(STAGING, view.name)):
            if self._files.exists(f"{self._place(view, int(name), 'changes')}/{DONE}"):
                self._finish(view, int(name))
            else:
                self._files.delete(self._place(view, int(name)))

    def _place(self, view: Dataset, batch: int, *parts: str) -> str:
        return self._pipeline.address(STAGING, view.name, str(batch), *parts)

    def _writer(self, view: Dataset) -> str:
        return f"{self._pipeline.name}.{view.name}"

    def forget_read(self, view: Dataset) -> bool:
        """Make the table of changes small again; False when somebody has not read all of it.

        While this is done nothing is told, so that what all have read is all that there is, and
        comes to the content of the view.
        """
        changes = self._tables.changes(view)
        newest = changes.log.newest()
        if newest is None or self._files.names(self._pipeline.address(STAGING, view.name)):
            return True
        read = self._followers.read_by_all(view.name, changes.spec.name)
        if read is not None and read < newest.version:
            return False
        if newest.compacted < newest.version:
            changes.compact(self._tables.open(view).read(self._spark), newest)
        self._tables.vacuum(changes)
        return True

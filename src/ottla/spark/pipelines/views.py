"""Materialized views: computed anew when something that they read has changed.

The result replaces the content in one step. If somebody follows the view as a stream, the rows that
are new or different go to the table of its changes as well. Both must happen, once, whatever dies
in between: so result and changes are computed and kept aside first (``staging``), then both are
stored under one number, then what was kept aside goes. A later run finishes what it finds there.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ottla.client.system_time import SystemTime
from ottla.common.clock import Clock
from ottla.spark.pipelines.evaluation import Evaluation
from ottla.spark.pipelines.graph import Graph
from ottla.spark.pipelines.hadoop_files import Directories
from ottla.spark.pipelines.model import Dataset, Flow, Pipeline
from ottla.spark.pipelines.stored import StoredTables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STAGING: Final = "staging"
DONE: Final = "_SUCCESS"
_SYSTEM: Final = SystemTime()


class Views:
    """Of one pipeline; used by one thread at a time."""

    def __init__(
        self,
        pipeline: Pipeline,
        graph: Graph,
        tables: StoredTables,
        evaluation: Evaluation,
        spark: "SparkSession",
        clock: Clock = _SYSTEM,
        at_step: Callable[[str], None] = lambda _: None,
    ) -> None:
        """``at_step`` is told what was just done, so that tests can crash there."""
        self._pipeline = pipeline
        self._graph = graph
        self._tables = tables
        self._evaluation = evaluation
        self._spark = spark
        self._files = Directories(spark)
        self._clock = clock
        self._at = at_step
        self._last = 0

    def refresh(self, flow: Flow) -> int:
        """Compute a view anew; how many rows it has now."""
        view = self._graph.datasets[flow.target]
        followed = view.name in self._graph.streamed_views()
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
        batch = self._next_batch()
        if not followed:
            return self._tables.open(view).replace(frame, writer=self._writer(view), batch=batch)
        self._stage(view, frame, batch)
        return self._finish(view, batch)

    def _stage(self, view: Dataset, frame: "DataFrame", batch: int) -> None:
        content, changes = self._place(view, batch, "content"), self._place(view, batch, "changes")
        frame.write.parquet(content)
        self._at("computed")
        before = self._tables.open(view)
        staged = self._spark.read.parquet(content)
        new = staged.exceptAll(before.read(self._spark)) if before.exists() else staged
        new.write.parquet(changes)
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

    def _next_batch(self) -> int:
        """Greater than any before, also of earlier runs: the time."""
        self._last = max(self._last + 1, self._clock.wall_ms())
        return self._last

"""Flows as queries of Structured Streaming, each with a checkpoint of its own.

Exactly once: a micro-batch goes to a table under the id of its query and its number, and a table
takes it once; to a topic it goes in transactions (``exactlyOnce``). The id is that of the
checkpoint: without its checkpoint a query is a new one, whose batches are not taken for old ones.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ottla.spark.pipelines.cluster_options import with_cluster
from ottla.spark.pipelines.evaluation import Evaluation
from ottla.spark.pipelines.graph import Graph
from ottla.spark.pipelines.model import Dataset, Flow, Kind, LatestState, Pipeline
from ottla.spark.pipelines.stored import StoredTables, shaped
from ottla.spark.tables.store import Store
from ottla.spark.tables.table import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

QUERY_ID: Final = "sql.streaming.queryId"
Written = Callable[[Flow, int], None]


class Queries:
    """``written`` is told of rows that are in a table now, from whatever thread."""

    def __init__(
        self,
        pipeline: Pipeline,
        graph: Graph,
        tables: StoredTables,
        evaluation: Evaluation,
        written: Written,
    ) -> None:
        self._pipeline = pipeline
        self._graph = graph
        self._tables = tables
        self._evaluation = evaluation
        self._written = written

    def start(self, flow: Flow, *, once: bool) -> "StreamingQuery":
        """From its checkpoint, if there is one; ``once``: until all is done that is there now."""
        target = self._graph.datasets[flow.target]
        with self._evaluation.frame_of(flow) as frame:
            if target.kind is Kind.SINK:
                writer = frame.writeStream.format(target.format or "ottla")
                writer = writer.options(**self._sink_options(target))
            else:
                writer = self._to_table(flow, target, frame)
            writer = writer.queryName(f"{self._pipeline.name}.{flow.name}").option(
                "checkpointLocation", self.checkpoint(flow)
            )
            return self._triggered(writer, once).start()

    def checkpoint(self, flow: Flow) -> str:
        return self._pipeline.address("checkpoints", flow.name)

    def _triggered(self, writer: "DataStreamWriter", once: bool) -> "DataStreamWriter":
        if once:
            return writer.trigger(availableNow=True)
        milliseconds = round(self._pipeline.trigger_seconds * 1000)
        return writer.trigger(processingTime=f"{milliseconds} milliseconds")

    def _sink_options(self, target: Dataset) -> dict[str, str]:
        if target.format != "ottla":
            return dict(target.options)
        return {
            "exactlyOnce": "true",
            "transactionalIdPrefix": f"ottla-{self._pipeline.name}",
            **with_cluster(self._pipeline, target.options),
        }

    def _to_table(self, flow: Flow, target: Dataset, frame: "DataFrame") -> "DataStreamWriter":
        table = self._tables.open(target)

        def write(rows: "DataFrame", batch: int) -> None:
            self._settle(flow, batch)
            query = rows.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
            writer = f"{self._pipeline.name}.{flow.name}.{query}"
            if flow.latest is not None:
                with self._tables.rewriting(target):
                    count = _upsert(table, flow.latest, rows, writer, batch)
            else:
                count = table.append(self._tables.fitted(target, rows), writer=writer, batch=batch)
            self._written(flow, count)

        return frame.writeStream.foreachBatch(write)

    def _settle(self, flow: Flow, batch: int) -> None:
        """What belongs to a batch is on the disk before its rows are; Spark does not wait for it.

        If that was lost with the power, other rows under the same number would not be taken.
        """
        checkpoint = Store(self._pipeline.path("checkpoints", flow.name), {})
        for path in ("metadata", f"offsets/{batch}"):
            checkpoint.sync(path)


def _upsert(table: Table, latest: LatestState, rows: "DataFrame", writer: str, batch: int) -> int:
    return table.upsert(
        shaped(latest, rows),
        latest.keys,
        writer=writer,
        batch=batch,
        order_by=(latest.sequence_by,),
        deletes=latest.deletes,
    )

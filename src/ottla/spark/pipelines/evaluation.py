"""What flows see: ``spark.table("x")`` and its like find the datasets of the pipeline.

While a flow is evaluated, ``spark.table``, ``spark.read.table``, ``spark.readStream.table`` and
``spark.sql`` of every session look among the pipeline's datasets first (Spark's own command
replaces methods in the same way while it imports definitions). A dataset that is read whole becomes
a temporary view; one that is read as a stream goes to the query as it is, or, in SQL, as a view of
another name in the place of ``STREAM(x)``.

A table that does not exist yet is made without rows, with the columns of its first flow: so flows
can begin in any order.
"""

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.readwriter import DataFrameReader
from pyspark.sql.streaming.readwriter import DataStreamReader

from ottla.spark.pipelines.cluster_options import with_cluster, with_security
from ottla.spark.pipelines.failures import brief, text_of
from ottla.spark.pipelines.graph import Graph
from ottla.spark.pipelines.model import Dataset, Flow, Kind, Pipeline, PipelineError
from ottla.spark.pipelines.sessions import active
from ottla.spark.pipelines.sql import replace_streams

if TYPE_CHECKING:
    from ottla.spark.pipelines.stored import StoredTables

STREAM_PREFIX: Final = "__stream_of_"
NOT_FOUND: Final = "TABLE_OR_VIEW_NOT_FOUND"
_WORD: Final = re.compile(r"\w+")


class Evaluation:
    """Makes DataFrames of flows; one at a time, since views belong to the session."""

    def __init__(
        self, pipeline: Pipeline, graph: Graph, tables: "StoredTables", spark: SparkSession
    ) -> None:
        self._pipeline = pipeline
        self._graph = graph
        self._tables = tables
        self._spark = spark
        self._lock = threading.RLock()
        self._views: dict[str, DataFrame] = {}
        """What the flow that is evaluated right now finds in the session."""
        self._read: dict[str, DataFrame] = {}
        """What the flow has read whole: the same when it is read again."""
        self._original: dict[tuple[type, str], Callable[..., Any]] = {}

    @contextmanager
    def frame_of(self, flow: Flow) -> Iterator[DataFrame]:
        """The DataFrame of a flow, with its settings of Spark in force.

        It reads tables as they are now. Leave this context when its query has begun.
        """
        with self._lock, self._settings(flow):
            try:
                with active(self._spark), self._resolving():
                    frame = self._evaluate(flow)
                yield frame
            finally:
                self._read.clear()

    @contextmanager
    def _own_views(self) -> Iterator[None]:
        """Let a flow find no views but its own, so that all that it reads is told.

        Later users of the session must not find them, nor must the flow that this one is
        evaluated for: it has its views back.
        """
        outer, self._views = self._views, {}
        self._drop(outer)
        try:
            yield
        finally:
            self._drop(self._views)
            self._views = outer
            for name, frame in outer.items():
                frame.createOrReplaceTempView(name)

    def _drop(self, views: dict[str, DataFrame]) -> None:
        for name in sorted(views):
            self._spark.catalog.dropTempView(name)

    def _evaluate(self, flow: Flow) -> DataFrame:
        with self._graph.evaluating(flow), self._own_views():
            try:
                made = self._spark.sql(flow.query) if isinstance(flow.query, str) else flow.query()
            except (PipelineError, Py4JError, OSError):  # the latter may pass
                raise
            except Exception as error:
                told = (
                    _brief(error) if isinstance(error, AnalysisException) else brief(text_of(error))
                )
                raise PipelineError(f"{flow.place}: flow {flow.name}: {told}") from error
        if not isinstance(made, DataFrame):
            raise PipelineError(
                f"{flow.place}: flow {flow.name} must return a DataFrame, not {type(made).__name__}"
            )
        target = self._graph.datasets[flow.target]
        if target.kind is Kind.VIEW and made.isStreaming:
            raise PipelineError(
                f"{flow.place}: materialized view {target.name} reads a stream; read it whole "
                "(spark.table instead of spark.readStream.table), or make it a streaming table"
            )
        if target.kind in {Kind.TABLE, Kind.SINK} and not made.isStreaming:
            raise PipelineError(
                f"{flow.place}: flow {flow.name} to {target.kind.value} {target.name} must read a "
                "stream: spark.readStream, or STREAM(...) in SQL"
            )
        return made

    def _stream(self, name: str) -> DataFrame:
        """New rows of a dataset, as they come."""
        dataset = self._graph.read(name, streaming=True)
        if dataset.kind is Kind.TEMPORARY:
            frame = self._evaluate(self._graph.writers(name)[0])
            if not frame.isStreaming:
                raise PipelineError(f"{dataset.place}: temporary view {name} is not a stream")
            return frame
        if dataset.kind is Kind.SOURCE:
            reader = self._spark.readStream.format(dataset.format or "ottla")
            return reader.options(**self._options(dataset)).load()
        if dataset.kind is Kind.TABLE and self._graph.is_rewritten(dataset):
            raise PipelineError(
                f"{dataset.place}: {name} holds the latest state of each key, which is no stream: "
                "read it whole, or read the stream that it is made of"
            )
        self._ensure(dataset)
        if dataset.kind is Kind.VIEW:
            return self._tables.follow(dataset, self._spark)
        return self._tables.open(dataset).read_stream(self._spark)

    def _whole(self, name: str) -> DataFrame:
        dataset = self._graph.read(name, streaming=False)
        if name not in self._read:
            self._read[name] = self._load(dataset)
        return self._read[name]

    def _load(self, dataset: Dataset) -> DataFrame:
        if dataset.kind is Kind.TEMPORARY:
            return self._evaluate(self._graph.writers(dataset.name)[0])
        if dataset.kind is Kind.SOURCE:
            reader = self._spark.read.format(dataset.format or "ottla")
            return reader.options(**self._options(dataset)).load()
        self._ensure(dataset)
        return self._tables.open(dataset).read(self._spark)

    def _options(self, dataset: Dataset) -> dict[str, str]:
        if dataset.format != "ottla":
            return dict(dataset.options)
        return with_cluster(self._pipeline, dataset.options)

    def _ensure(self, dataset: Dataset) -> None:
        """Make a table that nothing was written to yet."""
        table = self._tables.open(dataset)
        if not table.exists():
            flow = self._graph.writers(dataset.name)[0]
            table.create(self._tables.columns(dataset, flow, self._evaluate(flow)))

    def _view(self, name: str) -> None:
        self._show(name, self._whole(name))

    def _stream_view(self, name: str) -> str | None:
        if name not in self._graph.datasets:
            return None
        view = f"{STREAM_PREFIX}{name}"
        self._show(view, self._stream(name))
        return f"`{view}`"

    def _show(self, view: str, frame: DataFrame) -> None:
        frame.createOrReplaceTempView(view)
        self._views[view] = frame

    @contextmanager
    def _settings(self, flow: Flow) -> Iterator[None]:
        before = {name: self._spark.conf.get(name, None) for name in flow.settings}
        for name, value in flow.settings.items():
            self._spark.conf.set(name, value)
        try:
            yield
        finally:
            for name, old in before.items():
                if old is None:
                    self._spark.conf.unset(name)
                else:
                    self._spark.conf.set(name, old)

    @contextmanager
    def _resolving(self) -> Iterator[None]:
        """Put our methods in the place of Spark's."""
        ours: dict[tuple[type, str], Callable[..., Any]] = {
            (SparkSession, "table"): self._read_table,
            (DataFrameReader, "table"): self._read_table,
            (DataStreamReader, "table"): self._read_stream_table,
            (SparkSession, "sql"): self._run_sql,
            (DataFrameReader, "option"): self._set_option,
            (DataStreamReader, "option"): self._set_option,
            (DataFrameReader, "options"): self._set_options,
            (DataStreamReader, "options"): self._set_options,
        }
        self._original = {(owner, name): getattr(owner, name) for owner, name in ours}
        try:
            for (owner, name), method in ours.items():
                setattr(owner, name, _bound(method, self._original[owner, name]))
            yield
        finally:
            for (owner, name), method in self._original.items():
                setattr(owner, name, method)

    def _read_table(self, original: Callable[..., Any], name: str) -> Any:
        if _plain(name) in self._graph.datasets:
            self._view(_plain(name))
        return self._found(lambda: original(name))

    def _read_stream_table(self, original: Callable[..., Any], name: str) -> Any:
        if _plain(name) in self._graph.datasets:
            return self._stream(_plain(name))
        return self._found(lambda: original(name))

    def _run_sql(self, original: Callable[..., Any], query: str, *args: Any, **named: Any) -> Any:
        text = replace_streams(query, self._stream_view)
        self._hide_others(text)
        seen: set[str] = set()
        while True:
            try:
                return original(text, *args, **named)
            except AnalysisException as error:
                name = _missing(error)
                if name is None:
                    raise
                if name not in self._graph.datasets or name in seen:
                    raise self._graph.missing(name) from error
                seen.add(name)
                self._view(name)

    def _set_option(self, original: Callable[..., Any], key: str, value: Any) -> Any:
        """Who reads from the pipeline's own brokers does so as the pipeline."""
        made = None
        for name, each in with_security(self._pipeline, {key: value}).items():
            made = original(name, each)
        return made

    def _set_options(self, original: Callable[..., Any], **options: Any) -> Any:
        return original(**with_security(self._pipeline, options))

    def _hide_others(self, text: str) -> None:
        """Names of the pipeline go before those that the session or its catalog has, too."""
        for name in sorted(set(_WORD.findall(text))):
            dataset = self._graph.datasets.get(name)
            if dataset is None or dataset.kind is Kind.SINK or name in self._views:
                continue
            if self._spark.catalog.tableExists(name):
                self._view(name)

    def _found(self, look: Callable[[], Any]) -> Any:
        try:
            return look()
        except AnalysisException as error:
            name = _missing(error)
            if name is None:
                raise
            raise self._graph.missing(name) from error


def _bound(ours: Callable[..., Any], original: Callable[..., Any]) -> Callable[..., Any]:
    """A method: ours gets Spark's, which knows its object already."""

    def method(this: Any, *args: Any, **named: Any) -> Any:
        return ours(lambda *a, **n: original(this, *a, **n), *args, **named)

    return method


def _plain(name: str) -> str:
    return name[1:-1] if name.startswith("`") and name.endswith("`") else name


def _missing(error: AnalysisException) -> str | None:
    """The name of the table that Spark did not find."""
    if error.getCondition() != NOT_FOUND:
        return None
    return _plain((error.getMessageParameters() or {}).get("relationName", ""))


def _brief(error: AnalysisException) -> str:
    """Without the plan, which says little to those that did not write the planner."""
    return str(error).split(";\n")[0].split("\n\nJVM")[0].strip()

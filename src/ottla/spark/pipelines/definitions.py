"""The definitions of a pipeline's files, collected as Spark Declarative Pipelines register them.

A Python file is imported while our registry is the active one of ``pyspark.pipelines``, with
``spark`` as a global name; its functions are called later, when the flows are evaluated.
"""

import importlib.util
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.pipelines.flow import Flow as SparkFlow
from pyspark.pipelines.graph_element_registry import (
    GraphElementRegistry,
    graph_element_registration_context,
)
from pyspark.pipelines.output import MaterializedView, Output, Sink, StreamingTable, TemporaryView
from pyspark.pipelines.source_code_location import SourceCodeLocation

from ottla.spark.pipelines import sql
from ottla.spark.pipelines.graph import Graph, check
from ottla.spark.pipelines.model import (
    Dataset,
    Flow,
    Kind,
    LatestState,
    Pipeline,
    PipelineError,
    Place,
)
from ottla.spark.pipelines.sessions import active

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_COLUMN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KINDS = {StreamingTable: Kind.TABLE, MaterializedView: Kind.VIEW, TemporaryView: Kind.TEMPORARY}


def define(pipeline: Pipeline, spark: "SparkSession") -> Graph:
    """All datasets and flows of a pipeline, checked as far as they can be without queries."""
    registry = _Registry()
    registering = graph_element_registration_context(registry)
    with _inside(pipeline.directory), active(spark), registering:
        for file in pipeline.libraries:
            if file.suffix == ".py":
                _import(file, spark)
            else:
                registry.register_sql(file.read_text(encoding="utf-8"), file)
    if not registry.flows:
        raise PipelineError(f"{pipeline.directory}: the files of this pipeline define no flow")
    datasets = [*pipeline.datasets, *registry.datasets]
    check(datasets, registry.flows)
    return Graph(
        {each.name: each for each in datasets}, {each.name: each for each in registry.flows}
    )


class _Registry(GraphElementRegistry):
    def __init__(self) -> None:
        self.datasets: list[Dataset] = []
        self.flows: list[Flow] = []

    def register_output(self, output: Output) -> None:
        place = _place(output.source_code_location)
        if isinstance(output, Sink):
            made = Dataset(output.name, Kind.SINK, place, output.format, dict(output.options))
        elif isinstance(output, TemporaryView):
            made = Dataset(output.name, Kind.TEMPORARY, place)
        elif isinstance(output, StreamingTable | MaterializedView):
            made = Dataset(
                output.name,
                _KINDS[type(output)],
                place,
                output.format,
                dict(output.table_properties),
                tuple(output.partition_cols or ()),
                output.schema,
            )
        else:
            raise PipelineError(f"{place}: {type(output).__name__} is not known here")
        self.datasets.append(made)

    def register_flow(self, flow: SparkFlow) -> None:
        place = _place(flow.source_code_location)
        self.flows.append(
            Flow(flow.name, flow.target, flow.func, place, dict(flow.spark_conf or {}))
        )

    def register_auto_cdc_flow(self, flow: Any) -> None:
        """Of Spark 4.2 and later, whose class earlier ones do not have."""
        place = _place(flow.source_code_location)
        if str(flow.stored_as_scd_type or 1) != "1":
            raise PipelineError(f"{place}: flow {flow.name}: stored_as_scd_type=1 only")
        sequence = _sql_of(flow.sequence_by, place)
        if not _COLUMN.fullmatch(sequence):
            raise PipelineError(
                f"{place}: flow {flow.name}: sequence_by={sequence}: it must be a column that the "
                "table keeps, so that later rows can be compared with it"
            )
        columns, deletes = flow.column_list, flow.apply_as_deletes
        latest = LatestState(
            keys=tuple(_sql_of(each, place) for each in flow.keys),
            sequence_by=sequence,
            deletes=None if deletes is None else _sql_of(deletes, place),
            columns=None if columns is None else tuple(_sql_of(each, place) for each in columns),
            without=tuple(_sql_of(each, place) for each in flow.except_column_list or ()),
        )
        query = f"SELECT * FROM STREAM(`{flow.source}`)"  # noqa: S608 - Spark parses it
        name = flow.name or flow.target
        self.flows.append(Flow(name, flow.target, query, place, dict(flow.spark_conf), latest))

    def register_sql(self, sql_text: str, file_path: Path) -> None:
        for made in sql.definitions(sql_text, str(file_path)):
            if isinstance(made, Dataset):
                self.datasets.append(made)
            else:
                self.flows.append(made)


def _place(location: SourceCodeLocation) -> Place:
    return Place(location.filename, location.line_number)


def _sql_of(column: Any, place: Place) -> str:
    """The SQL of a column, which is one of Spark Connect if it was given as text."""
    expression = getattr(column, "_expr", None)
    for attribute in ("_unparsed_identifier", "_expr"):
        text = vars(expression).get(attribute) if hasattr(expression, "__dict__") else None
        if isinstance(text, str):
            return text
    if hasattr(column, "_jc"):
        return str(column._jc.toString())  # noqa: SLF001 - PySpark tells it no other way
    raise PipelineError(f"{place}: {column}: give the names of columns as text")


def _import(file: Path, spark: "SparkSession") -> None:
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    module.__dict__["spark"] = spark
    try:
        spec.loader.exec_module(module)
    except PipelineError:
        raise
    except Exception as error:
        raise PipelineError(f"{_where(file, error)}: {type(error).__name__}: {error}") from error


def _where(file: Path, error: BaseException) -> Place:
    """The line of the file that led to the error."""
    if isinstance(error, SyntaxError) and error.filename:
        return Place(error.filename, error.lineno)
    trace, line = error.__traceback__, None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(file):
            line = trace.tb_lineno
        trace = trace.tb_next
    return Place(str(file), line)


@contextmanager
def _inside(directory: Path) -> Iterator[None]:
    """Files may open others beside them, and import modules of the pipeline's directory."""
    before = Path.cwd()
    os.chdir(directory)
    sys.path.insert(0, str(directory))
    try:
        yield
    finally:
        os.chdir(before)
        sys.path.remove(str(directory))

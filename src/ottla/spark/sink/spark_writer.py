"""What Spark calls to write: one object in the driver for each job, its copies in the tasks.

Spark makes a new object for each micro-batch, and commits it with yet another: nothing is kept in
them but options. All that the driver needs to know comes with the messages of the tasks.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import DataType, NullType, StructType

from ottla.common.chance import Chance
from ottla.spark.codec.rows import COLUMNS, Rows
from ottla.spark.formats.arrow_types import arrow_type
from ottla.spark.formats.values import check_writable
from ottla.spark.sink.formatted_writes import encoded, gathered
from ottla.spark.sink.options import SinkOptions
from ottla.spark.sink.stream_writer import MicroBatch, abort_batch, commit_batch, write_task
from ottla.spark.sink.writer import Written, abort_job, commit, write, write_prepared
from ottla.spark.worker_heap import settled

# Set by Spark for the tasks of a micro-batch. The query's id is that of its checkpoint.
_QUERY_ID = "sql.streaming.queryId"
_BATCH_ID = "streaming.sql.batchId"


@dataclass
class TaskWritten(WriterCommitMessage):
    """A task's message to the driver."""

    written: Written


def _told(messages: Sequence[WriterCommitMessage | None]) -> list[Written | None]:
    """What each task has told, by its number; None of those that did not come to an end."""
    return [each.written if isinstance(each, TaskWritten) else None for each in messages]


def _written(messages: Sequence[WriterCommitMessage | None]) -> list[Written]:
    return [each for each in _told(messages) if each is not None]


def fitted(options: SinkOptions, schema: StructType) -> SinkOptions:
    """The same as :func:`fitted_to`, for the columns of a frame."""
    formats = options.formats
    made = formats.value.format != "raw" and "value" not in schema.names
    fields = [
        pa.field(each.name, _arrow_type(each.dataType))
        for each in schema.fields
        if made or each.name in COLUMNS
    ]
    return fitted_to(options, pa.RecordBatch.from_pylist([], schema=pa.schema(fields)))


def fitted_to(options: SinkOptions, table: pa.RecordBatch) -> SinkOptions:
    """With the schemas to write with; refuse a table that cannot be written before any task begins.

    Asks the registry, and registers there, if there is one.
    """
    formats = options.formats
    table = gathered(table, formats.values)
    kinds = {each.name: each.type for each in table.schema}
    if "value" in kinds:
        formats = formats.writing(kinds.get("key"), kinds["value"])
        for name, spec in (("key", formats.key), ("value", formats.value)):
            if name in kinds:
                check_writable(kinds[name], spec, f"column {name}")
    Rows(encoded(table, formats.values).good, options.topic)
    return replace(options, formats=formats)


def _arrow_type(kind: DataType) -> pa.DataType:
    return pa.null() if isinstance(kind, NullType) else arrow_type(kind.jsonValue())


class OttlaWriter(DataSourceArrowWriter):
    """A batch job. Exactly once means: the transactions of all its tasks are committed, or none."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._job = f"{options.transactional_id_prefix}-{Chance().bytes(16).hex()}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        task, iterator = _task().partitionId(), settled(iterator)
        if not self._options.exactly_once:
            return TaskWritten(write(self._options, task, iterator))
        return TaskWritten(write_prepared(self._options, self._job, task, iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        commit(self._options, _written(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        if self._options.exactly_once:
            abort_job(self._options, self._job, _told(messages))


class OttlaStreamWriter(DataSourceStreamArrowWriter):
    """A micro-batch."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        task, iterator = _task(), settled(iterator)
        if not self._options.exactly_once:
            return TaskWritten(write(self._options, task.partitionId(), iterator))
        query_id, batch_id = task.getLocalProperty(_QUERY_ID), task.getLocalProperty(_BATCH_ID)
        if query_id is None or batch_id is None:
            raise RuntimeError("Spark did not say which query and micro-batch this task is of")
        batch = MicroBatch(query_id, int(batch_id))
        return TaskWritten(write_task(self._options, batch, task.partitionId(), iterator))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        if self._options.exactly_once:
            commit_batch(self._options, batchId, _written(messages))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        if self._options.exactly_once:
            abort_batch(self._options, batchId, _told(messages))


def _task() -> TaskContext:
    task = TaskContext.get()
    assert task is not None, "only Spark's tasks write"
    return task

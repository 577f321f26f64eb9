"""Exactly once: what the tasks of a micro-batch write, and how the driver commits it.

Spark runs a micro-batch again, with the same number and the same input, until its commit log says
that it is done. Each task has a transactional id that is the same in every run: prefix, query,
number of the task. With its rows a transaction has a marker, the number of the micro-batch as an
offset of a group of the same name. So a run finds one of three things for a task, and does:

* no marker of this micro-batch: the rows are not there. What was left open was aborted by taking
  over the id; the rows are written.
* a marker of this micro-batch: the rows are there. They are read and compared, and not written.
* a marker of a later one: the checkpoint is older than what is written. That is refused: nobody
  knows which rows of this micro-batch are there.

A crash between two commits leaves some tasks done and others not. The next run completes them only
if the rows of each task are the same as before. So each marker also has a fingerprint of the rows,
and the driver notes the number of tasks before the first commit. A run whose tasks are cut in
another way is refused before it ends anything; see ``docs/guide/spark.md``.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import pyarrow as pa

from ottla.client.cluster import Cluster
from ottla.common.topic_partition import TopicPartition
from ottla.spark.codec.rows import Rows
from ottla.spark.sink.options import SinkOptions
from ottla.spark.sink.transactions import Marker, Transaction, end, read_marker, write_marker
from ottla.spark.sink.writer import Fingerprint, Written, abort, fill, links, taken_apart

ADVICE: Final = (
    "The rows of each task must be the same in every run of a micro-batch: go on with as many "
    "partitions as before, and repartition by a column rather than by chance"
)
_TASKS: Final = "tasks="


class OtherRows(RuntimeError):
    """A micro-batch that is run again has other rows than those that are written already."""


class MicroBatch(NamedTuple):
    query_id: str
    batch_id: int

    def __str__(self) -> str:
        return f"micro-batch {self.batch_id} of query {self.query_id}"


def query_group(options: SinkOptions, batch: MicroBatch) -> str:
    """Where the driver notes how many tasks a micro-batch has."""
    return f"{options.transactional_id_prefix}-{batch.query_id}"


def task_id(options: SinkOptions, batch: MicroBatch, task: int) -> str:
    """The transactional id of a task, and the group of its marker."""
    return f"{query_group(options, batch)}-{task}"


def write_task(
    options: SinkOptions, batch: MicroBatch, task: int, tables: Iterable[pa.RecordBatch]
) -> Written:
    """Write the rows of a task in its transaction, unless they are there."""
    name = task_id(options, batch, task)
    with links(options) as taken:
        transaction = Transaction(taken.control, name)
        transaction.begin(options.transaction_timeout_ms)
        marker = read_marker(taken.control, name)
        if marker is not None and marker.offset > batch.batch_id:
            raise OtherRows(
                f"{batch}: task {task} has written micro-batch {marker.offset} already. The "
                "checkpoint is older than the topic: go on with the newest, or with a new one and "
                "other starting offsets"
            )
        if marker is not None and marker.offset == batch.batch_id:
            _compare(options, batch, task, marker, tables)
            return Written(task, 0, query_id=batch.query_id)
        fingerprint = Fingerprint()

        def mark(first: TopicPartition) -> None:
            transaction.mark(name, first, Marker(batch.batch_id, str(fingerprint)))

        rows = _counted(options, tables, fingerprint)
        written = fill(options, taken, transaction, task, rows, before=mark)
        return written._replace(query_id=batch.query_id)


def _counted(
    options: SinkOptions, tables: Iterable[pa.RecordBatch], fingerprint: Fingerprint
) -> Iterator[Rows]:
    for rows in taken_apart(options, tables):
        fingerprint.add(rows)
        yield rows


def _compare(
    options: SinkOptions,
    batch: MicroBatch,
    task: int,
    marker: Marker,
    tables: Iterable[pa.RecordBatch],
) -> None:
    fingerprint = Fingerprint()
    for _ in _counted(options, tables, fingerprint):
        pass
    if str(fingerprint) != marker.note:
        raise OtherRows(
            f"{batch}: task {task} has committed its rows ({marker.note}) in a run that did not "
            f"come to its end, and has others now ({fingerprint}). {ADVICE}"
        )


def commit_batch(options: SinkOptions, batch_id: int, written: Sequence[Written]) -> None:
    """Commit what the tasks of a micro-batch have written; once more does no harm."""
    if not written:
        return
    batch = MicroBatch(written[0].query_id, batch_id)
    group = query_group(options, batch)
    with links(options) as (control, _):
        _refuse_other_tasks(control, options, batch, len(written))
        prepared = [each for each in written if each.prepared is not None]
        if prepared and prepared[0].first is not None:
            note = Marker(batch_id, f"{_TASKS}{len(written):09d}")  # the largest is read
            write_marker(control, group, prepared[0].first, note)
        for each in prepared:
            assert each.prepared is not None
            end(control, each.prepared, commit=True)


def _refuse_other_tasks(
    control: Cluster, options: SinkOptions, batch: MicroBatch, tasks: int
) -> None:
    """An earlier run may have had more tasks; what one of those committed is not in this run's."""
    note = read_marker(control, query_group(options, batch))
    if note is None or note.offset != batch.batch_id:
        return
    before = int(note.note.removeprefix(_TASKS))
    for task in range(tasks, before):
        marker = read_marker(control, task_id(options, batch, task))
        if marker is not None and marker.offset == batch.batch_id:
            raise OtherRows(
                f"{batch}: task {task} of {before} has committed its rows ({marker.note}) in a run "
                f"that did not come to its end; this run has {tasks} tasks. {ADVICE}"
            )


def abort_batch(options: SinkOptions, batch_id: int, written: Sequence[Written | None]) -> None:
    """Abort what the tasks of a micro-batch have written, as far as it is not committed."""
    known = [each.query_id for each in written if each is not None]
    if known:
        batch = MicroBatch(known[0], batch_id)
        abort(options, written, lambda task: task_id(options, batch, task))

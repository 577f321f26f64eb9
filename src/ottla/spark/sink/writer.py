"""What a task writes: tables of Arrow in, records in their topics, acknowledged by all in sync.

Without ``exactlyOnce`` a task that is run again writes its rows again, as with the connector; a
request that is sent again does not. With it the rows of a task are in a transaction that only the
driver commits: a batch job commits all of them when all its tasks are done, or none.

Connections are kept between tasks: Spark's workers live longer than a task.
"""

import atexit
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Final, NamedTuple

import pyarrow as pa

from ottla.client.cluster import Cluster
from ottla.client.errors import BrokerUnavailable
from ottla.common.chance import Chance
from ottla.common.errors import ApiError
from ottla.common.topic_partition import TopicPartition
from ottla.spark.codec import encoding_kernels as k
from ottla.spark.codec.encoding import BatchEncoder
from ottla.spark.codec.rows import Rows
from ottla.spark.sink.formatted_writes import formatted_rows
from ottla.spark.sink.options import SinkOptions
from ottla.spark.sink.produce import RawProducer
from ottla.spark.sink.transactions import (
    Marker,
    Prepared,
    Transaction,
    end,
    read_marker,
    write_marker,
)


class Written(NamedTuple):
    """What a task tells the driver."""

    task: int
    records: int
    prepared: Prepared | None = None
    """The transaction that is to be ended; None if there is none."""
    first: TopicPartition | None = None
    """Where its first records went, if it wrote any."""
    query_id: str = ""
    """Of a streaming query."""


class Links(NamedTuple):
    """Two sets of connections to one cluster: one to ask, one for batches on their way."""

    control: Cluster
    data: Cluster

    def close(self) -> None:
        self.control.close()
        self.data.close()


_KEPT: Final[dict[tuple[int, SinkOptions], list[Links]]] = {}
"""By process too: a worker that was forked must not speak on its parent's connections."""


@contextmanager
def links(options: SinkOptions) -> Iterator[Links]:
    """Connections for a task; whatever failed is not used again."""
    kept = _KEPT.setdefault((os.getpid(), options), [])
    taken = kept.pop() if kept else Links(options.cluster(), options.cluster())
    try:
        yield taken
    except BaseException:
        taken.close()
        raise
    kept.append(taken)


def disconnect() -> None:
    """Close all connections of this process that are not in use."""
    for kept in _KEPT.values():
        for each in kept:
            each.close()
    _KEPT.clear()


atexit.register(disconnect)


_LONG: Final = (1 << 64) - 1
OFFSETS_TOPIC: Final = "__consumer_offsets"
"""A topic that every cluster has by the time that a group is asked for its offsets."""


class Fingerprint:
    """Of rows, in whatever order: how many, and the sum of their hashes."""

    def __init__(self) -> None:
        self.rows = 0
        self._sum = 0

    def add(self, rows: Rows) -> None:
        self.rows += rows.count
        self._sum = self._sum + int(k.fingerprint(*rows.key, *rows.value)) & _LONG

    def __str__(self) -> str:
        return f"rows={self.rows} sum={self._sum:016x}"


def write(options: SinkOptions, task: int, tables: Iterable[pa.RecordBatch]) -> Written:
    """Write all rows; they are there for everybody when this returns."""
    with links(options) as (control, data):
        producer = RawProducer(control, data, options.delivery)
        _write_rows(options, producer, taken_apart(options, tables))
        return Written(task, producer.records)


class JobOver(RuntimeError):
    """A task whose job has failed meanwhile; Spark has not ended it yet."""


def job_task_id(job: str, task: int) -> str:
    """The transactional id of a task of a batch job."""
    return f"{job}-{task}"


def write_prepared(
    options: SinkOptions, job: str, task: int, tables: Iterable[pa.RecordBatch]
) -> Written:
    """Write all rows in a transaction, which is left open: committed records, once it is ended.

    A job that failed is marked as over before its ids are taken over: a task that takes its id back
    afterwards sees the mark, and one that had it before has lost it. So none is left open.
    """
    with links(options) as taken:
        transaction = Transaction(taken.control, job_task_id(job, task))
        transaction.begin(options.transaction_timeout_ms)
        if read_marker(taken.control, job) is not None:
            raise JobOver(f"job {job} has failed, task {task} writes nothing any more")
        return fill(options, taken, transaction, task, taken_apart(options, tables))


def taken_apart(options: SinkOptions, tables: Iterable[pa.RecordBatch]) -> Iterator[Rows]:
    if options.formats.values.raw():
        return (Rows(table, options.topic) for table in tables)
    return formatted_rows(options, tables)


def fill(
    options: SinkOptions,
    taken: Links,
    transaction: Transaction,
    task: int,
    tables: Iterable[Rows],
    *,
    before: Callable[[TopicPartition], None] = lambda _: None,
) -> Written:
    """Write rows in a transaction that has begun; aborted at once if that fails.

    ``before`` is called when all rows are written, and before anybody hears of it.
    """
    producer = RawProducer(taken.control, taken.data, options.delivery, transaction)
    try:
        first = _write_rows(options, producer, tables)
        if first is None:
            return Written(task, 0)
        before(first)
    except BaseException:
        # Readers would wait for it until its time is over. It may be another's by now, or unknown.
        with suppress(ApiError, BrokerUnavailable):
            end(taken.control, transaction.prepared, commit=False)
        raise
    return Written(task, producer.records, transaction.prepared, first)


def _write_rows(
    options: SinkOptions, producer: RawProducer, tables: Iterable[Rows]
) -> TopicPartition | None:
    """Answer where the first batch went."""
    encoder: BatchEncoder | None = None
    first: TopicPartition | None = None
    try:
        for rows in tables:
            if rows.count == 0:
                continue
            if encoder is None:  # a task without rows has nobody to ask for anything
                encoder = BatchEncoder(
                    options.batching,
                    producer.identify(),
                    producer.topic,
                    clock=options.clock,
                    chance=Chance(),
                )
            for batch in encoder.encode(rows):
                first = first or batch.target
                producer.send(batch)
        for batch in encoder.finish() if encoder is not None else ():
            first = first or batch.target
            producer.send(batch)
        producer.flush()
    finally:
        producer.close()
    return first


def commit(options: SinkOptions, written: Iterable[Written]) -> None:
    """End the transactions of a job's tasks, so that their records can be read."""
    with links(options) as (control, _):
        for each in written:
            if each.prepared is not None:
                end(control, each.prepared, commit=True)


def abort_job(options: SinkOptions, job: str, written: Sequence[Written | None]) -> None:
    """Abort a batch job; tasks that run on for a while, unknown to the driver, find it over."""
    told = [each.first.topic for each in written if each is not None and each.first is not None]
    topic = options.topic or (told[0] if told else OFFSETS_TOPIC)
    with links(options) as (control, _), suppress(ApiError, BrokerUnavailable):
        write_marker(control, job, TopicPartition(topic, 0), Marker(0, "over"))
    abort(options, written, partial(job_task_id, job))


def abort(
    options: SinkOptions, written: Sequence[Written | None], name: Callable[[int], str]
) -> None:
    """Abort the transactions of all tasks, by number; ``name`` tells their transactional ids.

    A task that was killed has told nothing and ended nothing: its id is taken over. What cannot be
    ended now is ended by the next owner of its id, or by time.
    """
    with links(options) as (control, _):
        for task, each in enumerate(written):
            with suppress(ApiError, BrokerUnavailable):
                if each is None:
                    Transaction(control, name(task)).begin(options.transaction_timeout_ms)
                elif each.prepared is not None:
                    end(control, each.prepared, commit=False)

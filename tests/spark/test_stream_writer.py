"""Micro-batches that crash at every request and are run again: each row is there once.

A crash is a request that is not sent, or one whose answer nobody reads; from then on the process
is dead and says nothing more. The next run has new connections and knows nothing.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.spark.committed import committed_values, visible_values
from tests.spark.test_writer import options, table
from tests.spark.topics import Topics

from ottla.client.connection import Connection
from ottla.common.errors import ApiError
from ottla.spark.sink.options import SinkOptions
from ottla.spark.sink.stream_writer import (
    MicroBatch,
    OtherRows,
    abort_batch,
    commit_batch,
    write_task,
)
from ottla.spark.sink.writer import Written, disconnect

TASKS = 2
ROWS = 6
_queries = count(1)


@pytest.fixture(scope="module", autouse=True)
def disconnected() -> Iterator[None]:
    yield
    disconnect()


class Crash(BaseException):
    pass


@contextmanager
def crash_at(request: int | None, *, answered: bool) -> Iterator[list[int]]:
    """Die at the request of that number: before it is sent, or when its answer has come."""
    send, receive = Connection.send, Connection.receive
    sent = [0]

    def sending(self: Connection, *args: Any, **named: Any) -> None:
        sent[0] += 1
        if request is not None and (sent[0] > request or (sent[0] == request and not answered)):
            raise Crash
        send(self, *args, **named)

    def receiving(self: Connection, *args: Any) -> Any:
        answer = receive(self, *args)
        if request is not None and sent[0] >= request:
            raise Crash
        return answer

    Connection.send, Connection.receive = (sending, receiving)  # type: ignore[method-assign, assignment]
    try:
        yield sent
    finally:
        Connection.send, Connection.receive = send, receive  # type: ignore[method-assign]
        disconnect()


def sink(topics: Topics, topic: str) -> SinkOptions:
    return options(topics.address, topic=topic, kafka_retry_backoff_ms="5", kafka_batch_size="150")


def new_query() -> str:
    return f"query-{next(_queries)}"


def rows(batch: MicroBatch, task: int) -> pa.RecordBatch:
    """The same whenever they are asked for."""
    first = (batch.batch_id * TASKS + task) * ROWS
    return table(first, first + ROWS)


def run(
    sink: SinkOptions, batch: MicroBatch, crash: int | None = None, *, answered: bool = False
) -> int | None:
    """One run of a micro-batch: how many requests it took, or None when it crashed."""
    with crash_at(crash, answered=answered) as sent:
        try:
            written = [write_task(sink, batch, task, [rows(batch, task)]) for task in range(TASKS)]
            commit_batch(sink, batch.batch_id, written)
        except Crash:
            return None
        return sent[0]


def values(batches: int) -> list[bytes]:
    return sorted(b"%d" % i for i in range(batches * TASKS * ROWS))


def test_a_micro_batch_is_visible_when_it_is_committed(topics: Topics) -> None:
    topic = topics.make(2)
    batch = MicroBatch(new_query(), 0)
    written = [write_task(sink(topics, topic), batch, task, [rows(batch, task)]) for task in (0, 1)]
    assert visible_values(topics.address, topic) == []
    commit_batch(sink(topics, topic), 0, written)
    assert committed_values(topics.address, topic) == values(1)


@pytest.mark.parametrize("answered", [False, True], ids=["before", "after"])
def test_a_crash_at_any_request_leaves_each_row_once(topics: Topics, answered: bool) -> None:
    topic = topics.make(2)
    needed = run(sink(topics, topic), MicroBatch(new_query(), 0))
    assert needed is not None
    topic = topics.make(2)
    runs = 0
    for crash in range(1, needed + 1):
        batch = MicroBatch(new_query(), 0)
        run(sink(topics, topic), batch, crash, answered=answered)
        assert run(sink(topics, topic), batch) is not None
        runs += 1
    assert committed_values(topics.address, topic) == sorted(values(1) * runs)


@settings(
    deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.tuples(st.integers(1, 40), st.booleans()), max_size=8), st.integers(1, 3))
def test_any_number_of_crashes_in_any_micro_batch_leaves_each_row_once(
    topics: Topics, crashes: list[tuple[int, bool]], batches: int
) -> None:
    topic = topics.make(2)
    query = new_query()
    remaining = iter(crashes)
    for batch_id in range(batches):
        batch = MicroBatch(query, batch_id)
        while True:
            crash, answered = next(remaining, (None, False))
            if run(sink(topics, topic), batch, crash, answered=answered) is not None:
                break
        if crash is not None:  # it was written whole, and the checkpoint lost
            assert run(sink(topics, topic), batch) is not None
    assert committed_values(topics.address, topic) == values(batches)


def half_committed(topics: Topics, tasks: Sequence[int], committed: int) -> tuple[str, MicroBatch]:
    """A run that crashed after the commit of one of its tasks."""
    topic = topics.make(2)
    batch = MicroBatch(new_query(), 3)
    to = sink(topics, topic)
    written = [write_task(to, batch, task, [rows(batch, task)]) for task in tasks]
    # The driver notes the number of its tasks, ends one transaction, and dies.
    others = [each._replace(prepared=None) for each in written if each.task != committed]
    commit_batch(to, 3, sorted([*others, written[committed]]))
    return topic, batch


def test_other_rows_of_a_task_that_is_committed_are_refused(topics: Topics) -> None:
    topic, batch = half_committed(topics, [0, 1], 0)
    with pytest.raises(OtherRows, match=r"micro-batch 3 of query .* task 0 .*rows=6.*rows=7"):
        write_task(sink(topics, topic), batch, 0, [table(0, 7)])
    with pytest.raises(OtherRows, match="the same in every run"):
        write_task(sink(topics, topic), batch, 0, [table(1, 7)])
    assert write_task(sink(topics, topic), batch, 0, [rows(batch, 0)]).records == 0


def test_the_order_of_rows_may_be_another(topics: Topics) -> None:
    topic, batch = half_committed(topics, [0, 1], 0)
    upside_down = rows(batch, 0).take(list(range(ROWS - 1, -1, -1)))
    assert write_task(sink(topics, topic), batch, 0, [upside_down]).records == 0


def test_fewer_tasks_than_before_are_refused_if_a_missing_one_was_committed(topics: Topics) -> None:
    topic, batch = half_committed(topics, [0, 1, 2], 2)
    to = sink(topics, topic)
    written = [write_task(to, batch, task, [rows(batch, task)]) for task in (0, 1)]
    with pytest.raises(
        OtherRows, match=r"task 2 of 3 has committed its rows.*this run has 2 tasks"
    ):
        commit_batch(to, 3, written)
    abort_batch(to, 3, written)
    written = [write_task(to, batch, task, [rows(batch, task)]) for task in (0, 1, 2)]
    commit_batch(to, 3, written)
    first = 3 * TASKS * ROWS
    wanted = sorted(b"%d" % i for i in range(first, first + 3 * ROWS))
    assert committed_values(topics.address, topic) == wanted


def test_of_several_runs_that_did_not_end_the_one_with_most_tasks_counts(topics: Topics) -> None:
    topic = topics.make(2)
    to, batch = sink(topics, topic), MicroBatch(new_query(), 0)

    def half_done(tasks: int, partition: int) -> None:
        """All are noted; the last is committed, and nothing else is."""
        last = table(tasks, tasks + 1).append_column("partition", pa.array([partition], pa.int32()))
        others = [Written(task, 0, query_id=batch.query_id) for task in range(tasks - 1)]
        commit_batch(to, 0, [*others, write_task(to, batch, tasks - 1, [last])])

    half_done(9, 0)
    half_done(10, 1)
    others = [Written(task, 0, query_id=batch.query_id) for task in range(9)]
    with pytest.raises(OtherRows, match="task 9 of 10 has committed its rows"):
        commit_batch(to, 0, others)


def test_fewer_tasks_are_fine_if_none_of_the_missing_was_committed(topics: Topics) -> None:
    topic = topics.make(2)
    to, batch = sink(topics, topic), MicroBatch(new_query(), 0)
    for task in (0, 1, 2):
        write_task(to, batch, task, [table(task, task + 1)])
    written = [write_task(to, batch, 0, [table(0, 2)]), write_task(to, batch, 1, [table(2, 3)])]
    commit_batch(to, 0, written)
    last = MicroBatch(batch.query_id, 0)
    leftover = write_task(to, last, 2, [])
    assert leftover.prepared is None
    assert committed_values(topics.address, topic) == [b"0", b"1", b"2"]


def test_a_checkpoint_older_than_the_topic_is_refused(topics: Topics) -> None:
    topic, batch = half_committed(topics, [0, 1], 0)
    with pytest.raises(OtherRows, match="has written micro-batch 3 already"):
        write_task(sink(topics, topic), MicroBatch(batch.query_id, 2), 0, [table(0, 1)])


def test_a_failed_micro_batch_leaves_nothing_open_and_ends_nothing_twice(topics: Topics) -> None:
    topic = topics.make(2)
    to, batch = sink(topics, topic), MicroBatch(new_query(), 0)
    written = [write_task(to, batch, task, [rows(batch, task)]) for task in (0, 1, 2)]
    abort_batch(to, 0, [written[0], None, None])
    assert committed_values(topics.address, topic) == []
    written = [write_task(to, batch, task, [rows(batch, task)]) for task in (0, 1)]
    commit_batch(to, 0, written)
    abort_batch(to, 0, written)
    abort_batch(to, 0, [None])
    assert committed_values(topics.address, topic) == values(1)


def test_a_driver_that_was_replaced_commits_nothing(topics: Topics) -> None:
    topic = topics.make(2)
    to, batch = sink(topics, topic), MicroBatch(new_query(), 0)
    old = [write_task(to, batch, task, [rows(batch, task)]) for task in (0, 1)]
    new = [write_task(to, batch, task, [rows(batch, task)]) for task in (0, 1)]
    with pytest.raises(ApiError, match="transactional id"):
        commit_batch(to, 0, old)
    commit_batch(to, 0, new)
    assert committed_values(topics.address, topic) == values(1)


def test_a_run_that_finds_everything_committed_writes_nothing(topics: Topics) -> None:
    topic = topics.make(2)
    to, batch = sink(topics, topic), MicroBatch(new_query(), 0)
    assert run(to, batch) is not None
    again = [write_task(to, batch, task, [rows(batch, task)]) for task in (0, 1)]
    assert again == [Written(0, 0, query_id=batch.query_id), Written(1, 0, query_id=batch.query_id)]
    commit_batch(to, 0, again)
    commit_batch(to, 0, [])
    assert committed_values(topics.address, topic) == values(1)

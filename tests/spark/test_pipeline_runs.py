"""How one flow and one view are looked after, without Spark: queries are told how they fare."""

import json
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ottla.spark.pipelines import state as states
from ottla.spark.pipelines.flow_run import FlowRun
from ottla.spark.pipelines.graph import Graph, Input
from ottla.spark.pipelines.model import Dataset, Flow, Kind, Pipeline, Place
from ottla.spark.pipelines.view_run import ViewRun

HERE = Place("f.py")
FLOW = Flow("f", "t", "SELECT 1", HERE)
PASSING = "java.net.ConnectException: refused"
LASTING = "ottla.spark.errors.DataLoss: gone"


class Hands:
    """A clock whose hands are moved."""

    now = 0.0

    def wall_ms(self) -> int:
        return int(self.now * 1000)

    def monotonic(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        self.now += seconds


class Told:
    def __init__(self, run_id: str, batch: int, rows: int) -> None:
        offsets = {"t": {"0": 10 * batch}}
        content = {"runId": run_id, "batchId": batch, "numInputRows": rows}
        source = {"latestOffset": json.dumps({"t": {"0": 10 * batch + 3}}), "endOffset": offsets}
        self.json = json.dumps({**content, "processedRowsPerSecond": 5.0, "sources": [source]})


class Query:
    """As much of Spark's as is looked at."""

    def __init__(self, number: int) -> None:
        self.run_id = f"run{number}"
        self.isActive = True
        self.recentProgress: list[Told] = []
        self.status = {"isTriggerActive": False, "message": "Initializing sources"}
        self.failed: str | None = None

    def exception(self) -> str | None:
        return self.failed

    def stop(self) -> None:
        self.isActive = False

    def fail(self, text: str) -> None:
        self.failed, self.isActive = text, False


class Started:
    """Hands out queries, and can be made to refuse."""

    def __init__(self) -> None:
        self.queries: list[Query] = []
        self.refusal: Exception | None = None

    def __call__(self, _: Flow) -> Any:
        if self.refusal is not None:
            raise self.refusal
        self.queries.append(Query(len(self.queries)))
        return self.queries[-1]


def flow_run(kind: Kind = Kind.SINK, *, once: bool = False) -> tuple[FlowRun, Started, Hands]:
    started, clock = Started(), Hands()
    run = FlowRun(FLOW, Dataset("t", kind, HERE), started, once=once, clock=clock)
    run.start()
    return run, started, clock


def test_rows_of_a_sink_are_counted_once_each() -> None:
    run, started, _ = flow_run()
    query = started.queries[0]
    query.recentProgress += [Told(query.run_id, 0, 5), Told(query.run_id, 1, 0)]
    assert run.look()
    assert (run.state.rows, run.state.batch, run.state.lag) == (5, 0, 3)
    assert not run.look()
    query.recentProgress.append(Told(query.run_id, 1, 7))
    assert run.look()
    assert (run.state.rows, run.state.batch, run.state.lag) == (12, 1, 3)
    assert run.state.rows_per_second == 5.0


def test_rows_of_a_table_are_those_that_it_took() -> None:
    run, started, _ = flow_run(Kind.TABLE)
    started.queries[0].recentProgress.append(Told("run0", 0, 5))
    run.look()
    assert run.state.rows == 0
    run.wrote(4)
    assert run.state.rows == 4


def test_a_flow_that_fails_comes_back_after_a_pause_that_doubles() -> None:
    run, started, clock = flow_run()
    for pause in (1, 2, 4):
        started.queries[-1].fail(PASSING)
        assert run.look()
        assert run.state.status == states.WAITING
        assert run.state.error == "ConnectException: refused"
        count = len(started.queries)
        clock.now += pause - 0.1
        assert not run.look()
        assert len(started.queries) == count
        clock.now += 0.2
        assert run.look()
        assert len(started.queries) == count + 1
        assert run.state.status == states.RUNNING
    assert run.state.restarts == 3
    started.queries[-1].recentProgress.append(Told("run3", 9, 1))
    run.look()
    started.queries[-1].fail(PASSING)
    run.look()
    clock.now += 1.1
    assert run.look(), "what went well meanwhile makes the pause short again"


def test_what_will_not_pass_ends_the_flow() -> None:
    run, started, clock = flow_run()
    started.queries[0].fail(LASTING)
    run.look()
    assert (run.state.status, run.is_over) == (states.FAILED, True)
    clock.now += 1_000
    assert not run.look()
    run.stop()
    assert run.state.status == states.FAILED


def test_a_flow_that_cannot_begin_is_tried_again_or_not() -> None:
    run, started, clock = flow_run()
    started.queries[0].fail(PASSING)
    run.look()
    clock.now += 2
    started.refusal = ConnectionError("away")
    run.look()
    assert run.state.status == states.WAITING
    clock.now += 2
    started.refusal = TypeError("wrong")
    run.look()
    assert run.state.status == states.FAILED


def test_once_through_ends_by_itself_or_after_three_attempts() -> None:
    run, started, clock = flow_run(once=True)
    started.queries[0].isActive = False
    run.look()
    assert run.state.status == states.FINISHED
    run, started, clock = flow_run(once=True)
    for _ in range(3):
        started.queries[-1].fail(PASSING)
        run.look()
        clock.now += 100
        run.look()
    assert run.state.status == states.FAILED
    assert len(started.queries) == 3


def test_a_batch_that_is_only_repeated_is_no_success() -> None:
    run, started, clock = flow_run(Kind.TABLE, once=True)
    for _ in range(3):
        run.wrote(0)
        started.queries[-1].fail(PASSING)
        run.look()
        clock.now += 100
        run.look()
    assert run.state.status == states.FAILED


def test_a_flow_begins_until_its_query_has_opened_its_sources() -> None:
    run, started, _ = flow_run()
    assert run.is_beginning()
    started.queries[0].status["message"] = "Waiting for data to arrive"
    assert not run.is_beginning()
    run.stop()
    assert not run.is_beginning()


def test_a_restart_begins_a_new_query_and_keeps_what_was_counted() -> None:
    run, started, _ = flow_run()
    started.queries[0].recentProgress.append(Told("run0", 0, 5))
    run.restart()
    assert not started.queries[0].isActive
    assert run.query is not None
    assert (run.state.status, run.state.rows) == (states.RUNNING, 5)
    run.stop()
    assert run.state.status == states.STOPPED


class AnyFlow(RuleBasedStateMachine):
    """A query runs exactly while the flow says so, and rows are counted once, whatever happens."""

    def __init__(self) -> None:
        super().__init__()
        self.run, self.started, self.clock = flow_run()
        self.rows = 0
        self.batch = 0

    @property
    def query(self) -> Query:
        return self.started.queries[-1]

    @precondition(lambda self: self.run.state.status == states.RUNNING)
    @rule(rows=st.integers(1, 9))
    def micro_batch(self, rows: int) -> None:
        if self.query.isActive:
            self.query.recentProgress.append(Told(self.query.run_id, self.batch, rows))
            self.rows += rows
            self.batch += 1

    @precondition(lambda self: self.run.state.status == states.RUNNING)
    @rule(text=st.sampled_from([PASSING, PASSING, PASSING, LASTING]))
    def fail(self, text: str) -> None:
        if self.query.isActive:
            self.query.fail(text)

    @rule(seconds=st.floats(0.1, 90))
    def look(self, seconds: float) -> None:
        self.clock.now += seconds
        self.run.look()

    @precondition(lambda self: self.run.state.status == states.RUNNING)
    @rule()
    def restart(self) -> None:
        self.run.restart()

    @invariant()
    def one_query_at_most(self) -> None:
        assert sum(query.isActive for query in self.started.queries) <= 1
        if self.run.state.status in {states.WAITING, states.FAILED}:
            assert not any(query.isActive for query in self.started.queries)

    @invariant()
    def rows_once(self) -> None:
        assert self.run.state.rows <= self.rows
        if self.run.state.status != states.RUNNING:
            assert self.run.state.rows == self.rows


TestAnyFlow = AnyFlow.TestCase


class AtOnce(Executor):
    """Does its work when it is told to."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Future[Any], Callable[[], Any]]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **_: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.waiting.append((future, lambda: fn(*args)))
        return future

    def work(self) -> None:
        for future, do in self.waiting:
            try:
                future.set_result(do())
            except Exception as error:  # noqa: BLE001 - the future tells it
                future.set_exception(error)
        self.waiting.clear()


class View:
    """A view of the table ``t``, and what is around it."""

    def __init__(self, reads: list[str]) -> None:
        self.clock, self.pool = Hands(), AtOnce()
        self.versions: dict[str, int] = {}
        self.error: Exception | None = None
        self.count = 0
        graph = Graph(
            {name: Dataset(name, Kind.TABLE, HERE) for name in [*reads, "v"]},
            {"v": Flow("v", "v", "SELECT 1", HERE)},
            {"v": {Input(name, streaming=False): None for name in reads}},
        )
        pipeline = Pipeline("p", Path(), "s", (), refresh_seconds=1, static_refresh_seconds=30)
        self.run = ViewRun(graph.flows["v"], pipeline, graph, self.refresh, clock=self.clock)

    def refresh(self, _: Flow) -> int:
        self.clock.now += 2
        if self.error is not None:
            raise self.error
        self.count += 1
        return 7

    def step(self) -> bool:
        """Whether it was due."""
        due = self.run.is_due(self.versions)
        if due:
            self.run.begin(self.versions, self.pool)
            assert not self.run.is_due(self.versions)
            self.pool.work()
        self.run.look()
        return due


def test_a_view_is_computed_when_it_begins_and_when_its_input_has_changed() -> None:
    view = View(["t"])
    assert view.step()
    assert (view.run.state.rows, view.run.state.batch_seconds) == (7, 2)
    view.clock.now += 100
    assert not view.step()
    view.versions["other"] = 1
    assert not view.step()
    view.versions["t"] = 1
    assert view.step()
    assert view.run.state.batch == 1


def test_a_view_rests_as_long_as_it_took() -> None:
    view = View(["t"])
    view.step()
    view.versions["t"] = 1
    view.clock.now += 1.9
    assert not view.step()
    view.clock.now += 0.2
    assert view.step()


def test_what_changes_while_a_view_is_computed_makes_it_due_again() -> None:
    view = View(["t"])
    view.run.begin(view.versions, view.pool)
    view.versions["t"] = 1
    view.pool.work()
    view.run.look()
    view.clock.now += 5
    assert view.step()


def test_a_view_of_what_cannot_tell_of_changes_is_computed_now_and_then() -> None:
    view = View([])
    view.step()
    view.clock.now += 20
    assert not view.step()
    view.clock.now += 20
    assert view.step()


@pytest.mark.parametrize(
    ("error", "status"), [(OSError("away"), states.WAITING), (TypeError("no"), states.FAILED)]
)
def test_a_view_that_fails_is_computed_again_if_that_can_help(
    error: Exception, status: str
) -> None:
    view = View(["t"])
    view.error = error
    view.step()
    assert view.run.state.status == status
    assert view.run.state.error == f"{type(error).__name__}: {error}"
    view.error = None
    view.clock.now += 1.1
    assert view.step() is (status == states.WAITING)
    assert view.run.state.restarts == int(status == states.WAITING)

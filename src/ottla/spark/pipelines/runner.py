"""Runs a pipeline: starts its flows, keeps them running, and tells how they are.

Everything is evaluated before anything is started, so that mistakes in the definitions are found
while nothing is written yet. Then one loop looks after all: flows (:mod:`flow_run`), views
(:mod:`view_run`), the state file, the wish to stop.
"""

import logging
import os
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.client.system_time import SystemTime, WaitingClock
from ottla.common.clock import Clock
from ottla.spark.pipelines import state as states
from ottla.spark.pipelines.cleaning import Cleaning
from ottla.spark.pipelines.definitions import define
from ottla.spark.pipelines.evaluation import Evaluation
from ottla.spark.pipelines.failures import brief, may_pass, pause_seconds, text_of
from ottla.spark.pipelines.flow_run import FlowRun
from ottla.spark.pipelines.followers import Followers
from ottla.spark.pipelines.graph import ROWS, Graph
from ottla.spark.pipelines.hadoop_files import Directories
from ottla.spark.pipelines.model import Dataset, Flow, Kind, Pipeline
from ottla.spark.pipelines.queries import Queries
from ottla.spark.pipelines.sessions import BOOTSTRAP, open_session
from ottla.spark.pipelines.state import RunState
from ottla.spark.pipelines.stored import StoredTables
from ottla.spark.pipelines.view_run import ViewRun
from ottla.spark.pipelines.views import STAGING, Views

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REFRESHING: Final = "refreshing"
"""A file in the storage while tables and checkpoints are forgotten."""
EVERY_SECONDS: Final = 0.2
ATTEMPTS: Final = 3
BEGIN_SECONDS: Final = 10.0
STOP_SECONDS: Final = 10.0
"""How long a micro-batch may take to end by itself when the run is to stop."""

_SYSTEM: Final = SystemTime()
_log = logging.getLogger(__name__)

Show = Callable[[RunState], None]


def run(
    pipeline: Pipeline,
    *,
    master: str = "local[*]",
    once: bool = False,
    refresh: bool = False,
    conf: Mapping[str, str] | None = None,
    show: Show = lambda _: None,
    clock: WaitingClock = _SYSTEM,
    stop: threading.Event | None = None,
    spark: "SparkSession | None" = None,
) -> RunState:
    """Until it is stopped, by ``stop`` or by ``ottla pipeline stop``; or ``once`` through.

    ``refresh`` forgets tables and checkpoints first. A session that is given is left open.
    Raises PipelineError for mistakes in the files; how flows fared is in the state.
    """
    directory = pipeline.state_directory
    with states.RunLock(directory):
        state = RunState(pipeline.name, uuid.uuid4().hex, os.getpid(), master, clock.wall_ms())
        telling = _Telling(directory, state, show, clock)
        session = spark
        try:
            if session is None:
                telling.step("Spark")
                session = open_session(pipeline, master, conf or {})
            session.conf.set(BOOTSTRAP, pipeline.bootstrap_servers)
            telling.step("definitions")
            made = _Run(pipeline, session, telling, once, stop or threading.Event(), clock)
            try:
                made.prepare(refresh=refresh)
                made.once() if once else made.keep_running()
            finally:
                made.stop_flows()
        except BaseException as error:
            state.error = brief(text_of(error))
            telling.now(states.FAILED)
            raise
        finally:
            if session is not None and spark is None:
                session.stop()
        return state


class _Telling:
    """The state, to the file and to the callback."""

    def __init__(self, directory: Path, state: RunState, show: Show, clock: Clock) -> None:
        self._clock = clock
        self._directory = directory
        self._show = show
        self.state = state

    def step(self, step: str) -> None:
        """What is done until it runs: on a slow machine that takes minutes."""
        _log.info("%s: %s: %s", self.state.pipeline, self.state.status, step)
        self.state.step = step
        self.now()

    def now(self, status: str | None = None) -> None:
        if status is not None:
            self.state.status, self.state.step = status, None
        self.state.updated_ms = self._clock.wall_ms()
        states.write(self._directory, self.state)
        self._show(self.state)


class _Run:
    def __init__(
        self,
        pipeline: Pipeline,
        spark: "SparkSession",
        telling: _Telling,
        once: bool,
        stop: threading.Event,
        clock: WaitingClock,
    ) -> None:
        self._clock = clock
        self._pipeline = pipeline
        self._spark = spark
        self._telling = telling
        self._is_once = once
        self._stop = stop
        self._graph: Graph = define(pipeline, spark)
        self._tables = StoredTables(pipeline)
        self._evaluation = Evaluation(pipeline, self._graph, self._tables, spark)
        self._queries = Queries(pipeline, self._graph, self._tables, self._evaluation, self._wrote)
        followers = Followers(pipeline, self._graph, Directories(spark))
        stored = (pipeline, self._graph, self._tables)
        self._views = Views(*stored, self._evaluation, spark, followers)
        self._cleaning = Cleaning(*stored, self._views, followers, clock, self._wants_to_stop)
        self._versions: Counter[str] = Counter()
        self._flow_runs: dict[str, FlowRun] = {}
        self._view_runs: dict[str, ViewRun] = {}
        self._started_with: dict[str, dict[str, int]] = {}
        self._filled: set[str] = set()
        """Tables that flows read whole, with rows of earlier runs."""

    def prepare(self, *, refresh: bool) -> None:
        """Evaluate all, and set up what looks after each."""
        for dataset in self._graph.datasets.values():
            if dataset.is_stored:
                self._tables.check(dataset)
        files = Directories(self._spark)
        marker = self._pipeline.address(REFRESHING)
        if refresh or files.exists(marker):
            files.create(marker)  # a crash here has forgotten one half, which would not fit
            self._forget(files)
            files.delete(marker)
        for flow in list(self._graph.flows.values()):
            self._telling.step(f"plan of {flow.name}")
            self._evaluate(flow)
        self._graph.put_tables_before_sinks()
        start = partial(self._queries.start, once=self._is_once)
        for flow in self._graph.order():
            target = self._graph.datasets[flow.target]
            if target.kind is Kind.TEMPORARY:
                continue
            if target.kind is Kind.VIEW:
                view = ViewRun(flow, self._pipeline, self._graph, self._views.refresh)
                self._view_runs[flow.name] = view
                self._telling.state.flows[flow.name] = view.state
            else:
                run = FlowRun(flow, target, start, once=self._is_once)
                self._flow_runs[flow.name] = run
                self._telling.state.flows[flow.name] = run.state

    def _evaluate(self, flow: Flow) -> None:
        """See what a flow reads; what may pass has some time to do so."""
        for failures in range(1, ATTEMPTS + 1):
            try:
                with self._evaluation.frame_of(flow):
                    return
            except Exception as error:
                if failures == ATTEMPTS or not may_pass(text_of(error)):
                    raise
                self._stop.wait(pause_seconds(failures))

    def _forget(self, files: Directories) -> None:
        between = [
            Dataset(f"{flow.name}{ROWS}", Kind.TABLE, flow.place)
            for flow in self._graph.flows.values()
            if self._graph.datasets[flow.target].kind is Kind.SINK
        ]
        for dataset in (*self._graph.datasets.values(), *between):
            if dataset.is_stored:
                self._tables.open(dataset).drop()
        for name in ("tables", "checkpoints", STAGING):
            files.delete(self._pipeline.address(name))

    def _wrote(self, flow: Flow, rows: int) -> None:
        """From the threads of queries."""
        self._flow_runs[flow.name].wrote(rows)
        if rows:
            self._versions[flow.target] += 1

    def _wants_to_stop(self) -> bool:
        state = self._telling.state
        return self._stop.is_set() or states.is_asked_to_stop(
            self._pipeline.state_directory, state.run_id
        )

    def keep_running(self) -> None:
        whole = {name for flow in self._flow_runs for name in self._graph.reads_whole(flow)}
        self._filled = {name for name in sorted(whole) if self._has_rows(name)}
        for run in self._flow_runs.values():
            if self._has_inputs(run) and not self._wants_to_stop():
                self._telling.step(f"first batch of {run.flow.name}")
                self._start(run)
                self._let_begin(run)
        self._telling.now(states.RUNNING)
        with ThreadPoolExecutor(1, "views") as pool:
            while not self._wants_to_stop() and not self._all_failed():
                changed = [self._look(run) for run in self._flow_runs.values()]
                changed += [self._look_at_view(view, pool) for view in self._view_runs.values()]
                if any(changed):
                    self._telling.now()
                self._cleaning.begin_if_due(pool)
                self._stop.wait(EVERY_SECONDS)
            self._telling.now(states.STOPPING)
            self.stop_flows()
        for view in self._view_runs.values():
            view.look()
            view.end(states.STOPPED)
        self._telling.now(states.FAILED if self._all_failed() else states.STOPPED)

    def _all_failed(self) -> bool:
        flows = self._telling.state.flows.values()
        return all(flow.status == states.FAILED for flow in flows)

    def once(self) -> None:
        """Each flow until it has done what was there when it began, those before it first."""
        self._telling.now(states.RUNNING)
        with ThreadPoolExecutor(1, "views") as pool:
            for flow in self._graph.order():
                if self._wants_to_stop():
                    break
                if flow.name in self._flow_runs:
                    self._finish(self._flow_runs[flow.name])
                elif flow.name in self._view_runs:
                    self._finish_view(self._view_runs[flow.name], pool)
        self.stop_flows()
        self._cleaning.clean()
        flows = self._telling.state.flows.values()
        failed = any(flow.status == states.FAILED for flow in flows)
        over = all(flow.status == states.FINISHED for flow in flows)
        ended = states.FAILED if failed else states.FINISHED if over else states.STOPPED
        self._telling.now(ended)

    def _finish(self, run: FlowRun) -> None:
        run.start()
        while not run.is_over and not self._wants_to_stop():
            if run.look():
                self._telling.now()
            self._stop.wait(EVERY_SECONDS / 4)

    def _finish_view(self, view: ViewRun, pool: ThreadPoolExecutor) -> None:
        while not view.gave_up and not self._wants_to_stop():
            if view.is_due(self._versions):
                view.begin(self._versions, pool)
            if view.look() is not None:
                view.end(states.FINISHED)
                self._versions[view.flow.target] += 1
                break
            self._stop.wait(EVERY_SECONDS / 4)
        if view.gave_up:
            view.state.status = states.FAILED
        self._telling.now()

    def _has_inputs(self, run: FlowRun) -> bool:
        """Whether a flow may begin: what it reads whole has been written to, or will not be soon.

        The first rows of a stream that is joined with a new table would find nothing there.
        """
        return all(
            name in self._filled
            or self._versions[name]
            or all(self._has_nothing(flow) for flow in self._graph.writers(name))
            for name in self._graph.reads_whole(run.flow.name)
        )

    def _has_rows(self, name: str) -> bool:
        dataset = self._graph.datasets[name]
        if not dataset.is_stored:
            return True
        return not self._tables.open(dataset).read(self._spark).isEmpty()

    def _has_nothing(self, writer: Flow) -> bool:
        """Whether nothing is to be expected of it for now."""
        if writer.name in self._view_runs:
            return self._view_runs[writer.name].state.status == states.FAILED
        run = self._flow_runs.get(writer.name)
        return run is not None and (run.is_over or run.waits_for_data())

    def _start(self, run: FlowRun) -> None:
        self._started_with[run.flow.name] = self._whole_inputs(run.flow)
        run.start()

    def _let_begin(self, run: FlowRun) -> None:
        """Wait a moment: each flow starts processes, and Spark gives these ten seconds."""
        until = self._clock.monotonic() + BEGIN_SECONDS
        while run.is_beginning() and self._clock.monotonic() < until and not self._stop.is_set():
            self._stop.wait(EVERY_SECONDS / 4)

    def _look(self, run: FlowRun) -> bool:
        if run.flow.name not in self._started_with:
            if not self._has_inputs(run):
                return False
            self._start(run)
        read = self._whole_inputs(run.flow)
        began = run.started_at
        changed = run.look()
        if run.started_at != began:  # it had failed
            self._started_with[run.flow.name] = read
        if run.query is None or read == self._started_with[run.flow.name]:
            return changed
        waited = self._clock.monotonic() - run.started_at
        patience = self._pipeline.static_refresh_seconds
        # Better between two micro-batches, but a flow that never rests is not waited for.
        if (waited >= patience and run.is_idle()) or waited >= 2 * patience:
            self._started_with[run.flow.name] = read
            run.restart()
            return True
        return changed

    def _whole_inputs(self, flow: Flow) -> dict[str, int]:
        """What a flow reads whole, and how often that was written to."""
        return {name: self._versions[name] for name in self._graph.reads_whole(flow.name)}

    def _look_at_view(self, view: ViewRun, pool: ThreadPoolExecutor) -> bool:
        before = (view.state.status, view.state.batch)
        if view.look() is not None:
            self._versions[view.flow.target] += 1
        if view.is_due(self._versions):
            view.begin(self._versions, pool)
        return before != (view.state.status, view.state.batch)

    def stop_flows(self) -> None:
        """Let micro-batches end, so that the next run need not repeat them; not forever.

        Nothing happens to flows that are over.
        """
        until = self._clock.monotonic() + STOP_SECONDS
        for run in self._flow_runs.values():
            while not run.is_idle() and self._clock.monotonic() < until:
                threading.Event().wait(0.02)
            run.stop()

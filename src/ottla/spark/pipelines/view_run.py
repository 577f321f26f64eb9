"""One materialized view while its pipeline runs: when it is computed anew, and how that went.

It is due when something that it reads has changed since it was computed, but rests at least as long
as it took the last time. What comes from outside the pipeline cannot tell of changes: a view that
reads nothing else is computed anew now and then.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from typing import Final

from ottla.client.system_time import SystemTime
from ottla.common.clock import Clock
from ottla.spark.pipelines.failures import brief, may_pass, pause_seconds, text_of
from ottla.spark.pipelines.graph import Graph
from ottla.spark.pipelines.model import Flow, Kind, Pipeline
from ottla.spark.pipelines.state import FAILED, FINISHED, RUNNING, STOPPED, WAITING, FlowState

Versions = Mapping[str, int]
"""How often each dataset was written to."""
ONCE_ATTEMPTS: Final = 3
_SYSTEM: Final = SystemTime()


class ViewRun:
    def __init__(
        self,
        flow: Flow,
        pipeline: Pipeline,
        graph: Graph,
        refresh: Callable[[Flow], int],
        *,
        clock: Clock = _SYSTEM,
    ) -> None:
        self.flow = flow
        self.state = FlowState(flow.name, flow.target, Kind.VIEW.value)
        self._pipeline = pipeline
        self._graph = graph
        self._refresh = refresh
        self._clock = clock
        self._seen: dict[str, int] | None = None
        self._working: Future[int] | None = None
        self._began = 0.0
        self._not_before = 0.0
        self._failures = 0

    def is_due(self, versions: Versions) -> bool:
        if self._working is not None or self.state.status in {FAILED, STOPPED, FINISHED}:
            return False
        if self._clock.monotonic() < self._not_before:
            return False
        if self._seen is None or self.state.status == WAITING:
            return True
        read = self._now(versions)
        if not read:
            return self._clock.monotonic() - self._began >= self._pipeline.static_refresh_seconds
        return read != self._seen

    def begin(self, versions: Versions, pool: Executor) -> None:
        self._seen = self._now(versions)
        self._began = self._clock.monotonic()
        self.state.restarts += self.state.status == WAITING
        self._working = pool.submit(self._refresh, self.flow)

    def look(self) -> int | None:
        """The rows of a computation that has just ended well."""
        if self._working is None or not self._working.done():
            return None
        error = self._working.exception()
        working, self._working = self._working, None
        took = self._clock.monotonic() - self._began
        if error is not None:
            self._fail(error)
            return None
        self._failures = 0
        rows = working.result()
        state = self.state
        state.status, state.rows, state.batch_seconds = RUNNING, rows, took
        state.rows_per_second = rows / took if took > 0 else 0.0
        state.batch = 0 if state.batch is None else state.batch + 1
        state.updated_ms = self._clock.wall_ms()
        self._not_before = self._clock.monotonic() + max(took, self._pipeline.refresh_seconds)
        return rows

    @property
    def gave_up(self) -> bool:
        return self._failures >= ONCE_ATTEMPTS or self.state.status == FAILED

    def end(self, status: str) -> None:
        if self.state.status != FAILED:
            self.state.status = status

    def _now(self, versions: Versions) -> dict[str, int]:
        inside = [
            each.dataset
            for each in self._graph.stored_inputs(self.flow.name)
            if self._graph.datasets[each.dataset].is_stored
        ]
        return {name: versions.get(name, 0) for name in inside}

    def _fail(self, error: BaseException) -> None:
        self._failures += 1
        text = text_of(error)
        self.state.error, self.state.error_ms = brief(text), self._clock.wall_ms()
        self.state.rows_per_second = 0.0
        self.state.status = WAITING if may_pass(text) else FAILED
        self._not_before = self._clock.monotonic() + pause_seconds(self._failures)

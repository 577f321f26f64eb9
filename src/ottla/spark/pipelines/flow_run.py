"""One flow while its pipeline runs: its query, its figures, its failures.

A query that fails is started again after a pause that doubles (:mod:`failures`), unless the cause
will not pass; its checkpoint leads it on. Other flows do not notice.
"""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ottla.client.system_time import SystemTime
from ottla.common.clock import Clock
from ottla.spark.pipelines.failures import brief, may_pass, pause_seconds, text_of
from ottla.spark.pipelines.model import Dataset, Flow, Kind
from ottla.spark.pipelines.progress import parse
from ottla.spark.pipelines.state import FAILED, FINISHED, RUNNING, STOPPED, WAITING, FlowState

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

ONCE_ATTEMPTS: Final = 3
WAITS: Final = "Waiting for data"
"""Spark's own words for a query that found nothing new."""
INITIALIZING: Final = "Initializing sources"
"""What a query of Spark says at first."""
_SYSTEM: Final = SystemTime()


class FlowRun:
    def __init__(
        self,
        flow: Flow,
        target: Dataset,
        start: Callable[[Flow], "StreamingQuery"],
        *,
        once: bool,
        clock: Clock = _SYSTEM,
    ) -> None:
        self.flow = flow
        self.state = FlowState(flow.name, flow.target, target.kind.value)
        self.query: StreamingQuery | None = None
        self.started_at = 0.0
        self._counts_rows = target.kind is Kind.SINK
        self._start = start
        self._once = once
        self._clock = clock
        self._failures = 0
        self._not_before = 0.0
        self._counted: tuple[str, int] = ("", -1)

    @property
    def is_over(self) -> bool:
        return self.state.status in {FAILED, FINISHED, STOPPED}

    def start(self) -> None:
        """Begin, or go on from the checkpoint."""
        self.started_at = self._clock.monotonic()
        try:
            self.query = self._start(self.flow)
        except Exception as error:  # noqa: BLE001 - other flows go on
            self._fail(text_of(error))
        else:
            self.state.status = RUNNING
            self.state.updated_ms = self._clock.wall_ms()

    def look(self) -> bool:
        """See what became of it; whether something has changed."""
        if self.is_over:
            return False
        if self.query is None:
            if self._clock.monotonic() < self._not_before:
                return False
            self.state.restarts += 1
            self.start()
            return True
        changed = self._progress(self.query)
        if self.query.isActive:
            return changed
        error = self.query.exception()
        changed = self._progress(self.query) or changed
        self.query = None
        if error is not None:
            self._fail(str(error))
        else:
            self.state.status = FINISHED if self._once else STOPPED
        return True

    def wrote(self, rows: int) -> None:
        """Told by the query itself, from its own thread."""
        self.state.rows += rows
        self.state.updated_ms = self._clock.wall_ms()
        if rows:  # a batch that is only repeated is no success: it may fail behind this for ever
            self._failures = 0

    def is_beginning(self) -> bool:
        """Its sources are not open yet."""
        query = self.query
        return query is not None and query.isActive and query.status["message"] == INITIALIZING

    def is_idle(self) -> bool:
        """Between two micro-batches."""
        return self.query is None or not self.query.status["isTriggerActive"]

    def waits_for_data(self) -> bool:
        """Whether it has looked, and there was nothing."""
        return self.query is not None and self.query.status["message"].startswith(WAITS)

    def restart(self) -> None:
        """To read anew what it reads whole."""
        self._stop_query()
        self.start()

    def stop(self) -> None:
        """Its micro-batch is over, or will be run again from the start by the next run."""
        self._stop_query()
        if not self.is_over:
            self.state.status = STOPPED

    def _stop_query(self) -> None:
        if self.query is None:
            return
        try:
            self.query.stop()
        except Exception as error:  # noqa: BLE001 - a query that hangs ends with the session
            self.state.error = brief(str(error))
        self._progress(self.query)
        self.query = None

    def _progress(self, query: "StreamingQuery") -> bool:
        """Take over the figures of micro-batches that were not seen yet."""
        changed = False
        for told in query.recentProgress:
            progress = parse(json.loads(told.json))
            run_id, batch = self._counted
            if progress.run_id == run_id and progress.batch <= batch:
                continue
            if not progress.rows:  # nothing came; the number of the batch is not used up
                changed = self._idle(progress.lag) or changed
                continue
            self._counted = (progress.run_id, progress.batch)
            state = self.state
            state.batch, state.batch_seconds = progress.batch, progress.seconds
            state.rows_per_second, state.lag = progress.rows_per_second, progress.lag
            if self._counts_rows:
                self.wrote(progress.rows)
            changed = True
        return changed

    def _idle(self, lag: int | None) -> bool:
        before = (self.state.rows_per_second, self.state.lag)
        self.state.rows_per_second = 0.0
        self.state.lag = lag if lag is not None else self.state.lag
        return before != (self.state.rows_per_second, self.state.lag)

    def _fail(self, text: str) -> None:
        self._failures += 1
        self.query = None
        self.state.error, self.state.error_ms = brief(text), self._clock.wall_ms()
        self.state.rows_per_second = 0.0
        gives_up = self._once and self._failures >= ONCE_ATTEMPTS
        self.state.status = FAILED if gives_up or not may_pass(text) else WAITING
        self._not_before = self._clock.monotonic() + pause_seconds(self._failures)

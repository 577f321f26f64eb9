"""What nobody needs any more goes now and then: old versions and commits, changes that were read.

It is done in the thread that computes views, so that nothing is told meanwhile and followers can
come to the end of what was; they are waited for a moment only, since views wait too.
"""

import logging
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Final

from ottla.client.system_time import WaitingClock
from ottla.spark.pipelines.followers import NOTHING, Followers
from ottla.spark.pipelines.graph import Graph
from ottla.spark.pipelines.model import Dataset, Kind, Pipeline
from ottla.spark.pipelines.stored import StoredTables
from ottla.spark.pipelines.views import Views

FOLLOW_SECONDS: Final = 10.0
FOLLOW_SHARE: Final = 0.1
"""Of the time between two cleanings, at most."""
TRIM_SECONDS: Final = 6 * 60 * 60.0
_EVERY_SECONDS: Final = 0.2
_log = logging.getLogger(__name__)


class Cleaning:
    def __init__(
        self,
        pipeline: Pipeline,
        graph: Graph,
        tables: StoredTables,
        views: Views,
        followers: Followers,
        clock: WaitingClock,
        wants_to_stop: Callable[[], bool],
    ) -> None:
        self._every = pipeline.keep_seconds
        self._graph = graph
        self._tables = tables
        self._views = views
        self._followers = followers
        self._clock = clock
        self._wants_to_stop = wants_to_stop
        self._not_before = clock.monotonic() + self._every
        self._trim_not_before = 0.0
        self._working: Future[None] | None = None

    def begin_if_due(self, pool: Executor) -> None:
        if self._working is not None and not self._working.done():
            return
        if self._clock.monotonic() >= self._not_before:
            self._not_before = self._clock.monotonic() + self._every
            self._working = pool.submit(self.clean, min(FOLLOW_SECONDS, FOLLOW_SHARE * self._every))

    def clean(self, patience: float = 0) -> None:
        """Followers of each view have so many seconds to read what was just told."""
        trims = self._clock.monotonic() >= self._trim_not_before
        if trims:
            self._trim_not_before = self._clock.monotonic() + TRIM_SECONDS
        for dataset in list(self._graph.datasets.values()):
            if not dataset.is_stored or self._wants_to_stop():
                continue
            try:
                if self._graph.is_rewritten(dataset):
                    self._clean(dataset, patience)
                elif trims:
                    self._trim(dataset)
            except Exception as error:  # noqa: BLE001 - next time, perhaps
                _log.warning("table %s could not be cleaned: %s", dataset.name, error)

    def _trim(self, dataset: Dataset) -> None:
        read = self._followers.read_by_all(dataset.name, dataset.name)
        if read is None or read > NOTHING:
            self._tables.trim(dataset, read)

    def _clean(self, dataset: Dataset, patience: float) -> None:
        self._tables.clean(dataset)
        if dataset.kind is not Kind.VIEW:
            return
        until = self._clock.monotonic() + patience
        while not self._views.forget_read(dataset) and self._clock.monotonic() < until:
            if self._wants_to_stop():
                return
            self._clock.wait(_EVERY_SECONDS)

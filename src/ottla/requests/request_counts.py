"""Requests by API: how many of which version, and how long they take.

Each request is counted, which costs the hot way one addition. Of Produce and Fetch each sixteenth
is timed, of the others each one.
"""

from functools import partial
from typing import Any, Final

from ottla.common.clock import Clock
from ottla.common.promise import Promise
from ottla.observability.metrics import Histogram
from ottla.protocol.api import APIS

TIMED_EACH: Final = 16
"""Of Produce and Fetch."""


class RequestCounts:
    """Of one API; times are in microseconds."""

    __slots__ = ("by_version", "local", "now", "remote", "total")

    def __init__(self, key: int, clock: Clock) -> None:
        self.by_version = [0] * (APIS[key].highest_stable_version + 1)
        self.now = clock.monotonic
        self.total = Histogram(1000)
        self.local = Histogram(1000)
        """Until its handler had done what it can at once."""
        self.remote = Histogram(1000)
        """Then, until what it waited for was there: other replicas, a commit, records."""

    def timed(self, began: float, answered: Any) -> None:
        """Note how long a request has taken, or takes until its promise is kept."""
        ended = self.now()
        self.local.record(int((ended - began) * 1_000_000))
        if isinstance(answered, Promise) and not answered.done:
            answered.when_done(partial(self._kept, began, ended))
        else:
            self._finish(began, ended, ended)

    def _kept(self, began: float, waited_from: float, _: Promise[Any]) -> None:
        self._finish(began, waited_from, self.now())

    def _finish(self, began: float, waited_from: float, ended: float) -> None:
        self.remote.record(int((ended - waited_from) * 1_000_000))
        self.total.record(int((ended - began) * 1_000_000))

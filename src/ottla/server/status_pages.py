"""What a node shows of itself over HTTP: its metrics, whether it lives, whether it is ready.

``/healthz`` is for who would restart the process: the answer itself shows that its loop turns. A
log directory that is offline is told, and is no reason: a restart heals no disk, and would take
away what the others have. ``/readyz`` is for who sends clients: 503 says in words what the node
waits for.
"""

import json
from collections.abc import Callable, Iterator
from typing import Final

from ottla.network.http_connection import HttpPage, text_page
from ottla.network.http_request import HttpRequest
from ottla.observability.exposition import CONTENT_TYPE, slices
from ottla.observability.metrics import Registry
from ottla.observability.names import Dialect
from ottla.server.condition import Condition

PATHS: Final = ("/metrics", "/healthz", "/readyz")
JSON: Final = "application/json"


class StatusPages:
    """``now`` bounds how long a slice of a page may take."""

    def __init__(
        self,
        registry: Registry,
        *,
        node_id: int,
        series_max: int,
        now: Callable[[], float],
        health: Callable[[], Condition],
        readiness: Callable[[], Condition],
    ) -> None:
        self._registry = registry
        self._node_id = node_id
        self._series_max = series_max
        self._now = now
        self._health = health
        self._readiness = readiness

    def answer(self, request: HttpRequest) -> HttpPage:
        if request.path == "/metrics":
            return self._metrics(request)
        if request.path == "/healthz":
            return condition_page(request, self._health(), node_id=self._node_id)
        if request.path == "/readyz":
            return condition_page(request, self._readiness(), node_id=self._node_id)
        return text_page(404, f"there are {', '.join(PATHS)}\n")

    def _metrics(self, request: HttpRequest) -> HttpPage:
        wanted = request.parameter("dialect")
        try:
            dialect = Dialect.STRIMZI if wanted is None else Dialect(wanted)
        except ValueError:
            known = ", ".join(each.value for each in Dialect)
            return text_page(400, f"no such dialect; there are {known}\n")
        made = slices(self._registry, self._now, dialect, self._series_max)
        return HttpPage(200, CONTENT_TYPE, _encoded(made))


def condition_page(request: HttpRequest, condition: Condition, **facts: object) -> HttpPage:
    """200 or 503, in words; as JSON for who asks for it."""
    status = 200 if condition.is_well else 503
    if JSON in request.accept:
        found = {
            "status": "ok" if condition.is_well else "unavailable",
            **facts,
            "reasons": condition.reasons,
            "warnings": condition.warnings,
        }
        return text_page(status, json.dumps(found) + "\n", JSON)
    lines = condition.reasons or ("ok",)
    warnings = (f"warning: {each}" for each in condition.warnings)
    return text_page(status, "".join(f"{line}\n" for line in (*lines, *warnings)))


def _encoded(made: Iterator[str]) -> Iterator[bytes]:
    return (each.encode("utf-8") for each in made)

"""All processes of a machine on one page: their metrics, and how each of them is.

Each line of a process's page gets a label with its node. A process that is not there, or does not
answer in time, costs the others nothing: it is shown as down.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

from ottla.common.environment import Scheduler
from ottla.common.promise import Promise
from ottla.network.http_connection import HttpPage, text_page
from ottla.network.http_request import HttpRequest
from ottla.network.web_fetch import FetchFailed, fetch
from ottla.observability.exposition import CONTENT_TYPE
from ottla.observability.names import Dialect
from ottla.server.condition import Condition
from ottla.server.status_pages import PATHS, condition_page

PAGE_BYTES_MAX: Final = 64 << 20
UP: Final = "ottla_process_up"
RESTARTS: Final = "ottla_process_restarts_total"
_SERVING: Final = "serving"


class Shown(NamedTuple):
    """A process, as its supervisor knows it."""

    node_id: int
    state: str
    restarts: int
    port: int | None
    """Where it shows how it is, on loopback; None before it has said so."""


class MachinePages:
    """``report`` is the supervisor's, ``shown`` what of it is needed here."""

    def __init__(
        self,
        scheduler: Scheduler,
        report: Callable[[], dict[str, Any]],
        shown: Callable[[], list[Shown]],
    ) -> None:
        self._scheduler = scheduler
        self._report = report
        self._shown = shown

    def answer(self, request: HttpRequest) -> HttpPage | Promise[HttpPage]:
        if request.path == "/metrics":
            return self._metrics(request)
        if request.path in PATHS:
            return self._condition(request)
        return text_page(404, f"there are {', '.join(PATHS)}\n")

    def _condition(self, request: HttpRequest) -> HttpPage:
        """The supervisor lives as long as it answers; it is ready when all its processes serve."""
        down = tuple(
            f"node {each.node_id} is {each.state}"
            for each in self._shown()
            if each.state != _SERVING
        )
        is_ready = request.path == "/readyz"
        condition = Condition(down) if is_ready else Condition(warnings=down)
        return condition_page(request, condition, processes=self._report()["processes"])

    def _metrics(self, request: HttpRequest) -> HttpPage | Promise[HttpPage]:
        dialect = request.parameter("dialect") or Dialect.STRIMZI.value
        if dialect not in {each.value for each in Dialect}:
            known = ", ".join(each.value for each in Dialect)
            return text_page(400, f"no such dialect; there are {known}\n")
        made: Promise[HttpPage] = Promise(self._scheduler.turn)
        found: dict[int, str | None] = {}
        shown = self._shown()

        def came(node_id: int, came: Promise[bytes]) -> None:
            try:
                found[node_id] = came.result().decode("utf-8")
            except (FetchFailed, OSError, UnicodeDecodeError):
                found[node_id] = None
            if len(found) == len(shown):
                made.fulfil(HttpPage(200, CONTENT_TYPE, _encoded(merged(shown, found))))

        for each in shown:
            if each.port is None or each.state != _SERVING:
                absent: Promise[bytes] = Promise(self._scheduler.turn)
                absent.when_done(partial(came, each.node_id))
                absent.fail(FetchFailed(each.state))
                continue
            url = f"http://127.0.0.1:{each.port}/metrics?dialect={dialect}"
            self._scheduler.run_in_background(
                partial(fetch, url, self._scheduler, bytes_max=PAGE_BYTES_MAX),
                f"metrics of {each.node_id}",
            ).when_done(partial(came, each.node_id))
        return made


def merged(shown: list[Shown], pages: dict[int, str | None]) -> Iterator[str]:
    """The pages of all as one, metric by metric, each line with its node."""
    forms: dict[str, str] = {
        UP: f"# TYPE {UP} gauge\n",
        RESTARTS: f"# TYPE {RESTARTS} counter\n",
    }
    lines: dict[str, list[str]] = {UP: [], RESTARTS: []}
    for each in shown:
        node = f'node_id="{each.node_id}"'
        page = pages[each.node_id]
        lines[UP].append(f"{UP}{{{node}}} {0 if page is None else 1}\n")
        lines[RESTARTS].append(f"{RESTARTS}{{{node}}} {each.restarts}\n")
        family = ""
        for line in (page or "").splitlines():
            if line.startswith("# TYPE "):
                family = line.split(" ")[2]
                forms.setdefault(family, f"{line}\n")
                lines.setdefault(family, [])
            elif family:
                lines[family].append(_labelled(line, node))
    for family in sorted(forms):
        yield forms[family]
        yield "".join(lines[family])


def _labelled(line: str, label: str) -> str:
    name, brace, rest = line.partition("{")
    if brace:
        return f"{name}{{{label},{rest}\n"
    name, _, value = line.partition(" ")
    return f"{name}{{{label}}} {value}\n"


def _encoded(made: Iterator[str]) -> Iterator[bytes]:
    return (each.encode("utf-8") for each in made)

"""A run on the terminal: a table that is rewritten in place, or, elsewhere, a line for each change.

Lines are cut to the width of the terminal: a line that wraps could not be taken back.
"""

import json
import shutil
from collections.abc import Callable
from typing import Final, Protocol

from ottla.client.system_time import SystemTime
from ottla.common.clock import Clock
from ottla.spark.pipelines.state import ENDED, FAILED, WAITING, FlowState, RunState

TITLES: Final = ("FLOW", "TO", "STATE", "ROWS", "ROWS/S", "LAG", "BATCH", "TOOK")
EVERY_SECONDS: Final = 0.25
LINES_EVERY_SECONDS: Final = 5.0
"""Where nobody looks at once, a line for each flow now and then."""
_UP: Final = "\x1b[{}A"
_CLEAR: Final = "\x1b[J"
_SYSTEM: Final = SystemTime()


class Stream(Protocol):
    def write(self, text: str, /) -> int: ...

    def flush(self) -> None: ...

    def isatty(self) -> bool: ...


def table(state: RunState, width: int, now_ms: int) -> list[str]:
    """What is shown, each line at most so wide."""
    past = duration((now_ms - state.started_ms) / 1000)
    head = f"{state.pipeline}  {_doing(state)}  {past}  {state.master}"
    rows = [TITLES, *(_cells(flow) for flow in state.flows.values())]
    widths = [max(len(row[at]) for row in rows) for at in range(len(TITLES))]
    lines = [head]
    for row in rows:
        cells = [
            cell.ljust(size) if at < 3 else cell.rjust(size)
            for at, (cell, size) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    lines += problems(state)
    return [line if len(line) <= width else line[: width - 1] + "…" for line in lines]


def _doing(state: RunState) -> str:
    return f"{state.status}: {state.step}" if state.step else state.status


def problems(state: RunState) -> list[str]:
    found = [
        f"{flow.name}: {flow.error}"
        for flow in state.flows.values()
        if flow.error and flow.status in {FAILED, WAITING}
    ]
    return [*found, *([state.error] if state.error else [])]


def _cells(flow: FlowState) -> tuple[str, ...]:
    status = f"{flow.status} ({flow.restarts})" if flow.restarts else flow.status
    return (
        flow.name,
        flow.target,
        status,
        f"{flow.rows:,}",
        f"{flow.rows_per_second:,.0f}",
        "" if flow.lag is None else f"{flow.lag:,}",
        "" if flow.batch is None else str(flow.batch),
        "" if flow.batch_seconds is None else f"{flow.batch_seconds:.1f}s",
    )


def line(flow: FlowState) -> str:
    """A flow in one line, for logs."""
    parts = [f"{flow.name}: {flow.status}", f"{flow.rows} rows", f"{flow.rows_per_second:.0f}/s"]
    if flow.lag is not None:
        parts.append(f"lag {flow.lag}")
    if flow.batch is not None:
        took = f" in {flow.batch_seconds:.1f}s" if flow.batch_seconds is not None else ""
        parts.append(f"batch {flow.batch}{took}")
    if flow.error and flow.status in {FAILED, WAITING}:
        parts.append(flow.error)
    return ", ".join(parts)


def duration(seconds: float) -> str:
    """``0:07``, ``12:30``, ``3:05:00``."""
    minutes, rest = divmod(max(0, int(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class Display:
    """Told of every change; shows as much as can be looked at."""

    def __init__(
        self,
        stream: Stream,
        *,
        as_json: bool = False,
        clock: Clock = _SYSTEM,
        width: Callable[[], int] = lambda: shutil.get_terminal_size().columns,
    ) -> None:
        self._stream = stream
        self._as_json = as_json
        self._clock = clock
        self._width = width
        self._in_place = stream.isatty() and not as_json
        self._height = 0
        self._next = 0.0
        self._last: dict[str, str] = {}

    def show(self, state: RunState) -> None:
        now = self._clock.monotonic()
        ended = state.status in ENDED
        if self._as_json:
            self._json(state)
        elif self._in_place:
            if now >= self._next or ended or self._last.get("") != _doing(state):
                self._last[""] = _doing(state)
                self._next = now + EVERY_SECONDS
                self._rewrite(table(state, self._width(), self._clock.wall_ms()))
        else:
            self._lines(state, now, ended)
        self._stream.flush()

    def _rewrite(self, lines: list[str]) -> None:
        up = _UP.format(self._height) if self._height else ""
        self._stream.write(f"{up}\r{_CLEAR}" + "".join(f"{line}\n" for line in lines))
        self._height = len(lines)

    def _lines(self, state: RunState, now: float, ended: bool) -> None:
        """Changes of status at once, figures now and then."""
        due = now >= self._next
        if due:
            self._next = now + LINES_EVERY_SECONDS
        for flow in state.flows.values():
            known = self._last.get(flow.name, "")
            said = line(flow)
            if said != known and (due or ended or _status(said) != _status(known)):
                self._last[flow.name] = said
                self._stream.write(f"{said}\n")
        if self._last.get("") != _doing(state):
            self._last[""] = _doing(state)
            error = f": {state.error}" if state.error else ""
            self._stream.write(f"{state.pipeline}: {_doing(state)}{error}\n")

    def _json(self, state: RunState) -> None:
        """One object a line: the run without its flows, and each flow, when it has changed."""
        whole = state.to_json()
        flows = whole.pop("flows")
        whole.pop("updated_ms")
        for name, content in [("", whole), *flows.items()]:
            said = json.dumps({"pipeline": state.pipeline, "flow": name or None, **content})
            if self._last.get(name) != said:
                self._last[name] = said
                self._stream.write(f"{said}\n")


class Steps:
    """Only what is done until the pipeline runs, and that it does: a line each."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._last: str | None = None

    def show(self, state: RunState) -> None:
        if _doing(state) != self._last:
            self._last = _doing(state)
            self._stream.write(f"{state.pipeline}: {self._last}\n")
            self._stream.flush()


def _status(said: str) -> str:
    return said.partition(",")[0]

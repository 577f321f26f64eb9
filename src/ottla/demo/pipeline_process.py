"""The pipeline of the demo as its parent sees it: a process, a log, a state in a file."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from ottla.client.system_time import SystemTime
from ottla.demo.figures import Stage
from ottla.server.node_process import own_environment
from ottla.spark.pipelines import state as states
from ottla.spark.pipelines import template
from ottla.spark.pipelines.model import PipelineError
from ottla.spark.pipelines.project import FILE, load
from ottla.spark.pipelines.state import RunState

TEMPLATE: Final = "shop"
LOG: Final = "pipeline.log"
STOP_SECONDS: Final = 40.0
_POLL_SECONDS: Final = 0.05


class PipelineProcess:
    """The files in ``directory`` are written if they are not there, and may be changed then."""

    def __init__(self, directory: Path, log: Path, bootstrap_servers: str) -> None:
        self.directory = directory
        self.log = log
        self._bootstrap_servers = bootstrap_servers
        self._state_directory = directory
        self._clock = SystemTime()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Let Spark come up; the pipeline begins with :meth:`go`.

        Raises PipelineError if somebody has changed its files and they are wrong now.
        """
        if not (self.directory / FILE).exists():
            template.write(self.directory, TEMPLATE, self._bootstrap_servers)
        self._state_directory = load(self.directory).state_directory
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own words
                [sys.executable, "-m", "ottla.demo.pipeline_main", str(self.directory)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=own_environment(),
                process_group=0,
            )

    def go(self) -> None:
        """The brokers are there."""
        assert self._process is not None
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(f"{self._bootstrap_servers}\n".encode())
            self._process.stdin.flush()

    @property
    def exit_code(self) -> int | None:
        return None if self._process is None else self._process.poll()

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def state(self) -> RunState | None:
        """What this run has told of itself; None while Spark comes up."""
        with suppress(PipelineError):
            state = states.read(self._state_directory)
            if state is not None and self._process is not None and state.pid == self._process.pid:
                return state
        return None

    def stop(self, hurry: Callable[[], bool]) -> None:
        """Let micro-batches end; at once if ``hurry`` says so, or while there are none yet."""
        if self._process is None:
            return
        self._close()
        until = self._clock.monotonic() + STOP_SECONDS
        while self.is_running and self._has_batches() and not hurry():
            if self._clock.monotonic() > until:
                break
            self._clock.wait(_POLL_SECONDS)
        self.kill()

    def _has_batches(self) -> bool:
        state = self.state()
        return state is not None and state.status != states.STARTING

    def kill(self) -> None:
        """End it and its JVM, if they still are; Spark's workers end with the JVM."""
        if self._process is None:
            return
        self._close()
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _close(self) -> None:
        assert self._process is not None
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()

    def last_words(self, count: int = 1_000) -> str:
        """The end of its log."""
        with suppress(OSError):
            return self.log.read_text("utf-8", errors="replace")[-count:]
        return ""


def stages(state: RunState) -> list[Stage]:
    """A line of figures for each flow."""
    made = []
    for flow in state.flows.values():
        notes = [] if flow.status == states.RUNNING else [flow.status]
        if flow.lag is not None:
            notes.append(f"lag {flow.lag:,}")
        if flow.batch_seconds is not None:
            notes.append(f"batch {flow.batch_seconds:.1f} s")
        if flow.status in {states.WAITING, states.FAILED} and flow.error:
            notes.append(flow.error)
        made.append(Stage(flow.name, flow.rows, flow.rows_per_second, "  ".join(notes)))
    return made

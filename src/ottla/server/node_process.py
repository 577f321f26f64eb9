"""A node of this machine as a child process: `ottla dev -n 3` and the clusters of tests.

It is in a process group of its own, so that a Ctrl-C at the terminal is for its parent to hand on,
and its standard input is a pipe that nobody writes to: when the parent is gone, however it ended,
the node reads the end of it and stops. A node that is paused then is continued by the system, which
does so for groups that lose their last tie to the session.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

import ottla
from ottla.config.properties import format_properties

OUTPUT: Final = "node.log"
PROPERTIES: Final = "server.properties"
STOP_SECONDS: Final = 30.0


def serve_command() -> tuple[str, ...]:
    """Our own server; the file follows."""
    return (sys.executable, "-m", "ottla", "server", "--until-eof")


def own_environment() -> dict[str, str]:
    """This process's, with the package where it is now."""
    here = str(Path(ottla.__file__).resolve().parents[1])
    paths = [here, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


class NodeProcess:
    """A node in ``directory``; it can be started again after it has ended."""

    def __init__(
        self,
        node_id: int,
        directory: Path,
        properties: Mapping[str, str],
        *,
        command: Sequence[str] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.node_id = node_id
        self.directory = directory
        self.properties = dict(properties)
        self.is_paused = False
        self._command = serve_command() if command is None else tuple(command)
        self._environment = {**own_environment(), **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def output_file(self) -> Path:
        """All that it has written, of all its lives."""
        return self.directory / OUTPUT

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        return None if self._process is None else self._process.poll()

    @property
    def pid(self) -> int:
        assert self._process is not None, f"node {self.node_id} was never started"
        return self._process.pid

    def start(self, *, piped: bool = False) -> IO[bytes] | None:
        """Start it; its output goes to :attr:`output_file`, or is returned to be read."""
        assert not self.is_running, f"node {self.node_id} runs already"
        self.directory.mkdir(parents=True, exist_ok=True)
        file = self.directory / PROPERTIES
        file.write_text(format_properties(self.properties))
        self.is_paused = False
        output = None if piped else self.output_file.open("ab")
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own words
                [*self._command, str(file)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE if output is None else output,
                stderr=subprocess.STDOUT,
                env=self._environment,
                cwd=self.directory,
                process_group=0,
            )
        finally:
            if output is not None:
                output.close()
        return self._process.stdout

    def signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.is_running:
            assert self._process is not None
            self._process.send_signal(number)

    def pause(self) -> None:
        """It does nothing any more and does not know it."""
        self.signal(signal.SIGSTOP)
        self.is_paused = True

    def resume(self) -> None:
        self.signal(signal.SIGCONT)
        self.is_paused = False

    def wait(self, seconds: float) -> bool:
        """Whether it has ended within this time."""
        if self._process is None:
            return True
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        self._close()
        return True

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        """Ask it to stop cleanly, and insist on it when time is over (TimeoutError)."""
        if self.is_paused:
            self.resume()
        self.signal(signal.SIGTERM)
        if not self.wait(seconds):
            self.kill()
            raise TimeoutError(f"node {self.node_id} did not stop within {seconds} s")

    def kill(self) -> None:
        """End it at once."""
        self.signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()
            self._close()
        self.is_paused = False

    def _close(self) -> None:
        assert self._process is not None
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()

    def output(self, last: int | None = None) -> str:
        """What it has written, or the last so many characters of it."""
        if not self.output_file.exists():
            return ""
        text = self.output_file.read_text("utf-8", errors="replace")
        return text if last is None else text[-last:]

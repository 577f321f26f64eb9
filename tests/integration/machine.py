"""``ottla server`` with ``ottla.processes=N`` as a user starts it: a file, a command, its log."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from tests.waiting import eventually
from tools.installed import IMPORT_PATH
from tools.kafka_peer.broker_process import free_ports, random_cluster_id

from ottla.cli.main import cli


def command(*words: str) -> tuple[int, str, str]:
    """A command of ours: exit code, standard output, standard error."""
    done = CliRunner().invoke(cli, list(words))
    return done.exit_code, done.stdout, done.stderr


def step_apart(count: int) -> int:
    """The first of so many neighbouring ports that are free now."""
    for _ in range(100):
        (first,) = free_ports(1)
        if first + count < 65535 and all(_is_free(first + by) for by in range(count)):
            return first
    raise AssertionError("no free ports side by side")


def _is_free(port: int) -> bool:
    import socket

    with socket.socket() as trial:
        try:
            trial.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


class Machine:
    """One server.properties, and whatever runs from it."""

    def __init__(self, directory: Path, processes: int) -> None:
        self.directory = directory
        self.file = directory / "server.properties"
        self.port = step_apart(2 * processes + 4)
        self.cluster_id = random_cluster_id()
        self.output = directory / "output.log"
        self.write(processes)

    def write(self, processes: int, *lines: str) -> None:
        self.file.write_text(
            "process.roles=broker,controller\nnode.id=1\n"
            f"listeners=PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.port + 1}\n"
            "controller.listener.names=CONTROLLER\n"
            f"controller.quorum.bootstrap.servers=127.0.0.1:{self.port + 1}\n"
            f"log.dirs={self.directory}/data\nottla.processes={processes}\n" + "".join(lines)
        )

    def format(self, *words: str) -> None:
        done = command("storage", "format", "-t", self.cluster_id, "-c", str(self.file), *words)
        assert done[0] == 0, done

    def bootstrap(self, number: int = 1) -> str:
        return f"127.0.0.1:{self.port + 2 * (number - 1)}"

    @contextmanager
    def start(self, *words: str, file: bool = True) -> Iterator["subprocess.Popen[bytes]"]:
        """Its output goes to a file, which nobody has to read."""
        every = ["server", *([str(self.file)] if file else []), *words]
        with self.output.open("ab") as output:
            started = subprocess.Popen(
                [sys.executable, "-m", "ottla", *every],
                stdout=output,
                stderr=output,
                cwd=self.directory,
                env={**os.environ, "PYTHONPATH": IMPORT_PATH},
                start_new_session=True,
            )
        try:
            yield started
        finally:
            if started.poll() is None:
                started.send_signal(signal.SIGTERM)
                try:
                    started.wait(30)
                except subprocess.TimeoutExpired:
                    started.kill()
                    started.wait()

    def wait_for(self, pattern: str, times: int = 1) -> None:
        eventually(
            lambda: len(re.findall(pattern, self.log())) >= times, f"{pattern} in {self.log()}"
        )

    def log(self) -> str:
        return self.output.read_text("utf-8", errors="replace") if self.output.exists() else ""

    def status(self) -> tuple[int, dict[str, Any]]:
        code, text, _ = command("processes", "status", "-c", str(self.file), "--json")
        return code, json.loads(text)

    def pids(self) -> dict[int, int]:
        return {each["node_id"]: each["pid"] for each in self.status()[1]["processes"]}


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False

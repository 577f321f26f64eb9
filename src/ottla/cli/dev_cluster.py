"""``ottla dev -n 3``: several brokers on this machine, each a process, as one command.

Every line that a node writes is shown behind its name. A node that ends is told and not started
again: that is what one looks at here. Ctrl-C stops all in order, a second one at once; whatever
becomes of this process, the nodes end with it.
"""

import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

import click

from ottla.cli.output import coloured
from ottla.client.admin import Admin
from ottla.client.cluster import Timing
from ottla.client.quorum import describe_quorum
from ottla.common.errors import ApiError
from ottla.server.local_cluster import LocalCluster, NodePlace, free_ports
from ottla.server.node_process import NodeProcess, serve_command
from ottla.storage.checkpoints import META_PROPERTIES

COLOURS: Final = ("cyan", "magenta", "yellow", "green", "blue", "bright_red")
START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 20.0
LONELY_SECONDS: Final = 0.3
_POLL_SECONDS: Final = 0.02
_TIMING: Final = Timing(connect_timeout_ms=500, request_timeout_ms=1000, call_timeout_ms=1000)


class DevCluster:
    """The nodes of one directory, from start to end."""

    def __init__(
        self,
        directory: str,
        nodes: int,
        host: str,
        port: int | None,
        overrides: Mapping[str, str],
        verbose: bool,
    ) -> None:
        _check_directory(Path(directory), nodes)
        ports = _ports(nodes, port)
        places = [
            NodePlace(
                at + 1,
                Path(directory) / f"node-{at + 1}",
                port=ports[2 * at],
                controller_port=ports[2 * at + 1],
            )
            for at in range(nodes)
        ]
        self._local = LocalCluster(places, host=host, settings=overrides)
        level = ("--log-level", "INFO" if verbose else "WARN")
        self._nodes = {
            place.node_id: NodeProcess(
                place.node_id,
                place.directory,
                self._local.properties(place),
                command=(*serve_command(), *level),
            )
            for place in places
        }
        self._places = places
        self._readers: list[threading.Thread] = []
        self._asked_to_stop = 0
        self._ended: set[int] = set()

    def run(self, banner: Callable[[str], str]) -> int:
        """Serve until Ctrl-C; the exit code."""
        self._local.format()
        before = {
            number: signal.signal(number, self._signalled)
            for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            for node in self._nodes.values():
                self._start(node)
            if not self._wait_until_ready():
                return 1
            if not self._asked_to_stop:
                click.echo(banner(self._local.bootstrap_servers))
            while not self._asked_to_stop and self._alive():
                time.sleep(_POLL_SECONDS)
                self._tell_ended()
            return self._stop()
        finally:
            for node in self._nodes.values():
                node.kill()
            for reader in self._readers:
                reader.join(1)
            for number, handler in before.items():
                signal.signal(number, handler)

    def _signalled(self, _number: int, _frame: object) -> None:
        self._asked_to_stop += 1

    def _start(self, node: NodeProcess) -> None:
        output = node.start(piped=True)
        assert output is not None
        reader = threading.Thread(target=self._show, args=(node.node_id, output), daemon=True)
        reader.start()
        self._readers.append(reader)

    def _show(self, node_id: int, output: IO[bytes]) -> None:
        """Print what a node writes, line by line, until it ends."""
        with output:
            for line in output:
                self._say(node_id, line.decode("utf-8", errors="replace").rstrip("\n"))

    def _say(self, node_id: int, text: str) -> None:
        colour = COLOURS[(node_id - 1) % len(COLOURS)]
        click.echo(f"{coloured(f'node-{node_id} |', colour, sys.stdout.isatty())} {text}")

    def _alive(self) -> list[NodeProcess]:
        return [node for node in self._nodes.values() if node.is_running]

    def _tell_ended(self) -> None:
        for node in self._nodes.values():
            if not node.is_running and node.node_id not in self._ended:
                self._ended.add(node.node_id)
                self._say(node.node_id, f"ended with {node.exit_code}, and is not started again")

    def _wait_until_ready(self) -> bool:
        deadline = time.monotonic() + START_SECONDS
        while not self._asked_to_stop:
            self._tell_ended()
            if self._ended:
                return False
            with suppress(OSError, ApiError):
                if all(self._serves(place) for place in self._places):
                    break
            if time.monotonic() > deadline:
                click.echo(f"not ready within {START_SECONDS:.0f} s", err=True)
                return False
            time.sleep(_POLL_SECONDS)
        return True

    def _admin(self, place: NodePlace) -> Admin:
        host = self._local.bootstrap_servers.split(",")[0].rpartition(":")[0]
        return Admin(f"{host}:{place.port}", timing=_TIMING)

    def _serves(self, place: NodePlace) -> bool:
        with self._admin(place) as admin:
            return len(admin.describe_cluster().brokers) == len(self._places)

    def _stop(self) -> int:
        """One by one, the active controller last; all at once when we are asked again."""
        for node in self._in_order():
            node.signal(signal.SIGTERM)
            began = time.monotonic()
            hurried = False
            while node.is_running and time.monotonic() < began + STOP_SECONDS:
                if self._asked_to_stop > 1:
                    return 1
                if not hurried and time.monotonic() > began + self._patience():
                    hurried = True
                    node.signal(signal.SIGTERM)
                time.sleep(_POLL_SECONDS)
            if node.is_running:
                self._say(node.node_id, f"did not stop within {STOP_SECONDS:.0f} s")
        codes = [node.exit_code for node in self._nodes.values()]
        return 0 if all(code == 0 for code in codes) else 1

    def _patience(self) -> float:
        """Where most controllers are gone, nobody can let a broker go: a second signal says so."""
        has_quorum = 2 * len(self._alive()) > len(self._nodes)
        return STOP_SECONDS if has_quorum else LONELY_SECONDS

    def _in_order(self) -> list[NodeProcess]:
        active = -1
        for place in self._places:
            if self._nodes[place.node_id].is_running:
                with suppress(OSError, ApiError), self._admin(place) as admin:
                    active = describe_quorum(admin.cluster).leader_id
                    break
        return sorted(self._alive(), key=lambda node: (node.node_id == active, node.node_id))


def _ports(nodes: int, port: int | None) -> list[int]:
    if port is None or port == 0:
        return free_ports(2 * nodes)
    if port + 2 * nodes - 1 > 65535:
        raise click.UsageError(f"{nodes} nodes need {2 * nodes} ports from --port on")
    return list(range(port, port + 2 * nodes))


def _check_directory(directory: Path, nodes: int) -> None:
    """Data of one number of nodes is of no use to another."""
    if (directory / META_PROPERTIES).exists():
        raise click.UsageError(f"{directory} is of a single broker: leave out -n")
    there = len(list(directory.glob(f"node-*/data/{META_PROPERTIES}")))
    if there not in {0, nodes}:
        raise click.UsageError(f"{directory} is of {there} nodes: use -n {there}")

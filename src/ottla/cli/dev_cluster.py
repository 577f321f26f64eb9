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
from typing import IO, Final

import click

from ottla.cli.output import coloured
from ottla.server.local_cluster import NodePlace
from ottla.server.local_nodes import (
    POLL_SECONDS,
    STOP_SECONDS,
    LocalNodes,
)

COLOURS: Final = ("cyan", "magenta", "yellow", "green", "blue", "bright_red")
START_SECONDS: Final = 60.0


class DevCluster:
    """The nodes of one directory, from start to end."""

    def __init__(
        self, places: list[NodePlace], host: str, overrides: Mapping[str, str], verbose: bool
    ) -> None:
        level = "INFO" if verbose else "WARN"
        self._nodes = LocalNodes(places, host=host, settings=overrides, log_level=level)
        self._readers: list[threading.Thread] = []
        self._asked_to_stop = 0
        self._ended: set[int] = set()

    def run(self, banner: Callable[[str], str]) -> int:
        """Serve until Ctrl-C; the exit code."""
        before = {
            number: signal.signal(number, self._signalled)
            for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            self._nodes.start(self._read)
            if not self._wait_until_ready():
                return 1
            if not self._asked_to_stop:
                click.echo(banner(self._nodes.bootstrap_servers))
            while not self._asked_to_stop and self._nodes.alive():
                time.sleep(POLL_SECONDS)
                self._tell_ended()
            return self._stop()
        finally:
            self._nodes.kill()
            for reader in self._readers:
                reader.join(1)
            for number, handler in before.items():
                signal.signal(number, handler)

    def _signalled(self, _number: int, _frame: object) -> None:
        self._asked_to_stop += 1

    def _read(self, node_id: int, output: IO[bytes]) -> None:
        reader = threading.Thread(target=self._show, args=(node_id, output), daemon=True)
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

    def _tell_ended(self) -> None:
        for node in self._nodes.ended():
            if node.node_id not in self._ended:
                self._ended.add(node.node_id)
                self._say(node.node_id, f"ended with {node.exit_code}, and is not started again")

    def _wait_until_ready(self) -> bool:
        deadline = time.monotonic() + START_SECONDS
        while not self._asked_to_stop:
            self._tell_ended()
            if self._ended:
                return False
            if self._nodes.all_serve():
                break
            if time.monotonic() > deadline:
                click.echo(f"not ready within {START_SECONDS:.0f} s", err=True)
                return False
            time.sleep(POLL_SECONDS)
        return True

    def _stop(self) -> int:
        """All at once when we are asked again."""
        if not self._nodes.stop(hurry=lambda: self._asked_to_stop > 1):
            return 1
        for node in self._nodes.alive():
            self._say(node.node_id, f"did not stop within {STOP_SECONDS:.0f} s")
        codes = [node.exit_code for node in self._nodes.nodes.values()]
        return 0 if all(code == 0 for code in codes) else 1

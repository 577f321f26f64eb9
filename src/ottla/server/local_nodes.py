"""All nodes of a cluster of this machine as processes: started together, stopped in good order.

Used by `ottla dev -n 3` and the demo. Data of one number of nodes is of no use to another, which is
said before anything is done, as is a port that somebody else has.
"""

import signal
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from errno import EADDRINUSE
from pathlib import Path
from typing import IO, Final

from ottla.client.admin import Admin
from ottla.client.cluster import Timing
from ottla.client.quorum import describe_quorum
from ottla.common.errors import ApiError
from ottla.server.local_cluster import HOST, LocalCluster, NodePlace, free_ports
from ottla.server.node_process import NodeProcess, serve_command
from ottla.storage.checkpoints import LOCK, META_PROPERTIES
from ottla.storage.files import DirectoryInUse, OsLock

STOP_SECONDS: Final = 20.0
LONELY_SECONDS: Final = 0.3
POLL_SECONDS: Final = 0.02
_TIMING: Final = Timing(connect_timeout_ms=500, request_timeout_ms=1000, call_timeout_ms=1000)


class UnsuitablePlaces(ValueError):
    """The directory or the ports do not fit what is asked for; the text says how they would."""


def local_places(directory: Path, nodes: int, port: int | None) -> list[NodePlace]:
    """Brokers on every second port from ``port`` on, or on any; controllers on those between."""
    if (directory / META_PROPERTIES).exists():
        raise UnsuitablePlaces(f"{directory} is of a single broker: leave out -n")
    there = len(list(directory.glob(f"node-*/data/{META_PROPERTIES}")))
    if there not in {0, nodes}:
        raise UnsuitablePlaces(f"{directory} is of {there} nodes: use -n {there}")
    if port is None or port == 0:
        ports = free_ports(2 * nodes)
    elif port + 2 * nodes - 1 > 65535:
        raise UnsuitablePlaces(f"{nodes} nodes need {2 * nodes} ports from --port on")
    else:
        ports = list(range(port, port + 2 * nodes))
    return [
        NodePlace(
            at + 1,
            directory / f"node-{at + 1}",
            port=ports[2 * at],
            controller_port=ports[2 * at + 1],
        )
        for at in range(nodes)
    ]


def check_free(places: list[NodePlace]) -> None:
    """UnsuitablePlaces when somebody uses a directory; asked before its files are touched."""
    for place in places:
        lock = f"{place.data}/{LOCK}"
        if Path(lock).exists():
            try:
                OsLock(lock).release()
            except DirectoryInUse as error:
                raise UnsuitablePlaces(str(error)) from error


def busy_ports(places: list[NodePlace], host: str = HOST) -> list[int]:
    """Those that somebody listens on already."""
    ports = (port for place in places for port in (place.port, place.controller_port) if port)
    return [port for port in ports if is_busy(host, port)]


def is_busy(host: str, port: int) -> bool:
    """Whether somebody listens there already; no host means any address."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((host, port))
        except OSError as error:
            return error.errno == EADDRINUSE
    return False


class LocalNodes:
    """One process for each place."""

    def __init__(
        self,
        places: list[NodePlace],
        *,
        host: str = HOST,
        settings: Mapping[str, str] | None = None,
        log_level: str = "WARN",
    ) -> None:
        self.cluster = LocalCluster(places, host=host, settings=settings)
        self.nodes = {
            place.node_id: NodeProcess(
                place.node_id,
                place.directory,
                self.cluster.properties(place),
                command=(*serve_command(), "--log-level", log_level),
            )
            for place in places
        }

    @property
    def bootstrap_servers(self) -> str:
        return self.cluster.bootstrap_servers

    def start(self, reader: Callable[[int, IO[bytes]], None] | None = None) -> None:
        """Start all. What each writes goes to its log file, or is given to ``reader``.

        UnsuitablePlaces, and nothing is changed, when nodes of these directories run already.
        """
        check_free(self.cluster.places)
        self.cluster.format()
        for node in self.nodes.values():
            output = node.start(piped=reader is not None)
            if reader is not None:
                assert output is not None
                reader(node.node_id, output)

    def alive(self) -> list[NodeProcess]:
        return [node for node in self.nodes.values() if node.is_running]

    def ended(self) -> list[NodeProcess]:
        return [node for node in self.nodes.values() if not node.is_running]

    def all_serve(self) -> bool:
        """Whether each answers, and knows all others."""
        with suppress(OSError, ApiError):
            return all(self._serves(place) for place in self.cluster.places)
        return False

    def _admin(self, place: NodePlace) -> Admin:
        host = self.bootstrap_servers.split(",")[0].rpartition(":")[0]
        return Admin(f"{host}:{place.port}", timing=_TIMING)

    def _serves(self, place: NodePlace) -> bool:
        with self._admin(place) as admin:
            return len(admin.describe_cluster().brokers) == len(self.cluster.places)

    def stop(self, hurry: Callable[[], bool] = lambda: False) -> bool:
        """One by one, the active controller last; False when ``hurry`` wants no more waiting."""
        for node in self._in_order():
            node.signal(signal.SIGTERM)
            began = time.monotonic()  # noqa: TID251 - real processes live in real time
            pressed = False
            while node.is_running and _since(began) < STOP_SECONDS:
                if hurry():
                    return False
                if not pressed and _since(began) > self._patience():
                    pressed = True
                    node.signal(signal.SIGTERM)
                time.sleep(POLL_SECONDS)
        return True

    def kill(self) -> None:
        """End those that are left."""
        for node in self.nodes.values():
            node.kill()

    def _patience(self) -> float:
        """Where most controllers are gone, nobody can let a broker go: a second signal says so."""
        has_quorum = 2 * len(self.alive()) > len(self.nodes)
        return STOP_SECONDS if has_quorum else LONELY_SECONDS

    def _in_order(self) -> list[NodeProcess]:
        active = -1
        for place in self.cluster.places:
            if self.nodes[place.node_id].is_running:
                with suppress(OSError, ApiError), self._admin(place) as admin:
                    active = describe_quorum(admin.cluster).leader_id
                    break
        return sorted(self.alive(), key=lambda node: (node.node_id == active, node.node_id))


def _since(began: float) -> float:
    return time.monotonic() - began  # noqa: TID251

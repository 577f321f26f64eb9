"""Somebody who scrapes the nodes of a simulated cluster, and holds them to what they have said.

A node that is asked and goes on living answers whole. What it counts never goes down in one
incarnation, and its page is one that a scraper can read: each metric's lines stand together.
"""

import re
from typing import TYPE_CHECKING, Final

from ottla.common.promise import Promise
from ottla.network.sockets import StreamSocket
from ottla.server.node import Node
from ottla.simulation.network import SimulatedHost

if TYPE_CHECKING:
    from ottla.simulation.cluster import SimulatedCluster
    from ottla.simulation.node import SimulatedNode

WITHIN_SECONDS: Final = 10.0
_LINE: Final = re.compile(
    r'([a-z_:][a-z0-9_:]*)(\{(?:[a-zA-Z_]+="(?:[^"\\]|\\.)*",?)*\})? '
    r"(NaN|[+-]Inf|-?[0-9.]+(?:e[+-]?\d+)?)"
)


class Scrape:
    """One GET of one node's page."""

    def __init__(self, host: SimulatedHost, node: "SimulatedNode", path: str, port: int) -> None:
        self.node = node
        self.of: Node | None = node.node
        """The incarnation that was asked."""
        self.is_broken = False
        self.is_over = False
        self._host = host
        self._path = path
        self._sock: StreamSocket | None = None
        self._received = b""
        host.dial(node.host.name, port).when_done(self._dialled)

    def _dialled(self, dialled: Promise[StreamSocket]) -> None:
        try:
            sock = self._sock = dialled.result()
            self._host.watch_reading(sock, self._readable)
            words = f"GET {self._path} HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n"
            sock.send(words.encode("ascii"))
        except OSError:
            self._end(is_broken=True)

    def _readable(self) -> None:
        assert self._sock is not None
        buffer = bytearray(1 << 16)
        try:
            while filled := self._sock.recv_into(memoryview(buffer)):
                self._received += bytes(buffer[:filled])
        except BlockingIOError:
            return
        except OSError:
            self._end(is_broken=True)
            return
        self._end(is_broken=not self._received.endswith(b"0\r\n\r\n"))

    def _end(self, *, is_broken: bool) -> None:
        self.is_broken, self.is_over = is_broken, True
        self.close()

    def close(self) -> None:
        if self._sock is not None:
            self._host.unwatch_reading(self._sock)
            self._sock.close()
            self._sock = None

    @property
    def status(self) -> int:
        return int(self._received[9:12] or 0)

    @property
    def text(self) -> str:
        """The page, without the sizes of its pieces."""
        rest = self._received.partition(b"\r\n\r\n")[2]
        found = b""
        while rest:
            size, _, rest = rest.partition(b"\r\n")
            found += rest[: int(size, 16)]
            rest = rest[int(size, 16) + 2 :]
        return found.decode("utf-8")


class Scraper:
    """Scrapes the nodes one after the other, each ``seconds`` one, until it is stopped."""

    def __init__(self, cluster: "SimulatedCluster", port: int, seconds: float) -> None:
        self._cluster = cluster
        self._port = port
        self._seconds = seconds
        self._host = cluster.network.add_host("scraper")
        self._counted: dict[tuple[int, int], dict[str, float]] = {}
        self.pages = 0
        self.is_stopped = False
        self._number = 0
        cluster.scheduler.call_later(seconds, self._next)

    def _next(self) -> None:
        if self.is_stopped:
            return
        nodes = list(self._cluster.nodes.values())
        node = nodes[self._number % len(nodes)]
        self._number += 1
        if node.is_running:
            scrape = Scrape(self._host, node, "/metrics", self._port)
            incarnation = node.incarnations
            self._cluster.scheduler.call_later(
                WITHIN_SECONDS, lambda: self._look(scrape, incarnation)
            )
        self._cluster.scheduler.call_later(self._seconds, self._next)

    def _look(self, scrape: Scrape, incarnation: int) -> None:
        """A node that has ended, or cannot be reached, owes nothing."""
        scrape.close()
        if not scrape.is_over or scrape.is_broken:
            return
        assert scrape.status == 200, f"{scrape.node}: {scrape.status}"
        counted = counters(scrape.text)
        before = self._counted.get((scrape.node.node_id, incarnation), {})
        for name, value in before.items():
            now = counted.get(name, value)
            assert now >= value, f"{scrape.node}: {name} has gone from {value} to {now}"
        self._counted[scrape.node.node_id, incarnation] = counted
        self.pages += 1


def counters(text: str) -> dict[str, float]:
    """The counters of a page; AssertionError when nobody could read it."""
    found: dict[str, float] = {}
    families: set[str] = set()
    form = ""
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, family, form = line.split(" ")
            assert family not in families, f"{family} comes twice"
            families.add(family)
            continue
        match = _LINE.fullmatch(line)
        assert match is not None, f"no line of a page: {line}"
        series = f"{match[1]}{match[2] or ''}"
        if form == "counter":
            assert series not in found, f"{series} comes twice"
            found[series] = float(match[3])
    return found

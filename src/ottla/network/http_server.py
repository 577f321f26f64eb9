"""Pages of a node over HTTP, on the node's own loop: few peers, none of which stays for nothing.

They are for those that watch the node, not for its clients. A peer that neither asks nor takes for
a while is closed. When there are too many, the one goes that has done so for the longest: idle
peers must not shut out a probe that would have the node restarted.
"""

from typing import Final

from ottla.common.environment import Cancellable, Scheduler
from ottla.network.http_connection import AnswerHttp, HttpConnection
from ottla.network.sockets import Listening, Network, StreamSocket
from ottla.observability.logging import logger

log = logger(__name__)

CONNECTIONS_MAX: Final = 64
IDLE_SECONDS: Final = 75.0
"""Longer than scrapers wait between two scrapes, so that they keep their connection."""


class HttpServer:
    def __init__(self, network: Network, scheduler: Scheduler, answer: AnswerHttp) -> None:
        self._network = network
        self._scheduler = scheduler
        self._answer = answer
        self._listening: list[Listening] = []
        self._connections: dict[HttpConnection, None] = {}
        self._sweep: Cancellable | None = None
        self.refused = 0
        """Peers that had to go for others."""

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    def listen(self, host: str, port: int) -> int:
        """Serve at an address from now on; the port. OSError when it is taken."""
        listening = self._network.listen(host, port, self._accepted)
        self._listening.append(listening)
        listening.start()
        if self._sweep is None:
            self._sweep = self._scheduler.call_later(1.0, self._close_idle)
        return listening.port

    def _accepted(self, sock: StreamSocket) -> None:
        if len(self._connections) >= CONNECTIONS_MAX:
            self.refused += 1
            min(self._connections, key=lambda each: each.active_at).close()
        try:
            connection = HttpConnection(
                sock, self._network, self._scheduler, self._answer, self._closed
            )
        except OSError:  # the peer has gone already
            sock.close()
            return
        self._connections[connection] = None

    def _closed(self, connection: HttpConnection) -> None:
        self._connections.pop(connection, None)

    def _close_idle(self) -> None:
        horizon = self._scheduler.monotonic() - IDLE_SECONDS
        for connection in list(self._connections):
            if connection.active_at < horizon:
                connection.close()
        self._sweep = self._scheduler.call_later(1.0, self._close_idle)

    def close(self) -> None:
        if self._sweep is not None:
            self._sweep.cancel()
        for listening in self._listening:
            listening.close()
        self._listening.clear()
        for connection in list(self._connections):
            connection.close()

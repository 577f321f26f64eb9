"""Listeners and their connections, and the limits that hold for all of them.

``max.connections``, ``max.connections.per.ip``, ``max.connection.creation.rate``,
``connections.max.idle.ms``,
``socket.request.max.bytes`` and ``queued.max.request.bytes`` are Kafka's, and mean what they
mean there.

Rules:
1. A part of the process's descriptors is never a client's: without one a log cannot be opened, and
   nobody can be dialled. A few clients get in all the same: where open logs alone have come so far,
   somebody must be able to delete topics.
2. Other brokers come in by a listener of their own, if there is one, however many clients there
   are. Where that makes more than ``max.connections``, the client that was silent for longest goes.
3. A connection on which nothing goes in or out is closed after its time, unless it waits for us.
4. Where clients log in, one that has not done so in its time is closed, whatever it sends; until
   then its frames have a memory of their own, so that it takes none of what is for requests.
"""

import sys
from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from ottla.common.authorization import Principal
from ottla.common.buffers import Answer
from ottla.common.environment import Cancellable, Scheduler
from ottla.common.errors import ApiError
from ottla.common.promise import Promise
from ottla.metadata.client_quotas import CONNECTION_CREATION_RATE
from ottla.network.connection import RECEIVE_BYTES, AnswerFrame, Connection
from ottla.network.connection_rates import ConnectionRates
from ottla.network.sockets import Listening, Network, StreamSocket
from ottla.observability.logging import logger

log = logger(__name__)

DESCRIPTORS_RESERVED_MAX: Final = 1_024
LOGIN_SECONDS: Final = 60.0
"""How long a login may take; Kafka's own clients wait 30 seconds for it."""
STRANGERS_BYTES_MAX: Final = 32 << 20
"""That all frames of clients that have not logged in may have, while they are still coming."""
STRANGER_BYTES_FREE: Final = 16 << 10
"""A frame of this size is not counted: no client that logs in as usual waits for strangers."""
HELD_MAX: Final = 1_000
"""Of connections that are not listened to; beyond that they are closed at once."""
CONNECTIONS_ALWAYS: Final = 32
"""So many are not refused for want of descriptors."""


class SocketServerLimits:
    """What a server allows; plain attributes, since dynamic settings replace them."""

    __slots__ = (
        "connections",
        "connections_at",
        "connections_per_ip",
        "connections_per_ip_overrides",
        "descriptors",
        "frame_bytes",
        "idle_ms",
        "queued_request_bytes",
    )

    def __init__(
        self,
        *,
        connections: int,
        connections_per_ip: int,
        connections_per_ip_overrides: dict[str, int],
        frame_bytes: int,
        idle_ms: int,
        queued_request_bytes: int,
        descriptors: int = sys.maxsize,
        connections_at: dict[str, int] | None = None,
    ) -> None:
        self.connections = connections
        self.connections_at = connections_at or {}
        """For some listeners, by their names."""
        self.connections_per_ip = connections_per_ip
        self.connections_per_ip_overrides = connections_per_ip_overrides
        self.frame_bytes = frame_bytes
        self.idle_ms = idle_ms
        self.queued_request_bytes = queued_request_bytes
        """-1: no limit."""
        self.descriptors = descriptors
        """A client that would get one of this number or above is refused, but for a few."""


def descriptors_for_clients(limit: int) -> int:
    """Those of a process that has ``limit``, without the reserve for logs and other nodes."""
    return limit - min(limit // 8, DESCRIPTORS_RESERVED_MAX)


class _RequestMemory:
    """Counts the bytes of frames that are still coming, and of those that are kept while they wait.

    A connection without room waits in a queue.
    """

    def __init__(self, limit: Callable[[], int], free: int = 0) -> None:
        """``limit`` is -1 where there is none; a frame of ``free`` bytes or less is not counted."""
        self._limit = limit
        self._free = free
        self._taken = 0
        self._waiting: deque[Connection] = deque()

    def take(self, connection: Connection, size: int) -> bool:
        if size <= self._free:
            return True
        limit = self._limit()
        # As in Kafka, a frame may begin while there is any room: otherwise one that is larger than
        # the whole limit could never come in.
        if limit > 0 and self._taken >= limit:
            self._waiting.append(connection)
            return False
        self._taken += size
        return True

    def hold(self, connection: Connection, size: int) -> bool:
        """Count a frame that is there already; whether there is room for more."""
        self._taken += size
        limit = self._limit()
        if limit > 0 and self._taken >= limit:
            self._waiting.append(connection)
            return False
        return True

    def give_back(self, size: int) -> None:
        if size <= self._free:
            return
        self._taken -= size
        for _ in range(len(self._waiting)):
            if self._taken >= self._limit():
                return
            self._waiting.popleft().memory_is_free()


class Login(Protocol):
    """Answers the frames of a connection until somebody has logged in."""

    @property
    def frame_bytes(self) -> int:
        """How large a frame may be until then."""
        ...

    def answer(
        self, connection: Connection, frame: memoryview, /
    ) -> "Answer | Promise[Answer] | None": ...


class SocketServer:
    """Accepts, counts and closes connections."""

    def __init__(
        self,
        network: Network,
        scheduler: Scheduler,
        limits: SocketServerLimits,
        protected: frozenset[str] = frozenset(),
        rates: ConnectionRates | None = None,
    ) -> None:
        """``protected`` are the listeners of other nodes: clients cannot fill them up."""
        self.rates = rates or ConnectionRates()
        self._held: dict[StreamSocket, Cancellable] = {}
        """Of addresses that come too often: not read, and closed when their time is over."""
        self._network = network
        self._protected = protected
        self._scheduler = scheduler
        self.limits = limits
        self._answers: dict[str, AnswerFrame] = {}
        self._logins: dict[str, Login] = {}
        self._memory = _RequestMemory(lambda: limits.queued_request_bytes)
        self._strangers = _RequestMemory(lambda: STRANGERS_BYTES_MAX, STRANGER_BYTES_FREE)
        self._receive_buffer = memoryview(bytearray(RECEIVE_BYTES))
        self._connections: dict[Connection, None] = {}
        self._per_ip: Counter[str] = Counter()
        self._per_listener: Counter[str] = Counter()
        self._listening: dict[str, Listening] = {}
        self._networks: dict[str, Network] = {}
        self._identify: dict[str, Callable[[StreamSocket], Principal]] = {}
        self.connections_accepted = 0
        self.connections_refused = 0
        self._refused_told = 0
        self._sweep = scheduler.call_later(1.0, self._close_idle)

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    def listen(
        self,
        listener_name: str,
        host: str,
        port: int,
        network: Network | None = None,
        identify: Callable[[StreamSocket], Principal] | None = None,
    ) -> int:
        """Take an address; return its port (for port 0, the one that was chosen).

        ``network`` is the one that the listener is on, where it is not the one of all. ``identify``
        says whose connection it is, where its socket knows.
        """
        network = self._networks[listener_name] = network or self._network
        if identify is not None:
            self._identify[listener_name] = identify
        listening = network.listen(host, port, lambda sock: self._accepted(listener_name, sock))
        self._listening[listener_name] = listening
        return listening.port

    def start(
        self, answers: Mapping[str, AnswerFrame], logins: Mapping[str, "Login"] | None = None
    ) -> None:
        """Serve: from now on clients of these listeners are accepted.

        ``answers`` has what answers the frames of each; where there is one of ``logins``, clients
        log in first.
        """
        self._answers.update(answers)
        self._logins.update(logins or {})
        for listener_name in answers:
            self._listening[listener_name].start()

    def connections_at(self, listener_name: str) -> int:
        """How many there are now."""
        return self._per_listener[listener_name]

    def _accepted(self, listener_name: str, sock: StreamSocket) -> None:
        try:
            host: str = sock.getpeername()[0]
        except OSError:
            sock.close()
            return
        limits = self.limits
        limit = self._exceeded(listener_name, host, sock)
        if limit is not None:
            self._refuse(sock, limit, listener_name, host)
            return
        now_ms = int(self._scheduler.monotonic() * 1000)
        held_ms = self.rates.from_address(host, now_ms)
        if held_ms:
            self._hold(sock, held_ms / 1000, listener_name, host)
            return
        is_protected = listener_name in self._protected
        wait_ms = self.rates.accepted(listener_name, now_ms, is_protected=is_protected)
        if wait_ms:
            self._listening[listener_name].pause(wait_ms / 1000)
        login = self._logins.get(listener_name)
        try:
            connection = Connection(
                sock,
                self._networks[listener_name],
                listener_name=listener_name,
                receive_buffer=self._receive_buffer,
                frame_limit=limits.frame_bytes if login is None else login.frame_bytes,
                memory=self._memory,
                memory_before_login=None if login is None else self._strangers,
                answer_frame=self._answers[listener_name] if login is None else login.answer,
                closed=self._closed,
                scheduler=self._scheduler,
            )
            identify = self._identify.get(listener_name)
            if identify is not None:
                connection.principal = identify(sock)
        except (OSError, ApiError) as error:
            # The peer has gone between our two looks at it, or shows what nobody can read.
            log.debug("connection closed", peer=host, reason=str(error))
            sock.close()
            return
        connection.last_active = self._scheduler.monotonic()
        if login is not None:
            connection.login_by = connection.last_active + LOGIN_SECONDS
        self._connections[connection] = None
        self._per_ip[host] += 1
        self._per_listener[listener_name] += 1
        self.connections_accepted += 1
        if is_protected and len(self._connections) > limits.connections:
            self._close_least_recently_used()

    def _close_least_recently_used(self) -> None:
        """Make room for another node, as Kafka does; nobody goes if there are only nodes."""
        clients = [each for each in self._connections if each.listener_name not in self._protected]
        if clients:
            now = self._scheduler.monotonic()
            # What was active since the last sweep is told by a mark alone.
            oldest = min(clients, key=lambda each: now if each.is_active else each.last_active)
            log.info("connection closed for another node", peer=oldest.peer_host)
            oldest.close()

    def _exceeded(self, listener_name: str, host: str, sock: StreamSocket) -> str | None:
        """The limit that one more connection would exceed."""
        limits = self.limits
        if listener_name not in self._protected:
            if len(self._connections) >= limits.connections:
                return "max.connections"
            at_listener = limits.connections_at.get(listener_name, sys.maxsize)
            if self._per_listener[listener_name] >= at_listener:
                return f"listener.name.{listener_name.lower()}.max.connections"
            is_scarce = sock.fileno() >= limits.descriptors
            if is_scarce and len(self._connections) >= CONNECTIONS_ALWAYS:
                return "open files"
        allowed = limits.connections_per_ip_overrides.get(host, limits.connections_per_ip)
        return "max.connections.per.ip" if self._per_ip.get(host, 0) >= allowed else None

    def _hold(self, sock: StreamSocket, seconds: float, listener_name: str, host: str) -> None:
        """Keep it waiting, so that a client that tries at once is not the busier for it."""
        if len(self._held) >= HELD_MAX:
            self._refuse(sock, CONNECTION_CREATION_RATE, listener_name, host)
            return
        self._held[sock] = self._scheduler.call_later(seconds, self._let_go, sock)
        log.debug("connection held", limit=CONNECTION_CREATION_RATE, peer=host)

    def _let_go(self, sock: StreamSocket) -> None:
        del self._held[sock]
        sock.close()

    def _refuse(self, sock: StreamSocket, limit: str, listener_name: str, host: str) -> None:
        """Close it; the first is told at once, those that follow by number, once in a sweep."""
        sock.close()
        self.connections_refused += 1
        if self.connections_refused == self._refused_told + 1:
            log.warning("connection refused", limit=limit, peer=host, listener=listener_name)

    def _tell_of_refused(self) -> None:
        more = self.connections_refused - self._refused_told - 1
        if more > 0:
            log.warning("more connections refused", number=more)
        self._refused_told = self.connections_refused

    def _closed(self, connection: Connection) -> None:
        del self._connections[connection]
        self._per_listener[connection.listener_name] -= 1
        self._per_ip[connection.peer_host] -= 1
        if not self._per_ip[connection.peer_host]:
            del self._per_ip[connection.peer_host]

    def _close_idle(self) -> None:
        """Close connections that are idle for long; one sweep a second is exact enough."""
        self._tell_of_refused()
        now = self._scheduler.monotonic()
        if self._logins:
            self._close_strangers(now)
        if self.limits.idle_ms >= 0:
            horizon = now - self.limits.idle_ms / 1000
            for connection in list(self._connections):
                if connection.is_active or connection.waits_for_us:
                    connection.is_active = False
                    connection.last_active = now
                elif connection.last_active < horizon:
                    log.debug("idle connection closed", peer=connection.peer_host)
                    connection.close()
        self._sweep = self._scheduler.call_later(1.0, self._close_idle)

    def _close_strangers(self, now: float) -> None:
        """Close connections whose login takes too long, however busy they look."""
        for connection in list(self._connections):
            if connection.login_by < now:
                log.info(
                    "connection closed: no login in time",
                    peer=connection.peer_host,
                    listener=connection.listener_name,
                )
                connection.close()

    def close(self) -> None:
        self._sweep.cancel()
        for listening in self._listening.values():
            listening.close()
        self._listening.clear()
        for sock, timer in self._held.items():
            timer.cancel()
            sock.close()
        self._held.clear()
        for connection in list(self._connections):
            connection.close()

"""A network in memory: connections with delay and a finite window, cut at will.

The sockets look like the operating system's to :mod:`ottla.network`: non-blocking, short sends when
the window is full, readiness told again as long as it holds.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ottla.common.buffers import ReadableFile
from ottla.common.chance import Chance
from ottla.common.promise import Promise
from ottla.network.sockets import StreamSocket
from ottla.simulation.scheduler import SimulatedScheduler

WINDOW_BYTES = 256 * 1024
"""What may be under way in one direction of a connection."""
DELAY_SECONDS = (0.00005, 0.002)
FIRST_PORT = 30_000


class SimulatedSocket:
    """One end of a connection."""

    def __init__(self, network: "SimulatedNetwork", local: tuple[str, int]) -> None:
        self._network = network
        self._local = local
        self._peer: SimulatedSocket | None = None
        self._received = bytearray()
        self._under_way = 0
        self._arrives_at = 0.0
        self._ended = False
        self._closed = False
        self._on_readable: Callable[[], None] | None = None
        self._on_writable: Callable[[], None] | None = None
        self._told_readable = False
        self._told_writable = False

    # What ottla.network asks of a socket

    def recv_into(self, buffer: memoryview, /) -> int:
        if not self._received:
            if self._ended:
                return 0
            raise BlockingIOError
        size = min(len(buffer), len(self._received))
        buffer[:size] = self._received[:size]
        del self._received[:size]
        if self._peer is not None:
            self._peer._acknowledged(size)
        return size

    def recv(self, size: int) -> bytes:
        buffer = bytearray(size)
        return bytes(buffer[: self.recv_into(memoryview(buffer))])

    def send(self, data: bytes | memoryview, _flags: int = 0, /) -> int:
        if self._closed or self._ended or self._peer is None:
            raise BrokenPipeError
        size = min(len(data), WINDOW_BYTES - self._under_way)
        if size == 0:
            raise BlockingIOError
        self._under_way += size
        self._network.deliver(self, self._peer, bytes(data[:size]))
        return size

    def send_file(self, file: ReadableFile, position: int, count: int) -> int:
        return self.send(file.read_at(position, min(count, WINDOW_BYTES)))

    def fileno(self) -> int:
        return -1

    def getsockname(self) -> tuple[str, int]:
        return self._local

    def getpeername(self) -> tuple[str, int]:
        if self._peer is None:
            raise OSError("not connected")
        return self._peer._local

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._on_readable = self._on_writable = None
        if self._peer is not None:
            self._network.deliver(self, self._peer, b"")

    # What the network does to it

    def _acknowledged(self, size: int) -> None:
        self._under_way -= size
        self._tell_writable()

    def _arrived(self, data: bytes) -> None:
        if self._closed:
            return
        if data:
            self._received += data
        else:
            self._ended = True
        self._tell_readable()

    def _tell_readable(self) -> None:
        if self._on_readable is None or self._told_readable:
            return
        if self._received or self._ended:
            self._told_readable = True
            self._network.scheduler.call_soon(self._readable)

    def _readable(self) -> None:
        self._told_readable = False
        if self._on_readable is not None and (self._received or self._ended):
            self._on_readable()
            self._tell_readable()

    def _tell_writable(self) -> None:
        if self._on_writable is None or self._told_writable:
            return
        if self._under_way < WINDOW_BYTES:
            self._told_writable = True
            self._network.scheduler.call_soon(self._writable)

    def _writable(self) -> None:
        self._told_writable = False
        if self._on_writable is not None and self._under_way < WINDOW_BYTES:
            self._on_writable()
            self._tell_writable()


@dataclass
class SimulatedListening:
    network: "SimulatedNetwork"
    port: int
    accepted: Callable[[StreamSocket], None]
    started: bool = False

    def start(self) -> None:
        self.started = True

    def close(self) -> None:
        self.network.listening.pop(self.port, None)


class SimulatedNetwork:
    """All connections of a simulation; each direction of each keeps its order."""

    def __init__(self, scheduler: SimulatedScheduler, chance: Chance) -> None:
        self.scheduler = scheduler
        self._chance = chance
        self._next_port = FIRST_PORT
        self.listening: dict[int, SimulatedListening] = {}
        self._sockets: list[SimulatedSocket] = []
        self.delivered = 0

    def listen(
        self, host: str, port: int, accepted: Callable[[StreamSocket], None]
    ) -> SimulatedListening:
        del host  # a simulation has one address, and many ports
        port = port or self._port()
        if port in self.listening:
            raise OSError(f"port {port} is taken")
        listening = self.listening[port] = SimulatedListening(self, port, accepted)
        return listening

    def connect(self, port: int, host: str = "127.0.0.1") -> SimulatedSocket:
        """Connect to whoever listens on ``port``."""
        listening = self.listening.get(port)
        if listening is None or not listening.started:
            raise ConnectionRefusedError(f"nobody listens on port {port}")
        near = SimulatedSocket(self, (host, self._port()))
        far = SimulatedSocket(self, (host, port))
        near._peer, far._peer = far, near
        self._sockets = [sock for sock in self._sockets if not sock._closed]
        self._sockets += [near, far]
        listening.accepted(far)
        return near

    def dial(self, host: str, port: int) -> Promise[StreamSocket]:
        """As ``connect``, after a delay."""
        promise: Promise[StreamSocket] = Promise()

        def arrived() -> None:
            try:
                sock = self.connect(port, host)
            except OSError as error:
                promise.fail(error)
            else:
                promise.fulfil(sock)

        self.scheduler.call_later(self._chance.between(*DELAY_SECONDS), arrived)
        return promise

    def cut_all(self) -> None:
        """End every connection and every listener at once: their process is gone."""
        self.listening.clear()
        for sock in self._sockets:
            sock._ended = True
        self._sockets.clear()

    def _port(self) -> int:
        self._next_port += 1
        return self._next_port

    def deliver(self, source: SimulatedSocket, target: SimulatedSocket, data: bytes) -> None:
        at = self.scheduler.now + self._chance.between(*DELAY_SECONDS)
        source._arrives_at = at = max(at, source._arrives_at)
        self.delivered += 1
        self.scheduler.call_later(at - self.scheduler.now, target._arrived, data)

    # Readiness, as an event loop tells it

    def watch_reading(self, sock: StreamSocket, callback: Callable[[], None]) -> None:
        assert isinstance(sock, SimulatedSocket)
        sock._on_readable = callback
        sock._tell_readable()

    def unwatch_reading(self, sock: StreamSocket) -> None:
        assert isinstance(sock, SimulatedSocket)
        sock._on_readable = None

    def watch_writing(self, sock: StreamSocket, callback: Callable[[], None]) -> None:
        assert isinstance(sock, SimulatedSocket)
        sock._on_writable = callback
        sock._tell_writable()

    def unwatch_writing(self, sock: StreamSocket) -> None:
        assert isinstance(sock, SimulatedSocket)
        sock._on_writable = None

"""A socket and a network in memory that do exactly what a test tells them to.

What the peer sends lies in ``incoming`` until it is received; what the broker sends is taken as far
as ``room`` allows. Nothing happens by itself: :meth:`MemoryNetwork.run` calls the callbacks that
readiness calls for, each in a turn, until there is nothing left to do.
"""

from collections.abc import Callable

from tests.turns import TURN

from ottla.common.buffers import ReadableFile
from ottla.network.sockets import StreamSocket

UNLIMITED = 1 << 40


class MemorySocket:
    def __init__(self, peer_host: str = "10.0.0.9", descriptor: int = -1) -> None:
        self.incoming: list[bytes] = []
        """One item is what one receive gets at most."""
        self.sent = bytearray()
        self.room = UNLIMITED
        self.closed = False
        self.peer_gone = False
        self.broken = False
        self.files_sent = 0
        self.sends = 0
        self._peer_host = peer_host
        self._descriptor = descriptor

    def recv_into(self, buffer: memoryview, /) -> int:
        assert not self.closed
        if self.broken:
            raise ConnectionResetError
        if not self.incoming:
            if self.peer_gone:
                return 0
            raise BlockingIOError
        data = self.incoming.pop(0)
        size = min(len(data), len(buffer))
        buffer[:size] = data[:size]
        if size < len(data):
            self.incoming.insert(0, data[size:])
        return size

    def send(self, data: bytes | memoryview, _flags: int = 0, /) -> int:
        assert not self.closed
        if self.broken:
            raise BrokenPipeError
        self.sends += 1
        size = min(len(data), self.room)
        if size == 0 and len(data):
            raise BlockingIOError
        self.room -= size
        self.sent += data[:size]
        return size

    def send_file(self, file: ReadableFile, position: int, count: int) -> int:
        self.files_sent += 1
        size = min(count, self.room)
        if size == 0:
            raise BlockingIOError
        data = file.read_at(position, size)
        self.room -= len(data)
        self.sent += data
        return len(data)

    def fileno(self) -> int:
        return self._descriptor

    def close(self) -> None:
        self.closed = True

    def getsockname(self) -> tuple[str, int]:
        return ("10.0.0.1", 9092)

    def getpeername(self) -> tuple[str, int]:
        if self.broken:
            raise OSError("not connected")
        return (self._peer_host, 50000)


class MemoryListening:
    def __init__(self, port: int) -> None:
        self.port = port
        self.started = False
        self.closed = False
        self.pauses: list[float] = []
        """For how long it was to accept nobody, each time."""

    def start(self) -> None:
        self.started = True

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)

    def close(self) -> None:
        self.closed = True


class MemoryNetwork:
    descriptor_limit = UNLIMITED

    def __init__(self) -> None:
        self.readers: dict[StreamSocket, Callable[[], None]] = {}
        self.writers: dict[StreamSocket, Callable[[], None]] = {}
        self.listening: list[MemoryListening] = []
        self.accepted: dict[str, Callable[[StreamSocket], None]] = {}

    def listen(
        self, host: str, port: int, accepted: Callable[[StreamSocket], None]
    ) -> MemoryListening:
        self.accepted[host] = accepted
        listening = MemoryListening(port or 40_000 + len(self.listening))
        self.listening.append(listening)
        return listening

    def watch_reading(self, sock: StreamSocket, callback: Callable[[], None]) -> None:
        assert sock not in self.readers
        self.readers[sock] = callback

    def unwatch_reading(self, sock: StreamSocket) -> None:
        self.readers.pop(sock, None)

    def watch_writing(self, sock: StreamSocket, callback: Callable[[], None]) -> None:
        self.writers[sock] = callback

    def unwatch_writing(self, sock: StreamSocket) -> None:
        self.writers.pop(sock, None)

    def run(self) -> None:
        """Call back all that are ready, until none is."""
        while self._step():
            pass

    def _step(self) -> bool:
        for sock, callback in list(self.readers.items()):
            assert isinstance(sock, MemorySocket)
            if sock.incoming or sock.peer_gone or sock.broken:
                TURN.run(callback)
                return True
        for sock, callback in list(self.writers.items()):
            assert isinstance(sock, MemorySocket)
            if sock.room:
                TURN.run(callback)
                return True
        return False

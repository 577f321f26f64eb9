"""The network as an argument: what a connection needs of a socket and of an event loop.

:class:`LoopNetwork` is the real one, on an event loop of asyncio (or uvloop); no streams, no
``Protocol``: they allocate for each read. The simulator brings its own.
"""

import asyncio
import errno
import os
import resource
import socket
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from ottla.common.buffers import ReadableFile
from ottla.common.promise import Promise
from ottla.common.turn import Turn
from ottla.network.accepting import BACKLOG, Accepting
from ottla.network.poller import HAS_EPOLL, Poller

MSG_MORE: int = getattr(socket, "MSG_MORE", 0)
"""More follows: let the kernel fill the packet. Only Linux has it; elsewhere it costs a packet."""

_HAS_SENDFILE: bool = sys.platform.startswith("linux")
"""Other systems have a sendfile too, with other arguments; there the bytes are copied."""


class StreamSocket(Protocol):
    """A connected, non-blocking socket; what would block raises BlockingIOError."""

    def recv_into(self, buffer: memoryview, /) -> int: ...

    def send(self, data: bytes | memoryview, flags: int = 0, /) -> int: ...

    def send_file(self, file: ReadableFile, position: int, count: int) -> int: ...

    def fileno(self) -> int: ...

    def close(self) -> None: ...

    def getsockname(self) -> Any: ...

    def getpeername(self) -> Any: ...


class Listening(Protocol):
    @property
    def port(self) -> int: ...

    def start(self) -> None:
        """Accept; until then clients wait in the backlog."""
        ...

    def pause(self, seconds: float) -> None:
        """Accept nobody for so long; they wait in the backlog too."""
        ...

    def close(self) -> None: ...


class Network(Protocol):
    @property
    def descriptor_limit(self) -> int:
        """How many files and sockets may be open; the lowest free number is always taken first."""
        ...

    def listen(
        self, host: str, port: int, accepted: Callable[[StreamSocket], None]
    ) -> Listening: ...

    def watch_reading(self, sock: StreamSocket, callback: Callable[[], None]) -> None: ...

    def unwatch_reading(self, sock: StreamSocket) -> None: ...

    def watch_writing(self, sock: StreamSocket, callback: Callable[[], None]) -> None: ...

    def unwatch_writing(self, sock: StreamSocket) -> None: ...


class DiallingNetwork(Network, Protocol):
    """One on which this node also calls others."""

    def dial(self, host: str, port: int) -> Promise[StreamSocket]:
        """Connect to the listener there; fails with an OSError."""
        ...


class TcpSocket(socket.socket):
    """A socket that also sends files; the rest is C and costs nothing."""

    def send_file(self, file: ReadableFile, position: int, count: int) -> int:
        if _HAS_SENDFILE:
            return os.sendfile(self.fileno(), file.fileno(), position, count)
        return self.send(file.read_at(position, min(count, 1 << 20)))


class _ListeningSocket:
    """One listening socket on an event loop."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, turn: Turn, sock: socket.socket, send_buffer: int
    ) -> None:
        self._loop = loop
        self._turn = turn
        self._socket = sock
        self._send_buffer = send_buffer

    def accept(self) -> TcpSocket:
        accepted, _ = self._socket.accept()
        sock = TcpSocket(accepted.family, accepted.type, accepted.proto, accepted.detach())
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if self._send_buffer > 0:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._send_buffer)
        except OSError as error:
            sock.close()
            raise ConnectionAbortedError(errno.ECONNABORTED, "gone already") from error
        return sock

    def watch(self, callback: Callable[[], None]) -> None:
        self._loop.add_reader(self._socket, self._turn.run, callback)

    def unwatch(self) -> None:
        self._loop.remove_reader(self._socket)

    def close(self) -> None:
        self._socket.close()


class LoopListening:
    """One or more listening sockets that stand for one listener."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        turn: Turn,
        sockets: list[socket.socket],
        accepted: Callable[[StreamSocket], None],
        send_buffer: int,
    ) -> None:
        self._sockets = [_ListeningSocket(loop, turn, sock, send_buffer) for sock in sockets]
        self._accepting = [Accepting(sock, accepted, loop.call_later) for sock in self._sockets]
        self.port: int = sockets[0].getsockname()[1]

    def start(self) -> None:
        for accepting in self._accepting:
            accepting.start()

    def pause(self, seconds: float) -> None:
        for accepting in self._accepting:
            accepting.pause(seconds)

    def close(self) -> None:
        for accepting in self._accepting:
            accepting.stop()
        for sock in self._sockets:
            sock.close()


class LoopNetwork:
    """The operating system's network on an asyncio event loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        turn: Turn,
        *,
        send_buffer: int = -1,
        receive_buffer: int = -1,
    ) -> None:
        self._loop = loop
        self._turn = turn
        self.send_buffer = send_buffer
        self.receive_buffer = receive_buffer
        self._dialling: set[asyncio.Task[TcpSocket]] = set()
        self._poller = Poller(loop, turn, loop.time) if HAS_EPOLL else None
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.descriptor_limit = sys.maxsize if soft == resource.RLIM_INFINITY else soft

    def listen(
        self, host: str, port: int, accepted: Callable[[StreamSocket], None]
    ) -> LoopListening:
        """Listen on every address of ``host`` ("" is all of them); OSError when it is taken."""
        addresses: list[Any] = list(
            socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        )
        families = {family for family, *_ in addresses}
        if not host and socket.AF_INET6 in families:
            # One socket for both families, as the JVM opens it.
            addresses = [a for a in addresses if a[0] == socket.AF_INET6][:1]
        sockets = []
        try:
            for family, kind, protocol, _, address in addresses:
                sock = socket.socket(family, kind, protocol)
                sockets.append(sock)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1 if host else 0)
                if self.receive_buffer > 0:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.receive_buffer)
                sock.setblocking(False)
                if port == 0 and len(sockets) > 1:
                    address = (address[0], sockets[0].getsockname()[1], *address[2:])
                sock.bind(address)
                sock.listen(BACKLOG)
        except OSError:
            for sock in sockets:
                sock.close()
            raise
        return LoopListening(self._loop, self._turn, sockets, accepted, self.send_buffer)

    def dial(self, host: str, port: int) -> Promise[StreamSocket]:
        """Connect to the first address of ``host`` that answers."""
        promise: Promise[StreamSocket] = Promise(self._turn)

        def done(dialled: "asyncio.Task[TcpSocket]") -> None:
            error = dialled.exception()
            if error is None:
                promise.fulfil(dialled.result())
            else:
                promise.fail(error if isinstance(error, OSError) else OSError(str(error)))

        task = self._loop.create_task(self._dial(host, port))
        self._dialling.add(task)
        task.add_done_callback(self._dialling.discard)
        task.add_done_callback(partial(self._turn.run, done))
        return promise

    async def _dial(self, host: str, port: int) -> TcpSocket:
        addresses = await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        failure = OSError(f"{host} has no address")
        for family, kind, protocol, _, address in addresses:
            sock = TcpSocket(family, kind, protocol)
            try:
                sock.setblocking(False)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                await self._loop.sock_connect(sock, address)
            except OSError as error:
                sock.close()
                failure = error
            else:
                return sock
        raise failure

    def watch_reading(self, sock: StreamSocket, callback: Callable[[], None]) -> None:
        if self._poller is not None:
            self._poller.watch_reading(sock.fileno(), callback)
        else:
            self._loop.add_reader(sock, self._turn.run, callback)

    def unwatch_reading(self, sock: StreamSocket) -> None:
        if self._poller is not None:
            self._poller.unwatch_reading(sock.fileno())
        else:
            self._loop.remove_reader(sock)

    def watch_writing(self, sock: StreamSocket, callback: Callable[[], None]) -> None:
        if self._poller is not None:
            self._poller.watch_writing(sock.fileno(), callback)
        else:
            self._loop.add_writer(sock, self._turn.run, callback)

    def unwatch_writing(self, sock: StreamSocket) -> None:
        if self._poller is not None:
            self._poller.unwatch_writing(sock.fileno())
        else:
            self._loop.remove_writer(sock)

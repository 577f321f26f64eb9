"""Ends of simulated connections, which look like the operating system's to :mod:`ottla.network`.

Non-blocking, short sends when the window is full, readiness told again as long as it holds. An end
outlives its process by what its kernel still does: a process that was killed closes its sockets, a
machine that lost its power says nothing, and once it is up again answers old connections by resets.
"""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ottla.common.buffers import ReadableFile
from ottla.simulation.links import Link
from ottla.simulation.scheduler import NodeScheduler, SimulatedScheduler

if TYPE_CHECKING:
    from ottla.simulation.network import SimulatedHost

WINDOW_BYTES: Final = 256 * 1024
"""What may be under way in one direction of a connection."""
END: Final = b""
"""What arrives when the other side has closed."""
RESET: Final = None
"""What arrives when the other side knows nothing of this connection."""


class SimulatedSocket:
    """One end of a connection."""

    def __init__(self, host: "SimulatedHost", port: int, link: Link) -> None:
        self.host = host
        self.number = host.network.next_socket()
        self.link = link
        """The way to the other side."""
        self.held: deque[bytes | None] = deque()
        """What was sent and waits where the way is cut."""
        self.unacknowledged = 0
        """Bytes that the other side has read, and could not yet say so."""
        self.is_gone = False
        """Nobody holds this end any more."""
        self.arrives_at = 0.0
        self.descriptor = -1
        """How many its process had when it accepted this one."""
        self.peer: SimulatedSocket
        self._scheduler: NodeScheduler | SimulatedScheduler = host.scheduler
        self._local = (host.name, port)
        self._received = b""
        self._under_way = 0
        self._ended = False
        self._was_reset = False
        self._on_readable: Callable[[], None] | None = None
        self._on_writable: Callable[[], None] | None = None
        self._told_readable = False
        self._told_writable = False

    # What ottla.network asks of a socket

    def recv_into(self, buffer: memoryview, /) -> int:
        if self._was_reset:
            raise ConnectionResetError
        received = self._received
        if not received:
            if self._ended:
                return 0
            raise BlockingIOError
        size = min(len(buffer), len(received))
        if size == len(received):
            buffer[:size] = received
            self._received = b""
        else:
            buffer[:size] = received[:size]
            self._received = received[size:]
        if self.link.is_cut:
            self.unacknowledged += size
            self.link.held[self] = None
        else:
            self.peer.acknowledged(size)
        return size

    def recv(self, size: int) -> bytes:
        buffer = bytearray(size)
        return bytes(buffer[: self.recv_into(memoryview(buffer))])

    def send(self, data: bytes | memoryview, _flags: int = 0, /) -> int:
        if self.is_gone or self._ended or self._was_reset:
            raise BrokenPipeError
        size = min(len(data), WINDOW_BYTES - self._under_way)
        if size == 0:
            raise BlockingIOError
        self._under_way += size
        sent = data if size == len(data) else data[:size]
        self.host.network.deliver(self, bytes(sent))
        return size

    def send_file(self, file: ReadableFile, position: int, count: int) -> int:
        return self.send(file.read_at(position, min(count, WINDOW_BYTES)))

    def fileno(self) -> int:
        return self.descriptor

    def getsockname(self) -> tuple[str, int]:
        return self._local

    def getpeername(self) -> tuple[str, int]:
        return self.peer.getsockname()

    def close(self) -> None:
        if not self.is_gone:
            self.forget()
            self.host.network.deliver(self, END)

    # What the network does to it

    def forget(self) -> None:
        """The holder of this end is gone; the other side is not told."""
        self.is_gone = True
        self._on_readable = self._on_writable = None
        self.host.sockets.pop(self, None)

    def cut(self) -> None:
        """End it at once on this side."""
        self._ended = True

    def acknowledged(self, size: int) -> None:
        self._under_way -= size
        self._tell_writable()

    def arrived(self, data: bytes | None) -> None:
        if self.is_gone:
            if data:
                self.host.answer_reset(self)
            return
        if data:
            self._received = self._received + data if self._received else data
        elif data is RESET:
            self._was_reset = True
            self._received = b""
        else:
            self._ended = True
        if self._on_readable is None or self._told_readable:
            return
        if self._scheduler.is_paused:
            self._tell_readable()
        else:
            self._scheduler.steps += 1
            if self.host.came_ready(self):
                self._told_readable = True

    def take(self) -> None:
        """The process looks at it."""
        self._readable()

    def watch_reading(self, callback: Callable[[], None] | None) -> None:
        self._on_readable = callback
        self._tell_readable()

    def watch_writing(self, callback: Callable[[], None] | None) -> None:
        self._on_writable = callback
        self._tell_writable()

    def _tell_readable(self) -> None:
        if self._on_readable is None or self._told_readable:
            return
        if self._received or self._ended or self._was_reset:
            self._told_readable = True
            self._scheduler.call_soon(self._readable)

    def _readable(self) -> None:
        self._told_readable = False
        if self._on_readable is None:
            return
        if self._received or self._ended or self._was_reset:
            self._on_readable()
            self._tell_readable()

    def _tell_writable(self) -> None:
        if self._on_writable is None or self._told_writable:
            return
        if self._under_way < WINDOW_BYTES or self._ended or self._was_reset:
            self._told_writable = True
            self._scheduler.call_soon(self._writable)

    def _writable(self) -> None:
        self._told_writable = False
        if self._on_writable is not None and self._under_way < WINDOW_BYTES:
            self._on_writable()
            self._tell_writable()

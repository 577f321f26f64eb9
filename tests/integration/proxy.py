"""A way between client and broker that swallows some answers and then breaks the connection.

The client cannot know whether its request was done, so it sends it again: that is when idempotence
must show. The broker has to advertise the proxy's address.
"""

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from typing import Final

PRODUCE: Final = 0


class AnswerSwallower:
    """Forwards frames both ways; breaks a connection instead of every n-th answer to Produce."""

    def __init__(self, port: int, *, every: int) -> None:
        self._server_port = port
        self._every = every
        self._answers = 0
        self.swallowed = 0
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: set[socket.socket] = set()
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        self._acceptor.start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._acceptor.join(5)
        for each in list(self._open):
            _break(each)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._server_port))
            self._open |= {client, server}
            asked: list[int] = []  # the API keys of the requests that wait for an answer

            def note(frame: bytes, asked: list[int] = asked) -> bool:
                asked.append(struct.unpack_from(">h", frame)[0])
                return True

            def judge(_: bytes, asked: list[int] = asked) -> bool:
                return asked.pop(0) != PRODUCE or not self._is_to_be_swallowed()

            for source, target, wanted in ((client, server, note), (server, client, judge)):
                threading.Thread(target=_pump, args=(source, target, wanted), daemon=True).start()

    def _is_to_be_swallowed(self) -> bool:
        with self._lock:
            self._answers += 1
            swallow = self._answers % self._every == 0
            self.swallowed += swallow
            return swallow


def _pump(source: socket.socket, target: socket.socket, wanted: Callable[[bytes], bool]) -> None:
    """Move whole frames until one is not wanted, or either side has gone."""
    with contextlib.suppress(OSError), source.makefile("rb") as stream:
        while len(length := stream.read(4)) == 4:
            frame = stream.read(struct.unpack(">i", length)[0])
            if not wanted(frame):
                break
            target.sendall(length + frame)
    _break(source)
    _break(target)


def _break(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()

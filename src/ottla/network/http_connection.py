"""One HTTP peer: its requests in, pages out, in order and in slices.

A page is an iterator of pieces. Each piece is asked for in a turn of its own, and only when the
peer has taken the one before it. So a long page keeps neither the loop nor memory, however slow
its reader is.
"""

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, NamedTuple

from ottla.common.environment import Cancellable, Scheduler
from ottla.common.promise import Promise
from ottla.network.http_request import HttpRefused, HttpRequest, HttpRequests
from ottla.network.sockets import Network, StreamSocket
from ottla.observability.logging import logger

log = logger(__name__)

READ_BYTES: Final = 16 << 10
LINGER_SECONDS: Final = 1.0
LINGER_BYTES: Final = 1 << 20
"""So long, and so much, is taken of a refused peer, so that it can read why: to close with bytes
unread would throw away what it has not read."""
WAITING_MAX: Final = 16
"""Requests of one peer that wait for their turn; with more it is not read from."""
TEXT: Final = "text/plain; charset=utf-8"
_REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    414: "URI Too Long",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


class HttpPage(NamedTuple):
    """What a request is answered with. ``pieces`` are made one by one, as they can be sent."""

    status: int
    content_type: str
    pieces: Iterator[bytes]
    length: int | None = None
    """Of all pieces, if it is known."""


def text_page(status: int, text: str, content_type: str = TEXT) -> HttpPage:
    data = text.encode("utf-8")
    return HttpPage(status, content_type, iter([data]), len(data))


AnswerHttp = Callable[[HttpRequest], "HttpPage | Promise[HttpPage]"]
"""Answers a request: now, or later."""


class HttpConnection:
    __slots__ = (
        "_answer",
        "_closed_callback",
        "_is_asked",
        "_is_chunked",
        "_is_ending",
        "_is_full",
        "_is_reading",
        "_is_refused",
        "_lingers",
        "_network",
        "_outgoing",
        "_pieces",
        "_requests",
        "_scheduler",
        "_socket",
        "_taken_in_vain",
        "_waiting",
        "active_at",
        "closed",
        "peer_host",
    )

    def __init__(
        self,
        sock: StreamSocket,
        network: Network,
        scheduler: Scheduler,
        answer: AnswerHttp,
        closed: Callable[["HttpConnection"], None],
    ) -> None:
        self._socket = sock
        self._network = network
        self._scheduler = scheduler
        self._answer = answer
        self._closed_callback = closed
        self._requests = HttpRequests()
        self._waiting: deque[HttpRequest | HttpRefused] = deque()
        self._pieces: Iterator[bytes] | None = None
        """What is still to come of the page that is being sent."""
        self._is_chunked = False
        self._is_asked = False
        """Whether a page is being made that is not there yet."""
        self._outgoing = memoryview(b"")
        self._is_full = False
        self._is_ending = False
        """No request is read any more; it closes when what is owed has been sent."""
        self._is_refused = False
        self._lingers: Cancellable | None = None
        """When a refused peer is let go that does not go by itself."""
        self._taken_in_vain = 0
        self.closed = False
        self.active_at = scheduler.monotonic()
        """When a request was last whole, or the peer last took something."""
        self.peer_host: str = sock.getpeername()[0]
        self._is_reading = True
        network.watch_reading(sock, self.readable)

    # Requests

    def readable(self) -> None:
        data = self._receive()
        if data is None:
            return
        if self._is_refused:
            self._taken_in_vain += len(data)
            if self._taken_in_vain > LINGER_BYTES:
                self.close()
            return
        count = len(self._waiting)
        try:
            for request in self._requests.take(data):
                self._waiting.append(request)
        except HttpRefused as refused:
            log.debug("request of HTTP refused", peer=self.peer_host, reason=refused.reason)
            self._waiting.append(refused)
        if len(self._waiting) == count:
            return
        self.active_at = self._scheduler.monotonic()
        last = self._waiting[-1]
        is_last = isinstance(last, HttpRefused) or not last.is_kept
        if is_last or len(self._waiting) >= WAITING_MAX:
            self._pause()
        self._begin_next()

    def _receive(self) -> bytes | None:
        """What has come; None when there is nothing, or the peer has gone."""
        buffer = bytearray(READ_BYTES)
        try:
            with memoryview(buffer) as view:
                filled = self._socket.recv_into(view)
        except BlockingIOError:
            return None
        except OSError:
            self.close()
            return None
        if filled == 0:
            self.close()
            return None
        return bytes(buffer[:filled])

    def _begin_next(self) -> None:
        if self._is_asked or self._pieces is not None or self._outgoing:
            return
        if not self._waiting:
            self._resume()
            return
        request = self._waiting.popleft()
        if isinstance(request, HttpRefused):
            self._is_refused = True
            self._begin(None, text_page(request.status, f"{request.reason}\n"))
            return
        try:
            page = self._answer(request)
        except Exception:
            # A mistake of ours must not cost the others their service.
            log.exception("a page was not made: an internal error of the node", path=request.path)
            page = text_page(500, "internal error\n")
        if not request.is_kept:
            self._end()
        if isinstance(page, Promise):
            self._is_asked = True
            page.when_done(partial(self._made, request))
        else:
            self._begin(request, page)

    def _made(self, request: HttpRequest, made: Promise[HttpPage]) -> None:
        self._is_asked = False
        if self.closed:
            return
        try:
            page = made.result()
        except Exception:
            log.exception("a page was not made: an internal error of the node", path=request.path)
            page = text_page(500, "internal error\n")
        self._begin(request, page)

    def _begin(self, request: HttpRequest | None, page: HttpPage) -> None:
        """Send the head; the pieces follow in turns of their own."""
        is_chunked = request is not None and request.is_chunkable
        if not is_chunked:
            self._end()
        lines = [
            f"HTTP/1.1 {page.status} {_REASONS[page.status]}",
            f"Content-Type: {page.content_type}",
            "Cache-Control: no-store",
            "X-Content-Type-Options: nosniff",
            *(["Allow: GET, HEAD"] if page.status == 405 else []),
            *(["Transfer-Encoding: chunked"] if is_chunked else _length_lines(page)),
            f"Connection: {'close' if self._is_ending else 'keep-alive'}",
        ]
        is_head = request is not None and request.method == "HEAD"
        self._is_chunked = is_chunked
        self._pieces = None if is_head else page.pieces
        self._send("\r\n".join([*lines, "", ""]).encode("ascii"))

    # Pages

    def _go_on(self) -> None:
        """The next piece, in a turn of its own."""
        pieces = self._pieces
        if self.closed or self._outgoing or pieces is None:
            return
        try:
            piece = next(pieces, None)
        except Exception:
            # The peer sees that the page is not whole: its last chunk is missing.
            log.exception("a page was not finished: an internal error of the node")
            self.close()
            return
        if piece is None:
            self._pieces = None
            self._send(b"0\r\n\r\n" if self._is_chunked else b"")
        elif self._is_chunked:
            self._send(b"%x\r\n%b\r\n" % (len(piece), piece) if piece else b"")
        else:
            self._send(piece)

    def _send(self, data: bytes) -> None:
        self._outgoing = memoryview(data)
        self._write()

    def writable(self) -> None:
        self._is_full = False
        self._network.unwatch_writing(self._socket)
        self._write()

    def _write(self) -> None:
        try:
            while self._outgoing:
                sent = self._socket.send(self._outgoing)
                self._outgoing = self._outgoing[sent:]
                self.active_at = self._scheduler.monotonic()
        except BlockingIOError:
            self._is_full = True
            self._network.watch_writing(self._socket, self.writable)
            return
        except OSError:
            self.close()
            return
        if self._pieces is not None:
            self._scheduler.call_soon(self._go_on)
        elif self._waiting:
            self._scheduler.call_soon(self._begin_if_open)
        elif self._is_refused:
            self._linger()
        elif self._is_ending:
            self.close()
        else:
            self._resume()

    def _begin_if_open(self) -> None:
        if not self.closed:
            self._begin_next()

    # The end

    def _end(self) -> None:
        self._is_ending = True
        self._pause()

    def _linger(self) -> None:
        self._is_reading = True
        self._network.watch_reading(self._socket, self.readable)
        self._lingers = self._scheduler.call_later(LINGER_SECONDS, self.close)

    def _pause(self) -> None:
        if self._is_reading:
            self._is_reading = False
            self._network.unwatch_reading(self._socket)

    def _resume(self) -> None:
        if not self._is_reading and not self._is_ending and not self.closed:
            self._is_reading = True
            self._network.watch_reading(self._socket, self.readable)

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        self._pause()
        if self._lingers is not None:
            self._lingers.cancel()
        if self._is_full:
            self._network.unwatch_writing(self._socket)
        self._pieces = None
        self._waiting.clear()
        self._socket.close()
        self._closed_callback(self)


def _length_lines(page: HttpPage) -> list[str]:
    return [] if page.length is None else [f"Content-Length: {page.length}"]

"""Peers of the status pages that pipeline, send too much, read slowly or stay for nothing."""

from collections.abc import Iterator

import pytest
from tests.network.memory_network import MemoryNetwork, MemorySocket
from tests.turns import virtual_time

from ottla.network.http_connection import LINGER_SECONDS, HttpPage, text_page
from ottla.network.http_request import HttpRequest
from ottla.network.http_server import CONNECTIONS_MAX, IDLE_SECONDS, HttpServer

PIECES = 50
PIECE = b"x" * 1000


class Pages:
    """A server in memory; ``/long`` has many pieces, each other path answers with its name."""

    def __init__(self) -> None:
        self.network = MemoryNetwork()
        self.scheduler = virtual_time(1)
        self.server = HttpServer(self.network, self.scheduler, self._answer)
        self.server.listen("", 9644)
        self.pieces_made = 0

    def _answer(self, request: HttpRequest) -> HttpPage:
        if request.path == "/long":
            return HttpPage(200, "text/plain", self._long())
        return text_page(200, f"page {request.path}\n")

    def _long(self) -> Iterator[bytes]:
        for _ in range(PIECES):
            self.pieces_made += 1
            yield PIECE

    def connect(self) -> MemorySocket:
        sock = MemorySocket()
        self.network.accepted[""](sock)
        return sock

    def receive(self, sock: MemorySocket, *pieces: bytes) -> bytes:
        """What has been sent for it, shortly after."""
        sock.incoming += pieces
        self.run_for(0.1)
        return bytes(sock.sent)

    def run_for(self, seconds: float) -> None:
        for _ in range(10):
            self.network.run()
            self.scheduler.run_for(seconds / 10)


def get(path: str, method: str = "GET") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode()


@pytest.mark.parametrize("at_once", [True, False])
def test_requests_before_a_refused_one_are_answered_first(at_once: bool) -> None:
    pages = Pages()
    sock = pages.connect()
    asked = [get("/long"), get("/b"), get("/c", "POST"), get("/never")]
    sent = pages.receive(sock, *([b"".join(asked)] if at_once else asked))
    assert sent.count(PIECE) == PIECES
    assert [line for line in sent.splitlines() if line.startswith(b"HTTP/1.1")] == [
        b"HTTP/1.1 200 OK",
        b"HTTP/1.1 200 OK",
        b"HTTP/1.1 405 Method Not Allowed",
    ]
    assert b"page /b\n" in sent
    assert b"/never" not in sent


def test_a_refusal_never_comes_between_the_bytes_of_an_answer() -> None:
    pages = Pages()
    sock = pages.connect()
    sock.room = 20
    assert len(pages.receive(sock, get("/a", "HEAD"))) == 20
    assert len(pages.receive(sock, b"nothing of HTTP\r\n\r\n")) == 20
    sock.room = 1 << 20
    pages.run_for(0.1)
    head, _, refused = bytes(sock.sent).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert head.endswith(b"Connection: keep-alive")
    assert refused.startswith(b"HTTP/1.1 400 Bad Request\r\n")


def test_a_refused_peer_can_read_why_before_its_connection_ends() -> None:
    """What it still sends is taken: a close with bytes unread would throw the answer away."""
    pages = Pages()
    sock = pages.connect()
    body = b"b" * 5000
    head = b"POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 10000\r\n\r\n"
    sent = pages.receive(sock, head, body, body)
    assert sent.startswith(b"HTTP/1.1 405 Method Not Allowed\r\n")
    assert b"\r\nContent-Length: 29\r\n" in sent
    assert sent.endswith(b"\r\n\r\nonly GET and HEAD are served\n")
    assert not sock.incoming
    assert pages.server.connection_count == 1
    sock.peer_gone = True
    pages.run_for(0.1)
    assert sock.closed


def test_a_refused_peer_that_does_not_go_is_closed_soon() -> None:
    pages = Pages()
    silent, talkative = pages.connect(), pages.connect()
    pages.receive(silent, b"a" * (64 << 10))
    assert silent.sent.startswith(b"HTTP/1.1 414 ")
    pages.receive(talkative, *[b"a" * (16 << 10)] * 1000)
    assert talkative.incoming
    assert [silent.closed, talkative.closed] == [False, True]
    pages.run_for(LINGER_SECONDS)
    assert [silent.closed, talkative.closed] == [True, True]
    assert pages.server.connection_count == 0


def test_a_slow_reader_makes_us_keep_one_piece() -> None:
    pages = Pages()
    sock = pages.connect()
    sock.room = 0
    pages.receive(sock, get("/long"))
    assert pages.pieces_made == 0
    for _ in range(5):
        sock.room = 1500
        pages.run_for(IDLE_SECONDS / 2)
    assert pages.server.connection_count == 1
    assert 0 < pages.pieces_made < 10
    pages.run_for(IDLE_SECONDS + 2)
    assert sock.closed


def test_half_a_request_is_not_waited_for_for_ever() -> None:
    pages = Pages()
    sock = pages.connect()
    for _ in range(10):
        pages.receive(sock, b"GET / HTTP/1.1\r\nx: y\r\n"[:2])
        pages.run_for(IDLE_SECONDS / 9)
    assert sock.closed
    assert not sock.sent


def test_peers_that_stay_for_nothing_shut_nobody_out() -> None:
    pages = Pages()
    reader = pages.connect()
    reader.room = 1500
    idle = []
    for number in range(CONNECTIONS_MAX - 1):
        idle.append(pages.connect())
        pages.run_for(0.1)
        if number == 20:
            pages.receive(reader, get("/long"))
    probe = pages.connect()
    assert pages.receive(probe, get("/healthz")).startswith(b"HTTP/1.1 200 OK")
    assert pages.server.connection_count == CONNECTIONS_MAX
    assert pages.server.refused == 1
    assert [sock.closed for sock in idle[:3]] == [True, False, False]
    assert not reader.closed

"""Many small requests, all alike: how many a broker answers in a second, and what one costs it.

A client of our own on raw sockets keeps five requests in flight on each, as a producer would. All
frames are made beforehand and answers are only counted, so that the client takes a small part of
what a broker takes.
"""

import select
import socket
import struct
import time
from collections.abc import Callable, Sequence
from typing import Final

from tools.kafka_peer.broker_process import BrokerProcess, cpu_seconds

from ottla.protocol.headers import encode_request_header
from ottla.protocol.message import Message
from ottla.protocol.primitives import Writer

IN_FLIGHT: Final = 5


def request_frame(request: Message, version: int) -> bytes:
    out = Writer()
    encode_request_header(
        out, api_key=request.API_KEY, version=version, correlation_id=7, client_id="bench"
    )
    request.encode(out, version)
    body = out.getvalue()
    return struct.pack(">i", len(body)) + body


class _Connection:
    """A socket with its frame; all answers have one length, which the first one tells."""

    def __init__(self, port: int, frame: bytes, error_code: Callable[[bytes], int]) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), 10)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.frame = frame
        self.partial = 0
        self._error_code = error_code
        self.answer_size = self._first_answer()

    def _first_answer(self) -> int:
        """Ask until a request is taken: a new topic needs a moment; the size of the answer."""
        error = 0
        for _ in range(500):
            self.socket.sendall(self.frame)
            (length,) = struct.unpack(">i", self.socket.recv(4, socket.MSG_WAITALL))
            error = self._error_code(self.socket.recv(length, socket.MSG_WAITALL))
            if error == 0:
                return int(length) + 4
            time.sleep(0.02)
        raise RuntimeError(f"the first request was refused with error {error}")

    def answers(self) -> int:
        """How many whole answers have come since the last look."""
        received = self.socket.recv(1 << 16)
        if not received:
            raise ConnectionError("the broker closed the connection")
        whole, self.partial = divmod(self.partial + len(received), self.answer_size)
        return whole

    def ask(self, count: int) -> None:
        self.socket.sendall(self.frame * count)


def requests_per_second(
    broker: BrokerProcess,
    frames: Sequence[bytes],
    error_code: Callable[[bytes], int],
    *,
    seconds: float,
) -> tuple[float, float]:
    """Requests a second over one connection for each frame, and the broker's us for each."""
    connections = {
        each.socket.fileno(): each
        for each in (_Connection(broker.port, frame, error_code) for frame in frames)
    }
    poll = select.epoll()
    for number, connection in connections.items():
        poll.register(number, select.EPOLLIN)
        connection.ask(IN_FLIGHT)
    before = cpu_seconds(broker.pid)
    began = time.perf_counter()
    end = began + seconds
    done = 0
    while time.perf_counter() < end:
        for number, _ in poll.poll(1):
            connection = connections[number]
            whole = connection.answers()
            if whole:
                connection.ask(whole)
                done += whole
    elapsed = time.perf_counter() - began
    spent = cpu_seconds(broker.pid) - before
    poll.close()
    for connection in connections.values():
        connection.socket.close()
    return done / elapsed, spent / done * 1e6

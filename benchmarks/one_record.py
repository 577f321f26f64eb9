"""Produce requests with one record each: what a request costs beside its bytes.

A client of our own on four raw sockets keeps five requests in flight on each, as a producer would.
All frames are made beforehand and answers are only counted, so that the client takes a small part
of what a broker takes.
"""

import select
import socket
import struct
import time
from typing import Final

from benchmarks.measures import CPU_PER_REQUEST, REQUESTS, Figures
from tools.kafka_peer.broker_process import BrokerProcess, cpu_seconds

from ottla.protocol.api import ApiKey
from ottla.protocol.generated.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from ottla.protocol.headers import encode_request_header
from ottla.protocol.primitives import Writer
from ottla.records.builder import build_batch
from ottla.records.record import Record

CONNECTIONS: Final = 4
IN_FLIGHT: Final = 5
VERSION: Final = 9
RECORD_SIZE: Final = 100


def produce_frame(topic: str, partition: int) -> bytes:
    """A Produce request with one record of 100 bytes, acks=all."""
    batch = build_batch([Record(value=b"x" * RECORD_SIZE, timestamp=int(time.time() * 1000))])
    data = TopicProduceData(
        name=topic, partition_data=[PartitionProduceData(index=partition, records=batch)]
    )
    out = Writer()
    encode_request_header(
        out, api_key=ApiKey.PRODUCE, version=VERSION, correlation_id=7, client_id="bench"
    )
    ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data]).encode(out, VERSION)
    body = out.getvalue()
    return struct.pack(">i", len(body)) + body


class _Connection:
    """A socket with its frame; all answers have one length, which the first one tells."""

    def __init__(self, port: int, frame: bytes) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), 10)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.frame = frame
        self.partial = 0
        self.answer_size = self._first_answer()

    def _first_answer(self) -> int:
        """Ask until a request is taken: a new topic needs a moment; the size of the answer."""
        error = 0
        for _ in range(500):
            self.socket.sendall(self.frame)
            (length,) = struct.unpack(">i", self.socket.recv(4, socket.MSG_WAITALL))
            error = _error_code(self.socket.recv(length, socket.MSG_WAITALL))
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


def _error_code(answer: bytes) -> int:
    """After the correlation id, tags, one topic with its name, and one partition's number."""
    name_size = answer[6] - 1
    (error,) = struct.unpack_from(">h", answer, 7 + name_size + 1 + 4)
    return int(error)


def one_record_requests(broker: BrokerProcess, topic: str, *, seconds: float) -> Figures:
    """Requests a second, and the broker's time for each of them."""
    connections = {
        each.socket.fileno(): each
        for each in (_Connection(broker.port, produce_frame(topic, n)) for n in range(CONNECTIONS))
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
    return {
        "requests": (done / elapsed, REQUESTS),
        "cpu": (spent / done * 1e6, CPU_PER_REQUEST),
    }

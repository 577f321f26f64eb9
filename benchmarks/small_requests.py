"""Many small requests, all alike: how many a broker answers in a second, and what one costs it.

A client of our own on raw sockets keeps five requests in flight on each, as a producer would. All
frames are made beforehand, answers are only counted, and the client says what it takes itself, so
that it can be seen to be a small part of what a broker takes.
"""

import os
import select
import socket
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple, Self

from tools.kafka_peer.broker_process import BrokerProcess, cpu_seconds, process_tree

from ottla.protocol.headers import encode_request_header
from ottla.protocol.message import Message
from ottla.protocol.primitives import Writer

IN_FLIGHT: Final = 5
TIMEOUT: Final = 60.0
_BUFFER: Final = memoryview(bytearray(1 << 18))
"""One for all connections: what comes is counted, not kept."""

ErrorCode = Callable[[bytes], int]
"""The error of an answer without its length."""


def request_frame(request: Message, version: int) -> bytes:
    out = Writer()
    encode_request_header(
        out, api_key=request.API_KEY, version=version, correlation_id=7, client_id="bench"
    )
    request.encode(out, version)
    body = out.getvalue()
    return struct.pack(">i", len(body)) + body


class Asking:
    """One connection on which one request after the other is asked."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), TIMEOUT)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def ask(self, frame: bytes) -> bytes:
        self.socket.sendall(frame)
        (length,) = struct.unpack(">i", self.receive(4))
        return self.receive(length)

    def receive(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            part = self.socket.recv(count - len(data), socket.MSG_WAITALL)
            if not part:
                raise ConnectionError("the broker closed the connection")
            data += part
        return data

    def until_taken(self, frame: bytes, error_code: ErrorCode) -> bytes:
        """Ask until a request is taken, for a new topic needs a moment; the answer."""
        end = time.monotonic() + TIMEOUT
        while True:
            answer = self.ask(frame)
            error = error_code(answer)
            if error == 0:
                return answer
            if time.monotonic() > end:
                raise RuntimeError(f"the request was refused with error {error}")
            time.sleep(0.02)


def latencies(asking: Asking, frames: Iterable[bytes], error_code: ErrorCode) -> list[float]:
    """Seconds from a request to its answer, one after the other, from the shortest on."""
    taken: list[float] = []
    for frame in frames:
        began = time.perf_counter()
        answer = asking.ask(frame)
        taken.append(time.perf_counter() - began)
        assert error_code(answer) == 0, error_code(answer)
    return sorted(taken)


def percentile(ordered: Sequence[float], part: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]


class _Crowded:
    """A connection of many; all its answers have one length, which the first one tells."""

    def __init__(self, asking: Asking, frame: bytes, error_code: ErrorCode, in_flight: int) -> None:
        self.answer_size = len(asking.until_taken(frame, error_code)) + 4
        self.socket = asking.socket
        self.socket.setblocking(False)
        self.receive = self.socket.recv_into
        self.send = self.socket.sendall
        self.frames = [frame * count for count in range(in_flight + 1)]
        self.partial = 0


class Rate(NamedTuple):
    requests: float
    """A second."""
    broker_us: float
    """The processor's time that the broker takes for one."""
    client_us: float
    """That the client takes."""
    ordered: list[float]
    """How long rounds of the client took in seconds; see :func:`requests_per_second`."""


def requests_per_second(
    broker: BrokerProcess,
    frames: Sequence[bytes],
    error_code: ErrorCode,
    *,
    seconds: float,
    in_flight: int = IN_FLIGHT,
    timed: bool = False,
    ports: Sequence[int] = (),
    connect: Callable[[int], Asking] = Asking,
) -> Rate:
    """One connection for each frame; ``timed`` takes the time of each connection's answers too.

    That is from a sending to the next answer on the same connection: with one in flight, the
    latency of a request among all the others. ``ports`` says for each frame where it goes, when
    the broker is a machine of several processes; what they take is added up. ``connect`` opens a
    connection to a port.
    """
    aims = zip(frames, ports or [broker.port] * len(frames), strict=True)
    connections = {
        each.socket.fileno(): each
        for each in (_Crowded(connect(port), frame, error_code, in_flight) for frame, port in aims)
    }
    pids = process_tree(broker.pid) if ports else [broker.pid]
    poll = select.epoll()
    sent: dict[int, float] = {}
    taken: list[float] = []
    now = time.perf_counter
    for number, connection in connections.items():
        poll.register(number, select.EPOLLIN)
        connection.send(connection.frames[in_flight])
        sent[number] = now()
    before, own = sum(map(cpu_seconds, pids)), time.process_time()
    began = now()
    end = began + seconds
    done = 0
    while now() < end:
        for number, _ in poll.poll(1):
            connection = connections[number]
            count = connection.receive(_BUFFER)
            if not count:
                raise ConnectionError("the broker closed the connection")
            whole, connection.partial = divmod(connection.partial + count, connection.answer_size)
            if whole:
                if timed:
                    taken.append(now() - sent[number])
                    sent[number] = now()
                connection.send(connection.frames[whole])
                done += whole
    elapsed = now() - began
    spent, own = sum(map(cpu_seconds, pids)) - before, time.process_time() - own
    poll.close()
    for connection in connections.values():
        connection.socket.close()
    return Rate(done / elapsed, spent / done * 1e6, own / done * 1e6, sorted(taken))


@contextmanager
def a_core_each(broker: BrokerProcess) -> Iterator[None]:
    """The broker on one core, and this client on another."""
    cores = sorted(os.sched_getaffinity(0))
    _pin(broker.pid, {cores[0]})
    os.sched_setaffinity(0, {cores[-1]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)
        _pin(broker.pid, set(cores))


def _pin(pid: int, cores: set[int]) -> None:
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(ProcessLookupError):  # a thread that has just ended
            os.sched_setaffinity(int(task.name), cores)

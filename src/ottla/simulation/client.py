"""A client in a simulation: requests in, promises of answers out, on a simulated connection."""

from collections import deque
from typing import TypeVar

from ottla.common.promise import Promise
from ottla.protocol.frame import FrameReader, frame
from ottla.protocol.headers import decode_response_header, encode_request_header
from ottla.protocol.message import Message, from_bytes, to_bytes
from ottla.protocol.primitives import Writer
from ottla.simulation.broker import SimulatedBroker

R = TypeVar("R", bound=Message)

ANSWER_BYTES_MAX = 64 << 20


class Disconnected(Exception):
    """The connection ended before the answer came: it may have been carried out or not."""


class SimulatedClient:
    def __init__(self, broker: SimulatedBroker, listener: str = "PLAINTEXT") -> None:
        self._broker = broker
        self._network = broker.network
        self._socket = broker.connect(listener)
        self._reader = FrameReader(ANSWER_BYTES_MAX)
        self._unsent = bytearray()
        self._next_id = 0
        self._waiting: deque[tuple[int, int, type[Message], int, Promise[Message]]] = deque()
        self._network.watch_reading(self._socket, self._readable)

    @property
    def port(self) -> int:
        """The port that was dialled."""
        return self._socket.getpeername()[1]

    def ask(self, request: Message, response_class: type[R], version: int) -> R:
        """Send ``request`` and run the simulation until its answer has come."""
        promise = self.send(request, response_class, version)
        self._broker.scheduler.run_until(lambda: promise.done, 60.0)
        if not promise.done:
            raise Disconnected
        answer = promise.result()
        assert isinstance(answer, response_class)
        return answer

    def send(self, request: Message, response_class: type[R], version: int) -> Promise[Message]:
        self._next_id += 1
        key = request.API_KEY
        out = Writer()
        encode_request_header(
            out, api_key=key, version=version, correlation_id=self._next_id, client_id="simulation"
        )
        self._unsent += frame(out.getvalue() + to_bytes(request, version))
        promise: Promise[Message] = Promise(self._broker.scheduler.turn)
        self._waiting.append((self._next_id, key, response_class, version, promise))
        self._write()
        return promise

    def _write(self) -> None:
        try:
            while self._unsent:
                sent = self._socket.send(bytes(self._unsent))
                del self._unsent[:sent]
        except BlockingIOError:
            self._network.watch_writing(self._socket, self._writable)
        except BrokenPipeError:
            self._ended()

    def _writable(self) -> None:
        self._network.unwatch_writing(self._socket)
        self._write()

    def _readable(self) -> None:
        data = self._socket.recv(1 << 20)
        if not data:
            self._network.unwatch_reading(self._socket)
            self._ended()
            return
        for payload in self._reader.feed(data):
            expected, key, response_class, version, promise = self._waiting.popleft()
            header, pos = decode_response_header(payload, 0, api_key=key, version=version)
            assert header.correlation_id == expected, "answers came out of order"
            promise.fulfil(from_bytes(response_class, payload[pos:], version))

    def _ended(self) -> None:
        while self._waiting:
            self._waiting.popleft()[-1].fail(Disconnected())

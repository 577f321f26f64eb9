"""A whole broker in the simulation, and one client for each request."""

from struct import pack, unpack_from
from typing import Final

from ottla.protocol.headers import encode_request_header
from ottla.protocol.message import Message, to_bytes
from ottla.protocol.primitives import Writer
from ottla.simulation.broker import SimulatedBroker

ANSWER_SECONDS: Final = 40.0


class AskedBroker:
    def __init__(self, settings: dict[str, str]) -> None:
        self.broker = SimulatedBroker(1, settings)
        self.broker.start()

    def ask(self, request: Message, version: int, listener: str) -> None:
        """Send it, and read the whole answer, or that the connection ends."""
        scheduler = self.broker.scheduler
        sock = self.broker.connect(listener)
        data = memoryview(framed(request, version))
        received = bytearray()
        end = scheduler.now + ANSWER_SECONDS
        while scheduler.now < end:
            try:
                while data:
                    data = data[sock.send(data) :]
            except BlockingIOError:
                pass
            except BrokenPipeError:
                break
            scheduler.run_for(0.01)
            try:
                part = sock.recv(1 << 24)
            except BlockingIOError:
                continue
            received += part
            if not part or (
                len(received) >= 4 and len(received) == 4 + unpack_from(">i", received)[0]
            ):
                break
        else:
            raise AssertionError(f"no answer to {type(request).__name__}")
        sock.close()
        scheduler.run_for(0.01)


def framed(request: Message, version: int) -> bytes:
    out = Writer()
    encode_request_header(
        out, api_key=request.API_KEY, version=version, correlation_id=1, client_id="largest"
    )
    out.parts.append(to_bytes(request, version))
    data = out.getvalue()
    return pack(">i", len(data)) + data

"""One connection and what stands around it; nothing happens but what a test says.

The socket is in memory; the answering function stands in for the dispatcher.
"""

from collections.abc import Callable
from struct import pack

from tests.network.memory_network import MemoryNetwork, MemorySocket
from tests.turns import TURN

from ottla.common.buffers import Answer
from ottla.common.chance import Chance
from ottla.common.promise import Promise
from ottla.network.connection import (
    Connection,
)
from ottla.simulation.scheduler import SimulatedScheduler

Answering = Callable[[bytes], "Answer | Promise[Answer] | None"]


def frame(body: bytes) -> bytes:
    return pack(">i", len(body)) + body


def echo(body: bytes) -> bytes:
    return frame(b"re:" + body)


class Memory:
    """Request memory as a test wants it: it counts, and refuses while ``refusing``."""

    def __init__(self) -> None:
        self.taken = 0
        self.refusing = False
        self.waiting: list[Connection] = []

    def take(self, connection: Connection, size: int) -> bool:
        if self.refusing:
            self.waiting.append(connection)
            return False
        self.taken += size
        return True

    def hold(self, connection: Connection, size: int) -> bool:
        self.taken += size
        if self.refusing:
            self.waiting.append(connection)
        return not self.refusing

    def give_back(self, size: int) -> None:
        self.taken -= size


class Turns(SimulatedScheduler):
    """A clock that goes on by ``step`` whenever it is read."""

    def __init__(self) -> None:
        super().__init__(Chance(1))
        self.turn = TURN
        self.step_seconds = 0.0

    def monotonic(self) -> float:
        self.now += self.step_seconds
        return self.now


class Broker:
    """One connection and what stands around it."""

    def __init__(
        self, answering: Answering = echo, *, frame_limit: int = 1 << 20, buffer_size: int = 1 << 16
    ) -> None:
        self.answering = answering
        self.requests: list[bytes] = []
        self.closed: list[Connection] = []
        self.memory = Memory()
        self.network = MemoryNetwork()
        self.scheduler = Turns()
        self.socket = MemorySocket()
        self.connection = Connection(
            self.socket,
            self.network,
            listener_name="PLAINTEXT",
            receive_buffer=memoryview(bytearray(buffer_size)),
            frame_limit=frame_limit,
            memory=self.memory,
            answer_frame=self._answer,
            closed=self.closed.append,
            scheduler=self.scheduler,
        )

    def _answer(
        self, connection: Connection, body: memoryview
    ) -> "Answer | Promise[Answer] | None":
        assert connection is self.connection
        assert not body.readonly, "offsets are written into the frame"
        self.requests.append(bytes(body))
        return self.answering(bytes(body))

    def receive(self, *pieces: bytes) -> None:
        self.socket.incoming += pieces
        self.network.run()

    @property
    def sent(self) -> bytes:
        return bytes(self.socket.sent)

    def reads(self) -> bool:
        return self.socket in self.network.readers


class MemoryFile:
    def __init__(self, data: bytes) -> None:
        self.data = data

    def fileno(self) -> int:
        return -1

    def read_at(self, position: int, size: int) -> bytes:
        return self.data[position : position + size]


class FileRegion:
    def __init__(self, file: MemoryFile, position: int, size: int) -> None:
        self.file = file
        self.position = position
        self.size = size

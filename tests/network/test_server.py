"""The limits that hold for all connections together: their number, their silence, their memory."""

from struct import pack

import pytest
from tests.network.memory_network import MemoryNetwork, MemorySocket

from ottla.common.chance import Chance
from ottla.network.connection import Connection
from ottla.network.server import SocketServer, SocketServerLimits
from ottla.simulation.scheduler import SimulatedScheduler


def frame(body: bytes) -> bytes:
    return pack(">i", len(body)) + body


class Listener:
    """A server with one listener, and the clients that dial it."""

    def __init__(
        self,
        *,
        connections: int = 100,
        per_ip: int = 100,
        overrides: dict[str, int] | None = None,
        idle_ms: int = 600_000,
        queued_request_bytes: int = -1,
    ) -> None:
        self.scheduler = SimulatedScheduler(Chance(1))
        self.network = MemoryNetwork()
        self.requests: list[bytes] = []
        self.server = SocketServer(
            self.network,
            self.scheduler,
            SocketServerLimits(
                connections=connections,
                connections_per_ip=per_ip,
                connections_per_ip_overrides=overrides or {},
                frame_bytes=1 << 20,
                idle_ms=idle_ms,
                queued_request_bytes=queued_request_bytes,
            ),
        )
        self.port = self.server.listen("PLAINTEXT", "localhost", 0)
        self.server.start({"PLAINTEXT": self._answer}, lambda: None)

    def _answer(self, _: Connection, body: memoryview) -> bytes:
        self.requests.append(bytes(body))
        return frame(bytes(body))

    def dial(self, peer_host: str = "10.0.0.9") -> MemorySocket:
        sock = MemorySocket(peer_host)
        self.network.accepted["localhost"](sock)
        return sock

    def send(self, sock: MemorySocket, data: bytes) -> None:
        sock.incoming.append(data)
        self.network.run()


def test_no_more_connections_than_allowed_from_one_address() -> None:
    listener = Listener(per_ip=2)
    clients = [listener.dial("10.0.0.1") for _ in range(3)]
    assert [client.closed for client in clients] == [False, False, True]
    assert not listener.dial("10.0.0.2").closed
    assert listener.server.connections_refused == 1


def test_an_address_may_have_a_limit_of_its_own() -> None:
    listener = Listener(per_ip=1, overrides={"10.0.0.1": 2, "10.0.0.2": 0})
    assert [listener.dial("10.0.0.1").closed for _ in range(3)] == [False, False, True]
    assert listener.dial("10.0.0.2").closed
    assert not listener.dial("10.0.0.3").closed


def test_no_more_connections_than_allowed_in_all() -> None:
    listener = Listener(connections=2)
    assert [listener.dial(f"10.0.0.{i}").closed for i in range(3)] == [False, False, True]


def test_who_leaves_makes_room() -> None:
    listener = Listener(connections=1, per_ip=1)
    first = listener.dial()
    first.peer_gone = True
    listener.network.run()
    assert listener.server.connection_count == 0
    assert not listener.dial().closed


def test_a_peer_that_is_gone_before_it_is_accepted_does_no_harm() -> None:
    listener = Listener()
    sock = MemorySocket()
    sock.broken = True
    listener.network.accepted["localhost"](sock)
    assert sock.closed
    assert listener.server.connection_count == 0


def test_a_silent_connection_is_closed_after_its_time_and_not_before() -> None:
    listener = Listener(idle_ms=10_000)
    silent, talking = listener.dial(), listener.dial()
    for _ in range(9):
        listener.scheduler.run_for(1.0)
        listener.send(talking, frame(b"still here"))
    closed = [silent.closed]
    listener.scheduler.run_for(3.0)
    closed.append(silent.closed)
    assert closed == [False, True]
    assert not talking.closed


def test_a_connection_that_owes_an_answer_is_not_silent() -> None:
    listener = Listener(idle_ms=1_000)
    slow_reader = listener.dial()
    slow_reader.room = 0
    listener.send(slow_reader, frame(b"x"))
    listener.scheduler.run_for(60.0)
    assert not slow_reader.closed


def test_without_an_idle_limit_nobody_is_closed() -> None:
    listener = Listener(idle_ms=-1)
    silent = listener.dial()
    listener.scheduler.run_for(10_000.0)
    assert not silent.closed


def test_frames_wait_while_all_connections_together_hold_too_much() -> None:
    listener = Listener(queued_request_bytes=100)
    first, second, third = (listener.dial() for _ in range(3))
    listener.send(first, frame(bytes(200))[:50])  # larger than the limit: it may begin all the same
    listener.send(second, frame(b"b" * 50)[:20])
    listener.send(third, frame(b"c" * 50)[:20])
    listener.send(second, frame(b"b" * 50)[20:])
    assert listener.requests == []
    listener.send(first, frame(bytes(200))[50:])
    assert listener.requests == [bytes(200), b"b" * 50]
    listener.send(third, frame(b"c" * 50)[20:])
    assert listener.requests[-1] == b"c" * 50


@pytest.mark.parametrize("ending", ["gone", "hostile"])
def test_a_connection_that_ends_in_the_middle_of_a_frame_frees_its_memory(ending: str) -> None:
    listener = Listener(queued_request_bytes=100)
    first, second = listener.dial(), listener.dial()
    listener.send(first, frame(bytes(150))[:50])
    listener.send(second, frame(b"b" * 50)[:20])
    if ending == "gone":
        first.peer_gone = True
    else:
        first.broken = True
    listener.network.run()
    listener.send(second, frame(b"b" * 50)[20:])
    assert listener.requests == [b"b" * 50]


def test_who_waits_for_memory_and_leaves_does_not_take_it() -> None:
    listener = Listener(queued_request_bytes=100)
    first, second, third = (listener.dial() for _ in range(3))
    listener.send(first, frame(bytes(150))[:50])
    listener.send(second, frame(b"b" * 100)[:20])
    listener.send(third, frame(b"c" * 100)[:20])
    connection = list(listener.server._connections)[1]
    connection.close()
    listener.send(first, frame(bytes(150))[50:])
    listener.send(third, frame(b"c" * 100)[20:])
    assert listener.requests == [bytes(150), b"c" * 100]


def test_a_server_that_closes_closes_everything() -> None:
    listener = Listener()
    client = listener.dial()
    listener.server.close()
    assert client.closed
    assert all(listening.closed for listening in listener.network.listening)
    assert listener.server.connection_count == 0

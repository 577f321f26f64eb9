"""The limits that hold for all connections together: their number, their silence, their memory."""

from struct import pack

import pytest
from tests.network.memory_network import MemoryNetwork, MemorySocket
from tests.turns import TURN, virtual_time

from ottla.common.buffers import Answer
from ottla.common.promise import Promise
from ottla.network.connection import Connection
from ottla.network.server import (
    CONNECTIONS_ALWAYS,
    SocketServer,
    SocketServerLimits,
    descriptors_for_clients,
)

LATER = b"later"


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
        descriptors: int = 1_000,
    ) -> None:
        self.scheduler = virtual_time(1)
        self.network = MemoryNetwork()
        self.requests: list[bytes] = []
        self.pending: Promise[Answer] = Promise(TURN)
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
                descriptors=descriptors,
            ),
            protected=frozenset({"BROKERS"}),
        )
        self.port = self.server.listen("PLAINTEXT", "localhost", 0)
        self.server.listen("BROKERS", "brokers", 0)
        self.server.start({"PLAINTEXT": self._answer, "BROKERS": self._answer})

    def _answer(self, _: Connection, body: memoryview) -> Answer | Promise[Answer]:
        self.requests.append(bytes(body))
        return self.pending if bytes(body) == LATER else frame(bytes(body))

    def dial(
        self, peer_host: str = "10.0.0.9", *, to: str = "localhost", descriptor: int = 10
    ) -> MemorySocket:
        sock = MemorySocket(peer_host, descriptor)
        self.network.accepted[to](sock)
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


def test_descriptors_are_left_for_logs_and_other_brokers() -> None:
    """The lowest free number is given, so that a high one says that all below it are taken."""
    listener = Listener(descriptors=896)
    for number in range(CONNECTIONS_ALWAYS):
        listener.dial(descriptor=number)
    numbers = (895, 896, 1_000)
    assert [listener.dial(descriptor=number).closed for number in numbers] == [False, True, True]
    assert not listener.dial(to="brokers", descriptor=1_000).closed


def test_a_few_clients_get_in_where_logs_have_taken_nearly_all_descriptors() -> None:
    """Nobody could: not even a client that would delete some of the topics."""
    listener = Listener(descriptors=896)
    clients = [listener.dial(descriptor=900 + i) for i in range(CONNECTIONS_ALWAYS + 1)]
    assert [client.closed for client in clients] == [False] * CONNECTIONS_ALWAYS + [True]
    clients[0].incoming.append(b"")
    listener.network.run()
    assert not listener.dial(descriptor=900).closed


@pytest.mark.parametrize(
    ("limit", "for_clients"),
    [(256, 224), (1_024, 896), (65_536, 64_512), (1 << 62, (1 << 62) - 1_024)],
)
def test_a_part_of_the_descriptors_is_kept_from_clients(limit: int, for_clients: int) -> None:
    assert descriptors_for_clients(limit) == for_clients


def test_clients_do_not_keep_other_brokers_out() -> None:
    listener = Listener(connections=2)
    assert [listener.dial().closed for _ in range(3)] == [False, False, True]
    assert not listener.dial(to="brokers").closed


def test_the_client_that_was_silent_for_longest_makes_room_for_another_broker() -> None:
    listener = Listener(connections=2)
    first, second = listener.dial(), listener.dial()
    listener.scheduler.run_for(1.5)
    listener.send(first, frame(b"one"))
    one = listener.dial(to="brokers")
    assert [first.closed, second.closed, one.closed] == [False, True, False]
    two, three = listener.dial(to="brokers"), listener.dial(to="brokers")
    assert [first.closed, one.closed, two.closed, three.closed] == [True, False, False, False]


def test_refusals_are_told_in_few_words(caplog: pytest.LogCaptureFixture) -> None:
    listener = Listener(connections=0)
    with caplog.at_level("WARNING", "ottla"):
        for _ in range(3):
            for _ in range(1_000):
                listener.dial()
            listener.scheduler.run_for(1.5)
        listener.scheduler.run_for(60.0)
    assert listener.server.connections_refused == 3_000
    assert [record.getMessage() for record in caplog.records] == [
        "connection refused",
        "more connections refused",
    ] * 3


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


def test_a_connection_that_waits_for_our_answer_is_not_idle_and_has_its_time_after_it() -> None:
    listener = Listener(idle_ms=10_000)
    client = listener.dial()
    listener.send(client, frame(LATER))
    listener.scheduler.run_for(60.0)
    listener.pending.fulfil(frame(b"now"))
    listener.scheduler.run_for(8.0)
    closed = [client.closed]
    listener.scheduler.run_for(4.0)
    closed.append(client.closed)
    assert closed == [False, True]
    assert client.sent == frame(b"now")


@pytest.mark.parametrize("has_another_under_way", [False, True])
def test_who_stops_reading_is_closed_after_the_idle_time(has_another_under_way: bool) -> None:
    """What it does not read may be a file, which stays on the disk as long as it is held."""
    listener = Listener(idle_ms=10_000)
    deaf = listener.dial()
    deaf.room = 3
    listener.send(deaf, frame(b"answer"))
    if has_another_under_way:
        listener.send(deaf, frame(LATER))
    listener.scheduler.run_for(9.0)
    closed = [deaf.closed]
    listener.scheduler.run_for(3.0)
    closed.append(deaf.closed)
    assert closed == [False, True]
    assert listener.server.connection_count == 0


def test_who_reads_slowly_is_not_closed() -> None:
    listener = Listener(idle_ms=10_000)
    slow = listener.dial()
    slow.room = 3
    listener.send(slow, frame(b"x" * 20))
    for _ in range(5):
        listener.scheduler.run_for(8.0)
        assert not slow.closed
        slow.room = 3
        listener.network.run()
    assert len(slow.sent) == 18


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


def test_requests_that_are_held_count_against_what_others_may_begin() -> None:
    listener = Listener(queued_request_bytes=100)
    first, second = listener.dial(), listener.dial()
    holder = next(iter(listener.server._connections))
    holder.hold(100)
    listener.send(first, frame(b"a"))
    assert listener.requests == [b"a"], "what is being read is answered"
    listener.send(first, frame(b"a" * 50)[:20])
    listener.send(second, frame(b"b" * 50)[:20])
    listener.send(second, frame(b"b" * 50)[20:])
    assert listener.requests == [b"a"]
    holder.let_go(100)
    listener.send(second, b"")
    assert listener.requests == [b"a", b"b" * 50]


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

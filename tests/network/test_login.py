"""Logins on connections: who is let in, who is shut out and when, and sessions that end."""

import math
from struct import pack

import pytest
from tests.security.logins import authenticate, handshake, plain, request, settings

from ottla.common.authorization import Principal
from ottla.common.buffers import Answer
from ottla.common.chance import Chance
from ottla.common.environment import Scheduler
from ottla.common.errors import ErrorCode
from ottla.common.promise import Promise
from ottla.network.connection import Connection
from ottla.network.login import SaslListener
from ottla.network.node_client import NodeClient, NodeClientLimits
from ottla.network.server import LOGIN_SECONDS, SocketServer, SocketServerLimits
from ottla.network.sockets import StreamSocket
from ottla.protocol.api import ApiKey
from ottla.protocol.generated.api_versions import ApiVersion, ApiVersionsResponse
from ottla.protocol.generated.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.protocol.headers import decode_request_header
from ottla.security.mechanism import user
from ottla.security.plain import PlainClient
from ottla.security.sasl_client import SaslLogin
from ottla.security.sasl_server import framed
from ottla.security.scram import MECHANISMS
from ottla.security.scram_client import ScramClient
from ottla.simulation.network import SimulatedNetwork
from ottla.simulation.scheduler import NodeScheduler, SimulatedScheduler

PORT = 9092
FRAME_BYTES = 1_000
DELAY_MS = 100
LIST_GROUPS = request(ApiKey.LIST_GROUPS, 0)
SERVED = [
    ApiVersion(api_key=ApiKey.LIST_GROUPS, max_version=0),
    ApiVersion(api_key=ApiKey.SASL_HANDSHAKE, max_version=1),
    ApiVersion(api_key=ApiKey.SASL_AUTHENTICATE, max_version=2),
]


class Server:
    """Serves ListGroups after a login, and notes whose requests they were."""

    def __init__(self, reauthentication_ms: int = 0) -> None:
        self.scheduler = SimulatedScheduler(Chance(1))
        self.network = SimulatedNetwork(self.scheduler, Chance(2))
        self.asked: list[tuple[Principal, int]] = []
        limits = SocketServerLimits(
            connections=100,
            connections_per_ip=100,
            connections_per_ip_overrides={},
            frame_bytes=100_000,
            idle_ms=600_000,
            queued_request_bytes=-1,
        )
        self.sockets = SocketServer(self.network, self.scheduler, limits)
        self.sockets.listen("SASL", "", PORT)
        login = SaslListener(
            settings(reauthentication_ms),
            self._answer,
            self.scheduler,
            frame_bytes=FRAME_BYTES,
            frame_bytes_after=100_000,
            refusal_delay_ms=DELAY_MS,
        )
        self.sockets.start({"SASL": self._answer}, {"SASL": login})

    def _answer(
        self, connection: Connection, frame: memoryview
    ) -> "Answer | Promise[Answer] | None":
        header, _ = decode_request_header(bytes(frame), 0)
        key, version = header.request_api_key, header.request_api_version
        if key == ApiKey.API_VERSIONS:
            code = 0 if version <= 4 else ErrorCode.UNSUPPORTED_VERSION
            response = ApiVersionsResponse(error_code=code, api_keys=SERVED)
            return framed(response, version if code == 0 else 0, header.correlation_id)
        self.asked.append((connection.principal, key))
        return framed(ListGroupsResponse(), 0, header.correlation_id)

    def dial(self) -> "Client":
        return Client(self)

    def node(self, login: SaslLogin | None, scheduler: Scheduler | None = None) -> NodeClient:
        return NodeClient(
            self.network,
            scheduler or self.scheduler,
            "server",
            PORT,
            client_id="node",
            limits=NodeClientLimits(timeout_seconds=2.0, backoff_seconds=0.05),
            login=login,
        )

    def wait(self, answer: Promise[ListGroupsResponse]) -> ListGroupsResponse:
        assert self.scheduler.run_until(lambda: answer.done, 10)
        return answer.result()

    def run(self, seconds: float) -> None:
        until = self.scheduler.monotonic() + seconds
        self.scheduler.call_later(seconds, lambda: None)
        self.scheduler.run_until(lambda: self.scheduler.monotonic() >= until, seconds + 1)


class Client:
    """Bytes to the server and back."""

    def __init__(self, server: Server) -> None:
        self._server = server
        dialled = server.network.dial("server", PORT)
        assert server.scheduler.run_until(lambda: dialled.done, 10)
        self._socket: StreamSocket = dialled.result()
        self.received = b""
        self.is_closed = False
        server.network.watch_reading(self._socket, self._readable)

    def _readable(self) -> None:
        room = bytearray(1 << 16)
        try:
            count = self._socket.recv_into(memoryview(room))
        except ConnectionError:
            count = 0
        self.received += bytes(room[:count])
        if count == 0:
            self.is_closed = True
            self._server.network.unwatch_reading(self._socket)

    def send(self, *frames: bytes) -> None:
        for frame in frames:
            self._socket.send(pack(">i", len(frame)) + frame)
            self._server.run(0.01)

    def send_raw(self, data: bytes) -> None:
        self._socket.send(data)

    def close(self) -> None:
        self._server.network.unwatch_reading(self._socket)
        self._socket.close()

    def code(self) -> int:
        """The error of the last answer, which is an answer of a login."""
        size = int.from_bytes(self.received[:4], "big")
        while len(self.received) > size + 4:
            self.received = self.received[size + 4 :]
            size = int.from_bytes(self.received[:4], "big")
        return int.from_bytes(self.received[9:11], "big")


def plain_login(name: str = "alice", password: str = "alice-secret") -> SaslLogin:
    return SaslLogin("PLAIN", lambda: PlainClient(name, password))


def scram_login(mechanism: str) -> SaslLogin:
    scram = MECHANISMS[mechanism]
    return SaslLogin(mechanism, lambda: ScramClient(scram, "bob", "bob-secret", Chance(5)))


@pytest.mark.parametrize(
    ("login", "name"),
    [
        (plain_login(), "alice"),
        (scram_login("SCRAM-SHA-256"), "bob"),
        (scram_login("SCRAM-SHA-512"), "bob"),
    ],
)
def test_a_node_logs_in_and_its_requests_are_its_principals(login: SaslLogin, name: str) -> None:
    server = Server()
    node = server.node(login)
    answers = [node.send(ListGroupsRequest()) for _ in range(3)]
    for answer in answers:
        server.wait(answer)
    assert server.asked == [(user(name), ApiKey.LIST_GROUPS)] * 3


def test_a_node_hashes_its_password_off_the_loop() -> None:
    server = Server()
    own = NodeScheduler(server.scheduler, Chance(3))
    where: list[bool] = []

    class Watched(ScramClient):
        def evaluate(self, challenge: bytes) -> bytes | None:
            where.append(own.is_off_loop)
            return super().evaluate(challenge)

    scram = MECHANISMS["SCRAM-SHA-256"]
    login = SaslLogin("SCRAM-SHA-256", lambda: Watched(scram, "bob", "bob-secret", Chance(5)))
    server.wait(server.node(login, own).send(ListGroupsRequest()))
    assert where == [True, True]


@pytest.mark.parametrize(
    "login", [plain_login(password="wrong"), SaslLogin("GSSAPI", lambda: PlainClient("a", "b"))]
)
def test_a_node_that_is_refused_fails_what_waits_and_tries_again_later(login: SaslLogin) -> None:
    server = Server()
    node = server.node(login)
    with pytest.raises(ConnectionError, match="refuses our login"):
        server.wait(node.send(ListGroupsRequest()))
    assert not server.asked
    assert server.sockets.connections_accepted == 1
    server.run(1)
    with pytest.raises(ConnectionError, match="refuses our login"):
        server.wait(node.send(ListGroupsRequest()))
    assert server.sockets.connections_accepted == 2


def test_a_node_without_a_login_is_not_answered() -> None:
    server = Server()
    with pytest.raises(ConnectionError):
        server.wait(server.node(None).send(ListGroupsRequest()))
    assert not server.asked


def test_a_refusal_comes_late_and_ends_the_connection_and_nobody_waits_for_it() -> None:
    server = Server()
    client = server.dial()
    began = server.scheduler.monotonic()
    client.send(handshake("PLAIN"), authenticate(plain("alice", "wrong")), LIST_GROUPS)
    seen = len(client.received)
    server.wait(server.node(plain_login()).send(ListGroupsRequest()))
    assert server.scheduler.monotonic() - began < DELAY_MS / 1000
    assert len(client.received) == seen
    assert server.scheduler.run_until(lambda: client.is_closed, 10)
    assert server.scheduler.monotonic() - began >= DELAY_MS / 1000
    assert client.code() == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert [principal for principal, _ in server.asked] == [user("alice")]


def test_nothing_is_served_before_a_login() -> None:
    server = Server()
    client = server.dial()
    client.send(LIST_GROUPS)
    assert client.is_closed
    assert not client.received
    assert not server.asked


def test_versions_are_told_before_a_login_and_only_once() -> None:
    server = Server()
    client = server.dial()
    client.send(request(ApiKey.API_VERSIONS, 99), request(ApiKey.API_VERSIONS, 0))
    assert client.received
    assert not client.is_closed
    client.send(request(ApiKey.API_VERSIONS, 0))
    assert client.is_closed


def test_frames_are_small_before_a_login_and_large_after_it() -> None:
    server = Server()
    large = LIST_GROUPS + bytes(FRAME_BYTES)
    stranger = server.dial()
    stranger.send_raw(pack(">i", len(large)))
    server.run(0.1)
    assert stranger.is_closed
    client = server.dial()
    client.send(handshake("PLAIN"), authenticate(plain("alice", "alice-secret")), large)
    assert not client.is_closed
    assert server.asked == [(user("alice"), ApiKey.LIST_GROUPS)]


@pytest.mark.parametrize("more", [b"", LIST_GROUPS], ids=["last", "followed"])
def test_a_large_frame_that_comes_with_the_login_is_answered(more: bytes) -> None:
    server = Server()
    client = server.dial()
    large = LIST_GROUPS + bytes(FRAME_BYTES)
    token = authenticate(plain("alice", "alice-secret"))
    frames = [handshake("PLAIN"), token, large, *([more] if more else [])]
    client.send_raw(b"".join(pack(">i", len(each)) + each for each in frames))
    server.run(0.1)
    assert not client.is_closed
    assert server.asked == [(user("alice"), ApiKey.LIST_GROUPS)] * (len(frames) - 2)


def test_a_login_that_takes_for_ever_is_cut_however_busy_it_looks() -> None:
    server = Server()
    busy, member = server.dial(), server.dial()
    member.send(handshake("PLAIN"), authenticate(plain("alice", "alice-secret")))
    frame = pack(">i", 500) + bytes(500)
    for place in range(math.ceil(LOGIN_SECONDS) + 3):
        if not busy.is_closed:
            busy.send_raw(frame[place : place + 1])
        server.run(1)
    assert busy.is_closed
    assert not member.is_closed


@pytest.mark.parametrize("seconds", [0.5, 2.0])
def test_a_node_makes_its_session_go_on(seconds: float) -> None:
    server = Server(reauthentication_ms=3_000)
    node = server.node(plain_login())
    for _ in range(20):
        server.wait(node.send(ListGroupsRequest()))
        server.run(seconds)
    assert server.sockets.connections_accepted == 1
    assert len(server.asked) == 20


def test_after_the_end_of_a_session_nothing_is_answered_but_a_login() -> None:
    server = Server(reauthentication_ms=3_000)
    first, second = server.dial(), server.dial()
    for client in (first, second):
        client.send(handshake("PLAIN"), authenticate(plain("alice", "alice-secret")), LIST_GROUPS)
    server.run(3.5)
    first.send(LIST_GROUPS)
    assert first.is_closed
    second.send(handshake("PLAIN"), authenticate(plain("alice", "alice-secret")), LIST_GROUPS)
    assert not second.is_closed
    assert len(server.asked) == 3


def test_a_session_is_not_made_to_go_on_all_the_time() -> None:
    """Within a second the request is answered as any other is."""
    server = Server(reauthentication_ms=3_000)
    client = server.dial()
    client.send(handshake("PLAIN"), authenticate(plain("alice", "alice-secret")))
    client.send(handshake("PLAIN"))
    assert server.asked == [(user("alice"), ApiKey.SASL_HANDSHAKE)]
    server.run(1)
    client.send(handshake("PLAIN"))
    assert len(server.asked) == 1


def test_a_session_does_not_change_hands() -> None:
    server = Server(reauthentication_ms=3_000)
    client = server.dial()
    client.send(handshake("PLAIN"), authenticate(plain("alice", "alice-secret")))
    server.run(1.5)
    client.send(handshake("PLAIN"), authenticate(plain("bob", "bob-secret")), LIST_GROUPS)
    server.run(1)
    assert client.is_closed
    assert client.code() == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert not server.asked


def test_without_an_end_a_session_costs_nothing_more() -> None:
    server = Server()
    client = server.dial()
    client.send(handshake("PLAIN"), authenticate(plain("alice", "alice-secret")))
    (connection,) = server.sockets._connections
    assert connection.login is None
    assert connection._answer_frame == server._answer
    client.send(handshake("PLAIN"))
    assert server.asked == [(user("alice"), ApiKey.SASL_HANDSHAKE)]

"""TLS upon a network: what goes in on one side comes out on the other, however it is cut.

The peer is OpenSSL on buffers of its own, and the socket between is in memory: the test cuts what
comes into pieces and takes what goes in any amounts.
"""

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.network.key_updates import CIPHER, ClientRecords, client_secret
from tests.network.memory_network import MemoryNetwork, MemorySocket
from tests.network.served_connection import echo, frame
from tests.security import certificates
from tests.turns import TURN

from ottla.common.chance import Chance
from ottla.common.promise import Promise
from ottla.network.connection import Connection
from ottla.network.server import descriptors_for_clients
from ottla.network.sockets import StreamSocket
from ottla.network.tls import (
    ENCRYPTED_AT_ONCE,
    HANDSHAKE_SECONDS,
    HANDSHAKES_MAX,
    IDLE_BYTES_MAX,
    INTERNAL_ERROR,
    RECEIVE_BYTES,
    UNSENT_MAX,
    TlsNetwork,
    TlsSocket,
)
from ottla.security.tls_contexts import ListenerContexts
from ottla.simulation.scheduler import SimulatedScheduler


class DiallingMemory(MemoryNetwork):
    """Dials into memory."""

    def __init__(self, scheduler: SimulatedScheduler) -> None:
        super().__init__()
        self._scheduler = scheduler
        self.dialled: list[MemorySocket] = []

    def dial(self, host: str, port: int) -> Promise[StreamSocket]:
        del host, port
        sock = MemorySocket()
        self.dialled.append(sock)
        promise: Promise[StreamSocket] = Promise(self._scheduler.turn)
        promise.fulfil(sock)
        return promise


class Memory:
    """The memory that requests may take: all of it."""

    def take(self, connection: Connection, size: int) -> bool:
        del connection, size
        return True

    hold = take

    def give_back(self, size: int) -> None: ...


class Peer:
    """The other side of a socket in memory."""

    def __init__(self, sock: MemorySocket, tls: ssl.SSLObject, ins: Any, outs: Any) -> None:
        self.sock = sock
        self.tls = tls
        self.ins = ins
        self.outs = outs
        self.received = b""
        self.is_open = False

    @classmethod
    def client(cls, sock: MemorySocket, context: ssl.SSLContext | None = None) -> "Peer":
        ins, outs = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = context or ListenerContexts(certificates.settings()).client
        return cls(sock, context.wrap_bio(ins, outs, server_hostname="localhost"), ins, outs)

    @classmethod
    def server(cls, sock: MemorySocket, shown: dict[str, str]) -> "Peer":
        ins, outs = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = ListenerContexts(shown).server
        return cls(sock, context.wrap_bio(ins, outs, server_side=True), ins, outs)

    def pump(self, piece: int = 1 << 20) -> None:
        """Take what was sent, go on, and put what is to go on the wire in pieces."""
        self.ins.write(bytes(self.sock.sent))
        self.sock.sent.clear()
        try:
            if not self.is_open:
                self.tls.do_handshake()
                self.is_open = True
            while True:
                got = self.tls.read(1 << 16)
                if not got:
                    break
                self.received += got
        except ssl.SSLWantReadError:
            pass
        self.post(piece)

    def post(self, piece: int = 1 << 20) -> None:
        data = self.outs.read()
        self.sock.incoming += [data[at : at + piece] for at in range(0, len(data), piece)]

    def write(self, data: bytes, piece: int = 1 << 20) -> None:
        self.tls.write(data)
        self.post(piece)


class World:
    """A TLS network on one in memory, and the connections that were let in."""

    def __init__(self, shown: dict[str, str] | None = None) -> None:
        self.scheduler = SimulatedScheduler(Chance(1))
        self.below = DiallingMemory(self.scheduler)
        contexts = ListenerContexts(shown or certificates.settings())
        self.network = TlsNetwork(self.below, self.scheduler, contexts)
        self.connections: list[Connection] = []
        self.answer: Callable[[bytes], Any] = echo
        self.listening = self.network.listen("here", 0, self._accepted)

    def _accepted(self, sock: StreamSocket) -> None:
        assert isinstance(sock, TlsSocket)
        self.connections.append(
            Connection(
                sock,
                self.network,
                listener_name="SSL",
                receive_buffer=memoryview(bytearray(1 << 20)),
                frame_limit=1 << 24,
                memory=Memory(),
                answer_frame=lambda _, body: self.answer(bytes(body)),
                closed=lambda _: None,
                scheduler=self.scheduler,
            )
        )

    def arrive(self) -> MemorySocket:
        sock = MemorySocket()
        self.below.accepted["here"](sock)
        return sock

    def run(self) -> None:
        for _ in range(3):
            self.below.run()
            self.scheduler.run_for(0.001)

    def talk(self, peer: Peer, piece: int = 1 << 20) -> None:
        for _ in range(6):
            peer.pump(piece)
            self.run()


def test_a_request_is_answered_and_nothing_of_it_can_be_read_on_the_wire() -> None:
    world = World()
    sock = world.arrive()
    peer = Peer.client(sock)
    world.talk(peer)
    assert peer.is_open
    peer.write(frame(b"a secret of some length"))
    assert b"secret" not in b"".join(sock.incoming)
    world.run()
    assert b"secret" not in bytes(sock.sent)
    peer.pump()
    assert peer.received == echo(b"a secret of some length")


@settings(deadline=None, max_examples=60)
@given(
    bodies=st.lists(st.binary(max_size=5_000), max_size=6),
    large=st.integers(0, 3 * ENCRYPTED_AT_ONCE),
    piece=st.sampled_from([1, 7, 500, 16_384, 1 << 20]),
    room=st.sampled_from([1, 900, 70_000, 1 << 30]),
)
def test_all_that_is_sent_is_answered_in_order_however_it_is_cut(
    bodies: list[bytes], large: int, piece: int, room: int
) -> None:
    bodies = [*bodies, b"x" * (large if piece > 7 and room > 1 else large % 3_000)]
    world = World()
    sock = world.arrive()
    peer = Peer.client(sock)
    world.talk(peer, piece)
    peer.write(b"".join(frame(body) for body in bodies), piece)
    expected = b"".join(echo(body) for body in bodies)
    sock.room = 0
    world.run()
    for _ in range(20_000):
        if len(peer.received) >= len(expected):
            break
        sock.room = room
        world.run()
        peer.pump(piece)
    assert peer.received == expected


def test_nobody_is_let_in_before_the_handshake_is_over() -> None:
    world = World()
    sock = world.arrive()
    peer = Peer.client(sock)
    peer.pump()
    world.run()
    assert world.connections == []
    world.talk(peer)
    assert len(world.connections) == 1


def test_what_comes_with_the_end_of_the_handshake_is_read() -> None:
    world = World()
    sock = world.arrive()
    peer = Peer.client(sock)
    peer.pump()
    world.run()
    peer.ins.write(bytes(sock.sent))
    sock.sent.clear()
    peer.tls.do_handshake()
    peer.is_open = True
    peer.tls.write(frame(b"at once"))
    peer.post()
    world.talk(peer)
    assert peer.received == echo(b"at once")


def test_a_handshake_has_its_time() -> None:
    world = World()
    silent = world.arrive()
    world.scheduler.run_for(HANDSHAKE_SECONDS - 1)
    states = [silent.closed]
    world.scheduler.run_for(2)
    assert [*states, silent.closed] == [False, True]
    assert silent not in world.below.readers
    assert world.network.handshakes_failed == 1


def test_a_connection_that_was_let_in_in_time_stays() -> None:
    world = World()
    sock = world.arrive()
    world.talk(Peer.client(sock))
    world.scheduler.run_for(2 * HANDSHAKE_SECONDS)
    assert not sock.closed


def test_the_oldest_unfinished_handshake_makes_room() -> None:
    world = World()
    served = world.arrive()
    world.talk(Peer.client(served))
    silent = [world.arrive() for _ in range(HANDSHAKES_MAX)]
    assert not any(sock.closed for sock in silent)
    newest = world.arrive()
    assert [sock.closed for sock in silent[:2]] == [True, False]
    assert not newest.closed
    assert not served.closed


def test_handshakes_take_no_descriptor_that_is_not_for_clients() -> None:
    world = World()
    world.below.descriptor_limit = 1_024
    limit = descriptors_for_clients(1_024)
    socks = [MemorySocket(descriptor=number) for number in range(limit - 2, limit + 2)]
    for sock in socks:
        world.below.accepted["here"](sock)
    assert [sock.closed for sock in socks] == [True, True, False, False]


def test_a_mistake_of_ours_costs_no_other_handshake() -> None:
    world = World()
    let_in: list[StreamSocket] = []

    def accept(sock: StreamSocket) -> None:
        let_in.append(sock)
        if len(let_in) == 1:
            raise ZeroDivisionError

    world.network.listen("there", 0, accept)
    peers = [Peer.client(MemorySocket()) for _ in range(3)]
    for peer in peers:
        world.below.accepted["there"](peer.sock)
    mistakes = 0
    for _ in range(6):
        for peer in peers:
            peer.pump()
        try:
            world.run()
        except ZeroDivisionError:
            mistakes += 1
    assert mistakes == 1
    assert len(let_in) == 3


def test_handshakes_end_with_their_listener_and_open_connections_stay() -> None:
    world = World()
    served = world.arrive()
    world.talk(Peer.client(served))
    silent = [world.arrive() for _ in range(3)]
    elsewhere = MemorySocket()
    world.network.listen("there", 0, lambda _: None)
    world.below.accepted["there"](elsewhere)
    world.listening.close()
    assert all(sock.closed for sock in silent)
    assert not served.closed
    assert not elsewhere.closed


class SlowScheduler(SimulatedScheduler):
    """Each look at the clock finds it 3 ms later, as if a handshake had taken that long."""

    def __init__(self) -> None:
        super().__init__(Chance(1))
        self._looks = 0

    def monotonic(self) -> float:
        self._looks += 1
        return super().monotonic() + 0.003 * self._looks


def test_a_crowd_of_handshakes_lets_others_have_their_turn() -> None:
    scheduler = SlowScheduler()
    below = DiallingMemory(scheduler)
    network = TlsNetwork(below, scheduler, ListenerContexts(certificates.settings()))
    network.listen("here", 0, lambda _: None)
    socks = [MemorySocket() for _ in range(20)]
    for sock in socks:
        below.accepted["here"](sock)
        Peer.client(sock).pump()
    below.run()  # all of them can go on now
    done: list[int] = []

    def look() -> None:
        done.append(sum(bool(sock.sent) for sock in socks))
        if done[-1] < len(socks):
            scheduler.call_soon(look)

    scheduler.call_soon(look)
    scheduler.run_for(1)
    assert max(after - before for before, after in zip([0, *done], done, strict=False)) <= 2
    assert done[-1] == len(socks)


def test_what_is_no_tls_costs_its_peer_the_connection_and_nobody_else() -> None:
    world = World()
    served = world.arrive()
    peer = Peer.client(served)
    world.talk(peer)
    stranger = world.arrive()
    stranger.incoming.append(frame(b"\0\x12\0\3plain kafka"))
    world.run()
    assert stranger.closed
    assert stranger.sent == INTERNAL_ERROR
    peer.write(frame(b"still there"))
    world.talk(peer)
    assert peer.received == echo(b"still there")


def test_a_file_is_sent_whole() -> None:
    class File:
        def fileno(self) -> int:
            raise AssertionError("TLS cannot let the kernel send a file")

        def read_at(self, position: int, size: int) -> bytes:
            return data[position : position + size]

    class Region:
        file = File()
        position = 5
        size = 2 * ENCRYPTED_AT_ONCE + 3

    data = bytes(range(256)) * 4_000
    world = World()
    sock = world.arrive()
    peer = Peer.client(sock)
    world.talk(peer)
    world.answer = lambda _: [b"head", Region(), b"tail"]
    peer.write(frame(b"?"))
    world.talk(peer)
    assert peer.received == b"head" + data[5 : 5 + Region.size] + b"tail"
    assert sock.files_sent == 0


@pytest.mark.parametrize("orderly", [True, False])
def test_the_end_of_the_peer_is_the_end_of_the_connection(orderly: bool) -> None:
    world = World()
    sock = world.arrive()
    peer = Peer.client(sock)
    world.talk(peer)
    if orderly:
        with pytest.raises(ssl.SSLWantReadError):
            peer.tls.unwrap()
        peer.post()
    else:
        sock.peer_gone = True
    world.run()
    assert sock.closed
    assert sock not in world.below.readers
    assert sock not in world.below.writers


def test_the_end_of_the_peer_is_seen_when_it_comes_with_a_request() -> None:
    world = World()
    sock = world.arrive()
    peer = Peer.client(sock)
    world.talk(peer)
    peer.tls.write(frame(b"last"))
    with pytest.raises(ssl.SSLWantReadError):
        peer.tls.unwrap()
    peer.post()
    world.run()
    assert sock.closed
    peer.ins.write(bytes(sock.sent))
    assert peer.tls.read(100) == echo(b"last")


def test_a_closed_connection_tells_its_peer_that_nothing_was_cut_off() -> None:
    world = World()
    sock = world.arrive()
    peer = Peer.client(sock)
    world.talk(peer)
    world.connections[0].close()
    peer.ins.write(bytes(sock.sent))
    assert peer.tls.read(1) == b""


def dial(world: World, shown: dict[str, str], host: str = "localhost") -> Promise[StreamSocket]:
    promise = world.network.dial(host, 9093)
    world.scheduler.run_for(0.001)
    peer = Peer.server(world.below.dialled[0], shown)
    for _ in range(4):
        try:
            peer.pump()
        except ssl.SSLError:
            break
        world.run()
    return promise


def test_a_server_is_dialled() -> None:
    world = World()
    promise = dial(world, certificates.settings())
    assert promise.result().send(b"hello") == 5


@pytest.mark.parametrize(
    ("shown", "host", "why"),
    [
        (certificates.server(), "elsewhere", "Hostname mismatch"),
        (certificates.stranger().issue("b", ["localhost"], certificates.NOW), "localhost", "local"),
    ],
)
def test_a_server_that_is_not_the_one_that_was_meant_is_left(
    shown: Any, host: str, why: str
) -> None:
    world = World()
    promise = dial(world, certificates.settings(shown), host)
    with pytest.raises(ssl.SSLCertVerificationError, match=why):
        promise.result()
    assert world.below.dialled[0].closed


def test_without_endpoint_identification_the_name_is_not_looked_at() -> None:
    world = World({**certificates.settings(), "ssl.endpoint.identification.algorithm": ""})
    assert dial(world, certificates.settings(), "elsewhere").result().send(b"x") == 1


def test_a_certificate_is_trusted_whose_issuer_is_not_as_java_does() -> None:
    """A truststore may have the certificate of a broker itself, or of what stands between."""
    trusted = {"ssl.truststore.certificates": certificates.server().certificate}
    world = World({**certificates.settings(), **trusted})
    assert dial(world, certificates.settings()).result().send(b"x") == 1
    other = World({**certificates.settings(), **trusted})
    promise = dial(other, certificates.settings(certificates.client()))
    with pytest.raises(ssl.SSLCertVerificationError):
        promise.result()


def test_a_server_that_does_not_answer_is_left_in_time() -> None:
    world = World()
    promise = world.network.dial("localhost", 9093)
    world.scheduler.run_for(HANDSHAKE_SECONDS + 1)
    with pytest.raises(TimeoutError):
        promise.result()


def test_a_certificate_is_required_of_clients_where_it_is() -> None:
    world = World({**certificates.settings(), "ssl.client.auth": "required"})
    anonymous = world.arrive()
    with pytest.raises(ssl.SSLError):
        world.talk(
            Peer.client(anonymous, ListenerContexts(without_keys()).client),
        )
    assert anonymous.closed
    known = world.arrive()
    context = ListenerContexts(certificates.settings(certificates.client())).client
    world.talk(Peer.client(known, context))
    assert len(world.connections) == 1


def without_keys() -> dict[str, str]:
    return {
        key: value
        for key, value in certificates.settings().items()
        if key.startswith("ssl.truststore")
    }


class KeyChanger:
    """A client that has shaken hands and asks for new keys from then on."""

    def __init__(self, directory: Path) -> None:
        self.world = World()
        self.sock = self.world.arrive()
        context = ListenerContexts(certificates.settings()).client
        context.keylog_filename = str(directory / "keys")
        peer = Peer.client(self.sock, context)
        self.world.talk(peer)
        assert peer.tls.cipher() is not None
        assert peer.tls.cipher()[0] == CIPHER  # type: ignore[index]
        self.records = ClientRecords(client_secret(directory / "keys"))
        self._request = iter(frame(bytes(1 << 16)))

    def some_data(self) -> bytes:
        """One byte of a request that is never whole."""
        return self.records.data(bytes([next(self._request)]))

    def send(self, *records: bytes, piece: int = 1 << 20) -> None:
        data = b"".join(records)
        self.sock.incoming += [data[at : at + piece] for at in range(0, len(data), piece)]


def test_a_peer_may_ask_for_new_keys(tmp_path: Path) -> None:
    changer = KeyChanger(tmp_path)
    for number in range(300):
        body = b"%d" % number
        changer.send(changer.records.key_update(), changer.records.data(frame(body)))
        changer.world.run()
    assert not changer.sock.closed
    assert len(changer.sock.sent) > 300 * 2 * 26, "each is answered, and so is each request"


@pytest.mark.parametrize("piece", [1_000, 20_000, 1 << 20])
def test_a_peer_that_sends_nothing_but_new_keys_is_let_go(tmp_path: Path, piece: int) -> None:
    changer = KeyChanger(tmp_path)
    updates = [changer.records.key_update(is_requested=False) for _ in range(8_000)]
    changer.send(*updates, piece=piece)
    changer.world.run()
    assert changer.sock.closed
    assert sum(map(len, changer.sock.incoming)) > len(b"".join(updates)) - 3 * IDLE_BYTES_MAX


def test_a_peer_that_asks_for_keys_and_does_not_read_is_let_go(tmp_path: Path) -> None:
    changer = KeyChanger(tmp_path)
    changer.sock.room = 0
    asked = 0
    while not changer.sock.closed:
        updates = [changer.records.key_update() for _ in range(1_000)]
        asked += sum(map(len, updates))
        assert asked < 2 * UNSENT_MAX
        changer.send(*updates, changer.some_data())
        changer.world.run()


def test_new_keys_let_others_have_their_turn(tmp_path: Path) -> None:
    """A read takes a little of them, and comes back for more."""
    changer = KeyChanger(tmp_path)
    for _ in range(10):
        updates = [changer.records.key_update(is_requested=False) for _ in range(900)]
        changer.send(*updates, changer.some_data())
    (reader,) = changer.world.below.readers.values()
    left = len(changer.sock.incoming)
    while left:
        TURN.run(reader)
        assert not changer.sock.closed
        assert left - len(changer.sock.incoming) <= 1
        left = len(changer.sock.incoming)


def test_much_data_is_received_in_few_calls() -> None:
    world = World()
    sock = world.arrive()
    peer = Peer.client(sock)
    world.talk(peer)
    peer.write(frame(bytes(4 << 20)))
    data = b"".join(sock.incoming)
    receives: list[int] = []

    class Counted(list[bytes]):
        def pop(self, at: Any = -1, /) -> bytes:
            receives.append(1)
            return super().pop(at)

    sock.incoming = Counted([data])
    world.run()
    assert not sock.incoming
    assert len(receives) < 4 + (4 << 20) / RECEIVE_BYTES * 1.1

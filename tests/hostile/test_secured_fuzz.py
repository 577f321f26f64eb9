"""The fuzzer where clients log in: before that, in the midst of it, and after it; and TLS."""

import contextlib
import socket
import ssl
import time
from typing import Final

import pytest
from tests.differential.wire import Connection, raw_frame, request_frame
from tests.hostile.messages import Requests, damaged
from tests.hostile.secured import SCRAM, SecuredBroker, client_context, plain, scram
from tests.hostile.test_frames import closed_within, connections
from tests.hostile.test_fuzz import Fuzzer, create_target
from tests.hostile.witness import is_open

from ottla.common.chance import Chance
from ottla.protocol.api import Api

pytestmark = pytest.mark.usefixtures("bystander")

SECONDS: Final = 4.0
ALERT: Final = bytes.fromhex("15030300020250")
"""The very bytes that Apache Kafka answers plaintext with: internal_error."""
HANDSHAKES: Final = {
    name: request_frame("SaslHandshake", 1, {"mechanism": name})
    for name in ("PLAIN", SCRAM, "OAUTHBEARER")
}
RIGHT: Final = request_frame("SaslAuthenticate", 2, {"auth_bytes": plain()})
PLAINTEXT: Final = (HANDSHAKES["PLAIN"], b"GET / HTTP/1.1\r\n\r\n")


class LoginFuzzer(Fuzzer):
    """What belongs to a login, with damage to its bytes, in any order."""

    def _frame(self, api: Api, version: int, body: bytes) -> bytes:
        chance = self._chance
        if chance.below(3) == 0:
            return super()._frame(api, version, body)
        frame = HANDSHAKES[list(HANDSHAKES)[chance.below(len(HANDSHAKES))]]
        for _ in range(chance.below(4) + 1):
            made = (plain(), scram().first(), b"n,,\x01auth=Bearer e30.e30.\x01\x01")
            token = bytearray(made[chance.below(len(made))])
            for _ in range(chance.below(4)):
                token[chance.below(len(token))] = chance.below(256)
            version = chance.below(4)
            if version < 3:
                frame += request_frame("SaslAuthenticate", version, {"auth_bytes": bytes(token)})
            else:
                frame += raw_frame("SaslAuthenticate", 2, bytes(token))
        return frame


class LoggedInFuzzer(Fuzzer):
    """Broken requests of a user who may do little: it logs in by the same packet."""

    def _frame(self, api: Api, version: int, body: bytes) -> bytes:
        return HANDSHAKES["PLAIN"] + RIGHT + super()._frame(api, version, body)


@pytest.mark.parametrize(("kind", "seed"), [(Fuzzer, 17), (LoginFuzzer, 18), (LoggedInFuzzer, 19)])
def test_broken_requests_at_a_listener_with_logins(
    kind: type[Fuzzer], seed: int, secured: SecuredBroker
) -> None:
    create_target(secured.port)
    fuzzer = kind(secured.sasl, seed)
    fuzzer.run(SECONDS)
    assert fuzzer.sent > 100


def test_broken_requests_of_somebody_who_may_do_everything(secured: SecuredBroker) -> None:
    """One connection for many requests, as long as the broker keeps it."""
    admin = request_frame("SaslAuthenticate", 2, {"auth_bytes": plain("admin", "admin-secret")})
    chance = Chance(20)
    requests, sent = Requests(chance), 0
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        with contextlib.closing(socket.create_connection(("127.0.0.1", secured.sasl), 10)) as sock:
            sock.sendall(HANDSHAKES["PLAIN"] + admin)
            for _ in range(20):
                api, version, encoded = requests.next()
                with contextlib.suppress(ConnectionError):
                    sock.sendall(raw_frame(api.name, version, damaged(encoded, chance)))
                sent += 1
            is_open(sock)
    assert sent > 100


# TLS


@pytest.mark.parametrize("port", ["tls", "sasl_tls"])
def test_plaintext_on_a_tls_port_gets_an_alert_and_the_end(
    port: str, secured: SecuredBroker
) -> None:
    for greeting in (
        *PLAINTEXT,
        b"\0" * 200,
        b"\xff" * 200,
        b"\x80\x2e\x01\x00\x02" + bytes(60),  # SSLv2
    ):
        with socket.create_connection(("127.0.0.1", getattr(secured, port)), 10) as sock:
            sock.sendall(greeting)
            received = b""
            with contextlib.suppress(ConnectionError):
                while part := sock.recv(100):
                    received += part
            assert received[:6] in (b"", ALERT[:6]), "an alert that ends it, or nothing"
            assert len(received) in (0, len(ALERT))
            if greeting in PLAINTEXT:
                assert received == ALERT


def hello() -> bytes:
    """The first flight of a client."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def test_broken_handshakes(secured: SecuredBroker) -> None:
    chance, sound = Chance(21), hello()
    for number in range(300):
        flight = bytearray(sound)
        for _ in range(chance.below(6) + 1):
            flight[chance.below(len(flight))] = chance.below(256)
        port = (secured.tls, secured.sasl_tls)[number % 2]
        with socket.create_connection(("127.0.0.1", port), 10) as sock:
            sock.sendall(flight[: chance.below(len(flight)) + 1] if number % 3 == 0 else flight)
            sock.setblocking(False)


def test_records_of_tls_that_are_no_handshake(secured: SecuredBroker) -> None:
    for record in (
        b"\x17\x03\x03\x40\x00" + bytes(0x4000),  # data before there are keys
        b"\x15\x03\x03\x00\x02\x02\x28",  # an alert
        b"\x14\x03\x03\x00\x01\x01",  # a change of ciphers
        b"\x16\x03\x03\xff\xff" + bytes(1000),  # longer than a record may be
        b"\x16\x03\x03\x00\x00" * 200,  # empty ones
    ):
        with connections(secured.tls, 10) as opened:
            for sock in opened:
                sock.sendall(record)
                sock.shutdown(socket.SHUT_WR)
            assert closed_within(opened, 10) == 0


def test_two_thousand_strangers_who_take_their_time(secured: SecuredBroker) -> None:
    """Half of them in a handshake of TLS, half in a login, a byte now and then; others go on."""
    flight = hello()
    with connections(secured.tls, 1_000) as tls, connections(secured.sasl, 1_000) as sasl:
        for position in range(3):
            for sock in tls:
                with contextlib.suppress(ConnectionError):
                    sock.sendall(flight[position : position + 1])
            for sock in sasl:
                sock.sendall(HANDSHAKES["PLAIN"][position : position + 1])
            with Connection(secured.sasl) as other:
                other.send(HANDSHAKES["PLAIN"] + RIGHT)
                other.receive()
                other.receive()
                assert other.ask("Metadata", 12, {"topics": []})["topics"] == []
        wrapped = client_context()
        with (
            socket.create_connection(("127.0.0.1", secured.tls), 10) as sock,
            wrapped.wrap_socket(sock, server_hostname="localhost") as client,
        ):
            client.sendall(request_frame("ApiVersions", 0, {}))
            assert client.recv(4)

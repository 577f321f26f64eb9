"""Slow-loris: a crowd that begins to log in and never comes to an end."""

from struct import pack

import pytest
from tests.network.test_login import LIST_GROUPS, Client, Server, plain_login
from tests.security.logins import authenticate, handshake, plain

from ottla.network import server as socket_server
from ottla.network.server import LOGIN_SECONDS
from ottla.protocol.generated.list_groups import ListGroupsRequest

CROWD = 2_000
DRIPS = 6


def test_two_thousand_slow_logins_are_cut_in_time_and_others_are_served() -> None:
    """A byte every now and then keeps none of them open, and nobody waits for them."""
    server = Server()
    server.sockets.limits.connections = server.sockets.limits.connections_per_ip = 2 * CROWD
    crowd = [Client(server) for _ in range(CROWD)]
    first = handshake("PLAIN")
    drips = (len(first).to_bytes(4, "big") + first)[:DRIPS]
    for byte in drips:
        for each in crowd:
            each.send_raw(bytes([byte]))
        server.run(LOGIN_SECONDS / DRIPS - 1)
        node = server.node(plain_login())
        assert server.wait(node.send(ListGroupsRequest())).error_code == 0
        node.close()
        assert not any(each.is_closed for each in crowd), "a login has its time"
    server.run(LOGIN_SECONDS)
    assert all(each.is_closed for each in crowd)
    assert {principal.name for principal, _ in server.asked} == {"alice"}


def test_strangers_take_none_of_the_memory_that_is_for_requests() -> None:
    """What they promise would keep all others waiting where ``queued.max.request.bytes`` is set."""
    server = Server()
    server.sockets.limits.queued_request_bytes = 10_000
    member = server.dial()
    member.send(handshake("PLAIN"), authenticate(plain("alice", "alice-secret")))
    for _ in range(50):
        server.dial().send_raw(pack(">i", 900))
    server.run(0.1)
    asked = pack(">i", len(LIST_GROUPS)) + LIST_GROUPS
    member.received = b""
    for piece in (asked[:6], asked[6:]):
        member.send_raw(piece)
        server.run(0.1)
    assert member.received


def test_all_strangers_together_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those with small frames are not bothered; the others wait until one of them is gone."""
    monkeypatch.setattr(socket_server, "STRANGER_BYTES_FREE", 300)
    monkeypatch.setattr(socket_server, "STRANGERS_BYTES_MAX", 2_000)
    server = Server()
    greedy = [server.dial() for _ in range(3)]
    for each in greedy:
        each.send_raw(pack(">i", 900) + b"\0")
    server.run(0.1)

    def begin(mechanism: str) -> Client:
        """A handshake that comes in two pieces; a long name makes it large."""
        frame = handshake(mechanism)
        client = server.dial()
        for piece in (pack(">i", len(frame)) + frame[:5], frame[5:]):
            client.send_raw(piece)
            server.run(0.01)
        server.run(0.2)
        return client

    assert begin("PLAIN").received
    waiting = begin("X" * 500)
    assert not waiting.received
    for each in greedy:
        each.close()
    server.run(0.5)
    assert waiting.received

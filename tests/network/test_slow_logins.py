"""Slow-loris: a crowd that begins to log in and never comes to an end."""

from tests.network.test_login import Client, Server, plain_login
from tests.security.logins import handshake

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

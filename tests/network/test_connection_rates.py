"""How fast connections may come: by listener, in all, and from one address."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.network.test_server import Listener

from ottla.metadata.client_quotas import QuotaEntity
from ottla.metadata.difference import difference
from ottla.metadata.image import MetadataImage
from ottla.network import server as module
from ottla.network.connection_rates import ConnectionRates

KEY = "connection_creation_rate"


def limit(rates: ConnectionRates, **addresses: float) -> None:
    """``any`` stands for every address."""
    quotas: dict[QuotaEntity, dict[str, float]] = {
        (("ip", None if name == "any" else name.removeprefix("ip").replace("_", ".")),): {KEY: rate}
        for name, rate in addresses.items()
    }
    image = MetadataImage(client_quotas=quotas)
    rates.changed(image, difference(MetadataImage(), image))


def test_a_listener_that_is_too_fast_takes_nobody_for_a_while() -> None:
    rates = ConnectionRates()
    rates.bound_at = {"A": 2}
    waits = [rates.accepted("A", 1_000, is_protected=False) for _ in range(22)]
    assert waits[:20] == [0] * 20
    assert waits[20:] == [500, 1000]
    assert rates.accepted("B", 1_000, is_protected=False) == 0
    assert rates.accepted("A", 13_000, is_protected=False) == 0


def test_all_listeners_share_the_rate_of_the_broker_but_that_of_the_nodes() -> None:
    rates = ConnectionRates()
    rates.bound = 1
    for name in ("A", "B") * 5:
        assert rates.accepted(name, 1_000, is_protected=False) == 0
    assert rates.accepted("A", 1_000, is_protected=False) == 1000
    assert rates.accepted("NODES", 1_000, is_protected=True) == 0


def test_a_rate_of_nothing_lets_one_in_at_a_time() -> None:
    rates = ConnectionRates()
    rates.bound = 0
    assert rates.accepted("A", 1_000, is_protected=False) == 1000


def test_an_address_that_is_too_fast_is_not_counted() -> None:
    rates = ConnectionRates()
    limit(rates, ip10_0_0_1=1)
    waits = [rates.from_address("10.0.0.1", 1_000) for _ in range(12)]
    assert waits == [0] * 10 + [1000, 1000]
    assert rates.from_address("10.0.0.2", 1_000) == 0
    limit(rates, any=1)
    assert [rates.from_address("10.0.0.3", 1_000) for _ in range(11)] == [0] * 10 + [1000]


@given(st.integers(1, 5), st.lists(st.integers(0, 700), min_size=30, max_size=120))
def test_no_address_gets_in_more_often_than_it_may(bound: int, waits: list[int]) -> None:
    rates = ConnectionRates()
    limit(rates, any=bound)
    now = 1_000
    admitted = []
    for wait in waits:
        now += wait
        if not rates.from_address("10.0.0.1", now):
            admitted.append(now)
    for n, first in enumerate(admitted):
        within = [at for at in admitted[n:] if at - first < 10_000]
        assert len(within) <= bound * 11 + 1


# At a server


def test_a_listener_is_paused_and_who_has_come_is_served() -> None:
    listener = Listener()
    listener.server.rates.bound = 1
    clients = [listener.dial(f"10.0.0.{n}") for n in range(11)]
    (at, nodes) = listener.network.listening
    assert at.pauses == [1.0]
    assert not any(client.closed for client in clients)
    listener.dial(to="brokers")
    assert nodes.pauses == []


def test_an_address_that_is_too_fast_is_held_and_let_go() -> None:
    listener = Listener()
    limit(listener.server.rates, ip10_0_0_9=1)
    clients = [listener.dial() for _ in range(11)]
    assert listener.server.connection_count == 10
    assert not any(client.closed for client in clients)
    assert clients[-1] not in listener.network.readers
    listener.scheduler.run_for(1.1)
    assert [client.closed for client in clients] == [False] * 10 + [True]


def test_those_that_are_held_are_bounded_and_go_with_the_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "HELD_MAX", 2)
    listener = Listener()
    limit(listener.server.rates, ip10_0_0_9=1)
    clients = [listener.dial() for _ in range(14)]
    assert [client.closed for client in clients[10:]] == [False, False, True, True]
    listener.server.close()
    assert all(client.closed for client in clients)


def test_a_listener_may_have_a_limit_of_its_own() -> None:
    listener = Listener()
    listener.server.limits.connections_at = {"PLAINTEXT": 2}
    clients = [listener.dial() for _ in range(3)]
    assert [client.closed for client in clients] == [False, False, True]
    assert not listener.dial(to="brokers").closed
    listener.send(clients[0], b"")  # it goes
    assert not listener.dial().closed

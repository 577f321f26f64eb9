"""Limits of connections as settings say them: of the broker, of one listener, and changed later."""

import pytest
from tests.network.memory_network import MemoryNetwork
from tests.turns import virtual_time

from ottla.common.errors import InvalidConfig
from ottla.config.broker import BrokerConfig
from ottla.network.server import SocketServer, SocketServerLimits
from ottla.server.shared_server import limit_connections

NAMES = ("PLAINTEXT", "OTHER")


def config(**settings: str) -> BrokerConfig:
    return BrokerConfig.from_properties(
        {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": "1@localhost:9093",
            **{key.replace("_", "."): value for key, value in settings.items()},
        }
    )


@pytest.fixture
def server() -> SocketServer:
    limits = SocketServerLimits(
        connections=1,
        connections_per_ip=1,
        connections_per_ip_overrides={},
        frame_bytes=1,
        idle_ms=1,
        queued_request_bytes=1,
    )
    return SocketServer(MemoryNetwork(), virtual_time(1), limits)


def test_settings_of_all_and_of_one_listener(server: SocketServer) -> None:
    given = config(
        max_connections="50",
        max_connections_per_ip="5",
        max_connection_creation_rate="9",
        listener_name_plaintext_max_connections="40",
        listener_name_other_max_connection_creation_rate="3",
    )
    limit_connections(server, given, NAMES)
    assert server.limits.connections == 50
    assert server.limits.connections_per_ip == 5
    assert server.limits.connections_at == {"PLAINTEXT": 40}
    assert server.rates.bound == 9
    assert server.rates.bound_at == {"OTHER": 3}
    limit_connections(server, config(max_connections_per_ip_overrides="10.0.0.1:7"), NAMES)
    assert server.limits.connections_at == {}
    assert server.rates.bound_at == {}
    assert server.limits.connections_per_ip_overrides == {"10.0.0.1": 7}


def test_what_is_no_number_is_refused(server: SocketServer) -> None:
    with pytest.raises(InvalidConfig):
        limit_connections(server, config(listener_name_other_max_connections="many"), NAMES)

"""Listeners and addresses: how they are read, how they are written, and whose they are."""

import pytest

from ottla.common.errors import InvalidConfig
from ottla.config.broker import BrokerConfig
from ottla.config.endpoints import HostPort, Voter, parse_host_port, parse_voters
from ottla.config.kinds import HiddenValue
from ottla.config.listeners import Listener, parse_counts, parse_listener, parse_listeners

NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listeners": "INSIDE://:9092,CONTROLLER://[::1]:9093,OUTSIDE://host:9094",
    "advertised.listeners": "OUTSIDE://outside:19094,INSIDE://inside:9092",
    "listener.security.protocol.map": "INSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT,OUTSIDE:SSL",
    "inter.broker.listener.name": "inside",
    "controller.quorum.voters": "1@[::1]:9093,2@b:9093",
}


def test_a_node_knows_which_listener_is_whose() -> None:
    config = BrokerConfig.from_properties(NODE)
    inside = Listener("INSIDE", "", 9092, "PLAINTEXT")
    outside = Listener("OUTSIDE", "host", 9094, "SSL")
    assert config.broker_listeners == (inside, outside)
    assert [each.name for each in config.controller_listeners] == ["CONTROLLER"]
    assert config.inter_broker_listener_name == "INSIDE"
    assert [str(each) for each in config.advertised_broker_listeners] == [
        "OUTSIDE://outside:19094",
        "INSIDE://inside:9092",
    ]
    assert config.controller_quorum_voters == (Voter(1, "::1", 9093), Voter(2, "b", 9093))
    assert config.early_start_listeners == ("CONTROLLER",)


def test_a_listener_is_written_as_it_is_read() -> None:
    protocols = {"A": "PLAINTEXT"}
    for text in ("A://host:1", "A://[::1]:1", "A://:0"):
        assert str(parse_listener(text, protocols)) == text
    assert parse_listeners([], protocols) == ()


def test_an_address_is_written_as_it_is_read() -> None:
    for text in ("host:1", "[::1]:9092"):
        assert str(parse_host_port(text)) == text
    assert parse_host_port("nonsense") is None
    assert str(HostPort("a", 1)) == "a:1"


def test_a_voter_needs_exactly_one_id() -> None:
    with pytest.raises(InvalidConfig, match="Each entry should be in the form"):
        parse_voters("controller.quorum.voters", ("1@a@b:1",))


def test_counts_are_numbers() -> None:
    assert parse_counts("x", "host:3, [::1]:5") == {"host": 3, "[::1]": 5}
    with pytest.raises(InvalidConfig, match="Error parsing configuration property 'x'"):
        parse_counts("x", "host")
    config = BrokerConfig.from_properties({**NODE, "max.connections.per.ip.overrides": "a:1"})
    assert config.max_connections_per_ip_overrides == {"a": 1}


def test_a_password_is_equal_to_itself_only() -> None:
    assert {HiddenValue("a"), HiddenValue("a"), HiddenValue("b")} == {
        HiddenValue("b"),
        HiddenValue("a"),
    }
    assert HiddenValue("a") != "a"


def test_a_map_of_protocols_must_be_one() -> None:
    with pytest.raises(InvalidConfig, match=r"listener\.security\.protocol\.map': nonsense"):
        BrokerConfig.from_properties({**NODE, "listener.security.protocol.map": "nonsense"})

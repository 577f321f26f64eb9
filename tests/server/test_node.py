"""A node that is asked for what it cannot give does not start."""

import pytest

from ottla.common.chance import Chance
from ottla.config.broker import BrokerConfig
from ottla.server.defaults import development_properties
from ottla.server.node import Node
from ottla.server.shared_server import StartRefused
from ottla.simulation.network import SimulatedNetwork
from ottla.simulation.scheduler import SimulatedScheduler
from ottla.testing.files import MemoryFilesystem


def refusal(settings: dict[str, str]) -> str:
    chance = Chance(1)
    scheduler = SimulatedScheduler(chance)
    node = Node(
        BrokerConfig.from_properties({**development_properties("/data"), **settings}),
        filesystem=MemoryFilesystem(),
        network=SimulatedNetwork(scheduler, chance),
        scheduler=scheduler,
        chance=chance,
        on_failure=lambda: None,
    )
    started = node.start()
    assert started.done
    with pytest.raises(StartRefused) as refused:
        started.result()
    return str(refused.value)


@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL"])
def test_a_listener_that_asks_for_protection_is_not_served_without_it(protocol: str) -> None:
    settings = {
        "listeners": "CLIENTS://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "listener.security.protocol.map": f"CLIENTS:{protocol},CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "CLIENTS",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.clients.plain.sasl.jaas.config": (
            "org.apache.kafka.common.security.plain.PlainLoginModule required "
            'username="a" password="b";'
        ),
    }
    assert f"({protocol}) has no keystore" in refusal(settings)


def test_a_login_that_cannot_be_is_refused_at_the_start() -> None:
    """Kafka's default is Kerberos."""
    settings = {
        "listeners": "CLIENTS://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "CLIENTS",
    }
    assert "GSSAPI" in refusal(settings)


def test_an_authorizer_that_is_not_to_be_had_is_not_left_out() -> None:
    assert "com.example.Mine" in refusal({"authorizer.class.name": "com.example.Mine"})
    name = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    wrong = {"authorizer.class.name": name, "super.users": "root"}
    assert "principalType:principalName" in refusal(wrong)


def test_a_java_class_that_decides_about_quotas_is_refused() -> None:
    told = refusal({"client.quota.callback.class": "com.example.Quotas"})
    assert "client.quota.callback.class=com.example.Quotas" in told


def test_directories_that_were_not_formatted_are_named() -> None:
    assert "storage format" in refusal({})

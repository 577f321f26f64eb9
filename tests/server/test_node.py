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


@pytest.mark.parametrize("protocol", ["SSL", "SASL_PLAINTEXT", "SASL_SSL"])
def test_a_listener_that_asks_for_protection_is_not_served_without_it(protocol: str) -> None:
    settings = {
        "listeners": "CLIENTS://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "listener.security.protocol.map": f"CLIENTS:{protocol},CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "CLIENTS",
    }
    assert protocol in refusal(settings)


def test_an_authorizer_that_is_asked_for_is_not_left_out() -> None:
    name = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    assert "authorizer" in refusal({"authorizer.class.name": name})


def test_directories_that_were_not_formatted_are_named() -> None:
    assert "storage format" in refusal({})

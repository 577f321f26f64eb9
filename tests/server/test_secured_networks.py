"""The stores of a listener while it serves: they are replaced when they can be used, and never read
on the loop.
"""

from pathlib import Path

import pytest
from tests.network.memory_network import MemoryNetwork
from tests.security import certificates
from tests.security.test_tls_stores import file_settings

from ottla.common.chance import Chance
from ottla.common.promise import Promise
from ottla.config.broker import BrokerConfig
from ottla.network.sockets import StreamSocket
from ottla.security.certificates import Issued
from ottla.security.tls_contexts import read_file
from ottla.server.defaults import development_properties
from ottla.server.secured_networks import LOOK_SECONDS, SecuredNetworks
from ottla.simulation.scheduler import NodeScheduler, SimulatedScheduler

CLIENTS = "SSL"
BETWEEN = "BROKERS"


class NotDialling(MemoryNetwork):
    def dial(self, host: str, port: int) -> Promise[StreamSocket]:
        raise AssertionError(f"{host}:{port}")


class Node:
    """A broker with a listener for clients, whose stores are files, and one for brokers."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.reads: list[bool] = []
        """For each read of a store, whether it was off the loop."""
        own = {f"listener.name.ssl.{key}": value for key, value in self._files().items()}
        between = {
            f"listener.name.brokers.{key}": value for key, value in certificates.settings().items()
        }
        self.properties = {
            **development_properties("/data"),
            **own,
            **between,
            "listeners": "SSL://:9092,BROKERS://:9094,CONTROLLER://:9093",
            "listener.security.protocol.map": "SSL:SSL,BROKERS:SSL,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "BROKERS",
        }
        world = SimulatedScheduler(Chance(1))
        self.scheduler = NodeScheduler(world, Chance(2))
        self.world = world
        self.secured = SecuredNetworks(NotDialling(), self.scheduler, self.config(), self._read)
        self.reads.clear()

    def _files(self) -> dict[str, str]:
        return file_settings(self.directory, "PEM")

    def _read(self, path: str) -> bytes:
        self.reads.append(self.scheduler.is_off_loop)
        return read_file(path)

    def config(self, **changed: str) -> BrokerConfig:
        return BrokerConfig.from_properties({**self.properties, **changed})

    def show(self, issued: Issued) -> None:
        """Replace the keystore of clients."""
        (self.directory / "keys").write_text(issued.certificate + issued.key)

    def contexts(self, listener: str) -> tuple[object, object]:
        found = self.secured._contexts[listener]
        return found.server, found.client


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_a_file_that_is_replaced_is_read_off_the_loop_and_used(node: Node) -> None:
    before = node.contexts(CLIENTS)
    node.world.run_for(2 * LOOK_SECONDS)
    assert node.reads == []
    node.show(certificates.authority().issue("another", certificates.HOSTS, certificates.NOW))
    node.world.run_for(2 * LOOK_SECONDS)
    assert node.contexts(CLIENTS) != before
    assert node.reads
    assert all(node.reads)


def test_a_file_that_cannot_be_used_changes_nothing_until_it_can(node: Node) -> None:
    before = node.contexts(CLIENTS)
    (node.directory / "keys").write_text("half of it")
    node.world.run_for(2 * LOOK_SECONDS)
    assert node.contexts(CLIENTS) == before
    (node.directory / "keys").unlink()
    node.world.run_for(2 * LOOK_SECONDS)
    assert node.contexts(CLIENTS) == before
    node.show(certificates.server())
    node.world.run_for(2 * LOOK_SECONDS)
    assert node.contexts(CLIENTS) != before


def test_other_settings_read_no_store(node: Node) -> None:
    before = node.contexts(CLIENTS), node.contexts(BETWEEN)
    node.secured.reconfigured(node.config(**{"log.retention.hours": "5"}))
    node.world.run_for(1)
    assert node.reads == []
    assert (node.contexts(CLIENTS), node.contexts(BETWEEN)) == before


def test_settings_of_a_store_change_its_listener_alone(node: Node) -> None:
    before = node.contexts(CLIENTS), node.contexts(BETWEEN)
    node.secured.reconfigured(node.config(**{"listener.name.ssl.ssl.client.auth": "required"}))
    node.world.run_for(1)
    assert node.contexts(CLIENTS) != before[0]
    assert node.contexts(BETWEEN) == before[1]
    assert all(node.reads)


def test_the_settings_that_came_last_hold_whichever_were_read_last(node: Node) -> None:
    for number in range(10):
        for auth in ("none", "required", "requested"):
            changed = {"listener.name.ssl.ssl.client.auth": auth}
            node.secured.reconfigured(node.config(**changed))
        node.world.run_for(1)
        assert node.secured._contexts[CLIENTS].server.verify_mode.name == "CERT_OPTIONAL", number


def test_brokers_keep_a_keystore_that_they_trust_themselves(node: Node) -> None:
    before = node.contexts(BETWEEN)
    strange = certificates.stranger().issue("b", certificates.HOSTS, certificates.NOW)
    changed = {
        "listener.name.brokers.ssl.keystore.key": strange.key,
        "listener.name.brokers.ssl.keystore.certificate.chain": strange.certificate,
    }
    node.secured.reconfigured(node.config(**changed))
    node.world.run_for(1)
    assert node.contexts(BETWEEN) == before

"""Requests to brokers by their id: found in the image, followed when they move."""

import pytest
from tests.network.test_node_client import PORT, Peer

from ottla.common.chance import Chance
from ottla.metadata.cache import MetadataCache
from ottla.metadata.delta import MetadataDelta
from ottla.network.broker_channel import BrokerChannel
from ottla.network.node_client import NodeClientLimits
from ottla.protocol.generated.metadata_records import (
    BrokerEndpoint,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from ottla.protocol.generated.vote import VoteRequest, VoteResponse
from ottla.simulation.network import SimulatedNetwork
from ottla.simulation.scheduler import SimulatedScheduler

BROKER = 7
ELSEWHERE = 29_999


class Cluster:
    def __init__(self) -> None:
        chance = Chance(1)
        self.scheduler = SimulatedScheduler(chance)
        self.network = SimulatedNetwork(self.scheduler, chance)
        self.metadata = MetadataCache()
        self.peer = Peer(self.network)
        self.channel = BrokerChannel(
            self.network,
            self.scheduler,
            self.metadata,
            listener_name="INTERNAL",
            client_id="test",
            limits=NodeClientLimits(timeout_seconds=1.0, backoff_seconds=0.01),
        )

    def replay(self, record: RegisterBrokerRecord | UnregisterBrokerRecord) -> None:
        delta = MetadataDelta(self.metadata.image)
        delta.replay(record)
        self.metadata.publish(delta.apply(self.metadata.image.offset + 1, 1, 0), delta)

    def register(self, port: int) -> None:
        endpoints = [
            BrokerEndpoint(name="INTERNAL", host="127.0.0.1", port=port),
            BrokerEndpoint(name="CLIENTS", host="127.0.0.1", port=ELSEWHERE),
        ]
        self.replay(RegisterBrokerRecord(broker_id=BROKER, broker_epoch=1, end_points=endpoints))

    def ask(self) -> VoteResponse:
        asked = self.channel.send(BROKER, VoteRequest())
        assert self.scheduler.run_until(lambda: asked.done, 10.0)
        answer = asked.result()
        assert isinstance(answer, VoteResponse)
        return answer


def test_a_broker_is_asked_on_the_listener_that_brokers_use() -> None:
    cluster = Cluster()
    cluster.register(PORT)
    cluster.ask()
    cluster.ask()
    assert cluster.peer.accepted == 1


def test_a_broker_that_is_not_registered_cannot_be_asked() -> None:
    cluster = Cluster()
    with pytest.raises(ConnectionError, match="broker 7"):
        cluster.ask()


def test_a_broker_that_has_moved_is_asked_at_its_new_place() -> None:
    cluster = Cluster()
    cluster.register(ELSEWHERE)
    with pytest.raises(OSError):
        cluster.ask()
    cluster.register(PORT)
    cluster.ask()
    assert cluster.peer.accepted == 1


def test_a_broker_that_has_left_is_not_asked_any_more() -> None:
    cluster = Cluster()
    cluster.register(PORT)
    cluster.ask()
    cluster.replay(UnregisterBrokerRecord(broker_id=BROKER, broker_epoch=1))
    with pytest.raises(ConnectionError):
        cluster.ask()

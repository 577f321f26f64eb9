"""Where clients are told to go: advertised listeners, and what is said when there are none."""

import pytest
from tests.integration.admin import admin_client, create_topic
from tests.integration.clients import Client, Message
from tests.integration.conftest import TARGET, NewBroker
from tools.kafka_peer.broker_process import BrokerProcess, free_ports


def advertised(bootstrap_servers: str) -> list[tuple[object, int]]:
    admin = admin_client(bootstrap_servers)
    brokers = admin.list_topics(timeout=10).brokers
    return [(each.host, each.port) for each in brokers.values()]


def test_without_advertised_listeners_the_listener_is_given(broker: BrokerProcess) -> None:
    assert advertised(broker.bootstrap_servers) == [("127.0.0.1", broker.port)]


@pytest.mark.skipif(TARGET == "kafka", reason="Apache Kafka wants an address that can be dialled")
@pytest.mark.parametrize("dialled", ["127.0.0.1", "127.0.0.2"])
def test_a_listener_on_all_addresses_gives_the_one_that_was_dialled(
    dialled: str, client: Client, new_broker: NewBroker
) -> None:
    port, controller_port = free_ports(2)
    new_broker(
        listeners=f"PLAINTEXT://0.0.0.0:{port},CONTROLLER://127.0.0.1:{controller_port}",
        controller_quorum_bootstrap_servers=f"127.0.0.1:{controller_port}",
        port=port,
    )
    address = f"{dialled}:{port}"

    assert advertised(address) == [(dialled, port)]
    create_topic(address, "t")
    client.produce(address, "t", [Message(b"x")])
    (received,) = client.consume(address, "t", 1)
    assert received.value == b"x"


def test_each_listener_advertises_its_own_address(client: Client, new_broker: NewBroker) -> None:
    inside, outside, controller = free_ports(3)
    new_broker(
        listeners=f"INSIDE://127.0.0.1:{inside},OUTSIDE://127.0.0.1:{outside},"
        f"CONTROLLER://127.0.0.1:{controller}",
        advertised_listeners=f"INSIDE://127.0.0.1:{inside},OUTSIDE://localhost:{outside},"
        f"CONTROLLER://127.0.0.1:{controller}",
        listener_security_protocol_map="INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT",
        inter_broker_listener_name="INSIDE",
        controller_quorum_bootstrap_servers=f"127.0.0.1:{controller}",
        port=inside,
    )
    assert advertised(f"127.0.0.1:{inside}") == [("127.0.0.1", inside)]
    assert advertised(f"127.0.0.1:{outside}") == [("localhost", outside)]
    create_topic(f"127.0.0.1:{inside}", "t")
    client.produce(f"127.0.0.1:{outside}", "t", [Message(b"x")])
    (received,) = client.consume(f"127.0.0.1:{inside}", "t", 1)
    assert received.value == b"x"


def test_a_static_quorum_of_one_is_served_as_well(new_broker: NewBroker) -> None:
    port, controller = free_ports(2)
    broker = new_broker(
        listeners=f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        controller_quorum_voters=f"1@127.0.0.1:{controller}",
        controller_quorum_bootstrap_servers="",
        port=port,
    )
    create_topic(broker.bootstrap_servers, "t")
    broker.stop()
    broker.start()
    assert "t" in admin_client(broker.bootstrap_servers).list_topics(timeout=10).topics

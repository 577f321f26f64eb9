"""The listener of controllers: what it serves, and whom it tells of."""

import pytest

from ottla.common.errors import ErrorCode
from ottla.protocol.api import APIS, ApiKey
from ottla.protocol.generated.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.generated.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from ottla.protocol.generated.metadata import MetadataRequest, MetadataResponse
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.client import Disconnected, SimulatedClient

BROKER, CONTROLLER = 1, 2


@pytest.fixture
def broker() -> SimulatedBroker:
    broker = SimulatedBroker(2)
    broker.start()
    return broker


def test_it_advertises_what_controllers_serve_and_nothing_else(broker: SimulatedBroker) -> None:
    client = SimulatedClient(broker, "CONTROLLER")
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    keys = {api.api_key for api in client.ask(request, ApiVersionsResponse, 4).api_keys}
    assert ApiKey.DESCRIBE_QUORUM in keys
    assert ApiKey.PRODUCE not in keys
    assert all("controller" in APIS[key].listeners for key in keys)


@pytest.mark.parametrize(
    ("listener", "right", "wrong"),
    [("PLAINTEXT", BROKER, CONTROLLER), ("CONTROLLER", CONTROLLER, BROKER)],
)
def test_a_listener_tells_of_its_own_kind_only(
    broker: SimulatedBroker, listener: str, right: int, wrong: int
) -> None:
    client = SimulatedClient(broker, listener)
    found = client.ask(DescribeClusterRequest(endpoint_type=right), DescribeClusterResponse, 1)
    assert found.error_code == ErrorCode.NONE
    assert found.endpoint_type == right
    assert [each.broker_id for each in found.brokers] == [1]
    assert found.brokers[0].port == client.port
    other = client.ask(DescribeClusterRequest(endpoint_type=wrong), DescribeClusterResponse, 1)
    assert other.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE


def test_what_is_for_brokers_ends_the_connection(broker: SimulatedBroker) -> None:
    with pytest.raises(Disconnected):
        SimulatedClient(broker, "CONTROLLER").ask(MetadataRequest(), MetadataResponse, 9)

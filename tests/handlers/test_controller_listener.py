"""The listener of controllers: what it serves, and whom it tells of."""

from contextlib import suppress
from struct import pack

import pytest

from ottla.common.errors import ErrorCode
from ottla.common.identifiers import METADATA_TOPIC_ID
from ottla.protocol.api import APIS, ApiKey
from ottla.protocol.generated import describe_quorum
from ottla.protocol.generated.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.generated.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from ottla.protocol.generated.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ReplicaState,
)
from ottla.protocol.generated.metadata import MetadataRequest, MetadataResponse
from ottla.protocol.generated.vote import (
    VoteRequest,
    VoteRequestPartitionData,
    VoteRequestTopicData,
    VoteResponse,
)
from ottla.records.batch import read_header
from ottla.requests.dispatch import ENVELOPE_BYTES_MAX, REQUEST_BYTES_MAX
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.client import Disconnected, SimulatedClient

BROKER, CONTROLLER = 1, 2
EVERYTHING = 8096
"""All operations that a cluster has."""


@pytest.fixture
def broker() -> SimulatedBroker:
    broker = SimulatedBroker(2)
    broker.start()
    return broker


def test_it_advertises_what_controllers_serve_and_nothing_else(broker: SimulatedBroker) -> None:
    client = SimulatedClient(broker, "CONTROLLER")
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    keys = {api.api_key for api in client.ask(request, ApiVersionsResponse, 4).api_keys}
    assert {ApiKey.DESCRIBE_QUORUM, ApiKey.VOTE, ApiKey.FETCH, ApiKey.FETCH_SNAPSHOT} <= keys
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


def test_it_tells_what_may_be_done_with_the_cluster(broker: SimulatedBroker) -> None:
    client = SimulatedClient(broker, "CONTROLLER")
    request = DescribeClusterRequest(endpoint_type=CONTROLLER)
    assert client.ask(request, DescribeClusterResponse, 2).cluster_authorized_operations < 0
    request.include_cluster_authorized_operations = True
    answer = client.ask(request, DescribeClusterResponse, 2)
    assert answer.cluster_authorized_operations == EVERYTHING


def test_brokers_do_not_serve_what_is_for_controllers(broker: SimulatedBroker) -> None:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    listed = SimulatedClient(broker, "PLAINTEXT").ask(request, ApiVersionsResponse, 4).api_keys
    keys = {api.api_key for api in listed}
    assert ApiKey.VOTE not in keys
    assert ApiKey.ADD_RAFT_VOTER in keys


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_leader_of_the_quorum_gives_no_vote(broker: SimulatedBroker, version: int) -> None:
    partition = VoteRequestPartitionData(replica_epoch=1, replica_id=7, last_offset=99)
    topic = VoteRequestTopicData(topic_name="__cluster_metadata", partitions=[partition])
    client = SimulatedClient(broker, "CONTROLLER")
    response = client.ask(VoteRequest(topics=[topic]), VoteResponse, version)
    (answered,) = response.topics[0].partitions
    assert (answered.error_code, answered.leader_id, answered.vote_granted) == (0, 1, False)


@pytest.mark.parametrize("version", range(12, 19))
def test_an_observer_fetches_the_metadata_log(broker: SimulatedBroker, version: int) -> None:
    partition = FetchPartition(current_leader_epoch=1, fetch_offset=0, last_fetched_epoch=0)
    topic = FetchTopic(
        topic="__cluster_metadata", topic_id=METADATA_TOPIC_ID, partitions=[partition]
    )
    request = FetchRequest(max_wait_ms=0, topics=[topic])
    if version >= 15:
        request.replica_state = ReplicaState(replica_id=7)
    else:
        request.replica_id = 7
    client = SimulatedClient(broker, "CONTROLLER")
    response = client.ask(request, FetchResponse, version)
    (fetched,) = response.responses[0].partitions
    assert fetched.error_code == ErrorCode.NONE
    assert fetched.high_watermark > 0
    records = bytes(fetched.records or b"")
    assert read_header(records, 0).is_control, "the log begins with its leader"


def test_an_observer_is_described(broker: SimulatedBroker) -> None:
    test_an_observer_fetches_the_metadata_log(broker, 18)
    topic = describe_quorum.DescribeQuorumRequestTopicData(
        topic_name="__cluster_metadata",
        partitions=[describe_quorum.DescribeQuorumRequestPartitionData(partition_index=0)],
    )
    client = SimulatedClient(broker, "CONTROLLER")
    request = describe_quorum.DescribeQuorumRequest(topics=[topic])
    response = client.ask(request, describe_quorum.DescribeQuorumResponse, 2)
    (described,) = response.topics[0].partitions
    assert [each.replica_id for each in described.current_voters] == [1]
    assert [each.replica_id for each in described.observers] == [7]
    assert described.observers[0].log_end_offset == 0
    assert described.observers[0].last_fetch_timestamp > 0


def test_what_is_for_brokers_ends_the_connection(broker: SimulatedBroker) -> None:
    with pytest.raises(Disconnected):
        SimulatedClient(broker, "CONTROLLER").ask(MetadataRequest(), MetadataResponse, 9)


def test_a_request_to_a_controller_may_not_be_larger_than_one_in_an_envelope(
    broker: SimulatedBroker,
) -> None:
    header = pack(">hhih", ApiKey.API_VERSIONS, 0, 7, -1)
    for size, is_answered in (
        (REQUEST_BYTES_MAX + ENVELOPE_BYTES_MAX, True),
        (REQUEST_BYTES_MAX + ENVELOPE_BYTES_MAX + 1, False),
    ):
        sock = broker.connect("CONTROLLER")
        data = memoryview(pack(">i", size) + header + bytes(size - len(header)))
        while data:
            with suppress(BlockingIOError):
                data = data[sock.send(data) :]
            broker.scheduler.run_for(0.01)
        broker.scheduler.run_for(0.1)
        assert bool(sock.recv(1 << 20)) == is_answered

"""DescribeCluster: brokers, and which kind of endpoint this is."""

import pytest
from tests.handlers.broker import CLUSTER_ID, Broker, registered

from ottla.common.errors import ErrorCode
from ottla.handlers import describe_cluster
from ottla.protocol.generated.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from ottla.requests.authorized_operations import NOT_ASKED


def ask(broker: Broker, request: DescribeClusterRequest, version: int) -> DescribeClusterResponse:
    return broker.ask(describe_cluster, request, version, DescribeClusterResponse)


@pytest.mark.parametrize("version", range(3))
def test_the_cluster_is_described_in_every_version(version: int) -> None:
    answer = ask(Broker(), DescribeClusterRequest(), version)
    assert (answer.error_code, answer.error_message) == (0, None)
    assert (answer.cluster_id, answer.controller_id) == (CLUSTER_ID, 1)
    assert [(b.broker_id, b.host, b.port, b.rack) for b in answer.brokers] == [
        (1, "10.0.0.1", 9092, None)
    ]
    assert answer.cluster_authorized_operations == NOT_ASKED


def test_operations_are_told_when_they_are_asked_for() -> None:
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    assert ask(Broker(), request, 0).cluster_authorized_operations == 8096


@pytest.mark.parametrize(
    ("endpoint_type", "code"),
    [
        (2, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
        (0, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
    ],
)
def test_who_looks_for_another_kind_of_endpoint_is_told(
    endpoint_type: int, code: ErrorCode
) -> None:
    answer = ask(Broker(), DescribeClusterRequest(endpoint_type=endpoint_type), 1)
    assert (answer.error_code, answer.brokers, answer.controller_id) == (code, [], -1)
    assert answer.error_message


def test_fenced_brokers_are_shown_on_request_only() -> None:
    broker = Broker()
    broker.set_image(brokers={1: registered(1), 2: registered(2, fenced=True)})
    assert [b.broker_id for b in ask(broker, DescribeClusterRequest(), 2).brokers] == [1]
    asked = ask(broker, DescribeClusterRequest(include_fenced_brokers=True), 2)
    assert [(b.broker_id, b.is_fenced) for b in asked.brokers] == [(1, False), (2, True)]

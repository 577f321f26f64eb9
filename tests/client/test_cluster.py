"""Addresses, versions, and brokers that do not do what they should."""

import socket
import struct
import threading

import pytest
from tests.client.scripted_broker import HANG_UP, SILENCE, ScriptedBroker, metadata

from ottla.client.cluster import ANY, Cluster, Timing, parse_addresses
from ottla.client.connection import Address
from ottla.client.errors import BrokerUnavailable, SomeRefused, check, refusal
from ottla.common.errors import (
    ApiError,
    ErrorCode,
    MessageTooLarge,
    NotController,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from ottla.protocol.api import APIS, ApiKey
from ottla.protocol.generated.api_versions import ApiVersion, ApiVersionsResponse
from ottla.protocol.generated.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from ottla.protocol.generated.metadata import MetadataResponseTopic
from ottla.protocol.message import Message, to_bytes

QUICK = Timing(
    connect_timeout_ms=1000,
    request_timeout_ms=300,
    call_timeout_ms=1000,
    back_off_ms=5,
    back_off_max_ms=20,
)


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def cluster_of(*addresses: str) -> Cluster:
    return Cluster(addresses, timing=QUICK)


def test_addresses_are_read_in_all_their_forms() -> None:
    assert parse_addresses("a:1, b:2,c") == [("a", 1), ("b", 2), ("c", 9092)]
    assert parse_addresses(["[::1]:7", "[fe80::2]"]) == [("::1", 7), ("fe80::2", 9092)]
    assert str(Address("::1", 7)) == "[::1]:7"
    assert str(Address("a", 7)) == "a:7"


@pytest.mark.parametrize("text", ["", "a:", ":9092", "a:x", "a:0", "a:70000", "a:1,,b:2"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="address"):
        parse_addresses(text)


def test_the_first_address_that_answers_is_taken() -> None:
    with ScriptedBroker({ApiKey.METADATA: lambda *_: metadata(broker)}) as broker:
        dead = f"127.0.0.1:{closed_port()}"
        with cluster_of(dead, broker.address) as cluster:
            assert cluster.refresh().cluster_id == "scripted"
            assert cluster.topic("t").partitions[0].leader == 0


def test_when_none_answers_all_that_was_tried_is_told() -> None:
    dead = [f"127.0.0.1:{closed_port()}" for _ in range(2)]
    with cluster_of(*dead) as cluster, pytest.raises(BrokerUnavailable) as failure:
        cluster.refresh()
    assert [address for address, _ in failure.value.tried] == dead
    assert "refused" in str(failure.value)


def test_a_connection_to_the_bootstrap_address_becomes_that_of_its_node() -> None:
    with ScriptedBroker({ApiKey.METADATA: lambda *_: metadata(broker)}) as broker:
        with cluster_of(broker.address) as cluster:
            cluster.refresh()
            cluster.connection(0, cluster.deadline())
        assert broker.connections == 1


def test_a_connection_that_breaks_is_made_anew() -> None:
    answers = iter([HANG_UP, HANG_UP])

    def answer(request: Message, version: int) -> Message | bytes:
        return next(answers, None) or metadata(broker)

    with (
        ScriptedBroker({ApiKey.METADATA: answer}) as broker,
        cluster_of(broker.address) as cluster,
    ):
        cluster.refresh()
        assert broker.connections == 3


def test_a_silent_broker_is_given_up_at_the_deadline() -> None:
    with (
        ScriptedBroker({ApiKey.METADATA: lambda *_: SILENCE}) as broker,
        cluster_of(broker.address) as cluster,
        pytest.raises(BrokerUnavailable, match="timed out"),
    ):
        cluster.refresh()


@pytest.mark.parametrize(
    "raw",
    [
        struct.pack(">i", -1),
        struct.pack(">i", 2**31 - 1),
        struct.pack(">i", 3) + b"abc",
        struct.pack(">ii", 4, 12345),
        struct.pack(">iib", 6, 2, 0) + b"\x99",
    ],
    ids=["negative", "huge", "shorter than a header", "another's", "no message"],
)
def test_an_answer_that_is_none_is_no_answer(raw: bytes) -> None:
    with (
        ScriptedBroker({ApiKey.METADATA: lambda *_: raw}) as broker,
        cluster_of(broker.address) as cluster,
        pytest.raises(BrokerUnavailable),
    ):
        cluster.refresh(deadline=cluster.deadline(300))


def older_broker(listener: socket.socket) -> None:
    """Speaks only version 0 of ApiVersions, and says so as old brokers do."""
    connection, _ = listener.accept()
    with connection, connection.makefile("rb") as stream:
        for refuses in (True, False):
            data = stream.read(struct.unpack(">i", stream.read(4))[0])
            answer = ApiVersionsResponse(
                error_code=ErrorCode.UNSUPPORTED_VERSION if refuses else 0,
                api_keys=[ApiVersion(api_key=18, min_version=0, max_version=0)],
            )
            body = data[4:8] + to_bytes(answer, 0)
            connection.sendall(struct.pack(">i", len(body)) + body)


def test_an_older_broker_is_asked_for_its_versions_in_its_own_way() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=older_broker, args=(listener,))
        thread.start()
        with cluster_of(f"127.0.0.1:{listener.getsockname()[1]}") as cluster:
            connection = cluster.connection(ANY, cluster.deadline())
            assert connection.version(ApiKey.API_VERSIONS) == 0
            with pytest.raises(UnsupportedVersion, match="does not serve Fetch"):
                connection.version(ApiKey.FETCH)
        thread.join()


def test_an_api_that_a_broker_does_not_serve_is_named() -> None:
    with (
        ScriptedBroker({}, apis={ApiKey.API_VERSIONS, ApiKey.METADATA}) as broker,
        cluster_of(broker.address) as cluster,
        pytest.raises(UnsupportedVersion, match="DescribeCluster"),
    ):
        cluster.ask_again(DescribeClusterRequest(), DescribeClusterResponse)


def test_the_newest_version_of_both_is_taken() -> None:
    with (
        ScriptedBroker({ApiKey.METADATA: lambda *_: metadata(broker)}) as broker,
        cluster_of(broker.address) as cluster,
    ):
        cluster.refresh()
        assert broker.asked[-1][1] == APIS[ApiKey.METADATA].highest_stable_version
        assert cluster.connection(ANY, cluster.deadline()).version(ApiKey.METADATA, 5) == 5


def test_errors_that_may_pass_are_waited_for_and_others_are_not() -> None:
    codes = [ErrorCode.NOT_CONTROLLER, ErrorCode.NOT_CONTROLLER, ErrorCode.NONE]
    asked: list[int] = []

    def failed(response: DescribeClusterResponse) -> ApiError | None:
        code = codes[len(asked)]
        asked.append(code)
        return refusal(code) if code else None

    with (
        ScriptedBroker({ApiKey.DESCRIBE_CLUSTER: lambda *_: DescribeClusterResponse()}) as broker,
        cluster_of(broker.address) as cluster,
    ):
        cluster.ask_again(DescribeClusterRequest(), DescribeClusterResponse, failed=failed)
        assert asked == codes
        with pytest.raises(TopicAuthorizationFailed):
            cluster.ask_again(
                DescribeClusterRequest(),
                DescribeClusterResponse,
                failed=lambda _: TopicAuthorizationFailed(),
            )
        with pytest.raises(NotController):
            cluster.ask_again(
                DescribeClusterRequest(),
                DescribeClusterResponse,
                failed=lambda _: NotController(),
                deadline=cluster.deadline(50),
            )


def test_a_topic_that_does_not_exist_is_not_waited_for() -> None:
    def answer(request: Message, version: int) -> Message:
        response = metadata(broker)
        response.topics = [
            MetadataResponseTopic(name="nope", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        ]
        return response

    with ScriptedBroker({ApiKey.METADATA: answer}) as broker, cluster_of(broker.address) as cluster:
        with pytest.raises(UnknownTopicOrPartition, match="nope"):
            cluster.topic("nope")
        assert len(broker.asked) == 1


def test_a_broker_that_is_not_there_is_told_with_those_that_are() -> None:
    with (
        ScriptedBroker({ApiKey.METADATA: lambda *_: metadata(broker)}) as broker,
        cluster_of(broker.address) as cluster,
    ):
        assert cluster.node(0) == 0
        with pytest.raises(BrokerUnavailable, match="no broker 9, only 0"):
            cluster.node(9)


def test_every_code_has_its_class() -> None:
    for code in ErrorCode:
        if code is not ErrorCode.NONE:
            assert refusal(code).code is code
            assert str(refusal(code))
    assert str(refusal(999, "new")) == "error code 999: new"
    check(0)
    with pytest.raises(MessageTooLarge, match="big"):
        check(ErrorCode.MESSAGE_TOO_LARGE, "big")


def test_some_refused_tells_which_and_why() -> None:
    error = SomeRefused({"a": refusal(36, "it exists"), "b": refusal(17)}, {"c": 1})
    assert error.code is ErrorCode.TOPIC_ALREADY_EXISTS
    assert str(error) == "a: TOPIC_ALREADY_EXISTS (it exists); b: INVALID_TOPIC_EXCEPTION"
    assert error.done == {"c": 1}

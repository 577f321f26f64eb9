"""Metadata: which topics are told of, how they are asked for, and at which address brokers are."""

import pytest
from tests.handlers.broker import CLUSTER_ID, NODE_ID, Broker, Peer, registered

from ottla.common.errors import ErrorCode
from ottla.common.identifiers import LOST_DIRECTORY
from ottla.handlers import metadata
from ottla.protocol.generated.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from ottla.requests.authorized_operations import NOT_ASKED

VERSIONS = range(14)


def ask(
    broker: Broker,
    version: int,
    names: list[str] | None,
    *,
    auto: bool | None = None,
    peer: Peer | None = None,
    operations: bool = False,
) -> MetadataResponse:
    topics = None if names is None else [MetadataRequestTopic(name=name) for name in names]
    allowed = True if version < 4 else bool(auto)
    request = MetadataRequest(
        topics=topics,
        allow_auto_topic_creation=allowed,
        include_cluster_authorized_operations=operations,
        include_topic_authorized_operations=operations,
    )
    return broker.ask(metadata, request, version, MetadataResponse, peer)


def by_id(broker: Broker, *topic_ids: bytes, version: int = 12) -> list[MetadataResponseTopic]:
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=None, topic_id=topic_id) for topic_id in topic_ids],
        allow_auto_topic_creation=False,
    )
    return broker.ask(metadata, request, version, MetadataResponse).topics


def errors(response: MetadataResponse) -> dict[str | None, int]:
    return {topic.name: topic.error_code for topic in response.topics}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_topic_is_described_in_every_version(version: int) -> None:
    broker = Broker()
    topic_id = broker.add_topic("t", 3, leader_epoch=4)
    response = ask(broker, version, ["t"])
    (topic,) = response.topics
    assert (topic.error_code, topic.name, topic.is_internal) == (0, "t", False)
    assert topic.topic_id == (topic_id if version >= 10 else bytes(16))
    assert [p.partition_index for p in topic.partitions] == [0, 1, 2]
    first = topic.partitions[0]
    assert (first.leader_id, first.replica_nodes, first.isr_nodes) == (1, [1], [1])
    assert first.leader_epoch == (4 if version >= 7 else -1)
    assert first.offline_replicas == []
    assert response.cluster_id == (CLUSTER_ID if version >= 2 else None)
    assert response.controller_id == (NODE_ID if version >= 1 else -1)


def test_version_0_asks_for_all_topics_by_an_empty_list_and_later_ones_for_none() -> None:
    broker = Broker()
    broker.add_topic("b")
    broker.add_topic("a")
    assert [t.name for t in ask(broker, 0, []).topics] == ["a", "b"]
    for version in VERSIONS[1:]:
        assert ask(broker, version, []).topics == []
        assert [t.name for t in ask(broker, version, None).topics] == ["a", "b"]


def test_a_topic_that_is_asked_for_twice_is_told_of_once() -> None:
    broker = Broker()
    broker.add_topic("t")
    assert [t.name for t in ask(broker, 12, ["t", "nope", "t", "nope"]).topics] == ["t", "nope"]


@pytest.mark.parametrize("name", ["bad/", "", "..", "x" * 250, "a b"])
def test_what_is_no_name_is_told_apart_from_what_is_not_there(name: str) -> None:
    broker = Broker()
    assert errors(ask(broker, 12, [name, "nope"])) == {
        name: ErrorCode.INVALID_TOPIC_EXCEPTION,
        "nope": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


@pytest.mark.parametrize(
    ("name", "internal"),
    [
        ("__consumer_offsets", True),
        ("__transaction_state", True),
        ("__share_group_state", True),
        ("__cluster_metadata", False),
        ("ordinary", False),
    ],
)
def test_coordinators_topics_are_internal_whether_they_exist_or_not(
    name: str, internal: bool
) -> None:
    broker = Broker()
    assert ask(broker, 12, [name]).topics[0].is_internal is internal
    broker.add_topic(name)
    assert ask(broker, 12, [name]).topics[0].is_internal is internal


def test_a_missing_topic_is_made_if_client_and_broker_allow_it() -> None:
    broker = Broker()
    broker.add_topic("there")
    response = ask(broker, 12, ["new", "there", "bad/"], auto=True, peer=Peer())
    assert errors(response)["new"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert broker.auto_topics.names == ["new"]
    assert [client.peer_host for client in broker.auto_topics.clients] == [Peer().peer_host]


def test_a_missing_topic_is_not_made_if_one_of_them_does_not() -> None:
    willing, unwilling = Broker(), Broker({"auto.create.topics.enable": "false"})
    ask(willing, 12, ["new"], auto=False)
    ask(unwilling, 12, ["new"], auto=True)
    ask(willing, 12, None, auto=True)
    assert willing.auto_topics.names == unwilling.auto_topics.names == []


def test_clients_that_cannot_decline_get_their_topic() -> None:
    broker = Broker()
    ask(broker, 3, ["new"])
    assert broker.auto_topics.names == ["new"]


def test_topics_are_found_by_id_and_unknown_ids_come_first() -> None:
    broker = Broker()
    topic_id = broker.add_topic("t")
    unknown = bytes(15) + b"\x63"
    found = by_id(broker, topic_id, unknown)
    assert [(t.error_code, t.name, t.topic_id) for t in found] == [
        (ErrorCode.UNKNOWN_TOPIC_ID, None, unknown),
        (ErrorCode.NONE, "t", topic_id),
    ]


def test_names_beside_ids_are_not_looked_at() -> None:
    broker = Broker()
    topic_id = broker.add_topic("t")
    broker.add_topic("u")
    request = MetadataRequest(
        topics=[
            MetadataRequestTopic(name="u"),
            MetadataRequestTopic(name=None, topic_id=topic_id),
        ]
    )
    answer = broker.ask(metadata, request, 13, MetadataResponse)
    assert [t.name for t in answer.topics] == ["t"]


@pytest.mark.parametrize("topic_id", [bytes(16), bytes(15) + b"\x07"])
def test_before_version_12_an_id_is_no_question(topic_id: bytes) -> None:
    (topic,) = by_id(Broker(), topic_id, version=10)
    assert (topic.error_code, topic.name) == (ErrorCode.INVALID_REQUEST, "")


def test_neither_name_nor_id_is_a_mistake() -> None:
    (topic,) = by_id(Broker(), bytes(16))
    assert topic.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize("version", [8, 9, 10])
def test_operations_are_told_when_they_are_asked_for(version: int) -> None:
    broker = Broker()
    broker.add_topic("t")
    silent = ask(broker, version, ["t"])
    assert silent.cluster_authorized_operations == NOT_ASKED
    assert silent.topics[0].topic_authorized_operations == NOT_ASKED
    told = ask(broker, version, ["t", "nope"], operations=True)
    assert told.cluster_authorized_operations == 8096
    assert [t.topic_authorized_operations for t in told.topics] == [3576, 3576]


# Brokers and their addresses


def test_only_brokers_that_live_on_the_clients_listener_are_told() -> None:
    broker = Broker()
    broker.set_image(
        brokers={
            1: registered(1, rack="r1"),
            2: registered(2, fenced=True),
            3: registered(3, listeners=("OTHER",)),
            4: registered(4, port=19092),
        }
    )
    found = [(b.node_id, b.host, b.port, b.rack) for b in ask(broker, 12, []).brokers]
    assert found == [(1, "broker-1", 9092, "r1"), (4, "broker-4", 19092, None)]
    elsewhere = ask(broker, 12, [], peer=Peer("OTHER")).brokers
    assert [b.node_id for b in elsewhere] == [3]


@pytest.mark.parametrize(
    ("local_host", "told"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("fe80::1%eth0", "fe80::1"),
        ("2001:db8::7", "2001:db8::7"),
    ],
)
def test_a_broker_that_advertises_no_host_has_the_one_that_was_dialled(
    local_host: str, told: str
) -> None:
    broker = Broker()
    (found,) = ask(broker, 12, [], peer=Peer(local_host=local_host)).brokers
    assert (found.host, found.port) == (told, 9092)


def test_another_brokers_address_is_never_guessed() -> None:
    broker = Broker()
    broker.set_image(brokers={1: registered(1, host=""), 2: registered(2, host="")})
    assert [b.host for b in ask(broker, 12, []).brokers] == ["10.0.0.1", ""]


def test_the_controller_is_some_broker_that_lives() -> None:
    broker = Broker()
    broker.set_image(brokers={1: registered(1, fenced=True), 4: registered(4)})
    assert ask(broker, 12, []).controller_id == 4
    broker.set_image(brokers={})
    assert ask(broker, 12, []).controller_id == -1


# Leaders that cannot be reached


@pytest.mark.parametrize("version", VERSIONS)
def test_a_partition_without_a_leader_says_so(version: int) -> None:
    broker = Broker()
    broker.add_topic("t", leader=-1)
    (partition,) = ask(broker, version, ["t"]).topics[0].partitions
    assert partition.error_code == ErrorCode.LEADER_NOT_AVAILABLE
    assert partition.leader_id == -1


@pytest.mark.parametrize("version", VERSIONS)
def test_a_leader_without_the_clients_listener_is_told_from_version_6_on(version: int) -> None:
    broker = Broker()
    broker.set_image(brokers={1: registered(1), 2: registered(2, listeners=("OTHER",))})
    broker.add_topic("t", replicas=(2, 1), leader=2)
    (partition,) = ask(broker, version, ["t"]).topics[0].partitions
    expected = ErrorCode.LISTENER_NOT_FOUND if version >= 6 else ErrorCode.LEADER_NOT_AVAILABLE
    assert partition.error_code == expected


def test_version_0_leaves_out_replicas_that_are_not_there_and_says_so() -> None:
    broker = Broker()
    broker.add_topic("t", replicas=(1, 7))
    (old,) = ask(broker, 0, ["t"]).topics[0].partitions
    assert (old.error_code, old.replica_nodes) == (ErrorCode.REPLICA_NOT_AVAILABLE, [1])
    (new,) = ask(broker, 12, ["t"]).topics[0].partitions
    assert (new.error_code, new.replica_nodes, new.offline_replicas) == (0, [1, 7], [7])


def test_a_replica_on_a_lost_directory_is_offline() -> None:
    broker = Broker()
    broker.add_topic("t", directories=(LOST_DIRECTORY,))
    (partition,) = ask(broker, 12, ["t"]).topics[0].partitions
    assert partition.offline_replicas == [1]

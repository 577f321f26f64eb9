"""Topics on demand: the broker's defaults, the coordinators' own settings, once at a time."""

import pytest
from tests.handlers.broker import registered
from tests.observability.lines import lines
from tests.turns import TURN

from ottla.common.authorization import Client, Principal
from ottla.common.errors import ErrorCode, InvalidConfig, NotController
from ottla.common.promise import Promise
from ottla.config.broker import BrokerConfig
from ottla.metadata.image import MetadataImage
from ottla.metadata.topics import TopicImage, TopicsImage
from ottla.protocol.generated.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.requests.context import RequestContext
from ottla.server import auto_topics
from ottla.server.auto_topics import ControllerAutoTopics, is_alone, new_topic

ALICE = RequestContext(version=12, client_id="c", principal=Principal("User", "alice"))


class ControllerThatWaits:
    """Creates topics when it is told to."""

    def __init__(self) -> None:
        self.requests: list[CreateTopicsRequest] = []
        self.clients: list[Client | None] = []
        self.at_once: ErrorCode | None = None
        self._promises: list[Promise[CreateTopicsResponse]] = []

    def submit(
        self, request: CreateTopicsRequest, client: Client | None = None
    ) -> Promise[CreateTopicsResponse]:
        self.requests.append(request)
        self.clients.append(client)
        promise: Promise[CreateTopicsResponse] = Promise(TURN)
        self._promises.append(promise)
        if self.at_once is not None:
            self.answer(self.at_once)
        return promise

    def answer(self, code: ErrorCode = ErrorCode.NONE) -> None:
        number = len(self.requests) - len(self._promises)
        topics = self.requests[number].topics
        self._promises.pop(0).fulfil(
            CreateTopicsResponse(
                topics=[CreatableTopicResult(name=topic.name, error_code=code) for topic in topics]
            )
        )

    def be_gone(self) -> None:
        self._promises.pop(0).fail(NotController())

    def be_mistaken(self) -> None:
        self._promises.pop(0).fail(RuntimeError("a mistake"))

    def asked(self) -> list[list[str]]:
        return [[topic.name for topic in request.topics] for request in self.requests]


class Metadata:
    def __init__(self) -> None:
        topic = TopicImage("there", bytes(15) + b"\x09", {})
        topics = TopicsImage({topic.name: topic}, {topic.topic_id: topic})
        self.image = MetadataImage(topics=topics)


def configured(**settings: str) -> BrokerConfig:
    properties = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "1@localhost:9093",
    }
    properties.update({name.replace("_", "."): value for name, value in settings.items()})
    return BrokerConfig.from_properties(properties)


class Topics:
    def __init__(self, **settings: str) -> None:
        self.controller = ControllerThatWaits()
        self.alone = False
        config = configured(**settings)
        self.auto = ControllerAutoTopics(
            self.controller, Metadata(), lambda: config, lambda: self.alone, TURN
        )


def test_a_topic_of_a_client_gets_the_brokers_defaults() -> None:
    topics = Topics(num_partitions="4", default_replication_factor="2")
    topics.auto.create(["new"], ALICE)
    (request,) = topics.controller.requests
    (topic,) = request.topics
    assert (topic.num_partitions, topic.replication_factor, topic.configs) == (4, 2, [])
    assert request.timeout_ms == 30_000


def test_a_topic_is_asked_for_in_the_name_of_its_client_and_an_internal_one_in_our_own() -> None:
    topics = Topics()
    topics.auto.create(["new"], ALICE)
    topics.auto.ensure_internal("__consumer_offsets")
    assert topics.controller.clients == [ALICE, None]


def test_the_outcome_of_each_topic_is_told() -> None:
    topics = Topics()
    outcome = topics.auto.create(["a", "b"], ALICE)
    assert not outcome.done
    topics.controller.answer(ErrorCode.INVALID_REPLICATION_FACTOR)
    assert outcome.result() == {
        "a": ErrorCode.INVALID_REPLICATION_FACTOR,
        "b": ErrorCode.INVALID_REPLICATION_FACTOR,
    }


def test_a_topic_that_somebody_else_made_meanwhile_is_there() -> None:
    topics = Topics()
    outcome = topics.auto.create(["a"], ALICE)
    topics.controller.answer(ErrorCode.TOPIC_ALREADY_EXISTS)
    assert outcome.result() == {"a": ErrorCode.NONE}


def test_a_name_is_asked_for_once_at_a_time_and_who_comes_later_shares_the_outcome() -> None:
    topics = Topics()
    first = topics.auto.create(["a", "a"], ALICE)
    second = topics.auto.create(["b", "a"], ALICE)
    assert topics.controller.asked() == [["a"], ["b"]]
    topics.controller.answer()
    assert first.result() == {"a": ErrorCode.NONE}
    assert not second.done
    topics.controller.answer()
    assert second.result() == {"a": ErrorCode.NONE, "b": ErrorCode.NONE}
    topics.auto.create(["a"], ALICE)
    assert topics.controller.asked()[2:] == [["a"]]


def test_without_a_controller_the_topic_is_not_made_and_may_be_asked_for_again() -> None:
    topics = Topics()
    outcome = topics.auto.create(["a"], ALICE)
    topics.controller.be_gone()
    assert outcome.result() == {"a": ErrorCode.NOT_CONTROLLER}
    topics.auto.create(["a"], ALICE)
    assert len(topics.controller.requests) == 2


def test_names_under_way_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto_topics, "UNDER_WAY_MAX", 2)
    topics = Topics()
    outcome = topics.auto.create(["a", "b", "c"], ALICE)
    assert topics.controller.asked() == [["a", "b"]]
    topics.controller.answer()
    assert outcome.result()["c"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_nothing_asked_nothing_done() -> None:
    topics = Topics()
    assert topics.auto.create([], ALICE).result() == {}
    assert topics.controller.requests == []


def test_a_refusal_that_comes_at_once_is_told_as_it_is() -> None:
    topics = Topics()
    topics.controller.at_once = ErrorCode.INVALID_REPLICATION_FACTOR
    refused = topics.auto.ensure_internal("__remote_log_metadata")
    assert refused.result() == ErrorCode.INVALID_REPLICATION_FACTOR
    assert topics.auto.create(["x"], ALICE).result() == {"x": ErrorCode.INVALID_REPLICATION_FACTOR}


def test_an_internal_topic_that_is_there_needs_nobody() -> None:
    topics = Topics()
    assert topics.auto.ensure_internal("there").result() == ErrorCode.NONE
    assert topics.controller.requests == []


def test_an_internal_topic_is_made_once_for_all_who_wait_for_it() -> None:
    topics = Topics()
    first = topics.auto.ensure_internal("__consumer_offsets")
    second = topics.auto.ensure_internal("__consumer_offsets")
    assert len(topics.controller.requests) == 1
    topics.controller.answer()
    assert first.result() == second.result() == ErrorCode.NONE


@pytest.mark.parametrize(
    ("name", "partitions", "replicas", "settings"),
    [
        (
            "__consumer_offsets",
            50,
            3,
            {
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": "104857600",
            },
        ),
        (
            "__transaction_state",
            50,
            3,
            {
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": "2",
                "segment.bytes": "104857600",
                "unclean.leader.election.enable": "false",
            },
        ),
        (
            "__share_group_state",
            50,
            3,
            {
                "cleanup.policy": "delete",
                "compression.type": "producer",
                "min.insync.replicas": "2",
                "retention.ms": "-1",
                "segment.bytes": "104857600",
            },
        ),
    ],
)
def test_coordinators_topics_are_made_as_kafka_makes_them(
    name: str, partitions: int, replicas: int, settings: dict[str, str]
) -> None:
    topic = new_topic(name, configured())
    assert (topic.num_partitions, topic.replication_factor) == (partitions, replicas)
    assert {config.name: config.value for config in topic.configs} == settings


def test_the_topic_of_remote_segments_is_as_the_metadata_manager_is_told() -> None:
    plain = new_topic("__remote_log_metadata", configured())
    assert (plain.num_partitions, plain.replication_factor) == (50, 3)
    assert {each.name: each.value for each in plain.configs} == {
        "cleanup.policy": "delete",
        "min.insync.replicas": "2",
        "remote.storage.enable": "false",
        "retention.ms": "-1",
    }
    prefix = "rlmm_config_remote_log_metadata_topic_"
    told = {f"{prefix}num_partitions": "5", f"{prefix}replication_factor": "1"}
    alone = new_topic("__remote_log_metadata", configured(**told))
    assert (alone.num_partitions, alone.replication_factor) == (5, 1)
    settings = {each.name: each.value for each in alone.configs}
    assert (settings["min.insync.replicas"], settings["flush.messages"]) == ("1", "1")
    with pytest.raises(InvalidConfig, match="Invalid value x"):
        new_topic("__remote_log_metadata", configured(**{f"{prefix}num_partitions": "x"}))


BROKER_ALONE = {"process_roles": "broker", "listeners": "PLAINTEXT://localhost:9092"}


@pytest.mark.parametrize(
    ("settings", "voters", "brokers", "alone"),
    [
        ({}, [1], [1], True),
        ({}, [1], [], False),  # not registered yet: of others nothing is known
        ({}, [1], [1, 2], False),  # up or down
        ({}, [1, 2], [1], False),
        ({}, [2], [1], False),  # an observer
        ({"controller_quorum_voters": "1@localhost:9093"}, [1], [1], False),
        ({"process_roles": "broker", "listeners": "PLAINTEXT://localhost:9092"}, [1], [1], False),
        # All processes of one machine are as one node.
        ({"ottla_processes_nodes": "1,1001"}, [1], [1, 1001], True),
        ({"ottla_processes_nodes": "1,1001"}, [1], [1, 1001, 2], False),
        ({"ottla_processes_nodes": "1,1001"}, [1, 2], [1, 1001], False),
        ({"ottla_processes_nodes": "9,1", **BROKER_ALONE}, [9], [9, 1], True),
        ({"ottla_processes_nodes": "9,1", **BROKER_ALONE}, [9], [9], False),
        ({"ottla_processes_nodes": "9,1", **BROKER_ALONE}, [2], [9, 1], False),
    ],
)
def test_a_node_is_alone_that_was_formatted_so_and_knows_of_no_other(
    settings: dict[str, str], voters: list[int], brokers: list[int], alone: bool
) -> None:
    config = configured(
        **{
            "controller_quorum_voters": "",
            "controller_quorum_bootstrap_servers": "localhost:9093",
            **settings,
        }
    )
    image = MetadataImage(brokers={each: registered(each) for each in brokers})
    assert is_alone(config, voters, image) == alone


@pytest.mark.parametrize(
    "name",
    ["__consumer_offsets", "__transaction_state", "__share_group_state", "__remote_log_metadata"],
)
def test_a_node_that_is_alone_makes_internal_topics_of_one_replica_and_says_so_once(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "ottla.server")
    topics = Topics()
    topics.alone = True
    for _ in range(2):
        topics.auto.ensure_internal(name)
        topics.controller.answer()
    (topic, _) = [request.topics[0] for request in topics.controller.requests]
    assert topic.replication_factor == 1
    settings = {each.name: each.value for each in topic.configs}
    has_own = name != "__consumer_offsets"
    assert settings.get("min.insync.replicas") == ("2" if has_own else None), "for when it grows"
    assert ("flush.messages" in settings) == (name == "__remote_log_metadata")
    (told,) = lines(caplog)
    assert told.startswith("INFO internal topics have one replica: this node is the whole cluster")
    assert f"topic={name} setting=" in told


def test_what_a_node_is_told_it_does_not_choose_and_topics_of_clients_are_as_ever(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "ottla.server")
    topics = Topics(
        offsets_topic_replication_factor="3",
        rlmm_config_remote_log_metadata_topic_replication_factor="2",
        default_replication_factor="2",
    )
    topics.alone = True
    for name in ("__consumer_offsets", "__remote_log_metadata", "plain"):
        topics.auto.ensure_internal(name)
    factors = [request.topics[0].replication_factor for request in topics.controller.requests]
    assert factors == [3, 2, 2]
    assert lines(caplog) == []


def test_a_name_that_cannot_be_made_is_answered_each_time_and_keeps_nobody_waiting() -> None:
    """It was under way for ever, and every request for it waited with it."""
    wrong = {"rlmm_config_remote_log_metadata_topic_num_partitions": "x"}
    topics = Topics(**wrong)
    for _ in range(2):
        assert topics.auto.ensure_internal("__remote_log_metadata").result() == (
            ErrorCode.INVALID_CONFIG
        )
    both = topics.auto.create(["__remote_log_metadata", "good"], ALICE)
    assert topics.controller.asked() == [["good"]]
    topics.controller.answer()
    assert both.result() == {
        "__remote_log_metadata": ErrorCode.INVALID_CONFIG,
        "good": ErrorCode.NONE,
    }


def test_a_mistake_of_ours_ends_the_waiting_too() -> None:
    topics = Topics()
    outcomes = [topics.auto.create(["a"], ALICE), topics.auto.create(["a"], ALICE)]
    topics.controller.be_mistaken()
    assert [each.result() for each in outcomes] == [{"a": ErrorCode.UNKNOWN_SERVER_ERROR}] * 2
    topics.auto.create(["a"], ALICE)
    assert topics.controller.asked() == [["a"], ["a"]]

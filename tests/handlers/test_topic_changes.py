"""CreateTopics, CreatePartitions, ElectLeaders, UpdateFeatures and their like: the broker's half.

The controller decides; here it is only a matter of what reaches it, and of who waits how long.
"""

from types import ModuleType
from typing import Any

import pytest
from tests.handlers.broker import Broker

from ottla.common.errors import ErrorCode, NotController
from ottla.handlers import (
    alter_partition_reassignments,
    create_partitions,
    create_topics,
    delete_topics,
    describe_quorum,
    elect_leaders,
    list_partition_reassignments,
    passed_on,
    update_features,
)
from ottla.protocol.api import ApiKey
from ottla.protocol.generated.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopic,
    ReassignableTopicResponse,
)
from ottla.protocol.generated.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from ottla.protocol.generated.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.protocol.generated.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from ottla.protocol.generated.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData,
    Node,
    ReplicaState,
)
from ottla.protocol.generated.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
    TopicPartitions,
)
from ottla.protocol.generated.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from ottla.protocol.generated.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from ottla.protocol.generated.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from ottla.protocol.message import Message

CREATE = CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1)], timeout_ms=1000)
GROW = CreatePartitionsRequest(
    topics=[CreatePartitionsTopic(name="t", count=3, assignments=None)], timeout_ms=1000
)
DELETE = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1000)
ELECT = ElectLeadersRequest(
    topic_partitions=[TopicPartitions(topic="t", partitions=[3])], timeout_ms=1000
)
ELECTED = ElectLeadersResponse(
    replica_election_results=[
        ReplicaElectionResult(
            topic="t", partition_result=[PartitionResult(partition_id=3, error_message=None)]
        )
    ]
)
MOVE = AlterPartitionReassignmentsRequest(
    topics=[
        ReassignableTopic(
            name="t", partitions=[ReassignablePartition(partition_index=3, replicas=[1])]
        )
    ],
    timeout_ms=1000,
)
MOVED = AlterPartitionReassignmentsResponse(
    error_message=None,
    responses=[
        ReassignableTopicResponse(
            name="t",
            partitions=[ReassignablePartitionResponse(partition_index=3, error_message=None)],
        )
    ],
)
LIST = ListPartitionReassignmentsRequest(
    topics=[ListPartitionReassignmentsTopics(name="t", partition_indexes=[3])], timeout_ms=1000
)
LISTED = ListPartitionReassignmentsResponse(
    error_message=None,
    topics=[
        OngoingTopicReassignment(
            name="t",
            partitions=[OngoingPartitionReassignment(partition_index=3, replicas=[1, 2])],
        )
    ],
)
FORWARDED: list[tuple[ModuleType, Message, Message]] = [
    (create_topics, CREATE, CreateTopicsResponse(topics=[CreatableTopicResult(name="t")])),
    (
        create_partitions,
        GROW,
        CreatePartitionsResponse(results=[CreatePartitionsTopicResult(name="t")]),
    ),
    (delete_topics, DELETE, DeleteTopicsResponse(responses=[DeletableTopicResult(name="t")])),
    (
        update_features,
        UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey(feature="f")], timeout_ms=1000),
        UpdateFeaturesResponse(error_message=None),
    ),
    (elect_leaders, ELECT, ELECTED),
    (alter_partition_reassignments, MOVE, MOVED),
    (list_partition_reassignments, LIST, LISTED),
]
NAMES = [module.__name__.rpartition(".")[2] for module, _, _ in FORWARDED]
UNTIMED = [row for row in FORWARDED if row[0] in (update_features, list_partition_reassignments)]
TIMED = [row for row in FORWARDED if row not in UNTIMED]
NAMES_TIMED = [module.__name__.rpartition(".")[2] for module, _, _ in TIMED]
NAMES_UNTIMED = [module.__name__.rpartition(".")[2] for module, _, _ in UNTIMED]


def within(request: Message, timeout_ms: int) -> Message:
    """The same request with another timeout."""
    names: Any = type(request).__slots__
    fields = {name: getattr(request, name) for name in names}
    return type(request)(**{**fields, "timeout_ms": timeout_ms})


def codes(answer: Message) -> list[int]:
    """The error codes of an answer, whatever its shape."""
    if hasattr(answer, "error_code"):
        return [answer.error_code]
    for field in ("topics", "results", "responses"):
        items: list[Any] = getattr(answer, field, [])
        if items:
            return [item.error_code for item in items]
    raise AssertionError(answer)


@pytest.mark.parametrize(("handler", "request_", "answer"), FORWARDED, ids=NAMES)
def test_the_controllers_answer_is_the_answer(
    handler: ModuleType, request_: Message, answer: Message
) -> None:
    broker = Broker()
    broker.controller.answers.append(answer)
    version = handler.HANDLER.highest
    assert broker.ask(handler, request_, version, type(answer)) == answer
    assert broker.controller.asked == [request_]


@pytest.mark.parametrize(("handler", "request_", "answer"), TIMED, ids=NAMES_TIMED)
def test_the_answer_waits_for_the_controller_but_not_longer_than_the_client(
    handler: ModuleType, request_: Message, answer: Message
) -> None:
    broker = Broker()
    version = handler.HANDLER.highest
    promise = broker.start(handler, request_, version)
    broker.scheduler.run_for(0.9)
    assert not promise.done
    broker.scheduler.run_for(0.2)
    timed_out = broker.answer(handler, request_, promise, version, type(answer))
    assert codes(timed_out) == [ErrorCode.REQUEST_TIMED_OUT]
    broker.controller.waiting[0].fulfil(answer)  # too late, and nobody minds


@pytest.mark.parametrize(("handler", "request_", "answer"), TIMED, ids=NAMES_TIMED)
def test_an_answer_in_time_leaves_no_timer_behind(
    handler: ModuleType, request_: Message, answer: Message
) -> None:
    broker = Broker()
    version = handler.HANDLER.highest
    promise = broker.start(handler, request_, version)
    broker.controller.waiting[0].fulfil(answer)
    assert promise.result() == answer
    broker.scheduler.run_for(2.0)


@pytest.mark.parametrize(("handler", "request_", "answer"), TIMED, ids=NAMES_TIMED)
@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_a_client_that_gives_no_time_gets_nothing_done(
    handler: ModuleType, request_: Message, answer: Message, timeout_ms: int
) -> None:
    broker = Broker()
    hasty = within(request_, timeout_ms)
    refused = broker.ask(handler, hasty, handler.HANDLER.highest, type(answer))
    assert codes(refused) == [ErrorCode.REQUEST_TIMED_OUT]
    assert broker.controller.asked == []


@pytest.mark.parametrize(("handler", "request_", "answer"), UNTIMED, ids=NAMES_UNTIMED)
@pytest.mark.parametrize("timeout_ms", [0, -1, 1])
def test_where_kafka_does_not_look_at_the_time_that_a_client_gives_neither_do_we(
    handler: ModuleType, request_: Message, answer: Message, timeout_ms: int
) -> None:
    broker = Broker()
    version = handler.HANDLER.highest
    promise = broker.start(handler, within(request_, timeout_ms), version)
    broker.scheduler.run_for(2.0)
    broker.controller.waiting[0].fulfil(answer)
    assert promise.result() == answer


@pytest.mark.parametrize(("handler", "request_", "answer"), FORWARDED, ids=NAMES)
def test_without_a_controller_everything_that_was_named_is_refused(
    handler: ModuleType, request_: Message, answer: Message
) -> None:
    broker = Broker()
    broker.controller.answers.append(NotController())
    refused = broker.ask(handler, request_, handler.HANDLER.highest, type(answer))
    assert codes(refused) == [ErrorCode.NOT_CONTROLLER]


@pytest.mark.parametrize("version", range(2, 8))
def test_older_clients_are_told_less_of_a_new_topic(version: int) -> None:
    broker = Broker()
    broker.controller.answers.append(
        CreateTopicsResponse(
            topics=[
                CreatableTopicResult(
                    name="t", topic_id=b"i" * 16, num_partitions=1, replication_factor=1
                )
            ]
        )
    )
    (topic,) = broker.ask(create_topics, CREATE, version, CreateTopicsResponse).topics
    assert topic.num_partitions == (1 if version >= 5 else -1)
    assert topic.topic_id == (b"i" * 16 if version >= 7 else bytes(16))


@pytest.mark.parametrize("version", range(1, 7))
def test_where_topics_may_not_be_deleted_clients_are_told_so_as_they_understand_it(
    version: int,
) -> None:
    broker = Broker({"delete.topic.enable": "false"})
    request = DELETE if version == 6 else DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000)
    answer = broker.ask(delete_topics, request, version, DeleteTopicsResponse)
    disabled = ErrorCode.TOPIC_DELETION_DISABLED
    assert codes(answer) == [disabled if version >= 3 else ErrorCode.INVALID_REQUEST]
    assert broker.controller.asked == []


def test_version_0_allows_a_downgrade_by_a_flag() -> None:
    broker = Broker()
    broker.controller.answers.append(UpdateFeaturesResponse())
    request = UpdateFeaturesRequest(
        feature_updates=[
            FeatureUpdateKey(feature="up", max_version_level=1),
            FeatureUpdateKey(feature="down", max_version_level=1, allow_downgrade=True),
        ]
    )
    broker.ask(update_features, request, 0, UpdateFeaturesResponse)
    (asked,) = broker.controller.asked
    assert isinstance(asked, UpdateFeaturesRequest)
    assert [(u.feature, u.upgrade_type) for u in asked.feature_updates] == [("up", 1), ("down", 2)]


@pytest.mark.parametrize("version", range(3))
def test_the_quorum_speaks_for_itself(version: int) -> None:
    broker = Broker()
    voter = ReplicaState(replica_id=1, replica_directory_id=b"d" * 16, log_end_offset=7)
    partition = DescribeQuorumResponsePartitionData(leader_id=1, current_voters=[voter])
    topic = DescribeQuorumResponseTopicData(topic_name="__cluster_metadata", partitions=[partition])
    broker.controller.answers.append(
        DescribeQuorumResponse(topics=[topic], nodes=[Node(node_id=1)])
    )
    answer = broker.ask(describe_quorum, DescribeQuorumRequest(), version, DescribeQuorumResponse)
    (told,) = answer.topics[0].partitions[0].current_voters
    assert (told.replica_id, told.log_end_offset) == (1, 7)
    assert told.replica_directory_id == (b"d" * 16 if version >= 2 else bytes(16))
    assert len(answer.nodes) == (1 if version >= 2 else 0)


def test_whoever_names_no_partitions_is_answered_without_a_controller() -> None:
    broker = Broker()
    elect, move, show = (
        ElectLeadersRequest(topic_partitions=[]),
        AlterPartitionReassignmentsRequest(topics=[]),
        ListPartitionReassignmentsRequest(topics=[]),
    )
    assert broker.ask(elect_leaders, elect, 2, ElectLeadersResponse) == ElectLeadersResponse()
    moved = broker.ask(alter_partition_reassignments, move, 1, AlterPartitionReassignmentsResponse)
    assert moved == AlterPartitionReassignmentsResponse(error_message="")
    shown = broker.ask(list_partition_reassignments, show, 0, ListPartitionReassignmentsResponse)
    assert shown == ListPartitionReassignmentsResponse(error_message=None)
    assert broker.controller.asked == []


def test_a_refused_election_names_each_partition() -> None:
    broker = Broker()
    broker.controller.answers.append(NotController("not here"))
    answer = broker.ask(elect_leaders, ELECT, 0, ElectLeadersResponse)
    (topic,) = answer.replica_election_results
    assert (topic.topic, [p.partition_id for p in topic.partition_result]) == ("t", [3])
    assert topic.partition_result[0].error_code == ErrorCode.NOT_CONTROLLER
    assert topic.partition_result[0].error_message == "not here"


def test_a_refused_reassignment_names_each_partition() -> None:
    broker = Broker()
    broker.controller.answers.append(NotController("not here"))
    answer = broker.ask(alter_partition_reassignments, MOVE, 1, AlterPartitionReassignmentsResponse)
    assert answer.responses[0].partitions[0].error_code == ErrorCode.NOT_CONTROLLER
    broker.controller.answers.append(NotController("not here"))
    listed = broker.ask(list_partition_reassignments, LIST, 0, ListPartitionReassignmentsResponse)
    assert listed.topics[0].partitions == [OngoingPartitionReassignment(partition_index=3)]


def test_a_broker_is_forgotten_by_the_controller() -> None:
    broker = Broker()
    handler = passed_on.HANDLERS[ApiKey.UNREGISTER_BROKER]
    request = UnregisterBrokerRequest(broker_id=7)
    broker.controller.answers += [UnregisterBrokerResponse(), NotController("not here")]
    done = broker.ask(handler, request, 0, UnregisterBrokerResponse)
    assert done == UnregisterBrokerResponse()
    refused = broker.ask(handler, request, 0, UnregisterBrokerResponse)
    assert refused.error_code == ErrorCode.NOT_CONTROLLER
    assert broker.controller.asked == [request, request]

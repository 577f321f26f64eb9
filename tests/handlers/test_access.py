"""What handlers ask the authorizer for themselves, and what clients are told that they may do."""

import pytest
from tests.coordinator.consumers import Consumer
from tests.coordinator.coordinator import Coordinator
from tests.handlers.broker import Broker
from tests.handlers.groups import GroupBroker
from tests.handlers.secured import CLUSTER, DESCRIBE, GROUP, READ, TOPIC, WRITE, Acls, alice, root
from tests.handlers.transactions import ID, TransactionBroker

from ottla.common.authorization import CLUSTER_NAME, AclOperation, Permission, ResourceType
from ottla.common.errors import ApiError, ErrorCode
from ottla.coordinator.group.group import Caller
from ottla.handlers import (
    add_partitions_to_txn,
    consumer_group_describe,
    consumer_group_heartbeat,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_topic_partitions,
    incremental_alter_configs,
    list_groups,
    list_offsets,
    metadata,
    offset_commit,
    offset_fetch,
)
from ottla.protocol.generated.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from ottla.protocol.generated.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from ottla.protocol.generated.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from ottla.protocol.generated.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from ottla.protocol.generated.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from ottla.protocol.generated.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from ottla.protocol.generated.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from ottla.protocol.generated.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from ottla.protocol.generated.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.protocol.generated.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.protocol.generated.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.protocol.generated.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from ottla.protocol.generated.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.protocol.generated.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from ottla.protocol.message import from_bytes, to_bytes
from ottla.requests.authorized_operations import NOT_ASKED
from ottla.requests.context import RequestContext

DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def bits(*operations: AclOperation) -> int:
    return sum(1 << each for each in operations)


# What a client may do


@pytest.mark.parametrize("version", [8, 10, 13])
def test_metadata_tells_what_the_client_may_do_with_each_topic(version: int) -> None:
    broker = Broker()
    for name in ("a", "b"):
        broker.add_topic(name)
    acls = Acls(broker)
    acls.add(READ, TOPIC, "a")
    acls.add(AclOperation.ALTER_CONFIGS, TOPIC, "b")
    acls.add(DESCRIBE, TOPIC, "b")
    request = MetadataRequest(topics=None, include_topic_authorized_operations=True)
    topics = broker.ask(metadata, request, version, MetadataResponse, alice()).topics
    assert {each.name: each.topic_authorized_operations for each in topics} == {
        "a": bits(READ, DESCRIBE),
        "b": bits(DESCRIBE, AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS),
    }


@pytest.mark.parametrize("version", [8, 13])
def test_nothing_is_told_of_what_may_be_done_with_a_topic_that_is_denied(version: int) -> None:
    broker = Broker()
    for name in ("a", "b"):
        broker.add_topic(name)
    Acls(broker).add(READ, TOPIC, "a")
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in ("a", "b", "c")],
        include_topic_authorized_operations=True,
    )
    topics = broker.ask(metadata, request, version, MetadataResponse, alice()).topics
    assert {each.name: each.topic_authorized_operations for each in topics} == {
        "a": bits(READ, DESCRIBE),
        "b": NOT_ASKED,
        "c": NOT_ASKED,
    }


@pytest.mark.parametrize(
    ("granted", "told"),
    [
        (None, 0),
        (AclOperation.ALTER_CONFIGS, 0),
        (DESCRIBE, bits(DESCRIBE)),
        (AclOperation.ALTER, bits(DESCRIBE, AclOperation.ALTER)),
        (AclOperation.ALL, 8096),
    ],
)
def test_what_may_be_done_with_the_cluster_is_told_to_those_who_may_describe_it(
    granted: AclOperation | None, told: int
) -> None:
    broker = Broker()
    acls = Acls(broker)
    if granted is not None:
        acls.add(granted, CLUSTER, CLUSTER_NAME)
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    found = broker.ask(describe_cluster, request, 2, DescribeClusterResponse, alice())
    assert found.cluster_authorized_operations == told
    of_topics = MetadataRequest(topics=[], include_cluster_authorized_operations=True)
    answer = broker.ask(metadata, of_topics, 10, MetadataResponse, alice())
    assert answer.cluster_authorized_operations == told


def test_groups_tell_what_the_client_may_do_with_them() -> None:
    broker = GroupBroker()
    commit(broker, "g")
    Acls(broker).add(READ, GROUP, "g")
    request = DescribeGroupsRequest(groups=["g"], include_authorized_operations=True)
    (group,) = broker.ask(describe_groups, request, 5, DescribeGroupsResponse, alice()).groups
    assert group.authorized_operations == bits(READ, DESCRIBE)


# Topics that are hidden or refused


def commit(broker: GroupBroker, group: str, *topics: str) -> None:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=5)
    request = OffsetCommitRequest(
        group_id=group,
        topics=[
            OffsetCommitRequestTopic(name=name, partitions=[partition]) for name in topics or ("t",)
        ],
    )
    broker.ask(offset_commit, request, 9, OffsetCommitResponse, root())


@pytest.mark.parametrize("version", [1, 7, 8, 9, 10])
def test_offsets_of_topics_that_may_not_be_described(version: int) -> None:
    broker = GroupBroker()
    ids = {name: broker.add_topic(name) for name in ("a", "b")}
    acls = Acls(broker)
    commit(broker, "g", "a", "b")
    acls.add(DESCRIBE, GROUP, "g")
    acls.add(DESCRIBE, TOPIC, "a")
    names = {topic_id: name for name, topic_id in ids.items()}

    def offsets(*, every: bool) -> dict[str, tuple[int, int]]:
        several = [
            OffsetFetchRequestTopics(name=name, topic_id=topic_id, partition_indexes=[0])
            for name, topic_id in ids.items()
        ]
        only = [OffsetFetchRequestTopic(name=name, partition_indexes=[0]) for name in ids]
        request = OffsetFetchRequest()
        if version < 8:
            request.group_id, request.topics = "g", None if every else only
        else:
            group = OffsetFetchRequestGroup(group_id="g", topics=None if every else several)
            request.groups = [group]
        answer = broker.ask(offset_fetch, request, version, OffsetFetchResponse, alice())
        topics = answer.topics if version < 8 else answer.groups[0].topics
        return {
            getattr(each, "name", "") or names[each.topic_id]: (  # type: ignore[union-attr]
                each.partitions[0].error_code,
                each.partitions[0].committed_offset,
            )
            for each in topics
        }

    assert offsets(every=False) == {"a": (0, 5), "b": (DENIED, -1)}
    if version > 1:
        assert offsets(every=True) == {"a": (0, 5)}


def test_no_page_of_topics_ends_at_a_hidden_one() -> None:
    broker = Broker()
    for name in ("a", "b", "c"):
        broker.add_topic(name)
    acls = Acls(broker)
    for name in ("a", "c"):
        acls.add(DESCRIBE, TOPIC, name)

    def ask(names: list[str], limit: int) -> DescribeTopicPartitionsResponse:
        topics = [TopicRequest(name=name) for name in names]
        request = DescribeTopicPartitionsRequest(topics=topics, response_partition_limit=limit)
        response = DescribeTopicPartitionsResponse
        return broker.ask(describe_topic_partitions, request, 0, response, alice())

    page = ask([], 1)
    assert [each.name for each in page.topics] == ["a"]
    assert page.next_cursor is not None
    assert page.next_cursor.topic_name == "c"
    assert [each.name for each in ask([], 9).topics] == ["a", "c"]
    named = {each.name: each for each in ask(["a", "b", "gone"], 9).topics}
    assert {name: each.error_code for name, each in named.items()} == {
        "a": 0,
        "b": DENIED,
        "gone": DENIED,
    }
    assert named["a"].topic_authorized_operations == bits(DESCRIBE)


def test_groups_are_all_listed_to_those_who_may_describe_the_cluster() -> None:
    broker = GroupBroker()
    for group in ("a", "b"):
        commit(broker, group)
    acls = Acls(broker)

    def listed() -> list[str]:
        answer = broker.ask(list_groups, ListGroupsRequest(), 5, ListGroupsResponse, alice())
        return sorted(each.group_id for each in answer.groups)

    assert listed() == []
    acls.add(READ, GROUP, "b")
    assert listed() == ["b"]
    acls.add(DESCRIBE, CLUSTER, CLUSTER_NAME)
    assert listed() == ["a", "b"]


def test_a_group_with_a_hidden_topic_is_not_described() -> None:
    broker = GroupBroker()
    acls = Acls(broker)
    acls.add(READ, GROUP, "g")
    member = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=1000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    beat = broker.ask(consumer_group_heartbeat, member, 1, ConsumerGroupHeartbeatResponse, alice())
    assert beat.error_code == DENIED
    beat = broker.ask(consumer_group_heartbeat, member, 1, ConsumerGroupHeartbeatResponse, root())
    assert beat.error_code == ErrorCode.NONE
    request = ConsumerGroupDescribeRequest(group_ids=["g"], include_authorized_operations=True)
    response = ConsumerGroupDescribeResponse
    (group,) = broker.ask(consumer_group_describe, request, 1, response, alice()).groups
    assert (group.error_code, group.members) == (DENIED, [])
    assert group.error_message is not None
    assert "not authorized to describe" in group.error_message
    acls.add(DESCRIBE, TOPIC, "t")
    (group,) = broker.ask(consumer_group_describe, request, 1, response, alice()).groups
    assert (group.error_code, len(group.members)) == (0, 1)
    assert group.authorized_operations == bits(READ, DESCRIBE)


def test_an_expression_matches_what_its_member_may_describe() -> None:
    coordinator = Coordinator()
    coordinator.cluster.put("topic", 6)
    coordinator.cluster.put("tosecret", 3)

    class Careful(Consumer):
        def send(
            self, request: ConsumerGroupHeartbeatRequest, version: int = 1
        ) -> ConsumerGroupHeartbeatResponse:
            caller = Caller(version, "client", "/127.0.0.1", lambda name: name != "tosecret")
            return self.coordinator.ask(
                self.coordinator.service.consumer_heartbeat(request, caller)
            )

    member = Careful(coordinator, "a", regex="to.*")
    member.join()
    coordinator.turn()
    member.beat()
    assert member.count == 6


@pytest.mark.parametrize("version", [0, 3])
def test_a_transaction_takes_all_partitions_or_none(version: int) -> None:
    broker = TransactionBroker()
    broker.add_topic("a")
    producer = broker.producer()
    acls = Acls(broker)
    acls.add(WRITE, ResourceType.TRANSACTIONAL_ID, ID)
    for name in ("t", "gone", "__consumer_offsets"):
        acls.add(WRITE, TOPIC, name)

    def add(*names: str) -> dict[str, int]:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=ID,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in names
            ],
        )
        response = AddPartitionsToTxnResponse
        answer = broker.ask(add_partitions_to_txn, request, version, response, alice())
        return {
            each.name: each.results_by_partition[0].partition_error_code
            for each in answer.results_by_topic_v3_and_below
        }

    assert add("t", "a", "gone") == {
        "t": ErrorCode.OPERATION_NOT_ATTEMPTED,
        "a": DENIED,
        "gone": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert add("__consumer_offsets") == {"__consumer_offsets": DENIED}
    assert add("t") == {"t": ErrorCode.NONE}


# Topics that are deleted, and settings


def test_who_may_not_delete_hears_the_name_of_an_id_only_if_it_may() -> None:
    broker = Broker()
    ids = {name: broker.add_topic(name) for name in ("a", "b", "c")}
    acls = Acls(broker)
    acls.add(AclOperation.DELETE, TOPIC, "a")
    acls.add(DESCRIBE, TOPIC, "b")
    made = DeletableTopicResult(name="a", topic_id=ids["a"], error_message=None)
    broker.controller.answers.append(DeleteTopicsResponse(responses=[made]))
    topics = [DeleteTopicState(name=None, topic_id=each) for each in ids.values()]
    topics += [DeleteTopicState(name="c"), DeleteTopicState(name="gone")]
    request = DeleteTopicsRequest(topics=topics, timeout_ms=1000)
    answer = broker.ask(delete_topics, request, 6, DeleteTopicsResponse, alice())
    found = [(each.name, each.topic_id, each.error_code) for each in answer.responses]
    assert found == [
        ("a", ids["a"], 0),
        ("b", ids["b"], DENIED),
        (None, ids["c"], DENIED),
        ("c", bytes(16), DENIED),
        ("gone", bytes(16), DENIED),
    ]
    (asked,) = broker.controller.asked
    assert isinstance(asked, DeleteTopicsRequest)
    assert [each.topic_id for each in asked.topics] == [ids["a"]]
    nothing = DeleteTopicsRequest(topics=[DeleteTopicState(name="c")], timeout_ms=1000)
    answer = broker.ask(delete_topics, nothing, 6, DeleteTopicsResponse, alice())
    assert [each.error_code for each in answer.responses] == [DENIED]
    assert len(broker.controller.asked) == 1


@pytest.mark.parametrize("version", [1, 5, 6])
@pytest.mark.parametrize("by_cluster", [False, True])
def test_who_may_delete_but_not_know_of_a_topic_does_not_delete_it_by_its_name(
    version: int, by_cluster: bool
) -> None:
    """By its id it does, as in Kafka; and who may delete all topics is not asked."""
    broker = Broker()
    topic_id = broker.add_topic("a")
    acls = Acls(broker)
    if by_cluster:
        acls.add(AclOperation.DELETE, CLUSTER, CLUSTER_NAME)
    else:
        acls.add(AclOperation.DELETE, TOPIC, "a")
    acls.add(DESCRIBE, TOPIC, "a", Permission.DENY)

    def code(request: DeleteTopicsRequest) -> int:
        made = DeletableTopicResult(name="a")
        broker.controller.answers[:] = [DeleteTopicsResponse(responses=[made])]
        answer = broker.ask(delete_topics, request, version, DeleteTopicsResponse, alice())
        return answer.responses[0].error_code

    named = DeleteTopicsRequest(timeout_ms=1000)
    if version < 6:
        named.topic_names = ["a"]
    else:
        named.topics = [DeleteTopicState(name="a")]
        identified = [DeleteTopicState(name=None, topic_id=topic_id)]
        assert code(DeleteTopicsRequest(topics=identified, timeout_ms=1000)) == 0
    assert code(named) == (0 if by_cluster else DENIED)


def test_denied_settings_are_told_beside_many_others() -> None:
    """So many that they are described and encoded in turns."""
    broker = Broker()
    acls = Acls(broker)
    names = [f"t{number}" for number in range(30)]
    for name in names:
        broker.add_topic(name)
        if name != "t7":
            acls.add(AclOperation.DESCRIBE_CONFIGS, TOPIC, name)
    resources = [DescribeConfigsResource(resource_type=2, resource_name=name) for name in names]
    request = DescribeConfigsRequest(resources=resources)
    for version in (1, 4):
        started = broker.start(describe_configs, request, version, alice())
        broker.scheduler.run_for(1)
        encoded = to_bytes(started.result(), version)
        answer = from_bytes(DescribeConfigsResponse, encoded, version)
        codes = {each.resource_name: each.error_code for each in answer.results}
        assert codes == {name: DENIED if name == "t7" else 0 for name in names}


@pytest.mark.parametrize(
    ("of_controller", "operation"),
    [(False, AclOperation.ALTER_CONFIGS), (True, AclOperation.CLUSTER_ACTION)],
)
def test_levels_of_loggers_are_changed_by_those_who_may(
    of_controller: bool, operation: AclOperation
) -> None:
    broker = Broker()
    acls = Acls(broker)
    other = AclOperation.ALTER_CONFIGS if of_controller else AclOperation.CLUSTER_ACTION
    acls.add(other, CLUSTER, CLUSTER_NAME)
    change = AlterableConfig(name="root", config_operation=0, value="INFO")
    logger = AlterConfigsResource(resource_type=8, resource_name="1", configs=[change])
    context = broker.context(1, alice())
    context.of_controller = of_controller

    def code() -> int:
        request = IncrementalAlterConfigsRequest(resources=[logger], validate_only=True)
        done = incremental_alter_configs.HANDLER.start(request, context, broker.services)
        assert isinstance(done, IncrementalAlterConfigsResponse)
        return done.responses[0].error_code

    assert code() == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    acls.add(operation, CLUSTER, CLUSTER_NAME)
    assert code() == ErrorCode.NONE


def test_before_the_acls_are_known_a_client_hears_that_it_did_not_work() -> None:
    broker = Broker()
    acls = Acls(broker)
    acls.authorizer._is_loaded = False
    request = DescribeConfigsRequest(
        resources=[DescribeConfigsResource(resource_type=2, resource_name="t")]
    )
    context = RequestContext(version=4, principal=alice().principal)
    with pytest.raises(ApiError) as refused:
        describe_configs.HANDLER.start(request, context, broker.services)
    assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert broker.mistakes.told == []


def test_a_denial_goes_before_what_the_cluster_allows_by_another_name() -> None:
    """CREATE on the cluster does for any topic, as in Kafka, even for one that is denied."""
    broker = Broker()
    acls = Acls(broker)
    acls.add(AclOperation.CREATE, CLUSTER, CLUSTER_NAME)
    acls.add(DESCRIBE, TOPIC, "new")
    acls.add(AclOperation.CREATE, TOPIC, "new", Permission.DENY)
    request = MetadataRequest(topics=[MetadataRequestTopic(name="new")])
    request.allow_auto_topic_creation = True
    answer = broker.ask(metadata, request, 12, MetadataResponse, alice())
    assert [each.error_code for each in answer.topics] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert broker.auto_topics.names == ["new"]


def test_the_authorizer_is_asked_once_for_each_resource() -> None:
    """Each refusal is a line of its log, and counts."""
    broker = Broker()
    acls = Acls(broker)
    acls.add(DESCRIBE, TOPIC, "b")
    topics = [ListOffsetsTopic(name=name) for name in ("a", "b", "c")]
    request = ListOffsetsRequest(topics=topics)
    answer = broker.ask(list_offsets, request, 7, ListOffsetsResponse, alice())
    assert [topic.name for topic in answer.topics] == ["b", "a", "c"]
    assert (acls.audit.denied.value, acls.audit.allowed.value) == (2, 1)

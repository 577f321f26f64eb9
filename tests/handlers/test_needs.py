"""What a client must be allowed for each API, and what becomes of what it is not."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.handlers.broker import Broker
from tests.handlers.groups import GroupBroker
from tests.protocol.samples import full_message

from ottla.common.authorization import CLUSTER_NAME, AclOperation, Client, Principal, ResourceType
from ottla.common.errors import (
    ApiError,
    ClusterAuthorizationFailed,
    ErrorCode,
    GroupAuthorizationFailed,
    RequestTimedOut,
)
from ottla.handlers import (
    create_topics,
    describe_cluster,
    describe_configs,
    describe_groups,
    fetch_metadata_log,
    find_coordinator,
    heartbeat,
    init_producer_id,
    join_group,
    list_groups,
    list_offsets,
    metadata,
    offset_commit,
    offset_delete,
)
from ottla.protocol.api import ApiKey
from ottla.protocol.generated.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
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
from ottla.protocol.generated.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.generated.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ottla.protocol.generated.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.generated.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from ottla.protocol.generated.join_group import JoinGroupRequest
from ottla.protocol.generated.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.protocol.generated.list_offsets import (
    ListOffsetsPartition,
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
from ottla.protocol.generated.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from ottla.protocol.schema_reader import StructSchema
from ottla.protocol.schemas import schema_of
from ottla.requests.context import ControllerServices, RequestContext, Services
from ottla.requests.contract import Contract, Handler, HotHandler, Quota
from ottla.requests.needs import VERSION_MAX, ByHandler, Effect, Need, Whole
from ottla.requests.table import load, served

FACTS: dict[ApiKey, str] = {
    ApiKey.PRODUCE: "WRITE TRANSACTIONAL_ID each, WRITE TOPIC each",
    ApiKey.FETCH: "READ TOPIC each, CLUSTER_ACTION CLUSTER each",
    ApiKey.LIST_OFFSETS: "DESCRIBE TOPIC each",
    ApiKey.METADATA: "DESCRIBE TOPIC each, DESCRIBE TOPIC hidden, "
    "CREATE TOPIC each or CREATE CLUSTER, DESCRIBE CLUSTER hidden v8-10",
    ApiKey.OFFSET_COMMIT: "READ GROUP whole, READ TOPIC each",
    ApiKey.OFFSET_FETCH: "DESCRIBE GROUP whole v0-7, DESCRIBE GROUP each v8+, "
    "DESCRIBE TOPIC each, DESCRIBE TOPIC hidden",
    ApiKey.FIND_COORDINATOR: "DESCRIBE GROUP whole v0-3, DESCRIBE TRANSACTIONAL_ID whole v0-3, "
    "DESCRIBE GROUP each v4+, DESCRIBE TRANSACTIONAL_ID each v4+, CLUSTER_ACTION CLUSTER each v6+",
    ApiKey.JOIN_GROUP: "READ GROUP whole",
    ApiKey.HEARTBEAT: "READ GROUP whole",
    ApiKey.LEAVE_GROUP: "READ GROUP whole",
    ApiKey.SYNC_GROUP: "READ GROUP whole",
    ApiKey.DESCRIBE_GROUPS: "DESCRIBE GROUP each",
    ApiKey.LIST_GROUPS: "DESCRIBE GROUP hidden or DESCRIBE CLUSTER",
    ApiKey.SASL_HANDSHAKE: "",
    ApiKey.API_VERSIONS: "",
    ApiKey.CREATE_TOPICS: "CREATE TOPIC each or CREATE CLUSTER, DESCRIBE_CONFIGS TOPIC hidden",
    ApiKey.DELETE_TOPICS: "DELETE TOPIC each or DELETE CLUSTER v0-5, "
    "DESCRIBE TOPIC each or DELETE CLUSTER v0-5, DELETE TOPIC each or DELETE CLUSTER v6+, "
    "DESCRIBE TOPIC each or DELETE CLUSTER v6+, DESCRIBE TOPIC hidden v6+",
    ApiKey.DELETE_RECORDS: "DELETE TOPIC each",
    ApiKey.INIT_PRODUCER_ID: "WRITE TRANSACTIONAL_ID whole, "
    "IDEMPOTENT_WRITE CLUSTER whole or WRITE TOPIC",
    ApiKey.OFFSET_FOR_LEADER_EPOCH: "DESCRIBE TOPIC each or CLUSTER_ACTION CLUSTER",
    ApiKey.ADD_PARTITIONS_TO_TXN: "WRITE TRANSACTIONAL_ID whole v0-3, WRITE TOPIC each v0-3, "
    "CLUSTER_ACTION CLUSTER whole v4+",
    ApiKey.ADD_OFFSETS_TO_TXN: "WRITE TRANSACTIONAL_ID whole, READ GROUP whole",
    ApiKey.END_TXN: "WRITE TRANSACTIONAL_ID whole",
    ApiKey.WRITE_TXN_MARKERS: "ALTER CLUSTER whole or CLUSTER_ACTION CLUSTER",
    ApiKey.TXN_OFFSET_COMMIT: "WRITE TRANSACTIONAL_ID whole, READ GROUP whole, READ TOPIC each",
    ApiKey.DESCRIBE_ACLS: "DESCRIBE CLUSTER whole",
    ApiKey.CREATE_ACLS: "ALTER CLUSTER whole",
    ApiKey.DELETE_ACLS: "ALTER CLUSTER whole",
    ApiKey.DESCRIBE_CONFIGS: "DESCRIBE_CONFIGS TOPIC each, DESCRIBE_CONFIGS GROUP each, "
    "DESCRIBE_CONFIGS CLUSTER each, DESCRIBE_CONFIGS CLUSTER each",
    ApiKey.ALTER_CONFIGS: "ALTER_CONFIGS TOPIC each, ALTER_CONFIGS GROUP each, "
    "ALTER_CONFIGS CLUSTER each",
    ApiKey.ALTER_REPLICA_LOG_DIRS: "ALTER CLUSTER whole",
    ApiKey.DESCRIBE_LOG_DIRS: "DESCRIBE CLUSTER whole",
    ApiKey.SASL_AUTHENTICATE: "",
    ApiKey.CREATE_PARTITIONS: "ALTER TOPIC each",
    ApiKey.CREATE_DELEGATION_TOKEN: "CREATE_TOKENS USER whole v3+",
    ApiKey.RENEW_DELEGATION_TOKEN: "",
    ApiKey.EXPIRE_DELEGATION_TOKEN: "",
    ApiKey.DESCRIBE_DELEGATION_TOKEN: "DESCRIBE DELEGATION_TOKEN hidden, "
    "DESCRIBE_TOKENS USER hidden",
    ApiKey.DELETE_GROUPS: "DELETE GROUP each",
    ApiKey.ELECT_LEADERS: "ALTER CLUSTER whole",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "ALTER_CONFIGS TOPIC each, ALTER_CONFIGS GROUP each, "
    "ALTER_CONFIGS CLUSTER each, ALTER_CONFIGS CLUSTER each at brokers, "
    "CLUSTER_ACTION CLUSTER each at controllers",
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: "ALTER CLUSTER whole",
    ApiKey.LIST_PARTITION_REASSIGNMENTS: "DESCRIBE CLUSTER whole",
    ApiKey.OFFSET_DELETE: "DELETE GROUP whole, READ TOPIC each",
    ApiKey.DESCRIBE_CLIENT_QUOTAS: "DESCRIBE_CONFIGS CLUSTER whole",
    ApiKey.ALTER_CLIENT_QUOTAS: "ALTER_CONFIGS CLUSTER whole",
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: "DESCRIBE CLUSTER whole",
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: "ALTER CLUSTER whole",
    ApiKey.VOTE: "CLUSTER_ACTION CLUSTER whole",
    ApiKey.BEGIN_QUORUM_EPOCH: "CLUSTER_ACTION CLUSTER whole",
    ApiKey.END_QUORUM_EPOCH: "CLUSTER_ACTION CLUSTER whole",
    ApiKey.DESCRIBE_QUORUM: "DESCRIBE CLUSTER whole",
    ApiKey.ALTER_PARTITION: "CLUSTER_ACTION CLUSTER whole",
    ApiKey.UPDATE_FEATURES: "ALTER CLUSTER whole",
    ApiKey.ENVELOPE: "CLUSTER_ACTION CLUSTER whole",
    ApiKey.FETCH_SNAPSHOT: "CLUSTER_ACTION CLUSTER whole",
    ApiKey.DESCRIBE_CLUSTER: "ALTER CLUSTER whole at controllers, DESCRIBE CLUSTER hidden",
    ApiKey.DESCRIBE_PRODUCERS: "READ TOPIC each",
    ApiKey.BROKER_REGISTRATION: "CLUSTER_ACTION CLUSTER whole",
    ApiKey.BROKER_HEARTBEAT: "CLUSTER_ACTION CLUSTER whole",
    ApiKey.UNREGISTER_BROKER: "ALTER CLUSTER whole",
    ApiKey.DESCRIBE_TRANSACTIONS: "DESCRIBE TRANSACTIONAL_ID each, DESCRIBE TOPIC hidden",
    ApiKey.LIST_TRANSACTIONS: "DESCRIBE TRANSACTIONAL_ID hidden",
    ApiKey.ALLOCATE_PRODUCER_IDS: "CLUSTER_ACTION CLUSTER whole",
    ApiKey.CONSUMER_GROUP_HEARTBEAT: "READ GROUP whole, DESCRIBE TOPIC whole",
    ApiKey.CONSUMER_GROUP_DESCRIBE: "DESCRIBE GROUP each, DESCRIBE TOPIC each",
    ApiKey.CONTROLLER_REGISTRATION: "CLUSTER_ACTION CLUSTER whole",
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: "CLUSTER_ACTION CLUSTER whole",
    ApiKey.LIST_CONFIG_RESOURCES: "DESCRIBE_CONFIGS CLUSTER whole",
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: "DESCRIBE TOPIC each, DESCRIBE TOPIC hidden",
    ApiKey.ADD_RAFT_VOTER: "ALTER CLUSTER whole",
    ApiKey.REMOVE_RAFT_VOTER: "ALTER CLUSTER whole",
    ApiKey.UPDATE_RAFT_VOTER: "CLUSTER_ACTION CLUSTER whole",
}
"""Operation and resource, as Apache Kafka 4.3.1 checks them, and what is done without."""
AT_CONTROLLER = {ApiKey.FETCH: "CLUSTER_ACTION CLUSTER whole"}
"""What is another handler's on listeners of controllers."""
MUTATIONS = {ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.CREATE_PARTITIONS}
BEFORE_AUTHENTICATION = {
    ApiKey.API_VERSIONS,
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE,
}
ENTITIES = {
    "TopicName": ResourceType.TOPIC,
    "GroupId": ResourceType.GROUP,
    "TransactionalId": ResourceType.TRANSACTIONAL_ID,
}
NAMED = "a"
DENIED = "b"


def contracts() -> Iterator[tuple[bool, Contract]]:
    for of_controller in (False, True):
        for key in served(of_controller=of_controller):
            yield of_controller, load(key, of_controller=of_controller)


def ident(value: object) -> str:
    return value.key.name if isinstance(value, Contract) else f"controller={value}"


ALL = list(contracts())
SERVED = [(at, each) for at, each in ALL if isinstance(each, Handler)]


def said(need: Need[Any, Any]) -> str:
    text = f"{need.operation.name} {need.resource_type.name} {need.effect.name.lower()}"
    text += "".join(f" or {op.name} {kind.name}" for op, kind in need.otherwise)
    if need.until < VERSION_MAX:
        text += f" v{need.since}-{need.until}"
    elif need.since:
        text += f" v{need.since}+"
    return text + {None: "", False: " at brokers", True: " at controllers"}[need.at_controller]


@pytest.mark.parametrize(("of_controller", "contract"), ALL, ids=ident)
def test_each_api_says_what_it_needs_as_apache_kafka_does(
    of_controller: bool, contract: Contract
) -> None:
    facts = FACTS[contract.key]
    if of_controller:
        facts = AT_CONTROLLER.get(contract.key, facts)
    assert ", ".join(said(need) for need in contract.needs) == facts


@pytest.mark.parametrize(("of_controller", "contract"), ALL, ids=ident)
def test_each_api_that_names_a_resource_says_how_it_is_authorised(
    of_controller: bool, contract: Contract
) -> None:
    """By the resource, or because the whole request needs something of the cluster."""
    named = {
        ENTITIES[entity]
        for entity in entities(schema_of(f"{contract.name}Request").root)
        if entity in ENTITIES
    }
    declared = {need.resource_type for need in contract.needs}
    of_cluster = [need for need in contract.needs if need.resource_type is ResourceType.CLUSTER]
    if not any(need.effect is Effect.WHOLE for need in of_cluster):
        assert named <= declared, of_controller


def entities(struct: StructSchema) -> Iterator[str]:
    for item in struct.fields:
        if item.entity is not None:
            yield item.entity
        if item.struct is not None:
            yield from entities(item.struct)


@pytest.mark.parametrize(("of_controller", "contract"), ALL, ids=ident)
def test_each_api_says_what_it_counts_against(of_controller: bool, contract: Contract) -> None:
    facts = AT_CONTROLLER if of_controller else {}
    needs = facts.get(contract.key, FACTS[contract.key])
    among_nodes = needs == "CLUSTER_ACTION CLUSTER whole" or contract.key == 27
    if contract.key in MUTATIONS:
        assert contract.quota is Quota.CONTROLLER_MUTATION
    elif isinstance(contract, HotHandler):
        assert contract.quota in (Quota.PRODUCE, Quota.FETCH)
    else:
        assert contract.quota is (Quota.EXEMPT if among_nodes else Quota.REQUEST)
    assert contract.before_authentication == (contract.key in BEFORE_AUTHENTICATION)


@pytest.mark.parametrize(("of_controller", "handler"), SERVED, ids=ident)
def test_each_handler_takes_the_services_of_its_listener(
    of_controller: bool, handler: Handler[Any, Any, Any]
) -> None:
    given = ControllerServices if of_controller or handler.is_passed_on else Services
    taken = handler.handle.__annotations__["services"]
    assert issubclass(given, taken)


# Refusals


class Rules:
    """Denies what it is told to, and keeps what it was asked."""

    enforces = True
    epoch = 0

    def __init__(self, *denied: tuple[AclOperation, ResourceType, str], everything: bool = False):
        self.denied = denied
        self.everything = everything
        self.asked: list[tuple[Principal, AclOperation, ResourceType, str]] = []

    def allows(
        self,
        client: Client,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
        *,
        log_if_denied: bool = True,
    ) -> bool:
        self.asked.append((client.principal, operation, resource_type, name))
        return not self.everything and (operation, resource_type, name) not in self.denied

    def allows_any(
        self, _client: Client, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        return not self.everything and (operation, resource_type, "") not in self.denied


CODES = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


@pytest.mark.parametrize(("of_controller", "handler"), SERVED, ids=ident)
def test_who_may_do_nothing_hears_so_in_every_version(
    of_controller: bool, handler: Handler[Any, Any, Any]
) -> None:
    """The code of the first need of the whole, in an answer that every version can say."""
    broker = Broker()
    broker.services.authorizer = Rules(everything=True)
    for version in range(handler.lowest, handler.highest + 1):
        context = RequestContext(version=version, of_controller=of_controller)
        wholes = [
            need for need in handler.needs if isinstance(need, Whole) and need.applies(context)
        ]
        if not wholes or handler.key in (ApiKey.FIND_COORDINATOR, ApiKey.INIT_PRODUCER_ID):
            continue
        request = full_message(f"{handler.name}Request", version, unknown_tags=False)
        with pytest.raises(ApiError) as refused:
            handler.start(request, context, broker.services)
        assert refused.value.code == CODES[wholes[0].resource_type]
        answer = handler.refuse(request, refused.value, version)
        assert handler.frame(answer, context, broker.services)
    assert broker.mistakes.told == []


TEXTS = {
    ResourceType.TOPIC: "Topic authorization failed.",
    ResourceType.GROUP: "Group authorization failed.",
    ResourceType.CLUSTER: "Cluster authorization failed.",
    ResourceType.TRANSACTIONAL_ID: "Transactional Id authorization failed.",
    ResourceType.DELEGATION_TOKEN: "Delegation Token authorization failed.",
    ResourceType.USER: "Delegation Token authorization failed.",
}


def test_a_refusal_says_in_kafkas_words_which_right_is_missing() -> None:
    needs = [need for _, contract in ALL for need in contract.needs]
    assert {need.resource_type for need in needs} == set(TEXTS)
    for need in needs:
        assert need.refusal().message == TEXTS[need.resource_type]


@pytest.mark.parametrize(("version", "told"), [(6, ""), (7, None), (9, None)])
def test_who_may_not_join_hears_of_no_protocol(version: int, told: str | None) -> None:
    refused = join_group.HANDLER.refuse(JoinGroupRequest(), GroupAuthorizationFailed(), version)
    assert refused.protocol_name == told


@pytest.mark.parametrize(("version", "named"), [(12, ["__cluster_metadata"]), (13, [])])
def test_who_may_not_fetch_metadata_hears_so_where_its_version_looks(
    version: int, named: list[str]
) -> None:
    """Before v13 for each partition too, as FetchRequest refuses in Kafka."""
    partition = FetchPartition(partition=0)
    request = FetchRequest(topics=[FetchTopic(topic="__cluster_metadata", partitions=[partition])])
    error = ClusterAuthorizationFailed()
    refused = fetch_metadata_log.HANDLER.refuse(request, error, version)
    assert refused.error_code == error.code
    assert [topic.topic for topic in refused.responses] == named
    for topic in refused.responses:
        (told,) = topic.partitions
        assert (told.partition_index, told.error_code) == (0, error.code)
        assert (told.high_watermark, told.records) == (-1, b"")


def denying(broker: Broker, *denied: tuple[AclOperation, ResourceType, str]) -> Broker:
    broker.services.authorizer = Rules(*denied)
    return broker


def listed(*names: str) -> ListOffsetsRequest:
    partition = ListOffsetsPartition(partition_index=0, timestamp=-1)
    return ListOffsetsRequest(
        topics=[ListOffsetsTopic(name=name, partitions=[partition]) for name in names]
    )


@pytest.mark.parametrize("version", [1, 11])
def test_a_topic_that_is_denied_is_refused_beside_the_others(version: int) -> None:
    broker = denying(Broker(), (AclOperation.DESCRIBE, ResourceType.TOPIC, DENIED))
    for name in (NAMED, DENIED):
        broker.add_topic(name)
    response = broker.ask(list_offsets, listed(DENIED, NAMED), version, ListOffsetsResponse)
    codes = {topic.name: topic.partitions[0].error_code for topic in response.topics}
    assert codes == {NAMED: ErrorCode.NONE, DENIED: ErrorCode.TOPIC_AUTHORIZATION_FAILED}


def test_a_topic_that_is_denied_is_not_looked_for() -> None:
    broker = denying(Broker(), (AclOperation.DESCRIBE, ResourceType.TOPIC, DENIED))
    response = broker.ask(list_offsets, listed(DENIED), 11, ListOffsetsResponse)
    (topic,) = response.topics
    assert topic.partitions[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_a_group_that_is_denied_is_refused() -> None:
    broker = denying(GroupBroker(), (AclOperation.READ, ResourceType.GROUP, DENIED))
    refused = broker.ask(heartbeat, HeartbeatRequest(group_id=DENIED), 4, HeartbeatResponse)
    assert refused.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    asked = broker.ask(heartbeat, HeartbeatRequest(group_id=NAMED), 4, HeartbeatResponse)
    assert asked.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_of_several_groups_each_is_judged() -> None:
    broker = denying(GroupBroker(), (AclOperation.DESCRIBE, ResourceType.GROUP, DENIED))
    request = DescribeGroupsRequest(groups=[DENIED, NAMED])
    found = broker.ask(describe_groups, request, 5, DescribeGroupsResponse).groups
    assert {each.group_id: each.error_code for each in found} == {
        DENIED: ErrorCode.GROUP_AUTHORIZATION_FAILED,
        NAMED: ErrorCode.NONE,
    }


def commit(group: str, *topics: OffsetCommitRequestTopic) -> OffsetCommitRequest:
    for topic in topics:
        topic.partitions = [OffsetCommitRequestPartition(partition_index=0, committed_offset=1)]
    return OffsetCommitRequest(group_id=group, topics=list(topics))


def test_offsets_are_refused_by_group_and_by_topic_also_by_its_id() -> None:
    broker = GroupBroker()
    topic_id = broker.add_topic(DENIED)
    denying(
        broker,
        (AclOperation.READ, ResourceType.GROUP, DENIED),
        (AclOperation.READ, ResourceType.TOPIC, DENIED),
    )
    of_group = commit(DENIED, OffsetCommitRequestTopic(name="t"))
    (topic,) = broker.ask(offset_commit, of_group, 9, OffsetCommitResponse).topics
    assert topic.partitions[0].error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    by_id = commit(
        NAMED,
        OffsetCommitRequestTopic(topic_id=topic_id),
        OffsetCommitRequestTopic(topic_id=broker.topic_id),
    )
    found = broker.ask(offset_commit, by_id, 10, OffsetCommitResponse).topics
    assert {each.topic_id: each.partitions[0].error_code for each in found} == {
        broker.topic_id: ErrorCode.NONE,
        topic_id: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }


def test_offsets_of_a_denied_topic_are_not_deleted() -> None:
    broker = denying(GroupBroker(), (AclOperation.READ, ResourceType.TOPIC, "t"))
    broker.ask(
        offset_commit, commit("g", OffsetCommitRequestTopic(name="t")), 9, OffsetCommitResponse
    )
    topic = OffsetDeleteRequestTopic(name="t", partitions=[OffsetDeleteRequestPartition()])
    request = OffsetDeleteRequest(group_id="g", topics=[topic])
    response = broker.ask(offset_delete, request, 0, OffsetDeleteResponse)
    assert response.error_code == ErrorCode.NONE
    (refused,) = response.topics
    assert refused.partitions[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_groups_that_may_not_be_described_are_not_listed() -> None:
    broker = GroupBroker()
    for group in (NAMED, DENIED):
        topic = OffsetCommitRequestTopic(name="t")
        broker.ask(offset_commit, commit(group, topic), 9, OffsetCommitResponse)
    hidden = (AclOperation.DESCRIBE, ResourceType.GROUP, DENIED)
    of_cluster = (AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)
    for rules, wanted in (([hidden, of_cluster], [NAMED]), ([hidden], [NAMED, DENIED])):
        denying(broker, *rules)
        found = broker.ask(list_groups, ListGroupsRequest(), 5, ListGroupsResponse).groups
        assert sorted(each.group_id for each in found) == wanted


@pytest.mark.parametrize(
    ("kind", "resource_type"), [(0, ResourceType.GROUP), (1, ResourceType.TRANSACTIONAL_ID)]
)
def test_a_coordinator_is_not_told_of_what_may_not_be_described(
    kind: int, resource_type: ResourceType
) -> None:
    broker = GroupBroker()
    broker.add_topic("__transaction_state")
    denying(broker, (AclOperation.DESCRIBE, resource_type, DENIED))
    code = CODES[resource_type]
    one = FindCoordinatorRequest(key=DENIED, key_type=kind)
    assert broker.ask(find_coordinator, one, 3, FindCoordinatorResponse).error_code == code
    several = FindCoordinatorRequest(key_type=kind, coordinator_keys=[NAMED, DENIED])
    found = broker.ask(find_coordinator, several, 4, FindCoordinatorResponse).coordinators
    assert {each.key: each.error_code for each in found} == {NAMED: ErrorCode.NONE, DENIED: code}


def test_settings_are_judged_by_whose_they_are() -> None:
    broker = Broker()
    broker.add_topic(DENIED)
    denying(
        broker,
        (AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, DENIED),
        (AclOperation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME),
    )
    resources = [
        DescribeConfigsResource(resource_type=2, resource_name=DENIED),
        DescribeConfigsResource(resource_type=4, resource_name="1"),
        DescribeConfigsResource(resource_type=32, resource_name="g"),
    ]
    request = DescribeConfigsRequest(resources=resources)
    found = broker.ask(describe_configs, request, 4, DescribeConfigsResponse).results
    assert {each.resource_type: each.error_code for each in found} == {
        2: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        4: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        32: ErrorCode.NONE,
    }


@pytest.mark.parametrize("of_cluster", [False, True])
def test_topics_may_be_created_by_name_or_because_all_may_be(of_cluster: bool) -> None:
    broker = Broker()
    denied = [(AclOperation.CREATE, ResourceType.TOPIC, DENIED)]
    if not of_cluster:
        denied.append((AclOperation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME))
    denying(broker, *denied)
    names = [NAMED, DENIED] if of_cluster else [NAMED]
    made = [CreatableTopicResult(name=name, error_message=None) for name in names]
    broker.controller.answers.append(CreateTopicsResponse(topics=made))
    request = CreateTopicsRequest(
        topics=[CreatableTopic(name=NAMED), CreatableTopic(name=DENIED)], timeout_ms=1000
    )
    found = broker.ask(create_topics, request, 7, CreateTopicsResponse).topics
    refused = ErrorCode.NONE if of_cluster else ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert {each.name: each.error_code for each in found} == {NAMED: 0, DENIED: refused}
    (asked,) = broker.controller.asked
    assert isinstance(asked, CreateTopicsRequest)
    assert [topic.name for topic in asked.topics] == names


def test_what_is_denied_is_told_also_when_the_rest_is_refused() -> None:
    denied = (AclOperation.CREATE, ResourceType.TOPIC, DENIED)
    of_cluster = (AclOperation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME)
    broker = denying(Broker(), denied, of_cluster)
    broker.controller.answers.append(RequestTimedOut())
    request = CreateTopicsRequest(
        topics=[CreatableTopic(name=NAMED), CreatableTopic(name=DENIED)], timeout_ms=1000
    )
    found = broker.ask(create_topics, request, 7, CreateTopicsResponse).topics
    assert {each.name: each.error_code for each in found} == {
        NAMED: ErrorCode.REQUEST_TIMED_OUT,
        DENIED: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }


def test_who_may_not_describe_settings_is_not_told_those_of_a_new_topic() -> None:
    broker = denying(Broker(), (AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, DENIED))
    made = [
        CreatableTopicResult(
            name=name,
            error_message=None,
            num_partitions=2,
            replication_factor=1,
            configs=[CreatableTopicConfigs(name="retention.ms", value="5")],
        )
        for name in (NAMED, DENIED)
    ]
    broker.controller.answers.append(CreateTopicsResponse(topics=made))
    request = CreateTopicsRequest(
        topics=[CreatableTopic(name=NAMED), CreatableTopic(name=DENIED)], timeout_ms=1000
    )
    shown, hidden = broker.ask(create_topics, request, 7, CreateTopicsResponse).topics
    assert (shown.num_partitions, len(shown.configs or ())) == (2, 1)
    assert (hidden.error_code, hidden.topic_config_error_code) == (0, 29)
    assert (hidden.configs, hidden.num_partitions, hidden.replication_factor) == ([], -1, -1)


def metadata_of(broker: Broker, *topics: MetadataRequestTopic) -> dict[str | bytes, int]:
    """The error of each topic that is told of, by its name, or by its id without one."""
    request = MetadataRequest(topics=list(topics) or None)
    found = broker.ask(metadata, request, 12, MetadataResponse).topics
    return {each.name or each.topic_id: each.error_code for each in found}


def test_topics_that_may_not_be_described_are_refused_by_name_and_id_and_else_hidden() -> None:
    broker = Broker()
    ids = {name: broker.add_topic(name) for name in (NAMED, DENIED)}
    denying(broker, (AclOperation.DESCRIBE, ResourceType.TOPIC, DENIED))
    refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    by_name = [MetadataRequestTopic(name=name) for name in ids]
    assert metadata_of(broker, *by_name) == {NAMED: 0, DENIED: refused}
    by_id = [MetadataRequestTopic(name=None, topic_id=each) for each in ids.values()]
    assert metadata_of(broker, *by_id) == {NAMED: 0, ids[DENIED]: refused}
    assert metadata_of(broker) == {NAMED: 0}


def test_a_topic_that_may_not_be_created_is_not_made_for_who_asks_for_it() -> None:
    broker = denying(
        Broker(),
        (AclOperation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME),
        (AclOperation.CREATE, ResourceType.TOPIC, DENIED),
    )
    asked = [MetadataRequestTopic(name=name) for name in (NAMED, DENIED)]
    assert metadata_of(broker, *asked) == {
        NAMED: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        DENIED: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
    assert broker.auto_topics.names == [NAMED]


@pytest.mark.parametrize("of_topics", [False, True])
def test_an_idempotent_producer_may_write_somewhere(of_topics: bool) -> None:
    denied = [(AclOperation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME)]
    if not of_topics:
        denied.append((AclOperation.WRITE, ResourceType.TOPIC, ""))
    broker = denying(Broker(), *denied)
    request = InitProducerIdRequest(transactional_id=None)
    answer = broker.ask(init_producer_id, request, 5, InitProducerIdResponse)
    refused = ErrorCode.NONE if of_topics else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert answer.error_code == refused


def test_a_client_of_brokers_may_describe_the_cluster_without_a_right() -> None:
    broker = denying(Broker(), (AclOperation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME))
    answer = broker.ask(describe_cluster, DescribeClusterRequest(), 2, DescribeClusterResponse)
    assert answer.error_code == ErrorCode.NONE
    context = RequestContext(version=2, of_controller=True)
    with pytest.raises(ApiError) as refused:
        describe_cluster.HANDLER.start(DescribeClusterRequest(), context, broker.services)
    assert refused.value.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_needs_of_which_handlers_take_care_are_few() -> None:
    found = {
        contract.key
        for _, contract in ALL
        if any(isinstance(need, ByHandler) for need in contract.needs)
    }
    assert found == {
        ApiKey.PRODUCE,
        ApiKey.FETCH,
        ApiKey.METADATA,
        ApiKey.OFFSET_FETCH,
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    }

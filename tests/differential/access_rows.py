"""What each API is asked, and what somebody must be allowed for it: the rows of the matrix.

``{c}`` in a text is the cell, so that what a request changes is no other cell's. Requests of the
quorum name another cluster, and those of brokers a broker that is not there: a client
that is allowed to send them hears so, and nothing happens.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from tests.differential.history import batch
from tests.differential.pair import Id, partition_data
from tests.differential.secured_side import ANY_ACL
from tests.differential.wire import raw_frame, request_frame

from ottla.common.authorization import AclOperation as Op
from ottla.common.authorization import Principal
from ottla.common.authorization import ResourceType as Kind
from ottla.handlers.envelope import seal
from ottla.requests.context import RequestContext

Json = Any

OPEN: Final = "open"
"""The topic that a cell's ACLs are about; of the other they say nothing."""
SHUT: Final = "shut"
HELD: Final = "held"
"""A group, and a transactional id, that has something of both topics."""
CLUSTER: Final = "kafka-cluster"
NOBODY: Final = 99
OTHER_CLUSTER: Final = "AAAAAAAAAAAAAAAAAAAAAA"
METADATA: Final = "__cluster_metadata"
NEW_UUID: Final = "zzzzzzzzzzzzzzzzzzzzzA"
TIMEOUT: Final = {"timeout_ms": 10_000}
PRODUCER: Final = {"producer_id": 4711, "producer_epoch": 0}


class Need(NamedTuple):
    operation: Op
    kind: Kind
    name: str = CLUSTER


class Row(NamedTuple):
    api: str
    what: str
    needs: tuple[Need, ...]
    fields: Mapping[str, Json]
    versions: tuple[int, ...] = ()
    """All, unless it says which."""
    topics: tuple[str, ...] = ()
    """Made for each cell."""
    answered: bool = True
    at: tuple[str, ...] = ("broker", "controller")


def topic(operation: Op, name: str = OPEN) -> Need:
    return Need(operation, Kind.TOPIC, name)


def group(operation: Op, name: str = "g-{c}") -> Need:
    return Need(operation, Kind.GROUP, name)


def txn(operation: Op, name: str = "tx-{c}") -> Need:
    return Need(operation, Kind.TRANSACTIONAL_ID, name)


def cluster(operation: Op) -> Need:
    return Need(operation, Kind.CLUSTER)


def both(**more: Json) -> list[dict[str, Json]]:
    """The two topics, named as requests do it mostly."""
    return [{"name": name, **more} for name in (OPEN, SHUT)]


def by_id(**more: Json) -> list[dict[str, Json]]:
    return [{"topic_id": Id(name), **more} for name in (OPEN, SHUT)]


def of_quorum(**partition: Json) -> dict[str, Json]:
    return {
        "cluster_id": OTHER_CLUSTER,
        "topics": [{"topic_name": METADATA, "partitions": [{"partition_index": 0, **partition}]}],
    }


def configs(kind: int, *names: str, **more: Json) -> list[dict[str, Json]]:
    return [{"resource_type": kind, "resource_name": name, **more} for name in names]


def enclosed(principal: str, api: str, version: int, **fields: Json) -> dict[str, Json]:
    """An envelope with a request of ``principal``."""
    client = RequestContext(version=0)
    client.principal = Principal("User", principal)
    sealed = seal(request_frame(api, version, fields)[4:], client)
    return {
        "request_data": sealed.request_data,
        "request_principal": sealed.request_principal,
        "client_host_address": sealed.client_host_address,
    }


FETCHED = [
    {
        "topic": name,
        "topic_id": Id(name),
        "partitions": [{"partition": 0, "partition_max_bytes": 10_000, "current_leader_epoch": -1,
                        "last_fetched_epoch": -1}],
    }
    for name in (OPEN, SHUT)
]  # fmt: skip
FETCH = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 10_000, "session_epoch": -1}
COMMITTED = [
    {"name": name, "topic_id": Id(name),
     "partitions": [{"partition_index": 0, "committed_offset": 1, "committed_metadata": "m"}]}
    for name in (OPEN, SHUT)
]  # fmt: skip
JOIN = {
    "group_id": "g-{c}",
    "session_timeout_ms": 30_000,
    "rebalance_timeout_ms": 30_000,
    "protocol_type": "consumer",
    "protocols": [{"name": "range", "metadata": b""}],
}
NEW_TOPICS = [
    {"name": name, "num_partitions": 1, "replication_factor": 1} for name in ("new-a", "new-b")
]
TXN_TOPICS = [{"name": name, "partitions": [0]} for name in (OPEN, SHUT)]
PRODUCED = {
    "acks": -1,
    "timeout_ms": 10_000,
    "topic_data": [partition_data(name, 0, batch()) for name in (OPEN, SHUT)],
}
TRANSACTIONAL = batch(producer_id=4711, producer_epoch=0, base_sequence=0, transactional=True)
IN_TRANSACTION = [partition_data(name, 0, TRANSACTIONAL) for name in (OPEN, SHUT)]
HEARTBEAT = {
    "group_id": "g-{c}",
    "member_id": "member-{c}",
    "member_epoch": 0,
    "rebalance_timeout_ms": 30_000,
    "topic_partitions": [],
}

OF_TOPICS: Final = (
    Row("Produce", "records", (topic(Op.WRITE),), PRODUCED),
    Row("Produce", "records that nobody hears of", (topic(Op.WRITE),),
        {**PRODUCED, "acks": 0}, (3, 13), answered=False),
    Row("Produce", "a transaction", (txn(Op.WRITE), topic(Op.WRITE)),
        {**PRODUCED, "transactional_id": "tx-{c}", "topic_data": IN_TRANSACTION}, (3, 11, 12, 13)),
    Row("Produce", "a transaction of nobody", (topic(Op.WRITE),),
        {**PRODUCED, "transactional_id": None, "topic_data": IN_TRANSACTION}, (3, 11, 12, 13)),
    Row("Fetch", "as a consumer", (topic(Op.READ),),
        {**FETCH, "replica_id": -1, "topics": FETCHED}, at=("broker",)),
    Row("Fetch", "as a follower", (cluster(Op.CLUSTER_ACTION),),
        {**FETCH, "replica_id": 7, "replica_state": {"replica_id": 7, "replica_epoch": 1},
         "topics": FETCHED}, at=("broker",)),
    Row("Fetch", "of the metadata", (cluster(Op.CLUSTER_ACTION),),
        {**FETCH, "cluster_id": OTHER_CLUSTER, "replica_id": NOBODY,
         "replica_state": {"replica_id": NOBODY, "replica_epoch": -1},
         "topics": [{"topic": METADATA, "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ",
                     "partitions": [{"partition": 0}]}]}, (12, 13, 17, 18), at=("controller",)),
    Row("ListOffsets", "the ends", (topic(Op.DESCRIBE),),
        {"replica_id": -1, "topics": both(partitions=[{"partition_index": 0, "timestamp": -1}])}),
    Row("Metadata", "by name", (topic(Op.DESCRIBE),),
        {"topics": both(), "allow_auto_topic_creation": False,
         "include_cluster_authorized_operations": True,
         "include_topic_authorized_operations": True}),
    Row("Metadata", "by name, with the cluster", (topic(Op.DESCRIBE), cluster(Op.DESCRIBE)),
        {"topics": both(), "include_cluster_authorized_operations": True,
         "include_topic_authorized_operations": True}, (8, 10, 13)),
    Row("Metadata", "by id", (topic(Op.DESCRIBE),),
        {"topics": [{"name": None, **each} for each in by_id()]}, (12, 13)),
    Row("Metadata", "all", (topic(Op.DESCRIBE),), {"topics": None}, (1, 8, 12, 13)),
    Row("Metadata", "a topic that is not there", (topic(Op.DESCRIBE, "none"),),
        {"topics": [{"name": "none"}], "allow_auto_topic_creation": False}, (4, 13)),
    Row("DescribeTopicPartitions", "by name", (topic(Op.DESCRIBE),),
        {"topics": both(), "response_partition_limit": 2000, "cursor": None}),
    Row("DescribeTopicPartitions", "all", (topic(Op.DESCRIBE),),
        {"topics": [], "response_partition_limit": 2000, "cursor": None}),
    Row("CreateTopics", "two", (topic(Op.CREATE, "new-a"),),
        {**TIMEOUT, "topics": NEW_TOPICS, "validate_only": True}),
    Row("CreateTopics", "with their configs",
        (topic(Op.CREATE, "new-a"), topic(Op.DESCRIBE_CONFIGS, "new-a")),
        {**TIMEOUT, "topics": NEW_TOPICS, "validate_only": True}, (7,)),
    Row("CreateTopics", "by the cluster", (cluster(Op.CREATE),),
        {**TIMEOUT, "topics": NEW_TOPICS, "validate_only": True}, (2, 7)),
    Row("CreateTopics", "the metadata", (cluster(Op.CREATE),),
        {**TIMEOUT, "topics": [{"name": METADATA, "num_partitions": 1, "replication_factor": 1}],
         "validate_only": True}, (7,)),
    Row("CreateTopics", "one twice", (cluster(Op.CREATE),),
        {**TIMEOUT, "topics": [NEW_TOPICS[0], NEW_TOPICS[0]], "validate_only": True}, (7,)),
    Row("DeleteTopics", "by name", (topic(Op.DELETE, "del-{c}"),),
        {**TIMEOUT, "topic_names": ["del-{c}", SHUT, "none"],
         "topics": [{"name": "del-{c}"}, {"name": SHUT}, {"name": "none"}]},
        (1, 5, 6), ("del-{c}",)),
    Row("DeleteTopics", "by name, with a description",
        (topic(Op.DELETE, "del-{c}"), topic(Op.DESCRIBE, "del-{c}")),
        {**TIMEOUT, "topics": [{"name": "del-{c}"}]}, (6,), ("del-{c}",)),
    Row("DeleteTopics", "by id", (topic(Op.DELETE, "del-{c}"),),
        {**TIMEOUT, "topics": [{"name": None, "topic_id": Id("del-{c}")},
                               {"name": None, "topic_id": Id(SHUT)},
                               {"name": None, "topic_id": NEW_UUID}]}, (6,), ("del-{c}",)),
    Row("DeleteTopics", "by id that may be described",
        (topic(Op.DESCRIBE),),
        {**TIMEOUT, "topics": [{"name": None, "topic_id": Id(OPEN)},
                               {"name": None, "topic_id": Id(SHUT)}]}, (6,)),
    Row("DeleteTopics", "by the cluster", (cluster(Op.DELETE),),
        {**TIMEOUT, "topic_names": ["del-{c}"], "topics": [{"name": "del-{c}"}]},
        (1, 6), ("del-{c}",)),
    Row("DeleteRecords", "none", (topic(Op.DELETE),),
        {**TIMEOUT, "topics": both(partitions=[{"partition_index": 0, "offset": 0}])}),
    Row("CreatePartitions", "another", (topic(Op.ALTER),),
        {**TIMEOUT, "topics": both(count=2, assignments=None), "validate_only": True}),
    Row("OffsetForLeaderEpoch", "as a consumer", (topic(Op.DESCRIBE),),
        {"replica_id": -1, "topics": [
            {"topic": name, "partitions": [{"partition": 0, "current_leader_epoch": -1,
                                            "leader_epoch": 0}]} for name in (OPEN, SHUT)]}),
    Row("OffsetForLeaderEpoch", "as a broker", (cluster(Op.CLUSTER_ACTION),),
        {"replica_id": -1, "topics": [
            {"topic": name, "partitions": [{"partition": 0, "current_leader_epoch": -1,
                                            "leader_epoch": 0}]} for name in (OPEN, SHUT)]}),
    Row("DescribeProducers", "of two", (topic(Op.READ),), {"topics": both(partition_indexes=[0])}),
)  # fmt: skip

OF_GROUPS: Final = (
    Row("FindCoordinator", "of groups", (group(Op.DESCRIBE),),
        {"key": "g-{c}", "key_type": 0, "coordinator_keys": ["g-{c}", "other"]}),
    Row("FindCoordinator", "of transactions", (txn(Op.DESCRIBE),),
        {"key": "tx-{c}", "key_type": 1, "coordinator_keys": ["tx-{c}", "other"]},
        (1, 2, 3, 4, 5, 6)),
    Row("OffsetCommit", "of no member", (group(Op.READ), topic(Op.READ)),
        {"group_id": "g-{c}", "generation_id_or_member_epoch": -1, "topics": COMMITTED}),
    Row("OffsetFetch", "of two topics", (group(Op.DESCRIBE, HELD), topic(Op.DESCRIBE)),
        {"group_id": HELD, "topics": both(partition_indexes=[0]),
         "groups": [{"group_id": HELD, "member_epoch": -1, "topics": [
             {"name": name, "topic_id": Id(name), "partition_indexes": [0]}
             for name in (OPEN, SHUT)]}]}),
    Row("OffsetFetch", "of all topics", (group(Op.DESCRIBE, HELD), topic(Op.DESCRIBE)),
        {"group_id": HELD, "topics": None,
         "groups": [{"group_id": HELD, "member_epoch": -1, "topics": None}]},
        (2, 7, 8, 9, 10)),
    Row("OffsetFetch", "of two groups", (group(Op.DESCRIBE, HELD), topic(Op.DESCRIBE)),
        {"groups": [{"group_id": name, "member_epoch": -1, "topics": None}
                    for name in (HELD, "other")]}, (8, 9, 10)),
    Row("JoinGroup", "a new member", (group(Op.READ),), JOIN, (5, 9)),
    Row("JoinGroup", "in the first version", (group(Op.READ),), JOIN, (0,)),
    Row("Heartbeat", "of a stranger", (group(Op.READ),),
        {"group_id": "g-{c}", "generation_id": 1, "member_id": "m"}),
    Row("LeaveGroup", "of a stranger", (group(Op.READ),),
        {"group_id": "g-{c}", "member_id": "m", "members": [{"member_id": "m"}]}),
    Row("SyncGroup", "of a stranger", (group(Op.READ),),
        {"group_id": "g-{c}", "generation_id": 1, "member_id": "m",
         "protocol_type": "consumer", "protocol_name": "range"}),
    Row("SyncGroup", "without a protocol", (group(Op.READ),),
        {"group_id": "g-{c}", "generation_id": 1, "member_id": "m"}, (5,)),
    Row("DescribeGroups", "of two", (group(Op.DESCRIBE, HELD),),
        {"groups": [HELD, "other"], "include_authorized_operations": True}),
    Row("ListGroups", "all", (group(Op.DESCRIBE, HELD),), {}),
    Row("ListGroups", "by the cluster", (cluster(Op.DESCRIBE),), {"states_filter": ["Empty"]},
        (4, 5)),
    Row("DeleteGroups", "of two", (group(Op.DELETE),), {"groups_names": ["g-{c}", "other"]}),
    Row("OffsetDelete", "of two topics", (group(Op.DELETE, HELD), topic(Op.READ)),
        {"group_id": HELD, "topics": both(partitions=[{"partition_index": 7}])}),
    Row("ConsumerGroupHeartbeat", "one topic", (group(Op.READ), topic(Op.DESCRIBE)),
        {**HEARTBEAT, "subscribed_topic_names": [OPEN]}, (1,)),
    Row("ConsumerGroupHeartbeat", "two topics", (group(Op.READ), topic(Op.DESCRIBE)),
        {**HEARTBEAT, "subscribed_topic_names": [OPEN, SHUT]}, (1,)),
    Row("ConsumerGroupHeartbeat", "of a stranger", (group(Op.READ),),
        {**HEARTBEAT, "member_epoch": 4, "subscribed_topic_names": None,
         "topic_partitions": None, "rebalance_timeout_ms": -1}, (0, 1)),
    Row("ConsumerGroupDescribe", "of two", (group(Op.DESCRIBE, "new-held"), topic(Op.DESCRIBE)),
        {"group_ids": ["new-held", "other"], "include_authorized_operations": True}),
    Row("ConsumerGroupDescribe", "with all topics",
        (group(Op.DESCRIBE, "new-held"), topic(Op.DESCRIBE), topic(Op.DESCRIBE, SHUT)),
        {"group_ids": ["new-held"], "include_authorized_operations": True}),
)  # fmt: skip

OF_TRANSACTIONS: Final = (
    Row("InitProducerId", "of a transaction", (txn(Op.WRITE),),
        {"transactional_id": "tx-{c}", "transaction_timeout_ms": 60_000, "producer_id": -1,
         "producer_epoch": -1}, (0, 3, 4, 5)),
    Row("InitProducerId", "by the cluster", (cluster(Op.IDEMPOTENT_WRITE),),
        {"transactional_id": None, "transaction_timeout_ms": 60_000}, (0, 3, 5)),
    Row("InitProducerId", "by any topic", (topic(Op.WRITE, "any"),),
        {"transactional_id": None, "transaction_timeout_ms": 60_000}, (0, 3, 5)),
    Row("AddPartitionsToTxn", "as a client", (txn(Op.WRITE), topic(Op.WRITE)),
        {"v3_and_below_transactional_id": "tx-{c}", "v3_and_below_producer_id": 4711,
         "v3_and_below_producer_epoch": 0, "v3_and_below_topics": TXN_TOPICS}, (0, 1, 2, 3)),
    Row("AddPartitionsToTxn", "one topic", (txn(Op.WRITE), topic(Op.WRITE)),
        {"v3_and_below_transactional_id": "tx-{c}", "v3_and_below_producer_id": 4711,
         "v3_and_below_producer_epoch": 0, "v3_and_below_topics": TXN_TOPICS[:1]}, (0, 3)),
    Row("AddPartitionsToTxn", "as a broker", (cluster(Op.CLUSTER_ACTION),),
        {"transactions": [{"transactional_id": "tx-{c}", **PRODUCER, "verify_only": True,
                           "topics": TXN_TOPICS}]}, (4, 5)),
    Row("AddOffsetsToTxn", "of a group", (txn(Op.WRITE), group(Op.READ)),
        {"transactional_id": "tx-{c}", **PRODUCER, "group_id": "g-{c}"}),
    Row("EndTxn", "of a stranger", (txn(Op.WRITE),),
        {"transactional_id": "tx-{c}", **PRODUCER, "committed": True}),
    Row("WriteTxnMarkers", "by who may alter", (cluster(Op.ALTER),),
        {"markers": [{**PRODUCER, "transaction_result": False, "coordinator_epoch": 0,
                      "topics": [{"name": "none", "partition_indexes": [0]}]}]}),
    Row("WriteTxnMarkers", "by a broker", (cluster(Op.CLUSTER_ACTION),),
        {"markers": [{**PRODUCER, "transaction_result": False, "coordinator_epoch": 0,
                      "topics": [{"name": "none", "partition_indexes": [0]}]}]}),
    Row("TxnOffsetCommit", "of two topics", (txn(Op.WRITE), group(Op.READ), topic(Op.READ)),
        {"transactional_id": "tx-{c}", "group_id": "g-{c}", **PRODUCER, "generation_id": -1,
         "topics": [{key: each[key] for key in ("name", "partitions")} for each in COMMITTED]}),
    Row("DescribeTransactions", "of two", (txn(Op.DESCRIBE, HELD), topic(Op.DESCRIBE)),
        {"transactional_ids": [HELD, "other"]}),
    Row("ListTransactions", "all", (txn(Op.DESCRIBE, HELD),), {}),
)  # fmt: skip

OF_SETTINGS: Final = (
    Row("DescribeConfigs", "of topics", (topic(Op.DESCRIBE_CONFIGS),),
        {"resources": configs(2, OPEN, SHUT, configuration_keys=["retention.ms"])}),
    Row("DescribeConfigs", "of groups", (group(Op.DESCRIBE_CONFIGS),),
        {"resources": configs(32, "g-{c}", "other",
                              configuration_keys=["consumer.session.timeout.ms"])}),
    Row("DescribeConfigs", "of a broker", (cluster(Op.DESCRIBE_CONFIGS),),
        {"resources": configs(4, "1", configuration_keys=["log.retention.ms"])}),
    Row("DescribeConfigs", "of metrics", (cluster(Op.DESCRIBE_CONFIGS),),
        {"resources": configs(16, "m", configuration_keys=["interval.ms"])}),
    Row("DescribeConfigs", "of an unknown kind", (cluster(Op.DESCRIBE_CONFIGS),),
        {"resources": [*configs(3, "x", configuration_keys=None),
                       *configs(2, OPEN, configuration_keys=["retention.ms"])]}, (1, 4)),
    Row("DescribeConfigs", "implied by the right to change", (topic(Op.ALTER_CONFIGS),),
        {"resources": configs(2, OPEN, SHUT, configuration_keys=["retention.ms"])}, (4,)),
    Row("AlterConfigs", "of topics", (topic(Op.ALTER_CONFIGS),),
        {"resources": configs(2, OPEN, SHUT, configs=[{"name": "retention.ms", "value": "9"}]),
         "validate_only": True}),
    Row("AlterConfigs", "of groups", (group(Op.ALTER_CONFIGS),),
        {"resources": configs(32, "g-{c}", "other",
                              configs=[{"name": "consumer.session.timeout.ms", "value": "50000"}]),
         "validate_only": True}),
    Row("AlterConfigs", "of a broker", (cluster(Op.ALTER_CONFIGS),),
        {"resources": configs(4, "1", configs=[{"name": "log.retention.ms", "value": "9"}]),
         "validate_only": True}),
    Row("IncrementalAlterConfigs", "of topics", (topic(Op.ALTER_CONFIGS),),
        {"resources": configs(2, OPEN, SHUT, configs=[
            {"name": "retention.ms", "config_operation": 0, "value": "9"}]),
         "validate_only": True}),
    Row("IncrementalAlterConfigs", "of groups", (group(Op.ALTER_CONFIGS),),
        {"resources": configs(32, "g-{c}", "other", configs=[
            {"name": "consumer.session.timeout.ms", "config_operation": 0, "value": "50000"}]),
         "validate_only": True}),
    Row("IncrementalAlterConfigs", "of a broker", (cluster(Op.ALTER_CONFIGS),),
        {"resources": configs(4, "1", configs=[
            {"name": "log.retention.ms", "config_operation": 0, "value": "9"}]),
         "validate_only": True}),
    Row("IncrementalAlterConfigs", "of metrics", (cluster(Op.ALTER_CONFIGS),),
        {"resources": configs(16, "m", configs=[
            {"name": "interval.ms", "config_operation": 0, "value": "9000"}]),
         "validate_only": True}),
    Row("IncrementalAlterConfigs", "of loggers", (cluster(Op.ALTER_CONFIGS),),
        {"resources": configs(8, "1", configs=[
            {"name": "no.such.logger", "config_operation": 0, "value": "INFO"}]),
         "validate_only": True}),
    Row("IncrementalAlterConfigs", "of loggers, as a broker", (cluster(Op.CLUSTER_ACTION),),
        {"resources": configs(8, "1", configs=[
            {"name": "no.such.logger", "config_operation": 0, "value": "INFO"}]),
         "validate_only": True}),
    Row("ListConfigResources", "of metrics", (cluster(Op.DESCRIBE_CONFIGS),),
        {"resource_types": [16]}),
    Row("DescribeClientQuotas", "all", (cluster(Op.DESCRIBE_CONFIGS),),
        {"components": [], "strict": False}),
    Row("AlterClientQuotas", "of a user", (cluster(Op.ALTER_CONFIGS),),
        {"entries": [{"entity": [{"entity_type": "user", "entity_name": "u"}],
                      "ops": [{"key": "producer_byte_rate", "value": 1000.0, "remove": False}]}],
         "validate_only": True}),
    Row("DescribeAcls", "of somebody", (cluster(Op.DESCRIBE),),
        {**ANY_ACL, "principal_filter": "User:somebody"}),
    Row("CreateAcls", "of somebody else", (cluster(Op.ALTER),),
        {"creations": [{"resource_type": 2, "resource_name": "t", "resource_pattern_type": 3,
                        "principal": "User:else", "host": "*", "operation": 3,
                        "permission_type": 3}] * 2}),
    Row("DeleteAcls", "of nobody", (cluster(Op.ALTER),),
        {"filters": [{**ANY_ACL, "principal_filter": "User:nobody"}] * 2}),
    Row("DescribeUserScramCredentials", "of two", (cluster(Op.DESCRIBE),),
        {"users": [{"name": "nobody"}, {"name": "no-one"}]}),
    Row("AlterUserScramCredentials", "of two", (cluster(Op.ALTER),),
        {"deletions": [{"name": "nobody", "mechanism": 1}, {"name": "no-one", "mechanism": 2}]}),
    Row("CreateDelegationToken", "of another", (), {"owner_principal_type": "User",
        "owner_principal_name": "another", "max_lifetime_ms": -1}, (3,)),
    Row("RenewDelegationToken", "that is not there", (), {"hmac": b"x", "renew_period_ms": 1}),
    Row("ExpireDelegationToken", "that is not there", (),
        {"hmac": b"x", "expiry_time_period_ms": 1}),
    Row("DescribeDelegationToken", "of all", (), {"owners": None}),
)  # fmt: skip

OF_THE_CLUSTER: Final = (
    Row("ApiVersions", "after a login", (), {"client_software_name": "tests",
                                             "client_software_version": "1"}),
    Row("SaslHandshake", "after a login", (), {"mechanism": "PLAIN"}),
    Row("SaslAuthenticate", "after a login", (), {"auth_bytes": b"\0admin\0admin"}),
    Row("DescribeCluster", "with its operations", (cluster(Op.DESCRIBE),),
        {"include_cluster_authorized_operations": True}, at=("broker",)),
    Row("DescribeCluster", "all operations", (cluster(Op.ALL),),
        {"include_cluster_authorized_operations": True}, at=("broker",)),
    Row("DescribeCluster", "of controllers", (cluster(Op.ALTER),),
        {"include_cluster_authorized_operations": True, "endpoint_type": 2}, (1, 2),
        at=("controller",)),
    Row("DescribeLogDirs", "of two", (cluster(Op.DESCRIBE),),
        {"topics": [{"topic": name, "partitions": [0]} for name in (OPEN, SHUT)]}),
    Row("AlterReplicaLogDirs", "to nowhere", (cluster(Op.ALTER),),
        {"dirs": [{"path": "/nowhere", "topics": [{"name": OPEN, "partitions": [0]}]}]}),
    Row("ElectLeaders", "the preferred", (cluster(Op.ALTER),),
        {**TIMEOUT, "election_type": 0, "topic_partitions": [{"topic": OPEN, "partitions": [0]}]}),
    Row("AlterPartitionReassignments", "to nothing", (cluster(Op.ALTER),),
        {**TIMEOUT, "topics": [{"name": OPEN, "partitions": [
            {"partition_index": 0, "replicas": None}]}]}),
    Row("ListPartitionReassignments", "all", (cluster(Op.DESCRIBE),),
        {**TIMEOUT, "topics": None}),
    Row("DescribeQuorum", "of the metadata", (cluster(Op.DESCRIBE),),
        {"topics": [{"topic_name": METADATA, "partitions": [{"partition_index": 0}]}]}),
    Row("UpdateFeatures", "to what is so", (cluster(Op.ALTER),),
        {"timeout_ms": 10_000, "feature_updates": [
            {"feature": "metadata.version", "max_version_level": 30, "upgrade_type": 1}],
         "validate_only": True}),
    Row("UnregisterBroker", "nobody", (cluster(Op.ALTER),), {"broker_id": NOBODY}),
    Row("AddRaftVoter", "of another cluster", (cluster(Op.ALTER),),
        {"cluster_id": OTHER_CLUSTER, "timeout_ms": 1000, "voter_id": NOBODY}),
    Row("RemoveRaftVoter", "of another cluster", (cluster(Op.ALTER),),
        {"cluster_id": OTHER_CLUSTER, "voter_id": NOBODY}),
    Row("UpdateRaftVoter", "of another cluster", (cluster(Op.CLUSTER_ACTION),),
        {"cluster_id": OTHER_CLUSTER, "voter_id": NOBODY}),
    Row("Vote", "in another cluster", (cluster(Op.CLUSTER_ACTION),),
        of_quorum(replica_epoch=1, replica_id=NOBODY)),
    Row("BeginQuorumEpoch", "in another cluster", (cluster(Op.CLUSTER_ACTION),),
        of_quorum(leader_id=NOBODY, leader_epoch=1)),
    Row("EndQuorumEpoch", "in another cluster", (cluster(Op.CLUSTER_ACTION),),
        of_quorum(leader_id=NOBODY, leader_epoch=1)),
    Row("FetchSnapshot", "in another cluster", (cluster(Op.CLUSTER_ACTION),),
        {"cluster_id": OTHER_CLUSTER, "replica_id": NOBODY, "topics": [
            {"name": METADATA, "partitions": [{"partition": 0}]}]}),
    Row("AlterPartition", "of nobody", (cluster(Op.CLUSTER_ACTION),),
        {"broker_id": NOBODY, "broker_epoch": 1, "topics": by_id(partitions=[
            {"partition_index": 0, "leader_epoch": 0, "new_isr": [1],
             "new_isr_with_epochs": [{"broker_id": 1}], "partition_epoch": 0}])}),
    Row("BrokerRegistration", "in another cluster", (cluster(Op.CLUSTER_ACTION),),
        {"broker_id": NOBODY, "cluster_id": OTHER_CLUSTER, "incarnation_id": NEW_UUID}),
    Row("BrokerHeartbeat", "of nobody", (cluster(Op.CLUSTER_ACTION),),
        {"broker_id": NOBODY, "broker_epoch": 1}),
    Row("AllocateProducerIds", "of nobody", (cluster(Op.CLUSTER_ACTION),),
        {"broker_id": NOBODY, "broker_epoch": 1}),
    Row("AssignReplicasToDirs", "of nobody", (cluster(Op.CLUSTER_ACTION),),
        {"broker_id": NOBODY, "broker_epoch": 1, "directories": [
            {"id": NEW_UUID, "topics": by_id(partitions=[{"partition_index": 0}])}]}),
    Row("ControllerRegistration", "of nobody", (cluster(Op.CLUSTER_ACTION),),
        {"controller_id": NOBODY, "incarnation_id": NEW_UUID}),
)  # fmt: skip

OF_ENVELOPES: Final = (
    Row("Envelope", "of somebody without rights", (cluster(Op.CLUSTER_ACTION),),
        enclosed("nobody", "CreateTopics", 7, topics=NEW_TOPICS, timeout_ms=1000,
                 validate_only=True)),
    Row("Envelope", "of somebody with a right", (cluster(Op.CLUSTER_ACTION),),
        enclosed("somebody", "CreateTopics", 7, topics=NEW_TOPICS, timeout_ms=1000,
                 validate_only=True)),
    Row("Envelope", "of a super user", (cluster(Op.CLUSTER_ACTION),),
        enclosed("admin", "CreateTopics", 7, topics=NEW_TOPICS, timeout_ms=1000,
                 validate_only=True)),
    Row("Envelope", "with what is not sent on", (cluster(Op.CLUSTER_ACTION),),
        enclosed("admin", "Metadata", 12, topics=None)),
    Row("Envelope", "without a principal", (cluster(Op.CLUSTER_ACTION),),
        {**enclosed("admin", "CreateTopics", 7), "request_principal": b"\0"}),
    Row("Envelope", "with what cannot be read", (cluster(Op.CLUSTER_ACTION),),
        {**enclosed("admin", "CreateTopics", 7),
         "request_data": raw_frame("CreateTopics", 7, b"\xff" * 3)[4:]}),
)  # fmt: skip

LAST: Final = (
    Row("Metadata", "a topic to be made", (topic(Op.DESCRIBE, "auto-{c}"),
        topic(Op.CREATE, "auto-{c}")),
        {"topics": [{"name": "auto-{c}"}], "allow_auto_topic_creation": True}, (4,)),
    Row("Metadata", "a topic to be made by the cluster", (topic(Op.DESCRIBE, "auto-{c}"),
        cluster(Op.CREATE)),
        {"topics": [{"name": "auto-{c}"}], "allow_auto_topic_creation": True}, (4,)),
)  # fmt: skip
"""What goes on after the answer."""

ROWS: Final = (
    *OF_TOPICS,
    *OF_GROUPS,
    *OF_TRANSACTIONS,
    *OF_SETTINGS,
    *OF_THE_CLUSTER,
    *OF_ENVELOPES,
    *LAST,
)

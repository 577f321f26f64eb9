"""The APIs that are served, each with the module that serves it, which is imported at first use.

So a broker that never sees an ElectLeaders never loads it, and starts the sooner.
"""

from importlib import import_module
from typing import Final

from ottla.protocol.api import APIS, BROKER, CONTROLLER, ApiKey
from ottla.requests.contract import Contract

_PASSED_ON: Final = "passed_on"
_SASL: Final = "sasl"
_TABLES: Final = (_PASSED_ON, _SASL)
"""Modules that are themselves a table."""

HANDLERS: Final[dict[ApiKey, str]] = {
    ApiKey.PRODUCE: "produce",
    ApiKey.FETCH: "fetch",
    ApiKey.LIST_OFFSETS: "list_offsets",
    ApiKey.METADATA: "metadata",
    ApiKey.OFFSET_COMMIT: "offset_commit",
    ApiKey.OFFSET_FETCH: "offset_fetch",
    ApiKey.FIND_COORDINATOR: "find_coordinator",
    ApiKey.JOIN_GROUP: "join_group",
    ApiKey.HEARTBEAT: "heartbeat",
    ApiKey.LEAVE_GROUP: "leave_group",
    ApiKey.SYNC_GROUP: "sync_group",
    ApiKey.DESCRIBE_GROUPS: "describe_groups",
    ApiKey.LIST_GROUPS: "list_groups",
    ApiKey.SASL_HANDSHAKE: _SASL,
    ApiKey.API_VERSIONS: "api_versions",
    ApiKey.CREATE_TOPICS: "create_topics",
    ApiKey.DELETE_TOPICS: "delete_topics",
    ApiKey.DELETE_RECORDS: "delete_records",
    ApiKey.INIT_PRODUCER_ID: "init_producer_id",
    ApiKey.OFFSET_FOR_LEADER_EPOCH: "offset_for_leader_epoch",
    ApiKey.ADD_PARTITIONS_TO_TXN: "add_partitions_to_txn",
    ApiKey.ADD_OFFSETS_TO_TXN: "add_offsets_to_txn",
    ApiKey.END_TXN: "end_txn",
    ApiKey.WRITE_TXN_MARKERS: "write_txn_markers",
    ApiKey.TXN_OFFSET_COMMIT: "txn_offset_commit",
    ApiKey.DESCRIBE_ACLS: "describe_acls",
    ApiKey.CREATE_ACLS: "create_acls",
    ApiKey.DELETE_ACLS: "delete_acls",
    ApiKey.DESCRIBE_CONFIGS: "describe_configs",
    ApiKey.ALTER_CONFIGS: "alter_configs",
    ApiKey.ALTER_REPLICA_LOG_DIRS: "alter_replica_log_dirs",
    ApiKey.DESCRIBE_LOG_DIRS: "describe_log_dirs",
    ApiKey.SASL_AUTHENTICATE: _SASL,
    ApiKey.CREATE_PARTITIONS: "create_partitions",
    ApiKey.CREATE_DELEGATION_TOKEN: "create_delegation_token",
    ApiKey.RENEW_DELEGATION_TOKEN: "renew_delegation_token",
    ApiKey.EXPIRE_DELEGATION_TOKEN: "expire_delegation_token",
    ApiKey.DESCRIBE_DELEGATION_TOKEN: "describe_delegation_token",
    ApiKey.DELETE_GROUPS: "delete_groups",
    ApiKey.ELECT_LEADERS: "elect_leaders",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "incremental_alter_configs",
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: "alter_partition_reassignments",
    ApiKey.LIST_PARTITION_REASSIGNMENTS: "list_partition_reassignments",
    ApiKey.OFFSET_DELETE: "offset_delete",
    ApiKey.DESCRIBE_CLIENT_QUOTAS: "describe_client_quotas",
    ApiKey.ALTER_CLIENT_QUOTAS: "alter_client_quotas",
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: "describe_user_scram_credentials",
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: "alter_user_scram_credentials",
    ApiKey.VOTE: "vote",
    ApiKey.BEGIN_QUORUM_EPOCH: "begin_quorum_epoch",
    ApiKey.END_QUORUM_EPOCH: "end_quorum_epoch",
    ApiKey.DESCRIBE_QUORUM: "describe_quorum",
    ApiKey.UPDATE_FEATURES: "update_features",
    ApiKey.FETCH_SNAPSHOT: "fetch_snapshot",
    ApiKey.DESCRIBE_CLUSTER: "describe_cluster",
    ApiKey.DESCRIBE_PRODUCERS: "describe_producers",
    ApiKey.DESCRIBE_TRANSACTIONS: "describe_transactions",
    ApiKey.UNREGISTER_BROKER: _PASSED_ON,
    ApiKey.LIST_TRANSACTIONS: "list_transactions",
    ApiKey.CONSUMER_GROUP_HEARTBEAT: "consumer_group_heartbeat",
    ApiKey.CONSUMER_GROUP_DESCRIBE: "consumer_group_describe",
    ApiKey.LIST_CONFIG_RESOURCES: "list_config_resources",
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: "describe_topic_partitions",
    ApiKey.ADD_RAFT_VOTER: "add_raft_voter",
    ApiKey.REMOVE_RAFT_VOTER: "remove_raft_voter",
    ApiKey.UPDATE_RAFT_VOTER: "update_raft_voter",
    ApiKey.ALTER_PARTITION: _PASSED_ON,
    ApiKey.ENVELOPE: "envelope",
    ApiKey.BROKER_REGISTRATION: _PASSED_ON,
    ApiKey.BROKER_HEARTBEAT: _PASSED_ON,
    ApiKey.ALLOCATE_PRODUCER_IDS: _PASSED_ON,
    ApiKey.CONTROLLER_REGISTRATION: _PASSED_ON,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: _PASSED_ON,
}
_AT_CONTROLLER: Final = {ApiKey.FETCH: "fetch_metadata_log"}
"""What another module serves on a listener of the controller: a Fetch is the quorum's there."""


def served(*, of_controller: bool) -> list[ApiKey]:
    """The APIs of a kind of listener."""
    listener = CONTROLLER if of_controller else BROKER
    return sorted(key for key in HANDLERS if listener in APIS[key].listeners)


def load(key: ApiKey, *, of_controller: bool) -> Contract:
    """What serves an API on a kind of listener; KeyError when nothing does."""
    name = (_AT_CONTROLLER.get(key) if of_controller else None) or HANDLERS[key]
    module = import_module(f"ottla.handlers.{name}")
    found: object = module.HANDLERS[key] if name in _TABLES else module.HANDLER
    assert isinstance(found, Contract)
    return found

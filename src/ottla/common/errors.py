"""Kafka's error codes, and the exceptions that carry them: the only table of them.

A whole request that is refused raises an :class:`ApiError`. What concerns one topic or partition is
a value beside its neighbours: an exception in a loop would hide the others.
A peer that breaks the protocol raises :class:`ProtocolViolation`, which ends its connection.
"""

from enum import IntEnum
from typing import ClassVar


class ErrorCode(IntEnum):
    """What stands in the error fields of Kafka's answers."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    INVALID_FETCH_SIZE = 4
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    BROKER_NOT_AVAILABLE = 8
    REPLICA_NOT_AVAILABLE = 9
    MESSAGE_TOO_LARGE = 10
    STALE_CONTROLLER_EPOCH = 11
    OFFSET_METADATA_TOO_LARGE = 12
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC_EXCEPTION = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_COMMIT_OFFSET_SIZE = 28
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTION_COORDINATOR_FENCED = 52
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    SECURITY_DISABLED = 54
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    LOG_DIR_NOT_FOUND = 57
    SASL_AUTHENTICATION_FAILED = 58
    UNKNOWN_PRODUCER_ID = 59
    REASSIGNMENT_IN_PROGRESS = 60
    DELEGATION_TOKEN_AUTH_DISABLED = 61
    DELEGATION_TOKEN_NOT_FOUND = 62
    DELEGATION_TOKEN_OWNER_MISMATCH = 63
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65
    DELEGATION_TOKEN_EXPIRED = 66
    INVALID_PRINCIPAL_TYPE = 67
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    LISTENER_NOT_FOUND = 72
    TOPIC_DELETION_DISABLED = 73
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    STALE_BROKER_EPOCH = 77
    OFFSET_NOT_AVAILABLE = 78
    MEMBER_ID_REQUIRED = 79
    PREFERRED_LEADER_NOT_AVAILABLE = 80
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83
    ELECTION_NOT_NEEDED = 84
    NO_REASSIGNMENT_IN_PROGRESS = 85
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    INVALID_RECORD = 87
    UNSTABLE_OFFSET_COMMIT = 88
    THROTTLING_QUOTA_EXCEEDED = 89
    PRODUCER_FENCED = 90
    RESOURCE_NOT_FOUND = 91
    DUPLICATE_RESOURCE = 92
    UNACCEPTABLE_CREDENTIAL = 93
    INCONSISTENT_VOTER_SET = 94
    INVALID_UPDATE_VERSION = 95
    FEATURE_UPDATE_FAILED = 96
    PRINCIPAL_DESERIALIZATION_FAILURE = 97
    SNAPSHOT_NOT_FOUND = 98
    POSITION_OUT_OF_RANGE = 99
    UNKNOWN_TOPIC_ID = 100
    DUPLICATE_BROKER_REGISTRATION = 101
    BROKER_ID_NOT_REGISTERED = 102
    INCONSISTENT_TOPIC_ID = 103
    INCONSISTENT_CLUSTER_ID = 104
    TRANSACTIONAL_ID_NOT_FOUND = 105
    FETCH_SESSION_TOPIC_ID_ERROR = 106
    INELIGIBLE_REPLICA = 107
    NEW_LEADER_ELECTED = 108
    OFFSET_MOVED_TO_TIERED_STORAGE = 109
    FENCED_MEMBER_EPOCH = 110
    UNRELEASED_INSTANCE_ID = 111
    UNSUPPORTED_ASSIGNOR = 112
    STALE_MEMBER_EPOCH = 113
    MISMATCHED_ENDPOINT_TYPE = 114
    UNSUPPORTED_ENDPOINT_TYPE = 115
    UNKNOWN_CONTROLLER_ID = 116
    UNKNOWN_SUBSCRIPTION_ID = 117
    TELEMETRY_TOO_LARGE = 118
    INVALID_REGISTRATION = 119
    TRANSACTION_ABORTABLE = 120
    INVALID_RECORD_STATE = 121
    SHARE_SESSION_NOT_FOUND = 122
    INVALID_SHARE_SESSION_EPOCH = 123
    FENCED_STATE_EPOCH = 124
    INVALID_VOTER_KEY = 125
    DUPLICATE_VOTER = 126
    VOTER_NOT_FOUND = 127
    INVALID_REGULAR_EXPRESSION = 128
    REBOOTSTRAP_REQUIRED = 129
    STREAMS_INVALID_TOPOLOGY = 130
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131
    STREAMS_TOPOLOGY_FENCED = 132
    SHARE_SESSION_LIMIT_REACHED = 133


RETRIABLE = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
        ErrorCode.SHARE_SESSION_LIMIT_REACHED,
    }
)


class ProtocolViolation(Exception):
    """A peer sent bytes that are no message of the protocol."""


class ApiError(Exception):
    """A refusal that has a code of Kafka's; ``message`` is for people."""

    code: ClassVar[ErrorCode] = ErrorCode.UNKNOWN_SERVER_ERROR

    def __init__(
        self, message: str = "", record_errors: list[tuple[int, str]] | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.record_errors = record_errors or []
        """For a refused append: which records of the batch, and why (KIP-467)."""


class OffsetOutOfRange(ApiError):
    code = ErrorCode.OFFSET_OUT_OF_RANGE


class CorruptMessage(ApiError):
    code = ErrorCode.CORRUPT_MESSAGE


class UnknownTopicOrPartition(ApiError):
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class InvalidFetchSize(ApiError):
    code = ErrorCode.INVALID_FETCH_SIZE


class LeaderNotAvailable(ApiError):
    code = ErrorCode.LEADER_NOT_AVAILABLE


class NotLeaderOrFollower(ApiError):
    code = ErrorCode.NOT_LEADER_OR_FOLLOWER


class RequestTimedOut(ApiError):
    code = ErrorCode.REQUEST_TIMED_OUT


class BrokerNotAvailable(ApiError):
    code = ErrorCode.BROKER_NOT_AVAILABLE


class ReplicaNotAvailable(ApiError):
    code = ErrorCode.REPLICA_NOT_AVAILABLE


class MessageTooLarge(ApiError):
    code = ErrorCode.MESSAGE_TOO_LARGE


class StaleControllerEpoch(ApiError):
    code = ErrorCode.STALE_CONTROLLER_EPOCH


class OffsetMetadataTooLarge(ApiError):
    code = ErrorCode.OFFSET_METADATA_TOO_LARGE


class NetworkException(ApiError):
    code = ErrorCode.NETWORK_EXCEPTION


class CoordinatorLoadInProgress(ApiError):
    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


class CoordinatorNotAvailable(ApiError):
    code = ErrorCode.COORDINATOR_NOT_AVAILABLE


class NotCoordinator(ApiError):
    code = ErrorCode.NOT_COORDINATOR


class InvalidTopicException(ApiError):
    code = ErrorCode.INVALID_TOPIC_EXCEPTION


class RecordListTooLarge(ApiError):
    code = ErrorCode.RECORD_LIST_TOO_LARGE


class NotEnoughReplicas(ApiError):
    code = ErrorCode.NOT_ENOUGH_REPLICAS


class NotEnoughReplicasAfterAppend(ApiError):
    code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


class InvalidRequiredAcks(ApiError):
    code = ErrorCode.INVALID_REQUIRED_ACKS


class IllegalGeneration(ApiError):
    code = ErrorCode.ILLEGAL_GENERATION


class InconsistentGroupProtocol(ApiError):
    code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL


class InvalidGroupId(ApiError):
    code = ErrorCode.INVALID_GROUP_ID


class UnknownMemberId(ApiError):
    code = ErrorCode.UNKNOWN_MEMBER_ID


class InvalidSessionTimeout(ApiError):
    code = ErrorCode.INVALID_SESSION_TIMEOUT


class RebalanceInProgress(ApiError):
    code = ErrorCode.REBALANCE_IN_PROGRESS


class InvalidCommitOffsetSize(ApiError):
    code = ErrorCode.INVALID_COMMIT_OFFSET_SIZE


class TopicAuthorizationFailed(ApiError):
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED


class GroupAuthorizationFailed(ApiError):
    code = ErrorCode.GROUP_AUTHORIZATION_FAILED


class ClusterAuthorizationFailed(ApiError):
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


class InvalidTimestamp(ApiError):
    code = ErrorCode.INVALID_TIMESTAMP


class UnsupportedSaslMechanism(ApiError):
    code = ErrorCode.UNSUPPORTED_SASL_MECHANISM


class IllegalSaslState(ApiError):
    code = ErrorCode.ILLEGAL_SASL_STATE


class UnsupportedVersion(ApiError):
    code = ErrorCode.UNSUPPORTED_VERSION


class TopicAlreadyExists(ApiError):
    code = ErrorCode.TOPIC_ALREADY_EXISTS


class InvalidPartitions(ApiError):
    code = ErrorCode.INVALID_PARTITIONS


class InvalidReplicationFactor(ApiError):
    code = ErrorCode.INVALID_REPLICATION_FACTOR


class InvalidReplicaAssignment(ApiError):
    code = ErrorCode.INVALID_REPLICA_ASSIGNMENT


class InvalidConfig(ApiError):
    code = ErrorCode.INVALID_CONFIG


class NotController(ApiError):
    code = ErrorCode.NOT_CONTROLLER


class InvalidRequest(ApiError):
    code = ErrorCode.INVALID_REQUEST


class UnsupportedForMessageFormat(ApiError):
    code = ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


class PolicyViolation(ApiError):
    code = ErrorCode.POLICY_VIOLATION


class OutOfOrderSequenceNumber(ApiError):
    code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


class DuplicateSequenceNumber(ApiError):
    code = ErrorCode.DUPLICATE_SEQUENCE_NUMBER


class InvalidProducerEpoch(ApiError):
    code = ErrorCode.INVALID_PRODUCER_EPOCH


class InvalidTxnState(ApiError):
    code = ErrorCode.INVALID_TXN_STATE


class InvalidProducerIdMapping(ApiError):
    code = ErrorCode.INVALID_PRODUCER_ID_MAPPING


class InvalidTransactionTimeout(ApiError):
    code = ErrorCode.INVALID_TRANSACTION_TIMEOUT


class ConcurrentTransactions(ApiError):
    code = ErrorCode.CONCURRENT_TRANSACTIONS


class TransactionCoordinatorFenced(ApiError):
    code = ErrorCode.TRANSACTION_COORDINATOR_FENCED


class TransactionalIdAuthorizationFailed(ApiError):
    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


class SecurityDisabled(ApiError):
    code = ErrorCode.SECURITY_DISABLED


class OperationNotAttempted(ApiError):
    code = ErrorCode.OPERATION_NOT_ATTEMPTED


class KafkaStorageError(ApiError):
    code = ErrorCode.KAFKA_STORAGE_ERROR


class LogDirNotFound(ApiError):
    code = ErrorCode.LOG_DIR_NOT_FOUND


class SaslAuthenticationFailed(ApiError):
    code = ErrorCode.SASL_AUTHENTICATION_FAILED


class UnknownProducerId(ApiError):
    code = ErrorCode.UNKNOWN_PRODUCER_ID


class ReassignmentInProgress(ApiError):
    code = ErrorCode.REASSIGNMENT_IN_PROGRESS


class DelegationTokenAuthDisabled(ApiError):
    code = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED


class DelegationTokenNotFound(ApiError):
    code = ErrorCode.DELEGATION_TOKEN_NOT_FOUND


class DelegationTokenOwnerMismatch(ApiError):
    code = ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH


class DelegationTokenRequestNotAllowed(ApiError):
    code = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


class DelegationTokenAuthorizationFailed(ApiError):
    code = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED


class DelegationTokenExpired(ApiError):
    code = ErrorCode.DELEGATION_TOKEN_EXPIRED


class InvalidPrincipalType(ApiError):
    code = ErrorCode.INVALID_PRINCIPAL_TYPE


class NonEmptyGroup(ApiError):
    code = ErrorCode.NON_EMPTY_GROUP


class GroupIdNotFound(ApiError):
    code = ErrorCode.GROUP_ID_NOT_FOUND


class FetchSessionIdNotFound(ApiError):
    code = ErrorCode.FETCH_SESSION_ID_NOT_FOUND


class InvalidFetchSessionEpoch(ApiError):
    code = ErrorCode.INVALID_FETCH_SESSION_EPOCH


class ListenerNotFound(ApiError):
    code = ErrorCode.LISTENER_NOT_FOUND


class TopicDeletionDisabled(ApiError):
    code = ErrorCode.TOPIC_DELETION_DISABLED


class FencedLeaderEpoch(ApiError):
    code = ErrorCode.FENCED_LEADER_EPOCH


class UnknownLeaderEpoch(ApiError):
    code = ErrorCode.UNKNOWN_LEADER_EPOCH


class UnsupportedCompressionType(ApiError):
    code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


class StaleBrokerEpoch(ApiError):
    code = ErrorCode.STALE_BROKER_EPOCH


class OffsetNotAvailable(ApiError):
    code = ErrorCode.OFFSET_NOT_AVAILABLE


class MemberIdRequired(ApiError):
    code = ErrorCode.MEMBER_ID_REQUIRED


class PreferredLeaderNotAvailable(ApiError):
    code = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE


class GroupMaxSizeReached(ApiError):
    code = ErrorCode.GROUP_MAX_SIZE_REACHED


class FencedInstanceId(ApiError):
    code = ErrorCode.FENCED_INSTANCE_ID


class EligibleLeadersNotAvailable(ApiError):
    code = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE


class ElectionNotNeeded(ApiError):
    code = ErrorCode.ELECTION_NOT_NEEDED


class NoReassignmentInProgress(ApiError):
    code = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


class GroupSubscribedToTopic(ApiError):
    code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC


class InvalidRecord(ApiError):
    code = ErrorCode.INVALID_RECORD


class UnstableOffsetCommit(ApiError):
    code = ErrorCode.UNSTABLE_OFFSET_COMMIT


class ThrottlingQuotaExceeded(ApiError):
    code = ErrorCode.THROTTLING_QUOTA_EXCEEDED


class ProducerFenced(ApiError):
    code = ErrorCode.PRODUCER_FENCED


class ResourceNotFound(ApiError):
    code = ErrorCode.RESOURCE_NOT_FOUND


class DuplicateResource(ApiError):
    code = ErrorCode.DUPLICATE_RESOURCE


class UnacceptableCredential(ApiError):
    code = ErrorCode.UNACCEPTABLE_CREDENTIAL


class InconsistentVoterSet(ApiError):
    code = ErrorCode.INCONSISTENT_VOTER_SET


class InvalidUpdateVersion(ApiError):
    code = ErrorCode.INVALID_UPDATE_VERSION


class FeatureUpdateFailed(ApiError):
    code = ErrorCode.FEATURE_UPDATE_FAILED


class PrincipalDeserializationFailure(ApiError):
    code = ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE


class SnapshotNotFound(ApiError):
    code = ErrorCode.SNAPSHOT_NOT_FOUND


class PositionOutOfRange(ApiError):
    code = ErrorCode.POSITION_OUT_OF_RANGE


class UnknownTopicId(ApiError):
    code = ErrorCode.UNKNOWN_TOPIC_ID


class DuplicateBrokerRegistration(ApiError):
    code = ErrorCode.DUPLICATE_BROKER_REGISTRATION


class BrokerIdNotRegistered(ApiError):
    code = ErrorCode.BROKER_ID_NOT_REGISTERED


class InconsistentTopicId(ApiError):
    code = ErrorCode.INCONSISTENT_TOPIC_ID


class InconsistentClusterId(ApiError):
    code = ErrorCode.INCONSISTENT_CLUSTER_ID


class TransactionalIdNotFound(ApiError):
    code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


class FetchSessionTopicIdError(ApiError):
    code = ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


class IneligibleReplica(ApiError):
    code = ErrorCode.INELIGIBLE_REPLICA


class NewLeaderElected(ApiError):
    code = ErrorCode.NEW_LEADER_ELECTED


class OffsetMovedToTieredStorage(ApiError):
    code = ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE


class FencedMemberEpoch(ApiError):
    code = ErrorCode.FENCED_MEMBER_EPOCH


class UnreleasedInstanceId(ApiError):
    code = ErrorCode.UNRELEASED_INSTANCE_ID


class UnsupportedAssignor(ApiError):
    code = ErrorCode.UNSUPPORTED_ASSIGNOR


class StaleMemberEpoch(ApiError):
    code = ErrorCode.STALE_MEMBER_EPOCH


class MismatchedEndpointType(ApiError):
    code = ErrorCode.MISMATCHED_ENDPOINT_TYPE


class UnsupportedEndpointType(ApiError):
    code = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE


class UnknownControllerId(ApiError):
    code = ErrorCode.UNKNOWN_CONTROLLER_ID


class UnknownSubscriptionId(ApiError):
    code = ErrorCode.UNKNOWN_SUBSCRIPTION_ID


class TelemetryTooLarge(ApiError):
    code = ErrorCode.TELEMETRY_TOO_LARGE


class InvalidRegistration(ApiError):
    code = ErrorCode.INVALID_REGISTRATION


class TransactionAbortable(ApiError):
    code = ErrorCode.TRANSACTION_ABORTABLE


class InvalidRecordState(ApiError):
    code = ErrorCode.INVALID_RECORD_STATE


class ShareSessionNotFound(ApiError):
    code = ErrorCode.SHARE_SESSION_NOT_FOUND


class InvalidShareSessionEpoch(ApiError):
    code = ErrorCode.INVALID_SHARE_SESSION_EPOCH


class FencedStateEpoch(ApiError):
    code = ErrorCode.FENCED_STATE_EPOCH


class InvalidVoterKey(ApiError):
    code = ErrorCode.INVALID_VOTER_KEY


class DuplicateVoter(ApiError):
    code = ErrorCode.DUPLICATE_VOTER


class VoterNotFound(ApiError):
    code = ErrorCode.VOTER_NOT_FOUND


class InvalidRegularExpression(ApiError):
    code = ErrorCode.INVALID_REGULAR_EXPRESSION


class RebootstrapRequired(ApiError):
    code = ErrorCode.REBOOTSTRAP_REQUIRED


class StreamsInvalidTopology(ApiError):
    code = ErrorCode.STREAMS_INVALID_TOPOLOGY


class StreamsInvalidTopologyEpoch(ApiError):
    code = ErrorCode.STREAMS_INVALID_TOPOLOGY_EPOCH


class StreamsTopologyFenced(ApiError):
    code = ErrorCode.STREAMS_TOPOLOGY_FENCED


class ShareSessionLimitReached(ApiError):
    code = ErrorCode.SHARE_SESSION_LIMIT_REACHED

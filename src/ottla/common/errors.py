"""Kafka's error codes, and the exceptions that carry them: the only table of them.

A whole request that is refused raises an :class:`ApiError`. What concerns one topic or partition is
a value beside its neighbours: an exception in a loop would hide the others.
A peer that breaks the protocol raises :class:`ProtocolViolation`, which ends its connection.
"""

from typing import ClassVar

from ottla.common.error_codes import RETRIABLE as RETRIABLE  # noqa: PLC0414 - found here too
from ottla.common.error_codes import ErrorCode as ErrorCode  # noqa: PLC0414


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


def error_of(code: int, message: str = "") -> ApiError:
    """What another node has refused with, as the error that it was there."""
    for kind in ApiError.__subclasses__():
        if kind.code == code:
            return kind(message)
    return ApiError(message)

"""What became of the partitions of a produce request, and how the client is told.

Beside the hot path: a request that was taken as it is needs nothing of this.
"""

from struct import Struct
from typing import Final

from ottla.common.buffers import Answer
from ottla.common.errors import (
    ApiError,
    ErrorCode,
    InvalidRecord,
    InvalidRequiredAcks,
    ProtocolViolation,
    TransactionalIdAuthorizationFailed,
)
from ottla.protocol.api import ApiKey
from ottla.protocol.generated.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from ottla.protocol.produce_request import PartitionRecords, ProduceView
from ottla.protocol.produce_response import Appended, encode_appended
from ottla.records.batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC
from ottla.replication.partition import Partition
from ottla.requests.current_leaders import Leaders
from ottla.requests.framing import frame_response

_LEADERS: Final = 10
_BATCH_LENGTH: Final = Struct(">i")
_MAGIC: Final = 16
"""Where it stands in a batch."""


class Refused:
    """A partition that did not take what was sent."""

    __slots__ = ("appended", "error", "index", "is_one_batch", "partition")

    def __init__(self, index: int, error: ApiError, partition: Partition | None) -> None:
        self.index = index
        self.error = error
        self.partition = partition
        self.is_one_batch = False
        """Whether what was sent had at least the shape of a batch."""
        self.appended: Appended | None = None
        """Where it was written, though not known to be committed."""


_WITHOUT_LOG_START: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.INVALID_REQUIRED_ACKS,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)
Outcomes = list[tuple[str | bytes, list[Appended | Refused]]]


def last_of_each(partitions: list[PartitionRecords]) -> list[PartitionRecords]:
    """A partition that is named twice is appended to once, with what came last, as in Kafka."""
    last = {partition[0]: partition for partition in partitions}
    return partitions if len(last) == len(partitions) else list(last.values())


def reason(
    request: ProduceView,
    unknown: ApiError | None,
    start: int,
    version: int,
) -> ApiError:
    """Why a partition cannot even be tried, in the order in which Kafka looks."""
    if not -1 <= request.acks <= 1:
        return InvalidRequiredAcks()
    if unknown is not None:
        return unknown
    if start < 0:
        return InvalidRecord(
            f"Produce requests with version {version} must have at least one record batch "
            "per partition"
        )
    return TransactionalIdAuthorizationFailed()  # a transactional batch of nobody's transaction


def finish(
    outcomes: Outcomes,
    request: ProduceView,
    version: int,
    correlation_id: int,
    leaders: Leaders,
    *,
    refused: bool,
) -> Answer | None:
    """The answer; None for a producer that wants none."""
    if refused:
        leaders.services.replicas.produce_refused += 1
    if request.acks == 0:
        if refused:
            _without_answer(outcomes)
        return None
    if refused:
        return _explain(outcomes, version, correlation_id, leaders)
    return encode_appended(correlation_id, version, outcomes)  # type: ignore[arg-type]


def _without_answer(outcomes: Outcomes) -> None:
    """A producer that wants no answer learns of a refusal by its connection's end, as in Kafka."""
    errors = [
        item.error.code.name for _, items in outcomes for item in items if isinstance(item, Refused)
    ]
    raise ProtocolViolation(f"a produce request with acks=0 was refused: {', '.join(errors)}")


def _explain(outcomes: Outcomes, version: int, correlation_id: int, leaders: Leaders) -> Answer:
    """An answer with refusals in it: rare, so the generated codec makes it."""
    response = ProduceResponse()
    for topic, items in outcomes:
        answered = TopicProduceResponse()
        if isinstance(topic, bytes):
            answered.topic_id = topic
        else:
            answered.name = topic
        answered.partition_responses = [
            _partition_response(topic, item, version, leaders) for item in items
        ]
        response.responses.append(answered)
    response.node_endpoints = [
        NodeEndpoint(node_id=at.node_id, host=at.host, port=at.port, rack=at.rack)
        for at in leaders.addresses()
    ]
    return frame_response(response, ApiKey.PRODUCE, version, correlation_id)


def _partition_response(
    topic: str | bytes, item: Appended | Refused, version: int, leaders: Leaders
) -> PartitionProduceResponse:
    if not isinstance(item, Refused):
        index, base_offset, append_time, log_start_offset = item
        return PartitionProduceResponse(
            index=index,
            base_offset=base_offset,
            log_append_time_ms=append_time,
            log_start_offset=log_start_offset,
        )
    error = item.error
    response = PartitionProduceResponse(
        index=item.index,
        error_code=int(error.code),
        base_offset=-1,
        log_start_offset=_log_start_offset(item),
        error_message=error.message or None,
        record_errors=[
            BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message)
            for index, message in error.record_errors
        ],
    )
    if item.appended is not None:
        _, response.base_offset, response.log_append_time_ms, response.log_start_offset = (
            item.appended
        )
    if error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER and version >= _LEADERS:
        leader_id, leader_epoch = leaders.of(topic, item.index)
        response.current_leader = LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch)
    return response


def _log_start_offset(refused: Refused) -> int:
    """Told with a refusal of records that were looked at; not where already the batch was wrong."""
    partition = refused.partition
    if partition is None or not refused.is_one_batch or refused.error.code in _WITHOUT_LOG_START:
        return -1
    return partition.log.log_start_offset


def is_one_batch(frame: memoryview, start: int, end: int) -> bool:
    if start < 0 or end - start < HEADER_SIZE or frame[start + _MAGIC] != MAGIC:
        return False
    (size,) = _BATCH_LENGTH.unpack_from(frame, start + 8)
    return start + LOG_OVERHEAD + int(size) == end

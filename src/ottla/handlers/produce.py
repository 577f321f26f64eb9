"""Produce (key 0): append record batches to partitions. The hot path: all happens in the frame.

acks=0 gets no answer, acks=1 is answered when the leader wrote, acks=all (-1) when every in-sync
replica has it, or after the request's timeout with REQUEST_TIMED_OUT.

v3 is the first for record batches of magic 2; v4 KAFKA_STORAGE_ERROR; v5 log start offset; v7
zstd; v8 record errors and a message; v9 flexible; v10 current leader and endpoints (KIP-951);
v11 and v12 transactions of version 2 (KIP-890); v13 topic ids (KIP-516).
"""

from struct import Struct
from typing import Final

from ottla.common.buffers import Answer
from ottla.common.errors import (
    ApiError,
    ErrorCode,
    InvalidRecord,
    InvalidRequiredAcks,
    InvalidTxnState,
    ProtocolViolation,
    TransactionalIdAuthorizationFailed,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from ottla.handlers.context import Services
from ottla.handlers.framing import frame_response
from ottla.protocol.api import ApiKey
from ottla.protocol.generated.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from ottla.protocol.produce_request import PartitionRecords, ProduceView, read_produce_request
from ottla.protocol.produce_response import Appended, encode_appended
from ottla.records.batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC, TRANSACTIONAL_BIT
from ottla.records.validation import ZSTD_FROM_PRODUCE_VERSION, refuse_zstd
from ottla.replication.partition import Partition

KEY: Final = ApiKey.PRODUCE
VERSIONS: Final = (3, 13)
_LEADERS: Final = 10
_BATCH_LENGTH: Final = Struct(">i")
_MAGIC: Final = 16
_ATTRIBUTES: Final = 22
"""Where they stand in a batch; of the attributes, the lower byte."""


class Refused:
    """A partition that did not take what was sent."""

    __slots__ = ("error", "index", "is_one_batch", "partition")

    def __init__(self, index: int, error: ApiError, partition: Partition | None) -> None:
        self.index = index
        self.error = error
        self.partition = partition
        self.is_one_batch = False
        """Whether what was sent had at least the shape of a batch."""


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
    }
)
Outcomes = list[tuple[str | bytes, list[Appended | Refused]]]


def answer(
    frame: memoryview, pos: int, version: int, correlation_id: int, services: Services
) -> Answer | None:
    request = read_produce_request(frame, pos, version)
    acks = request.acks
    now_ms = services.scheduler.wall_ms()
    replicas = services.replicas
    outcomes: Outcomes = []
    refused = False
    for topic, partitions in request.topics:
        led = replicas.topic(topic)
        results: list[Appended | Refused] = []
        if len(partitions) > 1:
            partitions = _last_of_each(partitions)
        for index, start, end in partitions:
            partition = None if led is None else led.get(index)
            if partition is None:
                partition = replicas.partition(topic, index)
            try:
                if (
                    partition is None
                    or not -1 <= acks <= 1
                    or start < 0
                    or (
                        end - start > _ATTRIBUTES
                        and frame[start + _ATTRIBUTES] & TRANSACTIONAL_BIT
                        and frame[start + _MAGIC] == MAGIC
                    )
                ):
                    raise _reason(request, topic, led is not None, partition, start, version)
                if version < ZSTD_FROM_PRODUCE_VERSION:
                    refuse_zstd(frame, start, end, version)
                info = partition.append(frame, start, end, acks, now_ms)
                results.append((index, info.first_offset, info.append_time, info.log_start_offset))
            except ApiError as error:
                refused = True
                refusal = Refused(index, error, partition)
                refusal.is_one_batch = _is_one_batch(frame, start, end)
                results.append(refusal)
        outcomes.append((topic, results))
    if refused:
        replicas.produce_refused += 1
    if acks == 0:
        if refused:
            _without_answer(outcomes)
        return None
    if refused:
        return _explain(outcomes, version, correlation_id)
    return encode_appended(correlation_id, version, outcomes)  # type: ignore[arg-type]


def _last_of_each(partitions: list[PartitionRecords]) -> list[PartitionRecords]:
    """A partition that is named twice is appended to once, with what came last, as in Kafka."""
    last = {partition[0]: partition for partition in partitions}
    return partitions if len(last) == len(partitions) else list(last.values())


def _reason(
    request: ProduceView,
    topic: str | bytes,
    is_known: bool,
    partition: Partition | None,
    start: int,
    version: int,
) -> ApiError:
    """Why a partition cannot even be tried, in the order in which Kafka looks."""
    if not -1 <= request.acks <= 1:
        return InvalidRequiredAcks()
    if partition is None:
        by_id = isinstance(topic, bytes) and not is_known
        return UnknownTopicId() if by_id else UnknownTopicOrPartition()
    if start < 0:
        return InvalidRecord(
            f"Produce requests with version {version} must have at least one record batch "
            "per partition"
        )
    # Nobody could end it: readers of committed records would wait behind it for ever.
    if request.transactional_id is None:
        return TransactionalIdAuthorizationFailed()
    return InvalidTxnState("there is no transaction coordinator")


def _without_answer(outcomes: Outcomes) -> None:
    """A producer that wants no answer learns of a refusal by its connection's end, as in Kafka."""
    errors = [
        item.error.code.name for _, items in outcomes for item in items if isinstance(item, Refused)
    ]
    raise ProtocolViolation(f"a produce request with acks=0 was refused: {', '.join(errors)}")


def _explain(outcomes: Outcomes, version: int, correlation_id: int) -> Answer:
    """An answer with refusals in it: rare, so the generated codec makes it."""
    response = ProduceResponse()
    for topic, items in outcomes:
        answered = TopicProduceResponse()
        if isinstance(topic, bytes):
            answered.topic_id = topic
        else:
            answered.name = topic
        answered.partition_responses = [_partition_response(item, version) for item in items]
        response.responses.append(answered)
    return frame_response(response, KEY, version, correlation_id)


def _partition_response(item: Appended | Refused, version: int) -> PartitionProduceResponse:
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
    partition = item.partition
    if error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER and version >= _LEADERS and partition:
        response.current_leader = LeaderIdAndEpoch(
            leader_id=partition.leader, leader_epoch=partition.leader_epoch
        )
    return response


def _log_start_offset(refused: Refused) -> int:
    """Told with a refusal of records that were looked at; not where already the batch was wrong."""
    partition = refused.partition
    if partition is None or not refused.is_one_batch or refused.error.code in _WITHOUT_LOG_START:
        return -1
    return partition.log.log_start_offset


def _is_one_batch(frame: memoryview, start: int, end: int) -> bool:
    if start < 0 or end - start < HEADER_SIZE or frame[start + _MAGIC] != MAGIC:
        return False
    (size,) = _BATCH_LENGTH.unpack_from(frame, start + 8)
    return start + LOG_OVERHEAD + int(size) == end

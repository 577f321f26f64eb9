"""ListOffsets (key 2): the offset that belongs to a point in time, or to a special one.

========= =================================== ==== =====================================
timestamp means                               from answered with
========= =================================== ==== =====================================
-1        latest                              v1   high watermark; last stable offset
                                                   under read_committed
-2        earliest                            v1   log start offset
-3        largest timestamp (KIP-734)         v7   the first record that has it
-4        earliest on this disk (KIP-405)     v8   local log start offset
-5        latest in tiered storage (KIP-1005) v9   highest copied offset, if any
-6        earliest not yet there (KIP-1023)   v11  the offset behind that
else      the first record not older than it  v1   looked for in the remote store first
========= =================================== ==== =====================================

Nothing found is offset -1 without an error. A leader that does not know yet how much of what it has
is committed says OFFSET_NOT_AVAILABLE where that would matter.

v1 is the first that is served; v2 isolation level and throttle time; v3 as v2; v4 leader epochs
(KIP-320); v5 OFFSET_NOT_AVAILABLE; v6 flexible; v10 the time that remote storage may take
(KIP-1075).
"""

from collections import Counter
from typing import Final, NamedTuple

from ottla.common.authorization import AclOperation, ResourceType
from ottla.common.errors import (
    ApiError,
    ErrorCode,
    InvalidRequest,
    OffsetNotAvailable,
    UnsupportedVersion,
)
from ottla.common.promise import Promise, fulfilled, run
from ottla.protocol.generated.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from ottla.replication.partition import READ_COMMITTED, READ_UNCOMMITTED, Partition
from ottla.requests.context import RequestContext, Services
from ottla.requests.contract import Handler
from ottla.requests.deadlines import within
from ottla.requests.needs import Each, its_name
from ottla.requests.partitions import led_partition
from ottla.requests.turns import of_names
from ottla.storage.log import Log
from ottla.storage.time_search import TimestampAndOffset, find_by_time

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6
_PLACES: Final = (EARLIEST, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD)
_SINCE: Final = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
_LEADER_EPOCHS: Final = 4
_OFFSET_NOT_AVAILABLE: Final = 5
_CONSUMER: Final = -1
_DEBUGGING: Final = -2
"""Reads from followers too."""
NOTHING: Final = -1


class Found(NamedTuple):
    offset: int = NOTHING
    timestamp: int = NOTHING
    leader_epoch: int = NOTHING


async def handle(
    request: ListOffsetsRequest, context: RequestContext, services: Services
) -> ListOffsetsResponse:
    if request.isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
        raise ApiError(f"unknown isolation level {request.isolation_level}")
    times = Counter(
        (topic.name, asked.partition_index)
        for topic in request.topics
        for asked in topic.partitions
    )
    answers: dict[str, dict[int, ListOffsetsPartitionResponse]] = {}
    searches: list[tuple[ListOffsetsPartitionResponse, Promise[Found]]] = []

    def search(topic: ListOffsetsTopic) -> None:
        answered = answers.setdefault(topic.name, {})
        for asked in topic.partitions:
            index = asked.partition_index
            answer = answered[index] = ListOffsetsPartitionResponse(partition_index=index)
            try:
                if times[topic.name, index] > 1:
                    raise InvalidRequest
                _check_timestamp(asked.timestamp, context.version)
                partition = _partition(services, topic.name, asked, request.replica_id)
                searches.append((answer, _find(partition, asked, request, services)))
            except ApiError as error:
                answer.error_code = _code(error, context.version)

    await of_names(context, services, search, request.topics)
    for answer, promise in searches:
        await _fill(answer, promise, context.version)
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(name=name, partitions=list(partitions.values()))
            for name, partitions in answers.items()
        ]
    )


async def _fill(answer: ListOffsetsPartitionResponse, search: Promise[Found], version: int) -> None:
    try:
        found = await search
    except ApiError as error:
        answer.error_code = _code(error, version)
        return
    answer.offset = found.offset
    answer.timestamp = found.timestamp
    if version >= _LEADER_EPOCHS:
        answer.leader_epoch = found.leader_epoch


def _code(error: ApiError, version: int) -> ErrorCode:
    """Older clients do not know OFFSET_NOT_AVAILABLE."""
    if error.code is ErrorCode.OFFSET_NOT_AVAILABLE and version < _OFFSET_NOT_AVAILABLE:
        return ErrorCode.LEADER_NOT_AVAILABLE
    return error.code


def _check_timestamp(timestamp: int, version: int) -> None:
    if timestamp < 0 and version < _SINCE.get(timestamp, version + 1):
        raise UnsupportedVersion


def _partition(
    services: Services, topic: str, asked: ListOffsetsPartition, replica_id: int
) -> Partition:
    index, epoch = asked.partition_index, asked.current_leader_epoch
    if replica_id == _DEBUGGING:
        partition = services.replicas.partition(topic, index)
        if partition is not None:
            partition.check_epoch(epoch)
            return partition
    return led_partition(services, topic, index, epoch)


class ReadableEnd(NamedTuple):
    """Up to where a client may know of offsets."""

    end: int
    is_behind: bool
    """Whether a new leader does not know yet how much of what it has is committed."""

    def refuse(self) -> None:
        if self.is_behind:
            raise OffsetNotAvailable(
                "The high watermark is lagging behind the start of this leader's epoch."
            )


def _readable(partition: Partition, replica_id: int, isolation_level: int) -> ReadableEnd:
    log = partition.log
    if replica_id != _CONSUMER:
        return ReadableEnd(log.log_end_offset, is_behind=False)
    end = log.last_stable_offset if isolation_level == READ_COMMITTED else log.high_watermark
    return ReadableEnd(end, partition.leadership.epoch_start_offset > log.high_watermark)


def _find(
    partition: Partition,
    asked: ListOffsetsPartition,
    request: ListOffsetsRequest,
    services: Services,
) -> Promise[Found]:
    timestamp = asked.timestamp
    log = partition.log
    readable = _readable(partition, request.replica_id, request.isolation_level)
    if timestamp == LATEST:
        readable.refuse()
        return fulfilled(
            services.scheduler.turn, Found(readable.end, leader_epoch=partition.leader_epoch)
        )
    if timestamp in _PLACES:
        return fulfilled(services.scheduler.turn, _place(partition, timestamp))
    if timestamp == MAX_TIMESTAMP:
        return fulfilled(
            services.scheduler.turn, _found(log, log.offset_of_max_timestamp(), readable)
        )
    return run(
        services.scheduler.turn, _search(log, timestamp, readable, request.timeout_ms, services)
    )


def _place(partition: Partition, timestamp: int) -> Found:
    """Where the log or one of its parts begins or ends."""
    log = partition.log
    if timestamp == EARLIEST:
        return Found(log.log_start_offset, leader_epoch=_earliest_epoch(partition))
    if timestamp == EARLIEST_LOCAL:
        offset = log.local_log_start_offset
        if offset == log.log_start_offset:
            return Found(offset, leader_epoch=_earliest_epoch(partition))
    elif not log.remote_storage_enabled:
        return Found()
    elif timestamp == LATEST_TIERED:
        offset = log.highest_remote_offset
    elif log.highest_remote_offset != NOTHING:
        offset = max(log.highest_remote_offset + 1, log.log_start_offset)
    elif log.local_log_start_offset == log.log_start_offset:
        offset = log.log_start_offset
    else:
        # Something was copied, but it is not known yet how far.
        return Found()
    return Found(offset, leader_epoch=log.epoch_for_offset(offset))


async def _search(
    log: Log, timestamp: int, readable: ReadableEnd, timeout_ms: int, services: Services
) -> Found:
    remote_logs = services.remote_logs
    if remote_logs is not None and log.remote_storage_enabled:
        if timeout_ms <= 0:
            timeout_ms = services.config.remote_list_offsets_request_timeout_ms
        record = await within(
            services.scheduler,
            timeout_ms,
            lambda: remote_logs.offset_for_timestamp(log, timestamp, log.log_start_offset),
        )
        if record is not None:
            return _found(log, record, readable)
    found = await find_by_time(log, timestamp, services.scheduler)
    return _found(log, found, readable)


def _found(log: Log, record: TimestampAndOffset | None, readable: ReadableEnd) -> Found:
    if record is None:
        return Found()
    if record.offset >= readable.end:
        readable.refuse()
        return Found()
    return Found(record.offset, record.timestamp, log.epoch_for_offset(record.offset))


def _earliest_epoch(partition: Partition) -> int:
    log = partition.log
    first = log.epochs.earliest()
    known = first is not None and first.start_offset <= log.log_start_offset
    return first.epoch if first is not None and known else NOTHING


def refuse(request: ListOffsetsRequest, error: ApiError, _version: int) -> ListOffsetsResponse:
    """Each partition that was asked for gets the error."""
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    ListOffsetsPartitionResponse(
                        partition_index=asked.partition_index, error_code=error.code
                    )
                    for asked in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


HANDLER: Final = Handler(
    ListOffsetsRequest,
    handle,
    refuse=refuse,
    needs=[
        Each(
            AclOperation.DESCRIBE,
            ResourceType.TOPIC,
            lambda request: request.topics,
            its_name,
            lambda response: response.topics,
        )
    ],
)

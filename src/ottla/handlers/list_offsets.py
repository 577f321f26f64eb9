"""ListOffsets (key 2): the offset that belongs to a point in time, or to a special one.

========= =================================== ==== =====================================
timestamp means                               from answered with
========= =================================== ==== =====================================
-1        latest                              v1   high watermark; last stable offset
                                                   under read_committed
-2        earliest                            v1   log start offset
-3        largest timestamp (KIP-734)         v7   the first record that has it
-4        earliest on this disk (KIP-405)     v8   log start offset
-5        latest in tiered storage (KIP-1005) v9   nothing: there is no tiered storage
-6        earliest not yet there (KIP-1023)   v11  nothing, likewise
else      the first record not older than it  v1
========= =================================== ==== =====================================

Nothing found is offset -1 without an error. v1 is the first that is served; v2 isolation level and
throttle time; v3 as v2; v4 leader epochs (KIP-320); v5 OFFSET_NOT_AVAILABLE; v6 flexible; v10 the
time that remote storage may take (KIP-1075).
"""

from collections import Counter
from typing import Final, NamedTuple

from ottla.common.errors import ApiError, ErrorCode, InvalidRequest, UnsupportedVersion
from ottla.handlers.context import RequestContext, Services
from ottla.handlers.partitions import led_partition
from ottla.protocol.api import ApiKey
from ottla.protocol.generated.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.replication.partition import READ_COMMITTED, READ_UNCOMMITTED, Partition

KEY: Final = ApiKey.LIST_OFFSETS
VERSIONS: Final = (1, 11)
LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6
_SINCE: Final = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
_LEADER_EPOCHS: Final = 4
_CONSUMER: Final = -1
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
    for topic in request.topics:
        answered = answers.setdefault(topic.name, {})
        for asked in topic.partitions:
            index = asked.partition_index
            try:
                if times[topic.name, index] > 1:
                    raise InvalidRequest
                partition = led_partition(services, topic.name, index)
                found = _find(partition, asked, request, context.version)
            except ApiError as error:
                answered[index] = _answer(index, Found(), context.version, error.code)
            else:
                answered[index] = _answer(index, found, context.version)
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(name=name, partitions=list(partitions.values()))
            for name, partitions in answers.items()
        ]
    )


def _find(
    partition: Partition, asked: ListOffsetsPartition, request: ListOffsetsRequest, version: int
) -> Found:
    timestamp = asked.timestamp
    if timestamp < 0 and version < _SINCE.get(timestamp, VERSIONS[1] + 1):
        raise UnsupportedVersion
    partition.check_epoch(asked.current_leader_epoch)
    log = partition.log
    if request.replica_id != _CONSUMER:
        readable = log.log_end_offset
    elif request.isolation_level == READ_COMMITTED:
        readable = log.last_stable_offset
    else:
        readable = log.high_watermark
    if timestamp == LATEST:
        return Found(readable, leader_epoch=partition.leader_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return Found(log.log_start_offset, leader_epoch=_earliest_epoch(partition))
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return Found()
    if timestamp == MAX_TIMESTAMP:
        record = log.offset_of_max_timestamp()
    else:
        record = log.offset_for_timestamp(timestamp)
    if record is None or record.offset >= readable:
        return Found()
    return Found(record.offset, record.timestamp, log.epochs.epoch_for_offset(record.offset))


def _earliest_epoch(partition: Partition) -> int:
    log = partition.log
    first = log.epochs.earliest()
    known = first is not None and first.start_offset <= log.log_start_offset
    return first.epoch if first is not None and known else NOTHING


def _answer(
    index: int, found: Found, version: int, code: int = ErrorCode.NONE
) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(
        partition_index=index,
        error_code=code,
        timestamp=found.timestamp,
        offset=found.offset,
        leader_epoch=found.leader_epoch if version >= _LEADER_EPOCHS else NOTHING,
    )


def refuse(request: ListOffsetsRequest, code: ErrorCode, _message: str) -> ListOffsetsResponse:
    """Each partition that was asked for gets the error."""
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    ListOffsetsPartitionResponse(
                        partition_index=asked.partition_index, error_code=code
                    )
                    for asked in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )

"""DescribeLogDirs (key 35): what lies in each log directory, and how much room it has.

A partition that is being moved appears twice: as it is, and as what it will be, with how many
records that still lacks. A directory whose disk failed has an error and nothing in it.

v1 is the first that is served; v2 flexible; v3 an error for all; v4 the sizes of the disk
(KIP-827); v5 cordoned directories (KIP-1066).
"""

from collections.abc import Iterable
from typing import Final

from ottla.common.authorization import AclOperation, ResourceType
from ottla.common.errors import ErrorCode
from ottla.common.topic_partition import TopicPartition
from ottla.protocol.generated.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from ottla.requests.context import RequestContext, Services
from ottla.requests.contract import Handler, by_code
from ottla.requests.needs import Whole
from ottla.storage.directories import LogDirectory
from ottla.storage.log import Log

ALL: Final = "*"
"""In ``cordoned.log.dirs``: every directory."""


def handle(
    request: DescribeLogDirsRequest, _context: RequestContext, services: Services
) -> DescribeLogDirsResponse:
    wanted = None
    if request.topics is not None:
        wanted = {
            TopicPartition(topic.topic, index)
            for topic in request.topics
            for index in topic.partitions
        }
    return DescribeLogDirsResponse(
        results=[_described(directory, wanted, services) for directory in services.logs.directories]
    )


def _described(
    directory: LogDirectory, wanted: set[TopicPartition] | None, services: Services
) -> DescribeLogDirsResult:
    cordoned = services.config.cordoned_log_dirs
    result = DescribeLogDirsResult(
        log_dir=directory.path, is_cordoned=directory.path in cordoned or ALL in cordoned
    )
    if not directory.is_online:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return result
    try:
        result.total_bytes, result.usable_bytes = directory.space()
    except OSError as error:
        services.logs.fail_directory(directory.path, error)
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return result
    logs = services.logs
    topics: dict[str, DescribeLogDirsTopic] = {}
    for log, is_future in _logs(services):
        topic_partition = log.topic_partition
        if logs.directory_of(log) is not directory:
            continue
        if wanted is not None and topic_partition not in wanted:
            continue
        name = topic_partition.topic
        topic = topics.setdefault(name, DescribeLogDirsTopic(name=name))
        topic.partitions.append(
            DescribeLogDirsPartition(
                partition_index=topic_partition.partition,
                partition_size=log.size(),
                offset_lag=_lag(log, services) if is_future else 0,
                is_future_key=is_future,
            )
        )
    result.topics = list(topics.values())
    return result


def _logs(services: Services) -> Iterable[tuple[Log, bool]]:
    for _, log in sorted(services.logs.logs.items()):
        yield log, False
    for _, log in sorted(services.logs.future_logs.items()):
        yield log, True


def _lag(future: Log, services: Services) -> int:
    """What a log that is being moved still lacks."""
    current = services.logs.logs.get(future.topic_partition)
    return 0 if current is None else max(0, current.log_end_offset - future.log_end_offset)


HANDLER: Final = Handler(
    DescribeLogDirsRequest,
    handle,
    refuse=by_code(DescribeLogDirsResponse),
    needs=[Whole(AclOperation.DESCRIBE, ResourceType.CLUSTER)],
)

"""DeleteRecords (key 21): let a partition begin at a later offset (KIP-107).

-1 stands for the high watermark. The answer is the low watermark: the offset below which no
replica has records any more. With one replica that is where the log begins now. A topic that is
only compacted keeps its records.

v1 as v0; v2 is flexible.
"""

from typing import Final

from ottla.common.errors import ApiError, ErrorCode, OffsetOutOfRange, PolicyViolation
from ottla.handlers.context import RequestContext, Services
from ottla.handlers.partitions import led_partition
from ottla.protocol.api import ApiKey
from ottla.protocol.generated.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

KEY: Final = ApiKey.DELETE_RECORDS
VERSIONS: Final = (0, 2)
HIGH_WATERMARK: Final = -1
_NO_WATERMARK: Final = -1


async def handle(
    request: DeleteRecordsRequest, _context: RequestContext, services: Services
) -> DeleteRecordsResponse:
    wanted = {
        (topic.name, partition.partition_index): partition.offset
        for topic in request.topics
        for partition in topic.partitions
    }
    results: dict[str, DeleteRecordsTopicResult] = {}
    for (topic_name, index), offset in wanted.items():
        result = DeleteRecordsPartitionResult(partition_index=index, low_watermark=_NO_WATERMARK)
        try:
            result.low_watermark = _delete(services, topic_name, index, offset)
        except ApiError as error:
            result.error_code = error.code
        results.setdefault(topic_name, DeleteRecordsTopicResult(name=topic_name))
        results[topic_name].partitions.append(result)
    return DeleteRecordsResponse(topics=list(results.values()))


def _delete(services: Services, topic: str, index: int, offset: int) -> int:
    log = led_partition(services, topic, index).log
    if "delete" not in log.config.cleanup_policy:
        raise PolicyViolation(f"records of {topic}-{index} are compacted, not deleted")
    if offset == HIGH_WATERMARK:
        offset = log.high_watermark
    if not 0 <= offset <= log.high_watermark:
        raise OffsetOutOfRange
    log.delete_records_before(offset)
    return log.log_start_offset


def refuse(request: DeleteRecordsRequest, code: ErrorCode, _message: str) -> DeleteRecordsResponse:
    """Each partition that was named gets the error."""
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    DeleteRecordsPartitionResult(
                        partition_index=partition.partition_index,
                        low_watermark=_NO_WATERMARK,
                        error_code=code,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )

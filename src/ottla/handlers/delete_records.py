"""DeleteRecords (key 21): let a partition begin at a later offset (KIP-107).

-1 stands for the high watermark. The answer is the low watermark: the offset below which no replica
that is alive has records any more; it waits until the followers have come so far, or the request's
time is over. A topic that is only compacted keeps its records.

v1 as v0; v2 is flexible.
"""

from functools import partial
from typing import Final

from ottla.common.authorization import AclOperation, ResourceType
from ottla.common.environment import Scheduler
from ottla.common.errors import ApiError, OffsetOutOfRange, PolicyViolation
from ottla.common.promise import Promise
from ottla.protocol.generated.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from ottla.replication.acknowledgements import settle
from ottla.replication.partition import Partition
from ottla.requests.context import RequestContext, Services
from ottla.requests.contract import Handler
from ottla.requests.deadlines import until
from ottla.requests.needs import Each, its_name
from ottla.requests.partitions import led_partition

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
    waits: list[tuple[DeleteRecordsPartitionResult, Partition, Promise[None]]] = []
    for (topic_name, index), offset in wanted.items():
        result = DeleteRecordsPartitionResult(partition_index=index, low_watermark=_NO_WATERMARK)
        try:
            partition = led_partition(services, topic_name, index)
            offset = _delete(partition, offset)
            deleted = _when_deleted(partition, offset, services.scheduler, request.timeout_ms)
            waits.append((result, partition, deleted))
        except ApiError as error:
            result.error_code = error.code
        results.setdefault(topic_name, DeleteRecordsTopicResult(name=topic_name))
        results[topic_name].partitions.append(result)
    for result, partition, deleted in waits:
        try:
            await deleted
            result.low_watermark = partition.low_watermark()
        except ApiError as error:
            result.error_code = error.code
    return DeleteRecordsResponse(topics=list(results.values()))


def _delete(partition: Partition, offset: int) -> int:
    """Let the log begin at ``offset``; where that is."""
    log = partition.log
    if "delete" not in log.config.cleanup_policy:
        raise PolicyViolation(
            f"records of {partition.topic}-{partition.index} are compacted, not deleted"
        )
    if offset == HIGH_WATERMARK:
        offset = log.high_watermark
    if not 0 <= offset <= log.high_watermark:
        raise OffsetOutOfRange
    log.delete_records_before(offset)
    return offset


def _when_deleted(
    partition: Partition, offset: int, scheduler: Scheduler, timeout_ms: int
) -> Promise[None]:
    """Promise that no replica has what stands below ``offset``; late, it is not kept."""
    deleted: Promise[None] = Promise(scheduler.turn)
    outcome = until(scheduler, timeout_ms, deleted)
    partition.when_deleted(offset, partial(settle, deleted), lambda: outcome.done)
    outcome.when_done(lambda _: partition.let_go())
    return outcome


def refuse(request: DeleteRecordsRequest, error: ApiError, _version: int) -> DeleteRecordsResponse:
    """Each partition that was named gets the error."""
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    DeleteRecordsPartitionResult(
                        partition_index=partition.partition_index,
                        low_watermark=_NO_WATERMARK,
                        error_code=error.code,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


HANDLER: Final = Handler(
    DeleteRecordsRequest,
    handle,
    refuse=refuse,
    needs=[
        Each(
            AclOperation.DELETE,
            ResourceType.TOPIC,
            lambda request: request.topics,
            its_name,
            lambda response: response.topics,
        )
    ],
)

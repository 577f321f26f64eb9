"""AlterReplicaLogDirs (key 34): move partitions to another log directory of this broker (KIP-113).

The answer says that the move has begun; DescribeLogDirs shows how far it is. Asking for the
directory in which a partition lies ends a move that is under way, and otherwise does nothing.

v1 is the first that is served; v2 is flexible.
"""

from typing import Final

from ottla.common.authorization import AclOperation, ResourceType
from ottla.common.errors import (
    ApiError,
    ErrorCode,
    InvalidTopicException,
    KafkaStorageError,
    ReplicaNotAvailable,
    UnknownTopicOrPartition,
)
from ottla.common.topic_partition import TopicPartition
from ottla.protocol.generated.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from ottla.requests.context import RequestContext, Services
from ottla.requests.contract import Handler
from ottla.requests.needs import Whole
from ottla.requests.partitions import exists

_FUTURE_NAME_MAX: Final = 255
_FUTURE_NAME_REST: Final = len("-") + len(".") + 32 + len("-future")


def handle(
    request: AlterReplicaLogDirsRequest, _context: RequestContext, services: Services
) -> AlterReplicaLogDirsResponse:
    destinations = {
        TopicPartition(topic.name, index): directory.path
        for directory in request.dirs
        for topic in directory.topics
        for index in topic.partitions
    }
    results: dict[str, AlterReplicaLogDirTopicResult] = {}
    for topic_partition, path in destinations.items():
        code: int = ErrorCode.NONE
        try:
            _move(services, topic_partition, path)
        except ApiError as error:
            code = error.code
        name = topic_partition.topic
        topic = results.setdefault(name, AlterReplicaLogDirTopicResult(topic_name=name))
        topic.partitions.append(
            AlterReplicaLogDirPartitionResult(
                partition_index=topic_partition.partition, error_code=code
            )
        )
    return AlterReplicaLogDirsResponse(results=list(results.values()))


def _move(services: Services, topic_partition: TopicPartition, path: str) -> None:
    topic, index = topic_partition
    if len(topic) + len(str(index)) + _FUTURE_NAME_REST > _FUTURE_NAME_MAX:
        raise InvalidTopicException("The topic name is too long.")
    services.logs.online_directory(path)
    if services.replicas.partition(topic, index) is None:
        if services.replicas.is_offline(topic, index):
            raise KafkaStorageError
        if not exists(services, topic, index):
            raise UnknownTopicOrPartition
        # It may come here later, and then it shall lie there.
        services.logs.prefer_directory(topic_partition, path)
        raise ReplicaNotAvailable
    services.log_moves.move(topic_partition, path)


def refuse(
    request: AlterReplicaLogDirsRequest, error: ApiError, _version: int
) -> AlterReplicaLogDirsResponse:
    """Each partition that was named gets the error."""
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(
                topic_name=topic.name,
                partitions=[
                    AlterReplicaLogDirPartitionResult(partition_index=index, error_code=error.code)
                    for index in topic.partitions
                ],
            )
            for directory in request.dirs
            for topic in directory.topics
        ]
    )


HANDLER: Final = Handler(
    AlterReplicaLogDirsRequest,
    handle,
    refuse=refuse,
    needs=[Whole(AclOperation.ALTER, ResourceType.CLUSTER)],
)

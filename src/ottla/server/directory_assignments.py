"""Telling the controller in which log directory each partition lies (KIP-858).

A broker with one directory has nothing to tell, unless its disk was replaced: the controller knows
it. One with several chooses where a partition goes, or moves it, and reports that; so that when a
disk fails, the controller knows which leaders are gone.

Rules:
1. What is told is where the log lies, not where it was meant to lie.
2. One request at a time is under way; what was refused is told again a little later, what has
   become true by itself is not told.
"""

from typing import Final, NamedTuple, Protocol

from ottla.common.environment import Scheduler
from ottla.common.errors import ApiError, ErrorCode
from ottla.common.promise import Promise
from ottla.common.topic_partition import TopicPartition
from ottla.metadata.cache import MetadataCache
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.metadata.topics import PartitionImage
from ottla.protocol.generated.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
    AssignReplicasToDirsResponse,
)
from ottla.replication.partition import Partition
from ottla.storage.directories import LogDirectory
from ottla.storage.manager import LogManager

ASSIGNMENTS_MAX: Final = 2_250
"""What one request tells at most."""
RETRY_SECONDS: Final = 0.5


class _Replica(NamedTuple):
    """This broker's replica of a partition."""

    topic_id: bytes
    partition: int


class DirectoryAssigner(Protocol):
    """The controller, as far as directories are concerned."""

    def submit(
        self, request: AssignReplicasToDirsRequest
    ) -> Promise[AssignReplicasToDirsResponse]: ...


class DirectoryAssignments:
    def __init__(
        self,
        controller: DirectoryAssigner,
        metadata: MetadataCache,
        logs: LogManager,
        scheduler: Scheduler,
        *,
        node_id: int,
    ) -> None:
        self._controller = controller
        self._metadata = metadata
        self._logs = logs
        self._scheduler = scheduler
        self._node_id = node_id
        self._untold: dict[_Replica, bytes] = {}
        self._is_asking = False
        self._is_scheduled = False

    def load(self, image: MetadataImage) -> None:
        """Compare everything that there is."""
        for topic in image.topics:
            for index, state in topic.partitions.items():
                self._compare(topic.name, topic.topic_id, index, state)

    def changed(self, _image: MetadataImage, delta: MetadataDelta) -> None:
        """The metadata log has moved on."""
        for topic_id, topic in delta.topics.changed.items():
            for index, state in topic.changed.items():
                self._compare(topic.name, topic_id, index, state)

    def moved(self, partition: Partition, to: LogDirectory) -> None:
        """A partition lies elsewhere now."""
        if to.directory_id is not None:
            self._tell(_Replica(partition.topic_id, partition.index), to.directory_id)

    def _compare(self, topic: str, topic_id: bytes, index: int, state: PartitionImage) -> None:
        log = self._logs.logs.get(TopicPartition(topic, index))
        if log is None or self._node_id not in state.replicas:
            return
        actual = self._logs.directory_of(log).directory_id
        which = _Replica(topic_id, index)
        if actual is None or actual == state.directory_of(self._node_id):
            self._untold.pop(which, None)
        else:
            self._tell(which, actual)

    def _tell(self, which: _Replica, directory_id: bytes) -> None:
        self._untold[which] = directory_id
        self._schedule(0.0)

    def _schedule(self, seconds: float) -> None:
        if not self._is_scheduled and not self._is_asking:
            self._is_scheduled = True
            self._scheduler.call_later(seconds, self._send)

    def _send(self) -> None:
        self._is_scheduled = False
        broker = self._metadata.image.brokers.get(self._node_id)
        if broker is None or not self._untold:
            if self._untold:
                self._schedule(RETRY_SECONDS)
            return
        told = dict(list(self._untold.items())[:ASSIGNMENTS_MAX])
        request = AssignReplicasToDirsRequest(
            broker_id=self._node_id, broker_epoch=broker.epoch, directories=_directories(told)
        )
        self._is_asking = True
        asked = self._controller.submit(request)
        asked.when_done(lambda done: self._answered(told, done))

    def _answered(
        self, told: dict[_Replica, bytes], done: Promise[AssignReplicasToDirsResponse]
    ) -> None:
        self._is_asking = False
        for which in _accepted(done):
            if self._untold.get(which) == told.get(which):
                self._untold.pop(which, None)
        if self._untold:
            self._schedule(RETRY_SECONDS)


def _directories(
    told: dict[_Replica, bytes],
) -> list[AssignReplicasToDirsRequestDirectoryData]:
    by_directory: dict[bytes, dict[bytes, list[int]]] = {}
    for (topic_id, index), directory_id in told.items():
        by_directory.setdefault(directory_id, {}).setdefault(topic_id, []).append(index)
    return [
        AssignReplicasToDirsRequestDirectoryData(
            id=directory_id,
            topics=[
                AssignReplicasToDirsRequestTopicData(
                    topic_id=topic_id,
                    partitions=[
                        AssignReplicasToDirsRequestPartitionData(partition_index=index)
                        for index in indexes
                    ],
                )
                for topic_id, indexes in topics.items()
            ],
        )
        for directory_id, topics in by_directory.items()
    ]


def _accepted(done: Promise[AssignReplicasToDirsResponse]) -> list[_Replica]:
    """What need not be told again: it was taken, or there is nothing left to tell of."""
    settled = (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    try:
        response = done.result()
    except ApiError:
        return []
    if response.error_code != ErrorCode.NONE:
        return []
    return [
        _Replica(topic.topic_id, partition.partition_index)
        for directory in response.directories
        for topic in directory.topics
        for partition in topic.partitions
        if partition.error_code in settled
    ]

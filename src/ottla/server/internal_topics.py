"""The partitions that coordinators live on, as they see them: append and be told, read once."""

from ottla.common.environment import Scheduler
from ottla.common.errors import ApiError, NotLeaderOrFollower
from ottla.common.promise import Promise, fulfilled
from ottla.handlers.context import MetadataSource
from ottla.records.rules import AppendOrigin
from ottla.replication.partition import Partition
from ottla.replication.replicas import Replicas


class InternalTopics:
    """Coordinators' view of replication: PartitionWriter, PartitionReader and Topics in one."""

    def __init__(self, replicas: Replicas, metadata: MetadataSource, scheduler: Scheduler) -> None:
        self._replicas = replicas
        self._metadata = metadata
        self._scheduler = scheduler

    def _partition(self, topic: str, partition: int) -> Partition:
        led = self._replicas.partition(topic, partition)
        if led is None or not led.is_leader:
            raise NotLeaderOrFollower
        return led

    def append(self, topic: str, partition: int, batch: bytes) -> Promise[int]:
        try:
            led = self._partition(topic, partition)
            last_offset = led.append_records(
                batch, AppendOrigin.COORDINATOR, self._scheduler.wall_ms()
            )
        except ApiError as error:
            refused: Promise[int] = Promise()
            refused.fail(error)
            return refused
        # With one replica, what is written is committed.
        assert led.log.high_watermark > last_offset
        return fulfilled(last_offset)

    def log_start_offset(self, topic: str, partition: int) -> int:
        return self._partition(topic, partition).log.log_start_offset

    def high_watermark(self, topic: str, partition: int) -> int:
        return self._partition(topic, partition).log.high_watermark

    def log_end_offset(self, topic: str, partition: int) -> int:
        return self._partition(topic, partition).log.log_end_offset

    def read(self, topic: str, partition: int, offset: int, max_bytes: int) -> bytes:
        log = self._partition(topic, partition).log
        fetched = log.read(
            offset, max_bytes, upper_bound_offset=log.log_end_offset, at_least_one=True
        )
        return b"" if fetched.region is None else fetched.region.read()

    def partition_count(self, topic: str) -> int | None:
        found = self._metadata.image.topics.by_name.get(topic)
        return None if found is None else len(found.partitions)

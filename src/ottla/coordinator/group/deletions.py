"""Offsets of partitions that were deleted, until no coordinator has them any more.

A coordinator that loads its log, or whose log takes no records now, cannot forget them yet: it is
asked again after a pause, as long as this broker has the partition at all. Deletions of one turn of
the loop go together, since each looks through all offsets. A topic that was made anew meanwhile
keeps what it has: its offsets may be new ones.
"""

from collections.abc import Iterable
from typing import Final

from ottla.common.environment import Scheduler
from ottla.common.errors import ApiError
from ottla.common.promise import Promise
from ottla.common.topic_partition import TopicPartition
from ottla.coordinator.group.shard import GroupShard
from ottla.coordinator.outside import ClusterTopics
from ottla.coordinator.runtime import CoordinatorRuntime

RETRY_SECONDS: Final = 1.0


class OffsetDeletions:
    def __init__(
        self,
        runtime: CoordinatorRuntime[GroupShard],
        scheduler: Scheduler,
        topics: ClusterTopics,
    ) -> None:
        self._runtime = runtime
        self._scheduler = scheduler
        self._topics = topics
        self._due: dict[int, set[TopicPartition]] = {}
        """What the coordinator of each partition is to be asked next."""

    def add(self, partition: int, gone: Iterable[TopicPartition]) -> None:
        if partition in self._due:
            self._due[partition].update(gone)
        else:
            self._due[partition] = set(gone)
            self._scheduler.call_soon(self._ask, partition)

    def _ask(self, partition: int) -> None:
        gone = {each for each in self._due.pop(partition) if not self._is_there(each)}
        if not gone or partition not in self._runtime.partitions():
            return
        asked = self._runtime.write(partition, lambda shard, _now_ms: shard.delete_partitions(gone))
        asked.when_done(lambda done: self._answered(partition, gone, done))

    def _answered(self, partition: int, gone: set[TopicPartition], done: Promise[None]) -> None:
        try:
            done.result()
        except ApiError:
            if partition in self._due:
                self._due[partition] |= gone
            else:
                self._due[partition] = gone
                self._scheduler.call_later(RETRY_SECONDS, self._ask, partition)

    def _is_there(self, gone: TopicPartition) -> bool:
        topic = self._topics.image.topics.by_name.get(gone.topic)
        return topic is not None and gone.partition in topic.partitions

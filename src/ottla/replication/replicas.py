"""All partitions of this broker: made, led and removed as the metadata log says.

Lookups are by name and by topic id, since clients of both kinds come; both maps hold the same
partitions.
"""

from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from typing import Final, Protocol

from ottla.common.chance import Chance
from ottla.common.errors import (
    ApiError,
    KafkaStorageError,
    NotLeaderOrFollower,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from ottla.common.mistakes import call_all
from ottla.common.topic_partition import TopicPartition
from ottla.replication.fetch_sessions import SESSION_EVICTION_MS, FetchSessions
from ottla.replication.leader_throttle import LeaderThrottle
from ottla.replication.outside import PartitionOutside, PartitionState
from ottla.replication.partition import Partition
from ottla.replication.waiting import WaitingRequests
from ottla.storage.log import Log

NO_LEADER: Final = -1


class Logs(Protocol):
    """Where logs come from and go to."""

    def get_or_create(
        self,
        topic_partition: TopicPartition,
        topic_id: bytes,
        *,
        directory_id: bytes | None = None,
        is_new: bool = True,
    ) -> Log: ...

    def delete(self, topic_partition: TopicPartition) -> None: ...


class Followed(Protocol):
    """The partitions that this broker follows."""

    def follow(self, partition: Partition) -> None:
        """A partition has a leader elsewhere: a new one, or a new epoch of it."""
        ...

    def unfollow(self, partition: Partition) -> None:
        """A partition that was followed is so no more."""
        ...


class Replicas:
    def __init__(
        self,
        *,
        node_id: int,
        logs: Logs,
        outside: PartitionOutside,
        waiting: WaitingRequests,
        followed: Followed,
        leader_throttle: LeaderThrottle | None,
        chance: Chance,
        fetch_session_slots: int,
    ) -> None:
        self._node_id = node_id
        self._logs = logs
        self.outside = outside
        self.turn = outside.turn
        self.waiting = waiting
        self._followed = followed
        self._by_name: dict[str | bytes, dict[int, Partition]] = {}
        """By name and by topic id; the values are shared."""
        self._ids: dict[str, bytes] = {}
        self._unmade: dict[tuple[bytes, int], Callable[[], None]] = {}
        """Partitions that are to be made, by topic id and index, and how."""
        self._offline: dict[tuple[bytes, int], None] = {}
        """Partitions whose log lies in a directory that has failed."""
        self.fetch_sessions = FetchSessions(
            slots=fetch_session_slots, eviction_ms=SESSION_EVICTION_MS, chance=chance
        )
        self.leader_throttle = leader_throttle
        """How fast followers are served; None while nothing limits it."""
        self.produce_refused = 0
        self.topic = self._by_name.get
        """The partitions of a topic that this broker has, by name or topic id."""

    def partition(self, topic: str | bytes, index: int) -> Partition | None:
        """A partition of this broker; one that is still to be made is made now."""
        partitions = self._by_name.get(topic)
        if partitions is None:
            return None
        partition = partitions.get(index)
        if partition is None and self._unmade:
            topic_id = topic if isinstance(topic, bytes) else self._ids.get(topic, b"")
            make = self._unmade.pop((topic_id, index), None)
            if make is not None:
                make()
                partition = partitions.get(index)
        return partition

    def missing(self, topic: str | bytes, index: int) -> ApiError:
        """Why :meth:`partition` has nothing to give."""
        topic_id = topic if isinstance(topic, bytes) else self._ids.get(topic, b"")
        if (topic_id, index) in self._offline:
            return KafkaStorageError(f"partition {index} is in a log directory that is offline")
        if isinstance(topic, bytes) and topic not in self._by_name:
            return UnknownTopicId()
        return UnknownTopicOrPartition()

    @property
    def offline_count(self) -> int:
        return len(self._offline)

    def is_offline(self, topic: str, index: int) -> bool:
        return (self._ids.get(topic, b""), index) in self._offline

    def fail(self, lost: Iterable[TopicPartition]) -> None:
        """The logs of these partitions are gone with their directory; answer waiting requests."""
        reason, stops = KafkaStorageError(), []
        for topic, index in lost:
            partition = self._by_name.get(topic, {}).pop(index, None)
            if partition is not None:
                self._offline[partition.topic_id, index] = None
                stops.append(partial(self._stopped, partition, reason))
        call_all(stops)

    def postpone(self, topic: str, topic_id: bytes, index: int, make: Callable[[], None]) -> None:
        """Note a partition that ``make`` will apply: when it is asked for, or in ``make_some``."""
        self._partitions_of(topic, topic_id)
        self._unmade[topic_id, index] = make

    @property
    def has_unmade(self) -> bool:
        return bool(self._unmade)

    def make_some(self, count: int) -> bool:
        """Make at most ``count`` of those that were postponed; tell whether any are left."""
        for key in list(islice(self._unmade, count)):
            self._unmade.pop(key)()
        return bool(self._unmade)

    def _partitions_of(self, topic: str, topic_id: bytes) -> dict[int, Partition]:
        partitions = self._by_name.get(topic_id)
        if partitions is None:
            partitions = self._by_name[topic_id] = self._by_name[topic] = {}
            self._ids[topic] = topic_id
        return partitions

    def partitions(self) -> Iterable[Partition]:
        for key, partitions in self._by_name.items():
            if isinstance(key, str):
                yield from partitions.values()

    def apply(
        self,
        topic: str,
        topic_id: bytes,
        index: int,
        state: PartitionState,
        *,
        is_new: bool,
        min_insync_replicas: int = 1,
    ) -> Partition:
        """Make or change a partition of which this broker has a replica."""
        partitions = self._partitions_of(topic, topic_id)
        self._unmade.pop((topic_id, index), None)
        partition = partitions.get(index)
        if partition is None:
            try:
                log = self._logs.get_or_create(
                    TopicPartition(topic, index),
                    topic_id,
                    directory_id=state.directory_of(self._node_id),
                    is_new=is_new,
                )
            except KafkaStorageError:
                self._offline[topic_id, index] = None
                raise
            self._offline.pop((topic_id, index), None)
            partition = Partition(self._node_id, topic, topic_id, index, log, self.outside)
            partitions[index] = partition
        before = self._leader_of(partition)
        # Together: one that led until now must not commit by the new minimum and the old ISR.
        partition.apply_state(state, min_insync_replicas)
        partition.min_insync_replicas = min_insync_replicas
        now = self._leader_of(partition)
        if before is not None and before != now:
            self._followed.unfollow(partition)
        if now is not None and before != now:
            self._followed.follow(partition)
        return partition

    def _leader_of(self, partition: Partition) -> tuple[int, int] | None:
        """Whom a partition follows, and in which epoch."""
        if partition.leader in (NO_LEADER, self._node_id):
            return None
        return partition.leader, partition.leader_epoch

    def stop(self, topic_id: bytes, index: int) -> None:
        """Remove one partition and its log: this broker is none of its replicas any more."""
        self._unmade.pop((topic_id, index), None)
        self._offline.pop((topic_id, index), None)
        partition = self._by_name.get(topic_id, {}).pop(index, None)
        if partition is not None:
            self._remove(partition, NotLeaderOrFollower())

    def _stopped(self, partition: Partition, reason: ApiError) -> None:
        try:
            if self._leader_of(partition) is not None:
                self._followed.unfollow(partition)
        finally:
            partition.removed(reason)

    def remove(self, topic_id: bytes) -> None:
        """Remove a topic's partitions and their logs; waiting requests are answered."""
        partitions = self._by_name.pop(topic_id, None)
        if partitions is None:
            return
        for key in [key for key in self._unmade if key[0] == topic_id]:
            del self._unmade[key]
        for offline in [key for key in self._offline if key[0] == topic_id]:
            del self._offline[offline]
        for name in [name for name, known in self._ids.items() if known == topic_id]:
            del self._by_name[name], self._ids[name]
        reason = UnknownTopicOrPartition()
        call_all(partial(self._remove, partition, reason) for partition in partitions.values())

    def _remove(self, partition: Partition, reason: ApiError) -> None:
        try:
            self._stopped(partition, reason)
        finally:  # a mistake of ours leaves no log behind
            self._logs.delete(TopicPartition(partition.topic, partition.index))

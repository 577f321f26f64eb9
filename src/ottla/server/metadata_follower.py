"""The broker half of a node follows the metadata log: partitions, settings, coordinators.

Nothing reaches it by a call from the controller, so that it is the same when the controller is
another process. Order within one change: settings first, since new logs are made with them; then
topics that are gone, then those that are new or changed.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from ottla.common.environment import Scheduler
from ottla.common.errors import KafkaStorageError
from ottla.common.identifiers import is_damaged_copy
from ottla.common.mistakes import call_all
from ottla.common.topic_partition import TopicPartition
from ottla.config.broker import BrokerConfig
from ottla.config.metadata_topic import REMOTE_LOG_METADATA
from ottla.coordinator.group.service import GROUP_METADATA_TOPIC, GroupService
from ottla.coordinator.transaction.service import TRANSACTION_STATE_TOPIC, TransactionService
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.metadata.topics import PartitionImage, TopicDelta
from ottla.observability.logging import logger
from ottla.replication.partition import Partition
from ottla.replication.replicas import Replicas
from ottla.server.role_changes import RoleChanges
from ottla.server.settings import Settings
from ottla.storage.directories import LogUnavailable
from ottla.storage.loading import DirectoryLoad
from ottla.storage.log import Log
from ottla.storage.manager import LogManager

log = logger(__name__)

MADE_AT_ONCE_MAX: Final = 32
MADE_IN_A_TURN: Final = 8
MADE_LATER_SECONDS: Final = 1.0
INTERNAL: Final = frozenset({GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, REMOTE_LOG_METADATA})


class MetadataFollower:
    def __init__(
        self,
        *,
        node_id: int,
        settings: Settings,
        logs: LogManager,
        replicas: Replicas,
        groups: GroupService,
        transactions: TransactionService,
        reconfigured: Callable[[BrokerConfig], None],
        topics_reconfigured: Callable[[], None],
        scheduler: Scheduler,
    ) -> None:
        """``topics_reconfigured`` is told when settings of topics have changed, and hold."""
        self._scheduler = scheduler
        self._is_making_later = False
        # With several directories the controller is told where each log lies: make them first.
        self._may_postpone = len(logs.directories) == 1
        self._node_id = node_id
        self._settings = settings
        self._logs = logs
        self._replicas = replicas
        self._groups = groups
        self._coordinators: dict[str, GroupService | TransactionService] = {
            GROUP_METADATA_TOPIC: groups,
            TRANSACTION_STATE_TOPIC: transactions,
        }
        self._reconfigured = reconfigured
        self._topics_reconfigured = topics_reconfigured
        self._roles = RoleChanges(node_id, lambda name: settings.topic(name).min_insync_replicas)

    def take_settings(self, image: MetadataImage) -> None:
        """Logs are opened with the settings that hold when it begins."""
        if self._settings.load(image):
            self._reconfigured(self._settings.broker)

    def load(self, image: MetadataImage, opened: list[DirectoryLoad]) -> None:
        """Take on the logs that were opened, and the partitions of ``image``."""
        self.take_settings(image)
        self._logs.take_loaded(opened, lambda found: self._is_stray(found, image))
        self._logs.configure({each.topic for each in self._logs.logs})
        for topic in image.topics:
            for index, state in topic.partitions.items():
                self._apply(topic.name, topic.topic_id, index, state, is_new=False)
        self._roles.loaded(image)
        self._tell_of_coordinators()

    def _is_stray(self, found: Log, image: MetadataImage) -> bool:
        """Whether the cluster knows nothing of this log: its topic is gone, or is another's now."""
        topic = image.topics.by_name.get(found.topic_partition.topic)
        if topic is None:
            return True
        found_id = found.topic_id
        if found_id not in (None, topic.topic_id) and not is_damaged_copy(found_id, topic.topic_id):
            return True
        partition = topic.partitions.get(found.topic_partition.partition)
        return partition is None or self._node_id not in partition.replicas

    def changed(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """The metadata log has moved on; a mistake with a part of it is raised when all is told."""
        call_all(self._changes(image, delta))

    def _changes(
        self, image: MetadataImage, delta: MetadataDelta
    ) -> Iterator[Callable[[], object]]:
        changed_broker, changed_topics = self._settings.apply(image, delta)
        if changed_broker:
            yield partial(self._reconfigured, self._settings.broker)
        for topic_id, gone in delta.topics.deleted.items():
            yield from self._removed(topic_id, gone.name, list(gone.partitions))
        if changed_topics:
            yield partial(self._logs.configure, changed_topics)
            yield self._topics_reconfigured
        for topic_id, topic in delta.topics.changed.items():
            new = {index for index in topic.changed if self._is_new_here(topic, index)}
            later = len(new) > MADE_AT_ONCE_MAX and self._may_postpone
            later = later and topic.name not in INTERNAL
            if later:
                yield partial(self._postpone, topic, topic_id, sorted(new))
            for index, state in topic.changed.items():
                if not later or index not in new:
                    name, is_new = topic.name, index in new
                    yield partial(self._apply, name, topic_id, index, state, is_new=is_new)
        # Last: who leads, and who is in sync, is as new as the minimum.
        for name in sorted(changed_topics):
            for partition in (self._replicas.topic(name) or {}).values():
                yield partial(self._set_minimum, partition)
        yield partial(self._roles.changed, delta)
        yield self._tell_of_coordinators

    def _set_minimum(self, partition: Partition) -> None:
        config = self._settings.topic(partition.topic)
        partition.min_insync_replicas = config.min_insync_replicas

    def _is_new_here(self, topic: TopicDelta, index: int) -> bool:
        """Whether this broker gets a replica that it did not have."""
        before = topic.before(index)
        has_now = self._node_id in topic.changed[index].replicas
        return has_now and (before is None or self._node_id not in before.replicas)

    def _postpone(self, topic: TopicDelta, topic_id: bytes, indexes: list[int]) -> None:
        """Make the logs of many new partitions little by little, and sooner where one is used.

        A thousand directories take the disk a second; the other clients should not wait for it,
        nor should the caller.
        """
        for index in indexes:
            make = partial(
                self._apply, topic.name, topic_id, index, topic.changed[index], is_new=True
            )
            self._replicas.postpone(topic.name, topic_id, index, make)
        self._scheduler.call_soon(self._make_some)

    def _make_some(self) -> None:
        if self._replicas.make_some(MADE_IN_A_TURN) and not self._is_making_later:
            self._scheduler.call_later(0.0, self._make_some)

    def _make_later(self) -> None:
        """There is no descriptor for it, or no memory; some other time there may be."""
        if not self._is_making_later:
            self._is_making_later = True
            self._scheduler.call_later(MADE_LATER_SECONDS, self._make_those_left)

    def _make_those_left(self) -> None:
        self._is_making_later = False
        self._make_some()

    def _apply(
        self, topic: str, topic_id: bytes, index: int, state: PartitionImage, *, is_new: bool
    ) -> None:
        if self._node_id not in state.replicas:
            self._stop(topic, topic_id, index)
            return
        try:
            partition = self._replicas.apply(
                topic,
                topic_id,
                index,
                state,
                is_new=is_new,
                min_insync_replicas=self._settings.topic(topic).min_insync_replicas,
            )
        except LogUnavailable as error:
            log.warning(
                "a log cannot be made now, and is tried again",
                topic=topic,
                partition=index,
                reason=error.message,
            )
            make = partial(self._apply, topic, topic_id, index, state, is_new=is_new)
            self._replicas.postpone(topic, topic_id, index, make)
            self._make_later()
            return
        except KafkaStorageError as error:
            log.error("a partition has no log", topic=topic, partition=index, reason=error.message)
            return
        coordinator = self._coordinators.get(topic)
        if coordinator is not None:
            if partition.is_leader:
                coordinator.elected(index, state.leader_epoch)
            else:
                coordinator.resigned(index, state.leader_epoch)

    def _stop(self, topic: str, topic_id: bytes, index: int) -> None:
        """A reassignment has taken a partition from this broker: its log goes."""
        coordinator = self._coordinators.get(topic)
        if coordinator is not None and index in (self._replicas.topic(topic_id) or {}):
            coordinator.resigned(index)
        self._replicas.stop(topic_id, index)

    def lost(self, partitions: list[TopicPartition]) -> None:
        """The logs of ``partitions`` are gone: their coordinators must not speak for them."""
        for topic, index in partitions:
            coordinator = self._coordinators.get(topic)
            if coordinator is not None:
                coordinator.resigned(index)
        self._tell_of_coordinators()

    def _tell_of_coordinators(self) -> None:
        for coordinator in self._coordinators.values():
            coordinator.runtime.tell()

    def _removed(
        self, topic_id: bytes, name: str, partitions: list[int]
    ) -> Iterator[Callable[[], object]]:
        coordinator = self._coordinators.get(name)
        if coordinator is not None:
            for index in partitions:
                yield partial(coordinator.resigned, index)
        yield partial(self._replicas.remove, topic_id)
        deleted = [TopicPartition(name, index) for index in partitions]
        yield partial(self._groups.partitions_deleted, deleted)

"""Tiered storage of a node: which logs have a remote part here, as the metadata log tells it.

It is there only when ``remote.log.storage.system.enable`` is set, and follows the metadata log
behind the rest of the broker, so that logs, settings and leaders are what they are by then.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from ottla.common.chance import Chance
from ottla.common.environment import Cancellable, Scheduler
from ottla.common.errors import ErrorCode, NotLeaderOrFollower
from ottla.common.promise import Promise, run
from ottla.config.broker import BrokerConfig
from ottla.config.changes import Resource
from ottla.config.metadata_topic import REMOTE_LOG_METADATA, metadata_topic_setting
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.observability.metrics import Registry
from ottla.protocol.generated.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.replication.partition import Partition
from ottla.requests.context import AutoTopics, MetadataSource
from ottla.server.broker_batches import Channel
from ottla.server.internal_topics import InternalTopics
from ottla.server.remote_metadata_log import RemoteMetadataLog
from ottla.server.settings import Settings
from ottla.storage.config import has_remote_part
from ottla.storage.files import Filesystem
from ottla.storage.leader_epochs import EpochEnd
from ottla.storage.manager import LogManager
from ottla.tiered.chunks import Windows
from ottla.tiered.driver.follower_starts import LeaderLog
from ottla.tiered.driver.manager import RemoteLogManager
from ottla.tiered.driver.metrics import RemoteLogMetrics
from ottla.tiered.index_cache import IndexCache
from ottla.tiered.machine import RemotePartition
from ottla.tiered.manifests import Manifests
from ottla.tiered.metadata_topic import MetadataTopic
from ottla.tiered.pool import Background
from ottla.tiered.reader import RemoteReader
from ottla.tiered.segments import TopicIdPartition
from ottla.tiered.settings import RemoteLogSettings
from ottla.tiered.store import RemoteStore

INDEX_EXPIRY_SECONDS: Final = 60.0


class RemoteLogsOutside(NamedTuple):
    """What tiered storage is given by the node."""

    config: BrokerConfig
    filesystem: Filesystem
    scheduler: Scheduler
    chance: Chance
    logs: LogManager
    settings: Settings
    metadata: MetadataSource
    internal: InternalTopics
    auto_topics: AutoTopics
    channel: Channel
    """To the other brokers, for what is written and read of the metadata topic."""
    metrics: Registry
    store: RemoteStore
    background: Background
    is_current: Callable[[], bool]
    """Whether the metadata of the cluster is as its leader has it."""


class RemoteLogsOfNode:
    """See the module; ``manager`` is what readers ask."""

    def __init__(self, outside: RemoteLogsOutside) -> None:
        self._outside = outside
        config, scheduler = outside.config, outside.scheduler
        slice_bytes = metadata_topic_setting(config, "consumer.max.partition.fetch.bytes")
        log = RemoteMetadataLog(
            outside.internal,
            outside.metadata,
            outside.channel,
            scheduler,
            node_id=config.node_id,
            timeout_ms=config.request_timeout_ms,
            slice_bytes=slice_bytes,
            fetch_bytes_max=metadata_topic_setting(config, "consumer.fetch.max.bytes"),
        )
        self._topic = MetadataTopic(
            log,
            outside.auto_topics.ensure_internal,
            scheduler,
            self._metadata_led,
            slice_bytes=slice_bytes,
        )
        manifests = Manifests(outside.store)
        self._indexes = IndexCache(
            outside.filesystem,
            outside.logs.online_directories[0].path,
            outside.store,
            manifests,
            clock=scheduler,
            size_max=config.remote_log_index_file_cache_total_size_bytes,
            ttl_ms=config.remote_log_index_file_cache_ttl_ms,
        )
        self.manager = RemoteLogManager(
            RemoteLogSettings.of(config),
            store=outside.store,
            reader=RemoteReader(manifests, self._indexes, Windows(outside.store)),
            metadata=self._topic,
            background=outside.background,
            scheduler=scheduler,
            chance=outside.chance,
            log_of=outside.logs.logs.get,
            topic_exists=lambda topic_id: topic_id in outside.metadata.image.topics.by_id,
            is_current=outside.is_current,
            metrics=RemoteLogMetrics(outside.metrics, scheduler),
        )
        self._expiry: Cancellable | None = None

    def _metadata_led(self, told_of: list[RemotePartition]) -> None:
        self.manager.resume(told_of)

    def load(self, image: MetadataImage) -> None:
        """Begin with an image whose logs are open."""
        self._indexes.start()
        self._expire_indexes()
        for topic in image.topics:
            for index in topic.partitions:
                self._apply(image, topic.topic_id, index)

    def changed(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """The metadata log has moved on."""
        for topic_id, gone in delta.topics.deleted.items():
            for index in gone.partitions:
                if gone.name == REMOTE_LOG_METADATA:
                    self._topic.gone(index)
                else:
                    self.manager.deleted(TopicIdPartition(topic_id, gone.name, index))
        touched = {
            topic_id: list(topic.changed) for topic_id, topic in delta.topics.changed.items()
        }
        for resource_type, name in delta.configs.changed:
            topic = image.topics.by_name.get(name) if resource_type == Resource.TOPIC else None
            if topic is not None:
                touched[topic.topic_id] = list(topic.partitions)
        for topic_id, indexes in touched.items():
            for index in indexes:
                self._apply(image, topic_id, index)

    def reconfigured(self, config: BrokerConfig) -> None:
        self._indexes.size_max = config.remote_log_index_file_cache_total_size_bytes
        self.manager.configure(RemoteLogSettings.of(config))

    def _apply(self, image: MetadataImage, topic_id: bytes, index: int) -> None:
        topic = image.topics.by_id[topic_id]
        state = topic.partitions[index]
        partition = TopicIdPartition(topic_id, topic.name, index)
        node_id = self._outside.config.node_id
        is_leader = state.leader == node_id
        if topic.name == REMOTE_LOG_METADATA:
            if is_leader:
                self._topic.elected(index)
            else:
                self._topic.resigned(index)
            return
        config = self._outside.settings.topic(topic.name)
        if node_id not in state.replicas or state.leader < 0:
            self.manager.stop(partition)
        elif has_remote_part(topic.name, config):
            if is_leader:
                self.manager.lead(partition)
            else:
                self.manager.follow(partition)
        elif is_leader and config.remote_log_delete_on_disable and not config.remote_storage_enable:
            self.manager.disabled(partition, state.leader_epoch)
        else:
            self.manager.stop(partition)

    def known(self, partition: TopicIdPartition) -> RemotePartition | None:
        """What is known here of a remote part; None of a topic that has none."""
        config = self._outside.settings.topic(partition.topic)
        return self._topic.find(partition) if has_remote_part(partition.topic, config) else None

    # Followers

    def start_follower(self, partition: Partition, local_start: int, epoch: int) -> bool:
        """Let a followed log begin where its leader's disk does; see ``FollowerStarts``."""
        owner = TopicIdPartition(partition.topic_id, partition.topic, partition.index)
        leader = LeaderLog(local_start, epoch, partial(self._end_of_epoch, partition))
        self.manager.start_follower(owner, leader)
        return True

    def _end_of_epoch(self, partition: Partition, epoch: int) -> Promise[EpochEnd]:
        return run(self._outside.scheduler.turn, self._ask_end_of_epoch(partition, epoch))

    async def _ask_end_of_epoch(self, partition: Partition, epoch: int) -> EpochEnd:
        asked = OffsetForLeaderPartition(
            partition=partition.index,
            current_leader_epoch=partition.leader_epoch,
            leader_epoch=epoch,
        )
        request = OffsetForLeaderEpochRequest(
            replica_id=self._outside.config.node_id,
            topics=[OffsetForLeaderTopic(topic=partition.topic, partitions=[asked])],
        )
        response = await self._outside.channel.send(partition.leader, request)
        assert isinstance(response, OffsetForLeaderEpochResponse)
        for topic in response.topics:
            for each in topic.partitions:
                if each.error_code:
                    raise NotLeaderOrFollower(f"the leader says {ErrorCode(each.error_code).name}")
                return EpochEnd(each.leader_epoch, each.end_offset)
        raise NotLeaderOrFollower

    def _expire_indexes(self) -> None:
        """Drop local copies of remote indexes that nobody has used for long."""
        self._outside.background(self._indexes.expire)
        self._expiry = self._outside.scheduler.call_later(
            INDEX_EXPIRY_SECONDS, self._expire_indexes
        )

    def stop(self) -> Promise[None]:
        if self._expiry is not None:
            self._expiry.cancel()
        return self.manager.close()

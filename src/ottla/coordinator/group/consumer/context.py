"""What the parts of the consumer half share: the groups, the timers, the settings, the topics."""

from collections.abc import Iterable

from ottla.common.chance import Chance
from ottla.common.errors import GroupIdNotFound
from ottla.coordinator.group.configs import GroupConfigs
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.metadata_hash import TopicHashes
from ottla.coordinator.group.group import Group
from ottla.coordinator.group.settings import GroupSettings
from ottla.coordinator.outside import ClusterTopics
from ottla.coordinator.partition import Action
from ottla.coordinator.timeline import Timeline, TimelineDict
from ottla.coordinator.timers import Timers
from ottla.metadata.image import MetadataImage


class ConsumerContext:
    def __init__(
        self,
        *,
        groups: TimelineDict[str, Group],
        timeline: Timeline,
        timers: Timers[Action],
        configs: GroupConfigs,
        topics: ClusterTopics,
        chance: Chance,
    ) -> None:
        self.groups = groups
        self.timeline = timeline
        self.timers = timers
        self.configs = configs
        self.chance = chance
        self._topics = topics
        self._hashes = TopicHashes()

    @property
    def settings(self) -> GroupSettings:
        return self.configs.settings

    @property
    def image(self) -> MetadataImage:
        return self._topics.image

    @property
    def newest_topic_offset(self) -> int:
        """The offset of the metadata log at which the newest topic came."""
        return self._topics.newest_topic_offset

    def find(self, group_id: str) -> ConsumerGroup | None:
        group = self.groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def existing(self, group_id: str) -> ConsumerGroup:
        group = self.groups.get(group_id)
        if group is None:
            raise GroupIdNotFound(f"Group {group_id} not found.")
        if not isinstance(group, ConsumerGroup):
            raise GroupIdNotFound(f"Group {group_id} is not a consumer group.")
        return group

    def metadata_hash(self, topics: Iterable[str]) -> int:
        return self._hashes.of_group(topics, self.image)

    def topic_ids(self, names: Iterable[str]) -> frozenset[bytes]:
        """Of those that exist."""
        by_name = self.image.topics.by_name
        return frozenset(by_name[name].topic_id for name in names if name in by_name)

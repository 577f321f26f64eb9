"""What the managers of the controller share: the image, the settings, and what follows from both.

``image`` contains everything that this controller has written, committed or not: the next request
must not see less than the one before it left behind.
"""

from collections.abc import Callable, Container

from ottla.common.chance import Chance
from ottla.common.identifiers import MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY
from ottla.config.broker import BrokerConfig
from ottla.config.changes import Resource
from ottla.config.kinds import Value
from ottla.config.layers import Layers
from ottla.config.topic import SYNONYMS, TopicConfig
from ottla.controller.heartbeats import Heartbeats
from ottla.controller.partition_index import PartitionIndex
from ottla.controller.token_index import TokenIndex
from ottla.metadata import versions
from ottla.metadata.acl_index import AclIndex
from ottla.metadata.configs import ConfigsImage
from ottla.metadata.election import Election
from ottla.metadata.image import MetadataImage
from ottla.metadata.partition_change import PartitionRules
from ottla.metadata.replay import Published
from ottla.metadata.topics import PartitionImage
from ottla.security.delegation_tokens import token_key


class ControllerState:
    __slots__ = (
        "_acls",
        "_effective",
        "_image",
        "_index",
        "_settings",
        "_settings_of",
        "chance",
        "cluster_id",
        "config",
        "heartbeats",
        "next_offset",
        "tokens",
    )

    def __init__(self, config: BrokerConfig, cluster_id: str, chance: Chance) -> None:
        self.config = config
        self.cluster_id = cluster_id
        self.chance = chance
        self._image = MetadataImage()
        self._index: PartitionIndex | None = None
        self._acls: AclIndex | None = None
        key = token_key(config)
        self.tokens = None if key is None else TokenIndex(key)
        """The delegation tokens of the image as it is; None where there is no key for them."""
        self.next_offset = 0
        """The offset that the next record gets."""
        self.heartbeats = Heartbeats(config.broker_session_timeout_ms)
        self._settings: dict[str, tuple[int, bool]] = {}
        self._settings_of: ConfigsImage | None = None
        self._effective: tuple[Layers, BrokerConfig] | None = None

    @property
    def image(self) -> MetadataImage:
        return self._image

    @image.setter
    def image(self, image: MetadataImage) -> None:
        if image.topics is not self._image.topics:
            self._index = None
        if image.acls is not self._image.acls:
            self._acls = None
        if self.tokens is not None and image.delegation_tokens is not self._image.delegation_tokens:
            self.tokens.become(image.delegation_tokens)
        self._image = image

    def advance(self, published: Published) -> None:
        """Go on to the image that follows from the present one by its delta."""
        image, delta = published
        if delta.base is not self._image:
            self.image = image
            return
        if self._index is not None:
            self._index.advance(delta.topics)
        if self._acls is not None:
            self._acls.apply(delta.acls.changed)
        if self.tokens is not None:
            self.tokens.apply(delta.delegation_tokens.changed)
        self._image = image

    @property
    def index(self) -> PartitionIndex:
        """Of the image as it is; made at first need, so that a standby does without."""
        if self._index is None:
            self._index = PartitionIndex(self._image.topics)
        return self._index

    @property
    def acls(self) -> AclIndex:
        """The ACLs of the image as it is, by what they speak of; made at first need too."""
        if self._acls is None:
            self._acls = AclIndex()
            self._acls.apply(self._image.acls)
        return self._acls

    @property
    def metadata_version(self) -> int:
        return self.image.features.metadata_version

    # Brokers

    def is_active(self, broker_id: int) -> bool:
        return self.image.is_active(broker_id)

    def default_directory(self, broker_id: int) -> bytes:
        """The directory of a new replica: known when the broker has only one that is usable."""
        broker = self.image.brokers.get(broker_id)
        if broker is None or not broker.log_dirs:
            return MIGRATING_DIRECTORY
        usable = [d for d in broker.log_dirs if d not in (broker.cordoned_log_dirs or ())]
        return usable[0] if len(usable) == 1 else UNASSIGNED_DIRECTORY

    # Configs as they hold

    def layers(self) -> Layers:
        configs_of = self.image.configs_of
        return Layers(
            self.config.originals,
            configs_of(Resource.BROKER, ""),
            configs_of(Resource.BROKER, str(self.config.node_id)),
        )

    def effective_config(self) -> BrokerConfig:
        """The settings of this node with the dynamic ones; what it could not use is left out."""
        layers = self.layers()
        if self._effective is None or not _same(self._effective[0], layers):
            usable, _ = layers.usable()
            changed = usable.cluster or usable.broker
            self._effective = (layers, usable.effective() if changed else self.config)
        return self._effective[1]

    def topic_setting(self, topic: str, name: str) -> Value:
        """What holds for a topic: its own setting, or else the cluster's."""
        own = self.image.configs_of(Resource.TOPIC, topic).get(name)
        if own is not None:
            return TopicConfig.keys[name].parse(own)
        value: Value = getattr(self.effective_config(), SYNONYMS[name][0].replace(".", "_"))
        return value

    def min_insync_replicas(self, topic: str) -> int:
        """The effective one: never more than the first partition has replicas."""
        first = self.image.topics.by_name[topic].partitions[0]
        return min(self._election_settings(topic)[0], len(first.replicas))

    def unclean_election_enabled(self, topic: str) -> bool:
        return self._election_settings(topic)[1]

    def _election_settings(self, topic: str) -> tuple[int, bool]:
        """Minimum ISR and whether unclean elections may be; looked up once per topic and change."""
        if self._settings_of is not self.image.configs:
            self._settings_of = self.image.configs
            self._settings.clear()
        found = self._settings.get(topic)
        if found is None:
            min_isr = self.topic_setting(topic, "min.insync.replicas")
            unclean = self.topic_setting(topic, "unclean.leader.election.enable")
            assert isinstance(min_isr, int)
            found = self._settings[topic] = (min_isr, unclean is True)
        return found

    # Partitions

    def rules(
        self,
        topic: str,
        partition: PartitionImage,
        *,
        election: Election | None = None,
        removed: Container[int] = (),
        added: Container[int] = (),
    ) -> PartitionRules:
        """How leaders of the partition are chosen now.

        ``removed`` and ``added`` are brokers that the records being made take away or bring back.
        """
        if election is None:
            unclean = self.unclean_election_enabled(topic)
            election = Election.UNCLEAN if unclean else Election.ONLINE
        return PartitionRules(
            is_acceptable=self._acceptable(partition, removed, added),
            min_isr=self.min_insync_replicas(topic),
            elr_enabled=self.image.features.elr_enabled,
            metadata_version=self.metadata_version,
            election=election,
            default_directory=self.default_directory,
        )

    def _acceptable(
        self, partition: PartitionImage, removed: Container[int], added: Container[int]
    ) -> Callable[[int], bool]:
        brokers = self.image.brokers
        has_directories = versions.directory_assignment_supported(self.metadata_version)

        def is_acceptable(broker_id: int) -> bool:
            broker = brokers.get(broker_id)
            if broker is None or broker_id in removed:
                return False
            if has_directories and broker_id in partition.replicas:
                directory = partition.directory_of(broker_id)
                if not broker.has_online_directory(directory):
                    return False
            return broker_id in added or broker.is_active

        return is_acceptable


def _same(one: Layers, other: Layers) -> bool:
    """Whether both are of the same objects: images share what did not change."""
    return one.cluster is other.cluster and one.broker is other.broker

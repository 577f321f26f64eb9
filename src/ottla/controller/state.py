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
from ottla.config.layers import Layers, without_invalid
from ottla.config.topic import SYNONYMS, TopicConfig
from ottla.controller.heartbeats import Heartbeats
from ottla.metadata import versions
from ottla.metadata.election import Election
from ottla.metadata.image import MetadataImage
from ottla.metadata.partition_change import PartitionRules
from ottla.metadata.topics import PartitionImage


class ControllerState:
    __slots__ = (
        "_effective",
        "chance",
        "cluster_id",
        "config",
        "heartbeats",
        "image",
        "next_offset",
    )

    def __init__(self, config: BrokerConfig, cluster_id: str, chance: Chance) -> None:
        self.config = config
        self.cluster_id = cluster_id
        self.chance = chance
        self.image = MetadataImage()
        self.next_offset = 0
        """The offset that the next record gets."""
        self.heartbeats = Heartbeats(config.broker_session_timeout_ms)
        self._effective: tuple[Layers, BrokerConfig] | None = None

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
            cluster, _ = without_invalid(layers.cluster, per_broker=False)
            broker, _ = without_invalid(layers.broker, per_broker=True)
            changed = cluster or broker
            usable = layers._replace(cluster=cluster, broker=broker)
            self._effective = (layers, usable.effective() if changed else self.config)
        return self._effective[1]

    def topic_setting(self, topic: str, name: str) -> Value:
        """What holds for a topic: its own setting, or else the cluster's."""
        own = self.image.configs_of(Resource.TOPIC, topic).get(name)
        if own is not None:
            return TopicConfig.keys[name].parse(own)
        value: Value = getattr(self.effective_config(), SYNONYMS[name][0].replace(".", "_"))
        return value

    def min_insync_replicas(self, topic: str, replication_factor: int) -> int:
        wanted = self.topic_setting(topic, "min.insync.replicas")
        assert isinstance(wanted, int)
        return min(wanted, replication_factor)

    def unclean_election_enabled(self, topic: str) -> bool:
        return self.topic_setting(topic, "unclean.leader.election.enable") is True

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
            min_isr=self.min_insync_replicas(topic, len(partition.replicas)),
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

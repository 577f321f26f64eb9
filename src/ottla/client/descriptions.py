"""What an admin asks for and is told, as plain values."""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from ottla.client.connection import Address


class NewTopic(NamedTuple):
    """A topic to be made; -1 leaves a number to the broker's defaults.

    ``assignments`` names the replicas of each partition, in place of both numbers.
    """

    name: str
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str | None] = {}
    assignments: Mapping[int, Sequence[int]] = {}


class CreatedTopic(NamedTuple):
    topic_id: bytes
    partitions: int
    replication_factor: int


class PartitionDescription(NamedTuple):
    partition: int
    leader: int
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    offline_replicas: list[int]
    eligible_leader_replicas: list[int]
    last_known_elr: list[int]


class TopicDescription(NamedTuple):
    name: str
    topic_id: bytes
    internal: bool
    partitions: list[PartitionDescription]


class ResourceType(IntEnum):
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """Whose settings; an empty name of type BROKER stands for the defaults of all brokers."""

    resource_type: int
    name: str


class ConfigSource(IntEnum):
    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


class ConfigSynonym(NamedTuple):
    name: str
    value: str | None
    source: int


class ConfigEntry(NamedTuple):
    name: str
    value: str | None
    source: int
    read_only: bool
    sensitive: bool
    config_type: int
    documentation: str | None
    synonyms: list[ConfigSynonym]


class ConfigOperation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigChange(NamedTuple):
    name: str
    value: str | None = None
    operation: ConfigOperation = ConfigOperation.SET


class DescribedBroker(NamedTuple):
    node_id: int
    address: Address
    rack: str | None
    fenced: bool


class ClusterDescription(NamedTuple):
    cluster_id: str
    controller_id: int
    brokers: list[DescribedBroker]


class ReplicaSize(NamedTuple):
    topic: str
    partition: int
    size: int
    offset_lag: int
    is_future: bool


class LogDirDescription(NamedTuple):
    """``error_code`` is not 0 when the directory is offline; bytes are -1 when not known."""

    path: str
    error_code: int
    replicas: list[ReplicaSize]
    total_bytes: int
    usable_bytes: int

"""The cluster at one offset of the metadata log.

An image is never changed: its holder may read it for as long as it likes, on any thread, and
sees one consistent cluster. A :class:`~ottla.metadata.delta.MetadataDelta` makes the next one and
shares with it whatever did not change.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from ottla.metadata.acls import AclsImage
from ottla.metadata.brokers import BrokerImage, ControllerImage
from ottla.metadata.client_quotas import ClientQuotasImage
from ottla.metadata.configs import NO_CONFIGS, ConfigsImage
from ottla.metadata.delegation_tokens import DelegationTokensImage
from ottla.metadata.features import FeaturesImage
from ottla.metadata.scram import ScramImage
from ottla.metadata.topics import TopicsImage


@dataclass(frozen=True, slots=True)
class MetadataImage:
    offset: int = -1
    """The last offset that is contained; -1 before any."""
    epoch: int = -1
    """The leader epoch of that offset."""
    timestamp_ms: int = 0
    """The append time of that offset's batch."""
    features: FeaturesImage = field(default_factory=FeaturesImage)
    brokers: Mapping[int, BrokerImage] = field(default_factory=dict)
    controllers: Mapping[int, ControllerImage] = field(default_factory=dict)
    topics: TopicsImage = field(default_factory=TopicsImage)
    configs: ConfigsImage = field(default_factory=dict)
    client_quotas: ClientQuotasImage = field(default_factory=dict)
    next_producer_id: int = 0
    acls: AclsImage = field(default_factory=dict)
    scram: ScramImage = field(default_factory=dict)
    delegation_tokens: DelegationTokensImage = field(default_factory=dict)

    def configs_of(self, resource_type: int, name: str) -> Mapping[str, str]:
        return self.configs.get((resource_type, name), NO_CONFIGS)

    def is_active(self, broker_id: int) -> bool:
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.is_active


EMPTY_IMAGE = MetadataImage()


class ImageSource(Protocol):
    """What has an image: of now, or of what is committed."""

    @property
    def image(self) -> MetadataImage: ...

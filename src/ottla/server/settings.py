"""The settings that hold now: the file's, and over them what the metadata log says."""

from collections.abc import Mapping

from ottla.common.errors import InvalidConfig
from ottla.config.broker import BrokerConfig
from ottla.config.changes import Resource
from ottla.config.keys.quotas import ThrottleKeys
from ottla.config.layers import Layers
from ottla.config.topic import TopicConfig, usable_overrides
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.observability.logging import logger

log = logger(__name__)


class Settings:
    """``broker`` and ``topic(name)`` answer with what holds at this moment."""

    def __init__(self, static: BrokerConfig) -> None:
        self._static = static
        self.broker = static
        self.throttles = ThrottleKeys({})
        """Settings that a broker has by the metadata log alone."""
        self._image = MetadataImage()
        self._topics: dict[str, TopicConfig] = {}
        """Topics' settings as far as they were asked for; all partitions of a topic share one."""

    def topic(self, name: str) -> TopicConfig:
        config = self._topics.get(name)
        if config is None:
            own = self._image.configs_of(Resource.TOPIC, name)
            config = self._topics[name] = self._topic(name, own)
        return config

    def _topic(self, name: str, own: Mapping[str, str]) -> TopicConfig:
        """A log is opened although an older release let settings pass that this one refuses."""
        try:
            return TopicConfig.from_broker(self.broker, own)
        except InvalidConfig:
            usable, reasons = usable_overrides(own)
            for reason in reasons:
                log.error("a config of a topic has no effect", topic=name, reason=reason)
            return TopicConfig.from_broker(self.broker, usable)

    def load(self, image: MetadataImage) -> bool:
        """Begin with an image; return whether it changes the broker's settings."""
        self._image = image
        self._topics.clear()
        return self._layer_broker()

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> tuple[bool, set[str]]:
        """Follow the metadata log; return whether the broker's changed, and which topics' did."""
        self._image = image
        changed_broker = False
        changed_topics: set[str] = set()
        for resource_type, name in delta.configs.changed:
            if resource_type == Resource.TOPIC:
                changed_topics.add(name)
            elif resource_type == Resource.BROKER and name in ("", str(self._static.node_id)):
                changed_broker = True
        if changed_broker:
            self._layer_broker()
            changed_topics |= self._topics.keys()
        for name in changed_topics:
            self._topics.pop(name, None)
        return changed_broker, changed_topics

    def _layer_broker(self) -> bool:
        configs_of = self._image.configs_of
        name = str(self._static.node_id)
        said = configs_of(Resource.BROKER, ""), configs_of(Resource.BROKER, name)
        layers, reasons = Layers(self._static.originals, *said).usable()
        for reason in reasons:
            log.error("a dynamic config has no effect", reason=reason)
        self.broker = layers.effective()
        throttles = {**layers.cluster, **layers.broker}
        self.throttles = ThrottleKeys(
            {key: value for key, value in throttles.items() if key in ThrottleKeys.keys}
        )
        return bool(layers.cluster or layers.broker)

"""The topic of remote segments: settings that Kafka hands to a plug-in, and we read ourselves.

They stand behind a prefix of their own (``rlmm.config.``), so that they are no keys of a broker.
Their kinds, defaults and limits are those of Kafka's TopicBasedRemoteLogMetadataManagerConfig; of
those of its consumer only the two sizes are read, which are ours.
"""

from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.config.kinds import Kind, parse
from ottla.config.validators import Check, at_least

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig


REMOTE_LOG_METADATA: Final = "__remote_log_metadata"


class _Setting(NamedTuple):
    kind: Kind
    default: int
    valid: Check | None = None


_SETTINGS: Final = {
    "topic.num.partitions": _Setting(Kind.INT, 50, at_least(1)),
    "topic.replication.factor": _Setting(Kind.SHORT, 3, at_least(1)),
    "topic.min.isr": _Setting(Kind.SHORT, 2, at_least(1)),
    "topic.retention.ms": _Setting(Kind.LONG, -1),
    "consumer.fetch.max.bytes": _Setting(Kind.INT, 8 << 20, at_least(1)),
    "consumer.max.partition.fetch.bytes": _Setting(Kind.INT, 1 << 20, at_least(1)),
}
METADATA_TOPIC_SETTINGS: Final = tuple(_SETTINGS)
"""Behind the prefix and ``remote.log.metadata.``."""


def metadata_topic_key(config: "BrokerConfig", name: str) -> str:
    """What one of :data:`METADATA_TOPIC_SETTINGS` is called in the file of a broker."""
    return f"{config.remote_log_metadata_manager_impl_prefix}remote.log.metadata.{name}"


def metadata_topic_setting(config: "BrokerConfig", name: str) -> int:
    """One of :data:`METADATA_TOPIC_SETTINGS`; InvalidConfig for what cannot be one."""
    setting = _SETTINGS[name]
    key = metadata_topic_key(config, name)
    text = config.originals.get(key)
    if text is None:
        return setting.default
    value = parse(setting.kind, key, text)
    assert isinstance(value, int)
    if setting.valid is not None:
        setting.valid(key, value)
    return value


def check_metadata_topic(config: "BrokerConfig") -> None:
    for name in METADATA_TOPIC_SETTINGS:
        metadata_topic_setting(config, name)

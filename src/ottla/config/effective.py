"""Which settings do something here. The others are accepted, and have no effect.

A test holds this table against the source: a setting that some code reads must stand here, and one
that stands here must be read. A topic's setting brings the broker's settings that stand for it.
"""

from typing import Final

from ottla.config.topic import SYNONYMS

BROKER_SETTINGS: Final = frozenset(
    {
        "advertised.listeners",
        "broker.id",
        "controller.listener.names",
        "controller.quorum.bootstrap.servers",
        "controller.quorum.voters",
        "inter.broker.listener.name",
        "listener.security.protocol.map",
        "listeners",
        "log.dir",
        "log.dirs",
        "node.id",
        "metadata.log.dir",
        "process.roles",
        "security.inter.broker.protocol",
    }
)
TOPIC_SETTINGS: Final = frozenset({"cleanup.policy"})

EFFECTIVE: Final = BROKER_SETTINGS.union(*(SYNONYMS.get(name, ()) for name in TOPIC_SETTINGS))
"""The settings of a broker that do something."""

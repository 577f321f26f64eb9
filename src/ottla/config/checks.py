"""Whether the settings of a node fit together; asked once, when the node starts."""

from typing import TYPE_CHECKING

from ottla.common.errors import InvalidConfig

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig


def check_node(config: "BrokerConfig") -> None:
    """Raise :class:`InvalidConfig` for the first thing that does not fit."""
    if config.node_id != config.broker_id:
        raise InvalidConfig("You must set `node.id` to the same value as `broker.id`.")

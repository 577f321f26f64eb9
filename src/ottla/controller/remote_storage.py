"""Whether a topic with a remote part could ever have one: its segments must be told of somewhere.

``__remote_log_metadata`` is made when the first segment is to be copied. On a node that is the
whole cluster it is known beforehand whether that will do. Other clusters may grow, or have brokers
that are down: nothing is said of them.
"""

from typing import Final

from ottla.common.errors import InvalidConfig
from ottla.config.metadata_topic import (
    REMOTE_LOG_METADATA,
    metadata_topic_key,
    metadata_topic_setting,
)
from ottla.controller.state import ControllerState

_REPLICATION_FACTOR: Final = "topic.replication.factor"


def check_remote_storage(state: ControllerState) -> None:
    """Refuse a remote part that could never be written to."""
    image, config = state.image, state.config
    if REMOTE_LOG_METADATA in image.topics.by_name or not config.is_broker:
        return  # the settings of brokers are not known to a node that is none
    if not {*image.brokers, *image.controllers} <= {config.node_id}:
        return
    if len(config.controller_quorum_voters) > 1:
        return
    key = metadata_topic_key(config, _REPLICATION_FACTOR)
    is_chosen = key not in config.originals and not config.controller_quorum_voters
    replicas = metadata_topic_setting(config, _REPLICATION_FACTOR)
    if replicas > 1 and not is_chosen:
        raise InvalidConfig(
            f"Tiered storage cannot be used: its topic {REMOTE_LOG_METADATA} is to have {replicas} "
            f"replicas, and this broker is the only one. Add brokers, or set {key}=1."
        )

"""Which replica a consumer had better read from (KIP-392), as ``replica.selector.class`` says.

Kafka's own two selectors are known here by their names; classes cannot be loaded. A follower comes
into question when it is in sync and has the offset, so that the consumer is not sent to and fro.
"""

from typing import Final

from ottla.replication.partition import Partition
from ottla.requests.context import Peer, Services

RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


def preferred_read_replica(
    partition: Partition, offset: int, rack: str, services: Services, peer: Peer | None
) -> int | None:
    """The follower in ``rack`` that is level most nearly; None when the leader is as good."""
    if services.config.replica_selector_class != RACK_AWARE or not partition.is_leader:
        return None
    brokers = services.metadata.image.brokers
    own = brokers.get(services.node_id)
    if own is not None and own.rack == rack:
        return None
    listener = None if peer is None else peer.listener_name
    near = []
    for broker_id, follower in partition.leadership.followers.items():
        broker = brokers.get(broker_id)
        if (
            broker is not None
            and not broker.fenced
            and broker.rack == rack
            and (listener is None or listener in broker.listeners)
            and broker_id in partition.isr
            and follower.log_start_offset <= offset <= follower.log_end_offset
        ):
            near.append((follower.log_end_offset, follower.last_caught_up, broker_id))
    return max(near)[2] if near else None

"""Who leads a partition instead of this broker, and where it is (KIP-951).

Told with NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH, so that a client need not ask for metadata
first. The partition itself knows it soonest; of one that is not here the metadata log does.
"""

from typing import Final

from ottla.requests.context import Peer, RequestContext, Services
from ottla.requests.endpoints import Address, address_of

_NOBODY: Final = (-1, -1)


class Leaders:
    """The leaders that one answer speaks of."""

    __slots__ = ("_named", "_peer", "services")

    def __init__(self, services: Services, peer: Peer | None) -> None:
        self.services = services
        self._peer = peer
        self._named: dict[int, None] = {}

    def of(self, topic: str | bytes, index: int) -> tuple[int, int]:
        """Leader and leader epoch, as far as they are known; its address goes into the answer."""
        leader = self._find(topic, index)
        self._named[leader[0]] = None
        return leader

    def _find(self, topic: str | bytes, index: int) -> tuple[int, int]:
        partition = (self.services.replicas.topic(topic) or {}).get(index)
        if partition is not None:
            return partition.leader, partition.leader_epoch
        topics = self.services.metadata.image.topics
        found = topics.by_id.get(topic) if isinstance(topic, bytes) else topics.by_name.get(topic)
        state = None if found is None else found.partitions.get(index)
        return _NOBODY if state is None else (state.leader, state.leader_epoch)

    def addresses(self) -> list[Address]:
        """Where those are that were named, on the client's listener."""
        if self._peer is None or not self._named:
            return []
        context = RequestContext(version=0, peer=self._peer)
        brokers = self.services.metadata.image.brokers
        known = [brokers[leader] for leader in self._named if leader in brokers]
        found = [address_of(broker, context, self.services) for broker in known]
        return [address for address in found if address is not None and not address.fenced]

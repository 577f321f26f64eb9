"""For users and for us: an embedded broker, a cluster, pytest fixtures, and a disk in memory.

Counterpart in Apache Kafka: ``test-common`` and ``MockTime``.

Invariant: what passes here is the real server code; only time, network and disk are stood in for.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.testing.broker import Broker
    from ottla.testing.cluster import Cluster

__all__ = ["Broker", "Cluster"]


def __getattr__(name: str) -> object:
    """Import these when they are asked for: most of this package needs no server."""
    if name == "Broker":
        from ottla.testing.broker import Broker

        return Broker
    if name == "Cluster":
        from ottla.testing.cluster import Cluster

        return Cluster
    raise AttributeError(name)

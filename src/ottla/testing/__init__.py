"""For users and for us: an embedded broker, pytest fixtures, and a disk in memory.

Called by tests, ours and other people's, and by the simulator; calls ``server`` and what is below.
Counterpart in Apache Kafka: ``test-common`` and ``MockTime``. Invariant: what passes here is the
real server code; only time, network and disk are stood in for.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.testing.broker import Broker

__all__ = ["Broker"]


def __getattr__(name: str) -> object:
    """Import the broker when it is asked for: most of this package needs no server."""
    if name == "Broker":
        from ottla.testing.broker import Broker

        return Broker
    raise AttributeError(name)

"""The way from one host to another: its delay, its speed, and whether it is cut.

As TCP has it, nothing that was sent is lost within a connection, and nothing overtakes: what meets
a cut waits there, and goes on some time after the way is open again. Different connections are
delayed each for itself, so what was sent on one may arrive before what was sent earlier on another.
"""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ottla.simulation.sockets import SimulatedSocket

DELAY_SECONDS: Final = (0.00005, 0.002)
LOCAL_DELAY_SECONDS: Final = (0.00001, 0.0001)
RETRANSMIT_SECONDS: Final = (0.0, 1.0)
"""How long after a way is open again the first bytes pass: their sender tries at intervals."""


class Link:
    """One direction."""

    __slots__ = ("bytes_per_second", "delay_seconds", "free_at", "held", "is_cut")

    def __init__(self, delay_seconds: tuple[float, float]) -> None:
        self.delay_seconds = delay_seconds
        self.bytes_per_second: float | None = None
        self.free_at = 0.0
        """When a slow link has sent what it was given."""
        self.is_cut = False
        self.held: dict[SimulatedSocket, None] = {}
        """Those whose bytes wait here."""

    def arrival(self, now: float, delay: float, size: int) -> float:
        """When something of ``size`` that is sent now gets there."""
        if self.bytes_per_second is None:
            return now + delay
        self.free_at = max(self.free_at, now) + size / self.bytes_per_second
        return self.free_at + delay

"""Bytes per second, with a little in advance."""

from typing import Final

ADVANCE_SECONDS: Final = 1.0
"""What was not used so long ago may be used now."""


class RemoteQuota:
    """A user of more than there is waits until the time has paid for it."""

    __slots__ = ("_paid_until", "bytes_per_second")

    def __init__(self, bytes_per_second: int) -> None:
        self.bytes_per_second = bytes_per_second
        self._paid_until = float("-inf")

    def delay(self, now: float) -> float:
        """Seconds to wait before the next use."""
        return max(0.0, self._paid_until - now)

    def use(self, now: float, size: int) -> None:
        begin = max(self._paid_until, now - ADVANCE_SECONDS)
        self._paid_until = begin + size / self.bytes_per_second

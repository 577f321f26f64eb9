"""When visits happen: evenly, at a rate, and without a flood after a time of silence."""

from typing import Final

BEHIND_MAX_MS: Final = 1_000
"""What was missed before that is not made up for."""


class Pace:
    """Asked again and again, it says which visits have become due."""

    def __init__(self, per_second: float, now_ms: int) -> None:
        assert per_second > 0
        self._interval_ms = 1000 / per_second
        self._next_ms = float(now_ms)

    def due(self, now_ms: int) -> list[int]:
        """The times of the visits since the last question, ascending."""
        self._next_ms = max(self._next_ms, float(now_ms - BEHIND_MAX_MS))
        times: list[int] = []
        while self._next_ms <= now_ms:
            times.append(int(self._next_ms))
            self._next_ms += self._interval_ms
        return times

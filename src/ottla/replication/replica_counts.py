"""How many partitions of a broker are in which condition: kept, and never counted anew."""

from typing import Final

PRESENT: Final = 1
LED: Final = 2
UNDER_REPLICATED: Final = 4
UNDER_MIN_ISR: Final = 8
AT_MIN_ISR: Final = 16


class ReplicaCounts:
    """A partition's conditions are bits; it tells each time that they change."""

    def __init__(self) -> None:
        self.present = 0
        self.led = 0
        self.under_replicated = 0
        self.under_min_isr = 0
        self.at_min_isr = 0

    def changed(self, before: int, now: int) -> None:
        self._add(before, -1)
        self._add(now, 1)

    def _add(self, conditions: int, by: int) -> None:
        self.present += by if conditions & PRESENT else 0
        self.led += by if conditions & LED else 0
        self.under_replicated += by if conditions & UNDER_REPLICATED else 0
        self.under_min_isr += by if conditions & UNDER_MIN_ISR else 0
        self.at_min_isr += by if conditions & AT_MIN_ISR else 0

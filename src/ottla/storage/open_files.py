"""How many files of closed segments are kept open.

A file that is put out is let go, not closed: readers that still hold a region of it finish first.
"""

from collections import OrderedDict
from typing import Protocol


class HoldsFile(Protocol):
    def let_go(self) -> None: ...


class OpenFiles:
    """The segments that were opened last, at most ``limit`` of them."""

    __slots__ = ("_held", "is_urgent", "limit")

    def __init__(self, limit: int, *, is_urgent: bool = False) -> None:
        self._held: OrderedDict[HoldsFile, None] = OrderedDict()
        self.limit = limit
        self.is_urgent = is_urgent
        """Whether a descriptor of the reserve may be taken: what is done now has no way back."""

    def __len__(self) -> int:
        return len(self._held)

    def add(self, segment: HoldsFile) -> None:
        self._held[segment] = None
        while len(self._held) > self.limit:
            oldest, _ = self._held.popitem(last=False)
            oldest.let_go()

    def discard(self, segment: HoldsFile) -> None:
        self._held.pop(segment, None)

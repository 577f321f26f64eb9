"""The leader epochs of a log: which history its offsets belong to.

An epoch has one leader, which numbers its records; so an epoch and an offset name one record in
all replicas that ever had it. A remote segment may hold more of an epoch than the log has kept, for
instance what a leader wrote that an unclean election forgot; only what the lineage covers counts.
"""

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from ottla.tiered.segments import EpochStart


class Lineage(NamedTuple):
    epochs: tuple[EpochStart, ...]
    """Rising in both."""
    end_offset: int
    """Behind the last record."""

    @staticmethod
    def of(entries: Iterable[tuple[int, int]], end_offset: int) -> "Lineage":
        return Lineage(tuple(EpochStart(*entry) for entry in entries), end_offset)

    def epoch_at(self, offset: int) -> int | None:
        """The epoch of the record at ``offset``."""
        if offset >= self.end_offset:
            return None
        number = bisect_right(self.epochs, offset, key=lambda entry: entry.start_offset)
        return self.epochs[number - 1].epoch if number else None

    def last_offset(self, epoch: int) -> int:
        """The last offset of ``epoch`` in this log."""
        number = bisect_right(self.epochs, epoch, key=lambda entry: entry.epoch)
        following = self.epochs[number].start_offset if number < len(self.epochs) else None
        return (self.end_offset if following is None else following) - 1

    def between(self, start: int, last: int) -> tuple[EpochStart, ...]:
        """The epochs of the records from ``start`` to ``last``, the first beginning there."""
        found = []
        for epoch, start_offset in self.epochs:
            if start_offset <= last and self.last_offset(epoch) >= start:
                found.append(EpochStart(epoch, max(start_offset, start)))
        return tuple(found)

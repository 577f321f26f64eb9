"""Which leader epoch began at which offset: how followers find where logs diverge (KIP-101).

Epochs and start offsets both grow. The file is written when the log is flushed, truncated or
closed; what it lacks after a crash stands in the headers of the batches that recovery reads.
"""

from bisect import bisect_right
from typing import Final, NamedTuple

UNDEFINED_EPOCH: Final = -1
UNDEFINED_OFFSET: Final = -1
OFFSET_MAX: Final = (1 << 63) - 1


class EpochEntry(NamedTuple):
    epoch: int
    start_offset: int


class EpochEnd(NamedTuple):
    """The largest known epoch that is not above the one asked for, and where it ends."""

    epoch: int
    end_offset: int


class LeaderEpochs:
    __slots__ = ("dirty", "entries", "latest_epoch")

    def __init__(self, entries: list[EpochEntry] | None = None) -> None:
        self.entries: list[EpochEntry] = []
        self.latest_epoch = UNDEFINED_EPOCH
        for entry in entries or ():
            self.assign(entry.epoch, entry.start_offset)
        self.dirty = False
        """Whether the file does not say yet what stands here."""

    def assign(self, epoch: int, start_offset: int) -> None:
        """``epoch`` begins at ``start_offset``; entries that contradict it are forgotten."""
        assert epoch >= 0
        assert start_offset >= 0
        entries = self.entries
        if entries and entries[-1].epoch == epoch and start_offset >= entries[-1].start_offset:
            return
        while entries and (entries[-1].epoch >= epoch or entries[-1].start_offset >= start_offset):
            entries.pop()
        entries.append(EpochEntry(epoch, start_offset))
        self._changed()

    def _changed(self) -> None:
        self.dirty = True
        self.latest_epoch = self.entries[-1].epoch if self.entries else UNDEFINED_EPOCH

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEnd:
        """Where ``epoch``, or the largest known one below it, ends; UNDEFINED if nobody knows."""
        if epoch == UNDEFINED_EPOCH:
            return EpochEnd(UNDEFINED_EPOCH, UNDEFINED_OFFSET)
        if epoch == self.latest_epoch:
            return EpochEnd(epoch, log_end_offset)
        number = bisect_right(self.entries, epoch, key=lambda entry: entry.epoch)
        if number == len(self.entries):
            return EpochEnd(UNDEFINED_EPOCH, UNDEFINED_OFFSET)
        end_offset = self.entries[number].start_offset
        if number == 0:
            # Before everything that is known: the asker has nothing in common with this log.
            return EpochEnd(epoch, end_offset)
        return EpochEnd(self.entries[number - 1].epoch, end_offset)

    def epoch_for_offset(self, offset: int) -> int:
        """The epoch in which the record at ``offset`` was written."""
        number = bisect_right(self.entries, offset, key=lambda entry: entry.start_offset)
        return self.entries[number - 1].epoch if number else UNDEFINED_EPOCH

    def range_at(self, offset: int) -> tuple[int, int]:
        """The epoch of ``offset``, and the first offset from there on that has another."""
        number = bisect_right(self.entries, offset, key=lambda entry: entry.start_offset)
        end = self.entries[number].start_offset if number < len(self.entries) else OFFSET_MAX
        return self.entries[number - 1].epoch if number else UNDEFINED_EPOCH, end

    def earliest(self) -> EpochEntry | None:
        return self.entries[0] if self.entries else None

    def following(self, epoch: int) -> EpochEntry | None:
        """The first entry of an epoch above ``epoch``."""
        number = bisect_right(self.entries, epoch, key=lambda entry: entry.epoch)
        return self.entries[number] if number < len(self.entries) else None

    def previous_epoch(self, epoch: int) -> int:
        """The largest known epoch below ``epoch``."""
        number = bisect_right(self.entries, epoch - 1, key=lambda entry: entry.epoch)
        return self.entries[number - 1].epoch if number else UNDEFINED_EPOCH

    def truncate_from_end(self, end_offset: int) -> None:
        """Forget the epochs that begin at ``end_offset`` or behind."""
        if self.entries and self.entries[-1].start_offset >= end_offset:
            while self.entries and self.entries[-1].start_offset >= end_offset:
                self.entries.pop()
            self._changed()

    def truncate_from_start(self, start_offset: int) -> None:
        """Forget the epochs that end before ``start_offset``; the one that has it begins there."""
        number = bisect_right(self.entries, start_offset, key=lambda entry: entry.start_offset)
        if number == 0 or (number == 1 and self.entries[0].start_offset == start_offset):
            return
        first = EpochEntry(self.entries[number - 1].epoch, start_offset)
        self.entries[:number] = [first]
        self._changed()

    def clear(self) -> None:
        if self.entries:
            self.entries.clear()
            self._changed()

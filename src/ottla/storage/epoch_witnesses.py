"""The history of leader epochs and the batches bear witness of each other.

Neither the file of epochs nor the epoch in a batch has a checksum. Epochs only grow along a log: a
single batch that is older than the one before it, or newer than the one behind it, is wrong. Where
batches that are in order contradict the history, the history is wrong and is made anew from them.
What cannot be told apart is an epoch that was changed to that of the next batch, at the very end of
its own.
"""

import contextlib
from typing import Final, NamedTuple

from ottla.common.errors import CorruptMessage
from ottla.storage.file_records import headers
from ottla.storage.leader_epochs import EpochEntry, LeaderEpochs
from ottla.storage.segment import Segment
from ottla.storage.segments import Segments

SINGLE: Final = 1
SEVERAL: Final = 2


class _Run:
    """Batches in a row that have the same epoch."""

    __slots__ = ("contradicts", "count", "epoch", "start_offset")

    def __init__(self, epoch: int, start_offset: int) -> None:
        self.epoch = epoch
        self.start_offset = start_offset
        self.count = 0
        self.contradicts = False


class _Probe(NamedTuple):
    """What the header of a batch says."""

    position: int
    offset: int
    last_offset: int
    epoch: int


class _Runs:
    """The epochs of all batches.

    Between two batches of the same epoch all have it, and are not looked at: a log has millions of
    batches and few epochs, and the loop waits.
    """

    def __init__(self, epochs: LeaderEpochs, segments: Segments) -> None:
        self._epochs = epochs
        self.found: list[_Run] = []
        filled = [segment for segment in segments if segment.size]
        if filled:
            last = _probe(filled[-1], 0)
            self._look_between(filled, _probe(filled[0], 0), last)
            self._look_within(filled[-1], 0, filled[-1].size, last, None)

    def _look_between(
        self, segments: list[Segment], low: _Probe | None, high: _Probe | None
    ) -> None:
        """From the beginning of the first of ``segments`` to that of the last."""
        if len(segments) == 1 or self._is_passed_over(low, high):
            return
        if len(segments) == 2:
            self._look_within(segments[0], 0, segments[0].size, low, high)
        else:
            half = len(segments) >> 1
            middle = _probe(segments[half], 0)
            self._look_between(segments[: half + 1], low, middle)
            self._look_between(segments[half:], middle, high)

    def _look_within(
        self, segment: Segment, begin: int, end: int, low: _Probe | None, high: _Probe | None
    ) -> None:
        """From position to position, at which ``low`` and ``high`` stand."""
        if self._is_passed_over(low, high):
            return
        middle = _indexed_between(segment, begin, end)
        if middle is not None:
            self._look_within(segment, begin, middle.position, low, middle)
            self._look_within(segment, middle.position, end, middle, high)
            return
        # What stands behind a header that is none is left out: its epoch ends later, no more.
        with contextlib.suppress(CorruptMessage):
            for _, header in headers(segment.file, begin, end):
                offset = header.base_offset
                self._add(header.partition_leader_epoch, offset, offset, 1)

    def _is_passed_over(self, low: _Probe | None, high: _Probe | None) -> bool:
        if low is None or high is None or low.epoch != high.epoch or low.epoch < 0:
            return False
        self._add(low.epoch, low.offset, high.offset - 1, SEVERAL)
        return True

    def _add(self, epoch: int, first: int, last: int, count: int) -> None:
        if epoch < 0:
            return
        if not self.found or self.found[-1].epoch != epoch:
            self.found.append(_Run(epoch, first))
        run = self.found[-1]
        run.count += count
        known = self._epochs.epoch_for_offset(first), self._epochs.epoch_for_offset(last)
        run.contradicts |= any(each not in (-1, epoch) for each in known)


def _probe(segment: Segment, position: int) -> _Probe | None:
    with contextlib.suppress(CorruptMessage):
        for _, header in headers(segment.file, position, segment.size):
            return _Probe(
                position, header.base_offset, header.last_offset, header.partition_leader_epoch
            )
    return None


def _indexed_between(segment: Segment, begin: int, end: int) -> _Probe | None:
    """A batch somewhere between two positions, by the offset index."""
    half, index = (begin + end) >> 1, segment.offset_index
    entry = index.lookup_position(half)
    if entry is None or entry[1] <= begin:
        entry = next(iter(index.behind(half, 1)), None)
    if entry is None or not begin < entry[1] < end:
        return None
    found = _probe(segment, entry[1])
    return found if found is not None and found.last_offset == entry[0] else None


def settle_epochs(
    epochs: LeaderEpochs, segments: Segments, log_start_offset: int, log_end_offset: int
) -> bool:
    """Make the history anew if batches that are in order contradict it; whether they did."""
    runs = _Runs(epochs, segments).found
    runs = _in_order(runs)
    if not any(run.contradicts for run in runs):
        return False
    without_records = [entry for entry in epochs.entries if entry.start_offset >= log_end_offset]
    epochs.clear()
    for run in runs:
        epochs.assign(run.epoch, run.start_offset)
    for entry in without_records:
        if entry.epoch > epochs.latest_epoch:
            epochs.assign(entry.epoch, entry.start_offset)
    epochs.truncate_from_start(log_start_offset)
    epochs.dirty = True
    return True


def _in_order(runs: list[_Run]) -> list[_Run]:
    """Without the single batches that have an older epoch than before, or a newer than behind.

    Of two that contradict each other the history may bear out one.
    """
    kept: list[_Run] = []
    for number, run in enumerate(runs):
        following = runs[number + 1] if number + 1 < len(runs) else None
        goes_back = bool(kept) and run.epoch < kept[-1].epoch
        stands_out = (
            following is not None
            and following.epoch < run.epoch
            and (run.contradicts or not following.contradicts)
        )
        if run.count == SINGLE and (goes_back or stands_out):
            continue
        if goes_back:
            continue
        kept.append(run)
    return kept


def is_witnessed(entry: EpochEntry, epochs: LeaderEpochs, segments: Segments) -> bool:
    """Whether the batches say, too, that an epoch began there, as far as they still exist."""
    first = _batch_at(entry.start_offset, segments)
    if first is not None:
        if first.base_offset < entry.start_offset:
            return False
        if first.base_offset == entry.start_offset and first.epoch != entry.epoch:
            return False
    before = _batch_at(entry.start_offset - 1, segments)
    if before is None or before.base_offset >= entry.start_offset:
        return True
    return epochs.epoch_for_offset(before.base_offset) in (-1, before.epoch)


class _Witness(NamedTuple):
    base_offset: int
    epoch: int


def _batch_at(offset: int, segments: Segments) -> _Witness | None:
    """The batch that has ``offset``, or the next one of its segment; None if it has no epoch."""
    segment = segments.floor(offset)
    place = None if segment is None else segment.locate(offset)
    if segment is None or place is None:
        return None
    _, header = next(headers(segment.file, place.position, segment.size))
    if header.partition_leader_epoch < 0:
        return None
    return _Witness(place.base_offset, header.partition_leader_epoch)

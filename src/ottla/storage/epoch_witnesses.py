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
from ottla.storage.segments import Segments

SINGLE: Final = 1


class _Run:
    """Batches in a row that have the same epoch."""

    __slots__ = ("contradicts", "count", "epoch", "start_offset")

    def __init__(self, epoch: int, start_offset: int) -> None:
        self.epoch = epoch
        self.start_offset = start_offset
        self.count = 0
        self.contradicts = False


def settle_epochs(
    epochs: LeaderEpochs, segments: Segments, log_start_offset: int, log_end_offset: int
) -> bool:
    """Make the history anew if batches that are in order contradict it; whether they did."""
    runs: list[_Run] = []
    for segment in segments:
        # What stands behind a header that is none is left out: its epoch ends later, no more.
        with contextlib.suppress(CorruptMessage):
            for _, header in headers(segment.file, 0, segment.size):
                epoch = header.partition_leader_epoch
                if epoch < 0:
                    continue
                if not runs or runs[-1].epoch != epoch:
                    runs.append(_Run(epoch, header.base_offset))
                known = epochs.epoch_for_offset(header.base_offset)
                runs[-1].contradicts |= known not in (-1, epoch)
                runs[-1].count += 1
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
    """Without the single batches that have an older epoch than before, or a newer than behind."""
    kept: list[_Run] = []
    for number, run in enumerate(runs):
        following = runs[number + 1] if number + 1 < len(runs) else None
        goes_back = bool(kept) and run.epoch < kept[-1].epoch
        stands_out = following is not None and following.epoch < run.epoch
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

"""Which remote segments go, and where the log begins after that.

Two kinds go. Expired ones from the front, oldest first, up to the first that is kept: those below
the log start, then by age, then by size of both tiers together. And leftovers, whatever their age:

- segments that nobody finds: copies that nobody is making any more, removals that were not
  finished, and finished ones whose offsets all belong to newer ones, copied again or rewritten;
- segments of leader epochs that the log has left behind: what an unclean election forgot.

The log start moves before anything is removed, so that nobody is sent to a segment that is going.
Leftovers go on a condition: another leader may tell of them at the same time, see ``segments``.
"""

from collections.abc import Set as AbstractSet
from typing import NamedTuple

from ottla.tiered.cache import Extent, SegmentCache
from ottla.tiered.log_view import LogView
from ottla.tiered.segments import IF_UNFINISHED, IF_UNUSED, RemoteLogSegment, SegmentState


class SegmentRemoval(NamedTuple):
    segment: RemoteLogSegment
    condition: bytes | None
    """What must hold when it is told; None: nothing."""


class Expiration(NamedTuple):
    log_start_offset: int
    """Where the log is to begin; it may be there already."""
    removals: list[SegmentRemoval]
    """In this order."""


def expiration(
    segments: SegmentCache, view: LogView, now_ms: int, busy: AbstractSet[bytes]
) -> Expiration:
    """What is to go now; segments with an id in ``busy`` are being copied."""
    extents = list(segments.extents(view.lineage))
    start = _log_start(extents, view, now_ms)
    used = {extent.segment.segment_id for extent in extents if extent.end_offset >= start}
    gone = []
    for segment in segments:
        if segment.segment_id in busy or segment.segment_id in used:
            continue
        if segment.state is SegmentState.COPY_SEGMENT_STARTED:
            gone.append(SegmentRemoval(segment, IF_UNFINISHED))
        elif segment.state is not SegmentState.COPY_SEGMENT_FINISHED:
            gone.append(SegmentRemoval(segment, None))
        elif not segments.is_referenced(segment):
            gone.append(SegmentRemoval(segment, IF_UNUSED))
        elif _is_left_behind(segment, view, start):
            gone.append(SegmentRemoval(segment, None))
    return Expiration(start, sorted(gone, key=lambda removal: removal.segment.start_offset))


def _is_left_behind(segment: RemoteLogSegment, view: LogView, start: int) -> bool:
    """Whether no log of this lineage, nor one that follows it, can have a use for it."""
    epoch_at_start = view.lineage.epoch_at(start)
    if epoch_at_start is None:
        first_epoch = view.lineage.epochs[-1].epoch if view.lineage.epochs else -1
    else:
        first_epoch = epoch_at_start
    newest = segment.leader_epochs[-1].epoch
    return newest < first_epoch or (newest == first_epoch and segment.end_offset < start)


def _log_start(extents: list[Extent], view: LogView, now_ms: int) -> int:
    """Behind the last segment that retention lets go."""
    start = view.start_offset
    excess = total_size(extents, view) - view.retention_bytes
    number = 0
    while number < len(extents):
        segment = extents[number].segment
        end, size = extents[number].end_offset, 0
        while number < len(extents) and extents[number].segment is segment:
            end = extents[number].end_offset
            size += _share(extents[number])
            number += 1
        if end < view.start_offset:
            continue
        too_old = view.retention_ms >= 0 and (
            segment.max_timestamp_ms <= now_ms - view.retention_ms
        )
        too_much = view.retention_bytes >= 0 and excess >= max(size, 1)
        if not too_old and not too_much:
            break
        excess -= size
        start = end + 1
    return start


def total_size(extents: list[Extent], view: LogView) -> int:
    """Bytes of the remote segments from the log start on, and of what is local only.

    What two copies have counts once: retention by size must not take more than it was told to.
    """
    remote = sum(_share(extent) for extent in extents if extent.end_offset >= view.start_offset)
    copied = max((extent.end_offset for extent in extents), default=-1)
    local = sum(each.size for each in view.segments if each.base_offset > copied)
    return remote + local + view.active_size


def _share(extent: Extent) -> int:
    """The bytes of a segment that are those of the extent, as far as offsets tell."""
    segment = extent.segment
    offsets = extent.end_offset - extent.start_offset + 1
    return segment.size_in_bytes * offsets // (segment.end_offset - segment.start_offset + 1)

"""How dirty a log is, and which part of it may be cleaned now.

::

    log start      first dirty offset        first uncleanable offset     log end
        | clean part      | cleanable part          | not yet                 |

The clean part ends at the cleaner's checkpoint. Not cleaned is the active segment, what lies at or
above the last stable offset, and what is younger than ``min.compaction.lag.ms``: only whole
segments are. The dirtiest log is the one with the largest share of cleanable bytes.

Counterpart: ``LogToClean`` and the calculations of ``LogCleanerManager``.
"""

from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.storage.segment import Segment

if TYPE_CHECKING:
    from ottla.storage.log import Log

LONG_MAX: Final = (1 << 63) - 1


class OffsetsToClean(NamedTuple):
    first_dirty_offset: int
    first_uncleanable_offset: int
    is_reset: bool
    """Whether the checkpoint contradicts the log, so that cleaning begins at the log start."""


class LogToClean(NamedTuple):
    """A log and what a cleaning of it would have to do."""

    log: "Log"
    first_dirty_offset: int
    first_uncleanable_offset: int
    """Where a segment begins."""
    clean_bytes: int
    cleanable_bytes: int
    compaction_delay_ms: int
    """For how long ``max.compaction.lag.ms`` has been exceeded; 0 when it is not."""

    @property
    def total_bytes(self) -> int:
        return self.clean_bytes + self.cleanable_bytes

    @property
    def cleanable_ratio(self) -> float:
        return self.cleanable_bytes / self.total_bytes if self.total_bytes else 0.0

    @property
    def is_due(self) -> bool:
        if self.compaction_delay_ms > 0 and self.cleanable_bytes > 0:
            return True
        return self.cleanable_ratio > self.log.config.min_cleanable_dirty_ratio


def log_to_clean(log: "Log", checkpoint: int | None, now_ms: int) -> tuple[LogToClean, bool]:
    """What is to be cleaned, and whether the checkpoint had to be given up."""
    offsets = cleanable_offsets(log, checkpoint, now_ms)
    first_dirty = offsets.first_dirty_offset
    first_uncleanable = _first_uncleanable_segment(
        log, offsets.first_uncleanable_offset
    ).base_offset
    to_clean = LogToClean(
        log,
        first_dirty,
        first_uncleanable,
        sum(segment.size for segment in segments_between(log, -1, first_dirty)),
        sum(segment.size for segment in segments_between(log, first_dirty, first_uncleanable)),
        _compaction_delay_ms(log, first_dirty, now_ms),
    )
    return to_clean, offsets.is_reset


def cleanable_offsets(log: "Log", checkpoint: int | None, now_ms: int) -> OffsetsToClean:
    start = log.log_start_offset
    first_dirty = start if checkpoint is None else checkpoint
    is_reset = first_dirty < start or first_dirty > log.log_end_offset
    if is_reset:
        # Below the start records were deleted; beyond the end, the end of the log was lost.
        first_dirty = start
    first_uncleanable = min(log.last_stable_offset, log.segments.active.base_offset)
    lag_ms = log.config.min_compaction_lag_ms
    if lag_ms > 0:
        for segment in _closed_segments_from(log, first_dirty):
            largest = segment.known_largest_timestamp()
            if largest is None or largest > now_ms - lag_ms:
                first_uncleanable = min(first_uncleanable, segment.base_offset)
                break
    return OffsetsToClean(first_dirty, max(first_dirty, first_uncleanable), is_reset)


def segments_between(log: "Log", start: int, end: int) -> list[Segment]:
    """The segments that have offsets from ``start`` to below ``end``."""
    return log.segments.touching(start, end) if start < end else []


def _closed_segments_from(log: "Log", offset: int) -> list[Segment]:
    return segments_between(log, offset, log.segments.active.base_offset)


def _first_uncleanable_segment(log: "Log", offset: int) -> Segment:
    closed = _closed_segments_from(log, offset)
    return closed[0] if closed else log.segments.active


def _compaction_delay_ms(log: "Log", first_dirty_offset: int, now_ms: int) -> int:
    lag_ms = log.config.max_compaction_lag_ms
    if lag_ms == LONG_MAX:
        return 0
    times = [
        segment.load_first_timestamp()
        for segment in _closed_segments_from(log, first_dirty_offset)
        if segment.size
    ]
    earliest = min((time for time in times if time > 0), default=LONG_MAX)
    return max(0, now_ms - max(lag_ms, 0) - earliest)


def group_segments(
    segments: list[Segment], *, size_max: int, index_size_max: int, first_uncleanable_offset: int
) -> list[list[Segment]]:
    """Neighbours that fit into one segment together, by bytes, index entries and offsets."""
    groups: list[list[Segment]] = []
    size = index_size = time_index_size = 0
    for number, segment in enumerate(segments):
        following = segments[number + 1 : number + 2]
        last_offset = (following[0].base_offset if following else first_uncleanable_offset) - 1
        size += segment.size
        index_size += segment.offset_index.size
        time_index_size += segment.time_index.size
        fits = (
            groups
            and size <= size_max
            and index_size <= index_size_max
            and time_index_size <= index_size_max
            and (segment.size == 0 or last_offset - groups[-1][0].base_offset <= (1 << 31) - 1)
        )
        if fits:
            groups[-1].append(segment)
        else:
            groups.append([segment])
            size = segment.size
            index_size = segment.offset_index.size
            time_index_size = segment.time_index.size
    return groups

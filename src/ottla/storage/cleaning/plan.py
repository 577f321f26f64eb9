"""What a cleaner is told about a log, and what it answers: values that any process can be sent."""

from typing import NamedTuple

from ottla.storage.transaction_index import AbortedTransaction


class CleaningAborted(Exception):
    """The log is being truncated, deleted or moved, or the broker stops."""


class SegmentToMap(NamedTuple):
    base_offset: int
    position: int
    """Where its first dirty batch begins."""
    size: int
    next_offset: int
    """Where the segment behind it begins."""


class MapPlan(NamedTuple):
    """The dirty part of a log."""

    directory: str
    segments: list[SegmentToMap]
    start_offset: int
    aborted: list[AbortedTransaction]
    slots: int
    size_max: int
    """How many keys the map takes."""


class MapBuilt(NamedTuple):
    end_offset: int
    """Below this the log will be clean."""
    bytes_read: int
    utilization: float


class SegmentToClean(NamedTuple):
    base_offset: int
    size: int
    aborted: list[AbortedTransaction]


class GroupPlan(NamedTuple):
    """Segments that become one."""

    directory: str
    segments: list[SegmentToClean]
    now_ms: int
    delete_retention_ms: int
    upper_bound_offset: int
    """Where the part begins that is not cleaned this time."""
    last_records: dict[int, tuple[int, int]]
    """Last data offset, or -1, and epoch of each producer that the log knows."""
    index_interval_bytes: int
    index_size_max: int
    modified_ms: int


class GroupCleaned(NamedTuple):
    size: int
    bytes_read: int
    records_read: int
    records_written: int
    without_key: int

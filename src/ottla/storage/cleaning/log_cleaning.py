"""One cleaning of one log: what the cleaner is told, and what becomes of its answers.

Lives on the loop, beside the log; the cleaner works elsewhere. From the plan to the last swap the
log may grow and roll, nothing else: what truncates, deletes, moves or closes it aborts the
cleaning first, and then nothing of it is left but what was swapped in before.
"""

import contextlib
import math
from collections.abc import Callable

from ottla.storage.cleaning.cleanable import LogToClean, group_segments, segments_between
from ottla.storage.cleaning.cleaned_segment import create_cleaned_files, remove_cleaned_files
from ottla.storage.cleaning.plan import (
    GroupPlan,
    MapBuilt,
    MapPlan,
    SegmentToClean,
    SegmentToMap,
)
from ottla.storage.log import Log
from ottla.storage.on_disk import on_disk_again
from ottla.storage.segment import Segment
from ottla.storage.transaction_index import AbortedTransaction


class Cleaning:
    """See the module."""

    __slots__ = ("_now_ms", "_under_way", "end_offset", "is_aborted", "log", "on_abort", "to_clean")

    def __init__(self, to_clean: LogToClean, now_ms: int) -> None:
        self._now_ms = now_ms
        self._under_way: Segment | None = None
        self.log: Log = to_clean.log
        self.to_clean = to_clean
        self.end_offset = to_clean.first_dirty_offset
        """Where the clean part will end."""
        self.is_aborted = False
        self.on_abort: Callable[[], None] = lambda: None

    def map_plan(self, slots_max: int, load_factor: float) -> MapPlan:
        """The dirty part; the map gets no larger than it can become full."""
        return _map_plan(self.log, self.to_clean, slots_max, load_factor)

    def mapped(self, built: MapBuilt) -> list[list[Segment]]:
        """The groups that are to be cleaned, one after the other."""
        self.end_offset = built.end_offset
        log = self.log
        return group_segments(
            segments_between(log, 0, built.end_offset),
            size_max=log.config.segment_bytes,
            index_size_max=log.config.segment_index_bytes,
            first_uncleanable_offset=self.to_clean.first_uncleanable_offset,
        )

    def group_plan(self, group: list[Segment]) -> GroupPlan:
        """Make the files that the cleaner shall fill, and tell it how."""
        plan = _group_plan(self.log, group, self.to_clean, self._now_ms)
        self._under_way = group[0]
        return plan

    def swap(self, group: list[Segment]) -> None:
        """The files are whole: let them stand for the group."""
        assert not self.is_aborted
        self.log.replace_segments(group)
        self._under_way = None

    def abort(self) -> None:
        """Nothing may happen to the log from now on."""
        if self.is_aborted:
            return
        self.is_aborted = True
        self.on_abort()
        self.discard()

    def discard(self) -> None:
        """Remove the files that were being filled; a disk that fails keeps them until later."""
        segment, self._under_way = self._under_way, None
        if segment is not None:
            with contextlib.suppress(OSError):
                remove_cleaned_files(
                    self.log.segments.filesystem, self.log.directory, segment.base_offset
                )


@on_disk_again
def _map_plan(log: Log, to_clean: LogToClean, slots_max: int, load_factor: float) -> MapPlan:
    start, end = to_clean.first_dirty_offset, to_clean.first_uncleanable_offset
    dirty = segments_between(log, start, end)
    ends = [*(segment.base_offset for segment in dirty[1:]), end]
    segments = []
    for segment, next_offset in zip(dirty, ends, strict=True):
        position = 0
        if segment.base_offset < start:
            place = segment.locate(start)
            position = segment.size if place is None else place.position
        segments.append(SegmentToMap(segment.base_offset, position, segment.size, next_offset))
    slots = min(slots_max, math.ceil((end - start) / load_factor) + 1)
    return MapPlan(
        log.directory,
        segments,
        start,
        _aborted_between(log, start, end),
        slots,
        max(int(slots * load_factor), 1),
    )


@on_disk_again
def _group_plan(log: Log, group: list[Segment], to_clean: LogToClean, now_ms: int) -> GroupPlan:
    segments = []
    for segment in group:
        following = log.segments.higher(segment.base_offset)
        assert following is not None  # the active one is never in a group
        aborted = _aborted_between(log, segment.base_offset, following.base_offset)
        segments.append(SegmentToClean(segment.base_offset, segment.size, aborted))
    create_cleaned_files(
        log.segments.filesystem,
        log.directory,
        group[0].base_offset,
        transactions=any(segment.aborted for segment in segments),
    )
    config = log.config
    return GroupPlan(
        log.directory,
        segments,
        now_ms,
        config.delete_retention_ms,
        to_clean.first_uncleanable_offset,
        {
            entry.producer_id: (entry.last_data_offset, entry.epoch)
            for entry in log.producers.producers.values()
        },
        config.index_interval_bytes,
        config.segment_index_bytes,
        log.segments.filesystem.modified_ms(group[-1].path),
    )


def _aborted_between(log: Log, start: int, end: int) -> list[AbortedTransaction]:
    """The aborted transactions with records between the offsets."""
    found = []
    for segment in log.segments.touching(start):
        for entry in segment.transaction_index.entries:
            if entry.last_offset >= start and entry.first_offset < end:
                found.append(entry)
            if entry.last_stable_offset >= end:
                return found
    return found

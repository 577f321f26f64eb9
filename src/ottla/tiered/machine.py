"""The remote part of one partition: what is known of it, and what is to be done next.

No I/O and no clock: records come in by :meth:`RemotePartition.replay`, a log as it is at the moment
comes as a :class:`LogView`, and out comes what to copy, what to remove, and where the log begins.

Rules:
1. Segments are copied when they are closed and below the last stable offset, oldest first, from
   behind what the log's own lineage finds in the remote store without a gap.
2. So every offset from the log start to the local start is found in one finished segment.
3. What a crash or an earlier leader left half done is removed, never finished: only the one that
   began a copy knows how far it is.
4. Nothing is removed, and no log start moves, because of what is not known here.
5. Of a partition whose topic is gone everything goes, also when a restart comes in between.
"""

from collections.abc import Set as AbstractSet
from typing import Final

from ottla.tiered.cache import Extent, SegmentCache
from ottla.tiered.expiration import Expiration, SegmentRemoval, expiration
from ottla.tiered.lineage import Lineage
from ottla.tiered.log_view import LocalSegment, LogView
from ottla.tiered.segments import (
    IF_UNUSED,
    DeleteState,
    PartitionDeletion,
    RemoteLogMetadata,
    RemoteLogSegment,
    SegmentState,
    TopicIdPartition,
    of_leader_epoch,
)

JOB_ID: Final = -1
"""In place of a broker's id in records of a job that rewrites segments."""
JOB_HOURS_MAX: Final = 24
"""How long a copy that a job has begun may take before it counts as left behind."""


class RemotePartition:
    """See the module."""

    def __init__(self, partition: TopicIdPartition) -> None:
        self.partition = partition
        self.segments = SegmentCache()
        self.deletion: DeleteState | None = None
        """How far the removal of the whole partition is, once it has begun."""

    def replay(self, record: RemoteLogMetadata) -> bool:
        """Take a record of the metadata topic; False when it says what cannot be."""
        if not isinstance(record, PartitionDeletion):
            if self.deletion is not None and isinstance(record, RemoteLogSegment):
                return False  # nothing more is copied of what is going
            return self.segments.replay(record)
        if record.state is DeleteState.DELETE_PARTITION_FINISHED:
            self.segments = SegmentCache()
            self.deletion = None
        else:
            self.deletion = record.state
        return True

    # Copying

    def copied_offset(self, view: LogView) -> int:
        """Up to where, inclusive, the log finds everything in the remote store; -1: nothing.

        What lies below the local start cannot be copied any more, so it is not asked for.
        """
        begin = max(view.start_offset, view.local_start_offset)
        copied = begin - 1
        for extent in self.segments.extents(view.lineage, begin):
            if extent.start_offset != copied + 1:
                break
            copied = extent.end_offset
        if copied >= begin or self.segments.extent(view.lineage, copied) is not None:
            return copied
        return -1

    def next_copy(self, view: LogView) -> LocalSegment | None:
        """The segment that is to be copied now."""
        if not view.copying or self.deletion is not None:
            return None
        first = max(self.copied_offset(view) + 1, view.start_offset, view.local_start_offset)
        for segment in view.segments:
            if segment.end_offset >= first:
                return segment if segment.end_offset < view.last_stable_offset else None
        return None

    def copy_of(
        self,
        local: LocalSegment,
        lineage: Lineage,
        *,
        segment_id: bytes,
        max_timestamp_ms: int,
        transaction_index_empty: bool,
        broker_id: int,
        now_ms: int,
    ) -> RemoteLogSegment:
        """The remote segment that a local one becomes."""
        return RemoteLogSegment(
            partition=self.partition,
            segment_id=segment_id,
            start_offset=local.base_offset,
            end_offset=local.end_offset,
            max_timestamp_ms=max_timestamp_ms,
            broker_id=broker_id,
            event_timestamp_ms=now_ms,
            size_in_bytes=local.size,
            leader_epochs=lineage.between(local.base_offset, local.end_offset),
            custom_metadata=of_leader_epoch(lineage.epochs[-1].epoch),
            transaction_index_empty=transaction_index_empty,
        )

    def lag(self, view: LogView) -> tuple[int, int]:
        """Bytes and segments that are closed and not copied yet."""
        copied = self.copied_offset(view)
        waiting = [each.size for each in view.segments if each.end_offset > copied]
        return sum(waiting), len(waiting)

    # Removing

    def expire(self, view: LogView, now_ms: int, busy: AbstractSet[bytes]) -> Expiration:
        return expiration(self.segments, view, now_ms, busy | self._copied_by_jobs(now_ms))

    def is_due(self, removal: SegmentRemoval, busy: AbstractSet[bytes]) -> bool:
        """Whether what was decided a while ago still holds."""
        segment = removal.segment
        known = self.segments.get(segment.segment_id)
        if known is None or known.state is not segment.state or segment.segment_id in busy:
            return False
        return removal.condition != IF_UNUSED or not self.segments.is_referenced(segment)

    def _copied_by_jobs(self, now_ms: int) -> set[bytes]:
        begun_after = now_ms - JOB_HOURS_MAX * 3_600_000
        return {
            segment.segment_id
            for segment in self.segments
            if segment.broker_id == JOB_ID
            and segment.state is SegmentState.COPY_SEGMENT_STARTED
            and segment.event_timestamp_ms > begun_after
        }

    def start_offset(self, view: LogView) -> int:
        """Where the log begins for a leader whose checkpoint is old.

        Behind what is known to have been removed from the remote store, and is not here either.
        What is not known moves nothing.
        """
        local_start = max(view.local_start_offset, view.start_offset)
        last = self.segments.last_removed(view.lineage, view.start_offset, local_start - 1)
        return view.start_offset if last is None else last + 1

    # Reading

    def find(self, lineage: Lineage, offset: int) -> Extent | None:
        return self.segments.extent(lineage, offset)

    def find_timestamp(self, lineage: Lineage, timestamp: int, start_offset: int) -> list[Extent]:
        """Where a record from ``start_offset`` on may be that is not older, in this order."""
        return [
            extent
            for extent in self.segments.extents(lineage, start_offset)
            if extent.segment.max_timestamp_ms >= timestamp
        ]

    def size(self) -> int:
        """Bytes of all finished segments that somebody may read."""
        return sum(
            segment.size_in_bytes
            for segment in self.segments
            if self.segments.is_referenced(segment)
        )

"""A log as decisions about the remote tier see it, and the files of its closed segments."""

from itertools import pairwise

from ottla.storage.checkpoints import encode_epochs
from ottla.storage.log import Log
from ottla.storage.segment import Segment
from ottla.tiered.copier import SegmentFiles
from ottla.tiered.lineage import Lineage
from ottla.tiered.log_view import LocalSegment, LogView
from ottla.tiered.segments import TopicIdPartition


def owner_of(log: Log) -> TopicIdPartition:
    assert log.topic_id is not None
    return TopicIdPartition(log.topic_id, *log.topic_partition)


def lineage_of(log: Log) -> Lineage:
    return Lineage.of(log.epochs.entries, log.log_end_offset)


def view_of(log: Log) -> LogView:
    closed = closed_segments(log)
    active = log.segments.active
    local_start = closed[0].base_offset if closed else active.base_offset
    config = log.config
    expires = "delete" in config.cleanup_policy
    return LogView(
        start_offset=log.log_start_offset,
        local_start_offset=max(local_start, log.log_start_offset),
        end_offset=log.log_end_offset,
        last_stable_offset=log.last_stable_offset,
        lineage=lineage_of(log),
        segments=tuple(closed),
        active_size=active.size,
        retention_ms=config.retention_ms if expires else -1,
        retention_bytes=config.retention_bytes if expires else -1,
        copying=log.remote_storage_enabled and not config.remote_log_copy_disable,
    )


def closed_segments(log: Log) -> list[LocalSegment]:
    """Those that have batches; offsets of one that has none belong to the one before it."""
    segments = list(log.segments)
    found: list[LocalSegment] = []
    for segment, following in pairwise(segments):
        end_offset = following.base_offset - 1
        if segment.size:
            found.append(LocalSegment(segment.base_offset, end_offset, segment.size))
        elif found:
            found[-1] = found[-1]._replace(end_offset=end_offset)
    return found


def closed_segment(log: Log, base_offset: int) -> Segment:
    """The segment that begins there, with indexes that can be copied.

    OffsetNotAvailable while they must be made anew, elsewhere.
    """
    segment = log.segments.floor(base_offset)
    assert segment is not None
    assert segment.base_offset == base_offset
    if not segment.has_whole_indexes():
        segment.doubt()
    segment.largest_timestamp()
    return segment


def files_of(log: Log, segment: Segment, end_offset: int) -> SegmentFiles:
    """Where the files of a closed segment are, and the leader epochs up to its end."""
    has_snapshot = end_offset + 1 in log.segments.snapshots.offsets
    return SegmentFiles(
        filesystem=log.segments.filesystem,
        log=segment.path,
        offset_index=segment.offset_index.path,
        time_index=segment.time_index.path,
        transaction_index=segment.transaction_index.path
        if segment.transaction_index.entries
        else None,
        producer_snapshot=log.segments.snapshots.path(end_offset + 1) if has_snapshot else None,
        leader_epochs=encode_epochs(
            [entry for entry in log.epochs.entries if entry.start_offset <= end_offset]
        ),
    )

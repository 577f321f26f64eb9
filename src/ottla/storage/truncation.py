"""What a log gives up: its end when a leader says so, its beginning by age, size or request.

Both are made so that a crash at any moment leaves a log without holes: segments go from the outer
end inwards, their batches before their indexes. What is cut off the end is cut on disk before the
log goes on, or a crash could bring it back beside what was appended in its place.
"""

from typing import TYPE_CHECKING

from ottla.common.errors import OffsetOutOfRange
from ottla.storage.config import local_retention
from ottla.storage.recovery import rebuild_producers
from ottla.storage.retention import count_expired
from ottla.storage.segment import DELETED_SUFFIX, Segment

if TYPE_CHECKING:
    from ottla.storage.leader_epochs import EpochEntry
    from ottla.storage.log import Log


def truncate_to(log: "Log", offset: int, now_ms: int) -> bool:
    """Forget everything from ``offset`` on; whether there was something.

    The log then ends at ``offset`` or, if that was within a batch, before this batch. With a gap
    behind it a recovery would find that records have been lost, and drop those that came later.
    """
    if offset >= log.log_end_offset:
        # An epoch that began at the end without a record may contradict the leader.
        log.epochs.truncate_from_end(log.log_end_offset)
        return False
    if offset < log.segments[0].base_offset:
        truncate_fully_and_start_at(log, offset, now_ms)
        return True
    log._cancel_flush()
    log._listener.truncating(offset)
    later = [segment for segment in log.segments if segment.base_offset > offset]
    if later:
        _delete(log, later[::-1])
        log._filesystem.sync_directory(log.directory)
    active = log._active = log.segments.active
    if not active.active:
        active.activate()
    offset, is_whole = active.truncate_to(offset, now_ms)
    log.log_start_offset = min(log.log_start_offset, offset)
    log.epochs.truncate_from_end(offset)
    _ends_at(log, offset, now_ms)
    if not is_whole:
        # What is damaged stays, but behind it a later start might not find what comes.
        log._roll(offset, now_ms)
    return True


def truncate_fully_and_start_at(
    log: "Log", offset: int, now_ms: int, log_start_offset: int | None = None
) -> None:
    """Forget everything; the next record gets ``offset``."""
    log._cancel_flush()
    log._listener.truncating(log.segments[0].base_offset)
    _delete(log, list(log.segments)[::-1])
    log._begin_segment(offset, now_ms)
    log._filesystem.sync_directory(log.directory)
    log.epochs.clear()
    log.snapshots.remove_all()
    log.log_start_offset = offset if log_start_offset is None else log_start_offset
    _ends_at(log, offset, now_ms)


def start_behind_remote(
    log: "Log", offset: int, epochs: "list[EpochEntry]", producers: bytes | None, now_ms: int
) -> None:
    """Forget everything; what is before ``offset`` is in the remote store.

    ``epochs`` and the snapshot of ``producers`` tell of that. They are on disk before the log ends
    there: after a crash in between it is still seen that they are missing.
    """
    log._cancel_flush()
    log._listener.truncating(log.segments[0].base_offset)
    _delete(log, list(log.segments)[::-1])
    log.epochs.clear()
    log.snapshots.remove_all()
    for entry in epochs:
        log.epochs.assign(entry.epoch, entry.start_offset)
    log._save_epochs()
    if producers is not None:
        log.snapshots.put(offset, producers)
    log._begin_segment(offset, now_ms)
    log._filesystem.sync_directory(log.directory)
    log.log_start_offset = min(log.log_start_offset, offset)
    _ends_at(log, offset, now_ms)
    log.high_watermark = offset  # nothing is copied that is not committed


def _ends_at(log: "Log", offset: int, now_ms: int) -> None:
    """Everything behind ``offset`` is gone: bring state, disk and checkpoint to that."""
    log.log_end_offset = offset
    log.truncations += 1
    log.recovery_point = min(log.recovery_point, offset)
    log._settle_due()
    log._positions.clear()
    log.snapshots.keep_between(log.log_start_offset, offset)
    rebuild_producers(
        log.producers,
        log.snapshots,
        log.segments,
        start_offset=log.log_start_offset,
        end_offset=offset,
        now_ms=now_ms,
    )
    log.high_watermark = min(log.high_watermark, offset)
    log.saved_start_offset = min(log.saved_start_offset, log.log_start_offset)
    # What comes in its place is not what was copied.
    log.highest_remote_offset = min(log.highest_remote_offset, offset - 1)
    log._find_first_unstable()
    log._save_epochs()
    log._unsynced_directories = True
    log._listener.recovery_point_lowered()


def delete_records_before(log: "Log", offset: int) -> bool:
    """Let the log begin at ``offset``; the segments before it go later. Whether it moved."""
    if offset > log.high_watermark:
        raise OffsetOutOfRange(f"offset {offset} is above the high watermark {log.high_watermark}")
    if offset <= log.log_start_offset:
        return False
    log.log_start_offset = offset
    log.epochs.truncate_from_start(offset)
    log.producers.started_at(offset)
    log.snapshots.started_at(offset)
    log._find_first_unstable()
    return True


def delete_old_segments(log: "Log", now_ms: int) -> int:
    """Delete what retention no longer keeps; how many segments.

    What is being copied to the remote store goes from here when the copy is finished, and the log
    still begins where its remote part does.
    """
    config = log.config
    is_copied = log.remote_storage_enabled and not config.remote_log_copy_disable
    retention_bytes, retention_ms = config.retention_bytes, config.retention_ms
    if is_copied:
        retention_bytes, retention_ms = local_retention(config)
    by_age_and_size = "delete" in config.cleanup_policy
    count = count_expired(
        list(log.segments),
        log_start_offset=log.log_start_offset,
        high_watermark=log.high_watermark,
        log_end_offset=log.log_end_offset,
        retention_bytes=retention_bytes if by_age_and_size else -1,
        retention_ms=retention_ms if by_age_and_size else -1,
        now_ms=now_ms,
        copied_to=log.highest_remote_offset + 1 if is_copied else None,
    )
    if is_copied:
        count = _count_settled(log, count)
    if count:
        if count == len(log.segments):
            log._roll(log.log_end_offset, now_ms)
        if not is_copied:
            delete_records_before(log, log.segments[count].base_offset)
        _delete(log, list(log.segments)[:count])
        log._positions.clear()
    return count


def _count_settled(log: "Log", count: int) -> int:
    """How many of the first ``count`` segments a crash may not miss.

    Records below the log start were perhaps never copied. They are neither here nor in the remote
    store when their segment goes; by then the disk says that the log begins behind them.
    """
    segments = list(log.segments)
    ends = [*(segment.base_offset for segment in segments[1:]), log.log_end_offset]
    for number in range(count):
        below = min(log.log_start_offset, ends[number])
        if segments[number].base_offset < below and log.saved_start_offset < below:
            return number
    return count


def _delete(log: "Log", segments: list[Segment]) -> None:
    """Rename the files of ``segments``, in that order, and have them removed later."""
    filesystem = log._filesystem
    deleted = []
    for segment in segments:
        log.segments.remove(segment)
        segment.abandon()
        for path in segment.paths():
            if filesystem.exists(path):
                filesystem.rename(path, path + DELETED_SUFFIX)
                deleted.append(path + DELETED_SUFFIX)
        snapshot = log.snapshots.mark_deleted(segment.base_offset)
        if snapshot is not None:
            deleted.append(snapshot)
    log._unsynced_directories = True
    if deleted:
        log._listener.files_deleted(deleted)

"""Cleaned segments take the place of those that they were made of.

The files are whole and synced as ``.cleaned`` before this begins. Then, in this order, so that a
crash at any moment leaves either the old segments or the new one::

    .cleaned -> .swap          while any .cleaned is left, the old segments count
    old files -> .deleted      from the first .swap without .cleaned on, the new one counts
    .swap -> the final name

``recovery`` undoes or completes it. All are names in one directory, which a file system keeps in
the order in which they were changed. Readers that hold a region of an old file go on in it.

Counterpart: ``LocalLog.replaceSegments``.
"""

from typing import TYPE_CHECKING

from ottla.storage.segment import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    SUFFIXES,
    SWAP_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    Segment,
    file_name,
)

if TYPE_CHECKING:
    from ottla.storage.log import Log


def replace_segments(log: "Log", old: list[Segment]) -> Segment:
    """Let the ``.cleaned`` files of the first of ``old`` stand for all of them."""
    filesystem = log._filesystem
    base_offset = old[0].base_offset
    target = f"{log.directory}/{file_name(base_offset, '')}"
    suffixes = [
        suffix for suffix in SUFFIXES if filesystem.exists(target + suffix + CLEANED_SUFFIX)
    ]
    assert suffixes[0] == LOG_SUFFIX
    if TRANSACTION_INDEX_SUFFIX in suffixes:
        path = target + TRANSACTION_INDEX_SUFFIX + CLEANED_SUFFIX
        if filesystem.size(path) == 0:  # no aborted transaction was left
            filesystem.remove(path)
            suffixes.remove(TRANSACTION_INDEX_SUFFIX)
    for suffix in suffixes:
        filesystem.rename(target + suffix + CLEANED_SUFFIX, target + suffix + SWAP_SUFFIX)
    deleted = _set_aside(log, old)
    for suffix in suffixes:
        filesystem.rename(target + suffix + SWAP_SUFFIX, target + suffix)
    new = log._new_segment(base_offset)
    new.found_on_disk()
    new.sound_from = 0  # the cleaner has looked at every batch
    log._verifier.closed(new)
    log.segments.add(new)
    log._positions.clear()
    log._unsynced_directories = True
    log._listener.files_deleted(deleted)
    return new


def _set_aside(log: "Log", old: list[Segment]) -> list[str]:
    """Rename the old files; the producer snapshot of the first one is the new one's."""
    filesystem = log._filesystem
    deleted = []
    for segment in old:
        assert segment is not log._active
        log.segments.remove(segment)
        segment.abandon()
        for path in segment.paths():
            if filesystem.exists(path):
                filesystem.rename(path, path + DELETED_SUFFIX)
                deleted.append(path + DELETED_SUFFIX)
        if segment is not old[0]:
            snapshot = log.snapshots.mark_deleted(segment.base_offset)
            if snapshot is not None:
                deleted.append(snapshot)
    return deleted

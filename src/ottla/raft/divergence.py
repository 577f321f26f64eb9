"""Where the log of a replica and that of the leader part, and what to do about it (KIP-595).

A replica says where its log ends and of which epoch its last record is. If our log has that epoch
and it reaches that far, the logs agree up to there. If not, the replica is told where that epoch,
or the largest one below, ends here, and cuts its log. If it lies before everything that our log
still has, it needs a snapshot.
"""

from typing import NamedTuple

from ottla.raft.log import OffsetAndEpoch, RaftLog
from ottla.raft.snapshots import BOOTSTRAP_SNAPSHOT, SnapshotId


class Agreement(NamedTuple):
    """Nothing set: the logs agree."""

    diverging: OffsetAndEpoch | None = None
    snapshot_id: SnapshotId | None = None


def compare(log: RaftLog, snapshots: list[SnapshotId], offset: int, epoch: int) -> Agreement:
    """What to tell a replica whose log ends at ``offset`` with a record of ``epoch``.

    ``snapshots`` are ours, the oldest first; one that lies before our log counts for nothing.
    """
    snapshots = joining(log, snapshots)
    latest = snapshots[-1] if snapshots else None
    if offset == 0:
        if latest is not None and latest != BOOTSTRAP_SNAPSHOT:
            return Agreement(snapshot_id=latest)
        if log.start_offset == 0:
            return Agreement()
    if latest is not None:
        oldest = snapshots[0]
        if (
            offset < log.start_offset
            or (offset == log.start_offset and epoch != oldest.epoch)
            or epoch < oldest.epoch
        ):
            return Agreement(snapshot_id=latest)
    end = end_of_epoch(log, snapshots, epoch)
    if end.epoch != epoch or end.offset < offset:
        return Agreement(diverging=end)
    return Agreement()


def joining(log: RaftLog, snapshots: list[SnapshotId]) -> list[SnapshotId]:
    """Those that the log follows without a gap: one may have been written late."""
    return [each for each in snapshots if each.end_offset >= log.start_offset]


def end_of_epoch(log: RaftLog, snapshots: list[SnapshotId], epoch: int) -> OffsetAndEpoch:
    found = log.end_of_epoch(epoch)
    if found is None:
        return OffsetAndEpoch(log.end_offset, log.last_epoch)
    if snapshots and found == OffsetAndEpoch(snapshots[0].end_offset, epoch):
        # Below the smallest epoch of the log: what it begins with is the snapshot.
        return OffsetAndEpoch(snapshots[0].end_offset, snapshots[0].epoch)
    return found


def truncation_point(
    log: RaftLog, snapshots: list[SnapshotId], diverging: OffsetAndEpoch
) -> OffsetAndEpoch:
    """Where a replica that was told of ``diverging`` cuts its own log."""
    end = end_of_epoch(log, joining(log, snapshots), diverging.epoch)
    if end.epoch == diverging.epoch:
        return OffsetAndEpoch(min(end.offset, diverging.offset), end.epoch)
    return end

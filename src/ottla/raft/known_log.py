"""The log of a node as its core knows it: by what was told of it, and what it has asked for.

Rules of the quorum that are kept here: the high watermark never goes back, and what is committed is
never truncated.
"""

from ottla.raft.effects import AdvanceHighWatermark, AppendRecords, RaftEffect, TruncateLog
from ottla.raft.snapshots import SnapshotId


class CommittedTruncation(Exception):
    """The leader wants us to forget what is committed: one of us has lost its memory."""


class KnownLog:
    """See the module. What was asked for changes nothing here until it is told to be done."""

    __slots__ = ("end_epoch", "end_offset", "high_watermark", "is_changing", "synced_offset")

    def __init__(self, end_offset: int, end_epoch: int, high_watermark: int | None) -> None:
        """``high_watermark`` is where the last snapshot ends."""
        self.end_offset = end_offset
        self.end_epoch = end_epoch
        self.synced_offset = 0
        """Nobody knows yet what of the log an earlier incarnation has synced."""
        self.high_watermark = high_watermark
        self.is_changing = False
        """Whether it is about to be something else than what we know of it."""

    @property
    def end(self) -> tuple[int, int]:
        return self.end_offset, self.end_epoch

    @property
    def committed(self) -> int:
        return self.high_watermark or 0

    @property
    def is_synced(self) -> bool:
        return self.synced_offset >= self.end_offset

    # What is asked for

    def append(self, records: bytes, effects: list[RaftEffect]) -> None:
        self.is_changing = True
        effects.append(AppendRecords(records))

    def truncate(self, offset: int, effects: list[RaftEffect]) -> None:
        if offset < self.committed:
            raise CommittedTruncation(
                f"The leader requested truncation to offset {offset}, which is "
                f"below the current high watermark {self.committed}"
            )
        self.is_changing = True
        effects.append(TruncateLog(offset))

    def commit_to(self, offset: int, effects: list[RaftEffect]) -> None:
        if self.high_watermark is None or offset > self.high_watermark:
            self.high_watermark = offset
            effects.append(AdvanceHighWatermark(offset))

    # What is told

    def appended(self, end_offset: int, end_epoch: int) -> None:
        assert end_offset >= self.end_offset
        self.is_changing = False
        self.end_offset = end_offset
        self.end_epoch = end_epoch

    def truncated(self, end_offset: int, end_epoch: int) -> None:
        assert self.committed <= end_offset <= self.end_offset
        self.is_changing = False
        self.end_offset = end_offset
        self.end_epoch = end_epoch
        self.synced_offset = min(self.synced_offset, end_offset)

    def flushed(self, end_offset: int) -> None:
        # A truncation may have come between the sync and its report.
        self.synced_offset = min(end_offset, self.end_offset)

    def begins_with(self, snapshot_id: SnapshotId) -> None:
        self.end_offset = self.synced_offset = snapshot_id.end_offset
        self.end_epoch = snapshot_id.epoch

    def check(self) -> None:
        """The invariants."""
        assert self.synced_offset <= self.end_offset
        assert self.committed <= self.end_offset

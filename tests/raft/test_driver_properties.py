"""A quorum of one that loses power again and again, at any change of the disk: walks from seeds.

What was reported as committed is never lost; what comes back is, in order, a beginning of what was
appended; the epoch only grows; and snapshots come and go in between.
"""

import pytest
from tests.raft.quorums import Quorum, formatted, settings, snapshot_batches

from ottla.common.chance import Chance
from ottla.raft.snapshots import SnapshotId, SnapshotRetention
from ottla.testing.files import PowerLost

LIVES = 12
CONFIG = settings(internal_metadata_log_segment_bytes="2048")


class Walk:
    """Values are numbered; a snapshot remembers, in its epoch's place, how many it stands for."""

    def __init__(self, seed: int) -> None:
        self.chance = Chance(seed)
        self.filesystem = formatted()
        self.appended: list[bytes] = []
        self.committed = 0
        self.epoch = 0
        self.counts: dict[int, int] = {}
        """How many values stand before the end offset of each snapshot."""
        self.ends: dict[int, int] = {}
        """And before that of each batch of this life."""

    def live(self) -> None:
        """Start, check what came back, work, and end in one way or another."""
        quorum = Quorum(self.filesystem, seed=self.chance.below(1000), config=CONFIG)
        self.filesystem.stop_after(self.chance.below(80))
        try:
            quorum.lead()
            self.check(quorum)
            for _ in range(self.chance.below(60)):
                self.work(quorum)
            if self.chance.below(3) == 0:
                quorum.stop()
                self.committed = len(self.appended)
        except PowerLost:
            pass
        self.committed = max(self.committed, self.count_below(quorum.notes.high_watermark))
        if self.chance.below(4):
            self.filesystem.crash(self.chance)
        else:
            self.filesystem.kill()

    def check(self, quorum: Quorum) -> None:
        assert quorum.notes.epochs[0] > self.epoch
        self.epoch = quorum.notes.epochs[0]
        snapshot = quorum.notes.snapshot
        count = 0 if snapshot is None else self.counts[snapshot.end_offset]
        found = self.appended[:count] + quorum.notes.values
        assert found == self.appended[: len(found)]
        assert len(found) >= self.committed
        self.appended = found
        self.committed = len(found)
        self.ends = {}

    def work(self, quorum: Quorum) -> None:
        dice = self.chance.below(20)
        if dice < 10:
            values = [b"%d" % (len(self.appended) + n) for n in range(1 + self.chance.below(5))]
            self.appended += values
            self.ends[quorum.append(*values)] = len(self.appended)
        elif dice < 18:
            quorum.scheduler.run_for(self.chance.between(0.0, 0.02))
            self.committed = max(self.committed, self.count_below(quorum.notes.high_watermark))
        elif quorum.notes.high_watermark in self.ends:
            self.snapshot(quorum)

    def snapshot(self, quorum: Quorum) -> None:
        end = quorum.notes.high_watermark
        self.counts[end] = self.ends[end]
        quorum.driver.snapshots.write(SnapshotId(end, self.epoch), snapshot_batches([], self.epoch))
        quorum.driver.clean(SnapshotRetention(2_000, -1))

    def count_below(self, high_watermark: int) -> int:
        return max((n for end, n in self.ends.items() if end <= high_watermark), default=0)


@pytest.mark.parametrize("first_seed", range(0, 60, 20))
def test_committed_records_outlive_every_loss_of_power(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 20):
        walk = Walk(seed)
        for _ in range(LIVES):
            walk.live()
        assert walk.epoch > 0

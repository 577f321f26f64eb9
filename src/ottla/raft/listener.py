"""What keeps state by the metadata log: the controller, or a broker that only follows it."""

from typing import Protocol

from ottla.metadata.snapshot import SnapshotContent
from ottla.raft.log import LogBatch
from ottla.raft.snapshots import SnapshotId


class RaftListener(Protocol):
    """What keeps state by the log."""

    def load_snapshot(self, content: SnapshotContent, snapshot_id: SnapshotId) -> None:
        """Forget everything; this is the state below the snapshot's end offset."""
        ...

    def replay(self, batch: LogBatch) -> None:
        """A committed batch that was not appended through this driver in this epoch."""
        ...

    def replayed(self) -> None:
        """No more batches for now: show what they made."""
        ...

    def became_leader(self, epoch: int) -> None:
        """All that is committed was replayed; ``append`` may be called."""
        ...

    def lost_leadership(self, epoch: int) -> None:
        """What was appended and not reported as committed may or may not become so."""
        ...

    def appended_control(self, batch: LogBatch) -> None:
        """As leader: the quorum itself has appended a batch, to be committed as all others are."""
        ...

    def committed(self, high_watermark: int) -> None:
        """As leader: what was appended below ``high_watermark`` is safe."""
        ...

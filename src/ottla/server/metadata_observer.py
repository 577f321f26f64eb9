"""A broker without a controller follows the metadata log: an observer of the quorum.

It keeps the log on its own disk, replays what is committed into images, and takes snapshots of its
own, so that the next start begins where this one ended. It never leads.
"""

from collections.abc import Callable

from ottla.common.chance import Chance
from ottla.common.environment import Scheduler
from ottla.common.promise import Promise
from ottla.config.broker import BrokerConfig
from ottla.metadata.cache import MetadataCache
from ottla.metadata.difference import difference
from ottla.metadata.image import EMPTY_IMAGE
from ottla.metadata.replay import MetadataReplay
from ottla.metadata.snapshot import SnapshotContent
from ottla.raft.channel import RaftChannel
from ottla.raft.image_snapshots import ImageSnapshots
from ottla.raft.log import LogBatch
from ottla.raft.opening import open_raft
from ottla.raft.snapshots import SnapshotId
from ottla.storage.files import Filesystem


class MetadataObserver:
    """Implements ``RaftListener``; ``metadata`` gets what is committed."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        cluster_id: str,
        directory_id: bytes,
        filesystem: Filesystem,
        scheduler: Scheduler,
        chance: Chance,
        metadata: MetadataCache,
        on_failure: Callable[[BaseException], None],
        channel: RaftChannel,
    ) -> None:
        self._metadata = metadata
        self._replay = MetadataReplay(EMPTY_IMAGE)
        self._ready: Promise[None] = Promise(scheduler.turn)
        self.raft = open_raft(
            config,
            cluster_id=cluster_id,
            directory_id=directory_id,
            filesystem=filesystem,
            scheduler=scheduler,
            chance=chance,
            listener=self,
            on_failure=on_failure,
            channel=channel,
        )
        self.raft.on_progress.append(self._progressed)
        self._snapshots = ImageSnapshots(config, self.raft, metadata, scheduler)

    def start(self) -> Promise[None]:
        """Read the log and follow it; fulfilled when what the leader has committed was replayed."""
        self.raft.start()
        return self._ready

    def stop(self) -> Promise[None]:
        return self.raft.stop()

    def _progressed(self) -> None:
        known = self._metadata.image.features.metadata_version > 0
        if self.raft.is_caught_up and known and not self._ready.done:
            self._ready.fulfil(None)

    # What the quorum tells

    def load_snapshot(self, content: SnapshotContent, snapshot_id: SnapshotId) -> None:
        image = content.image(*snapshot_id)
        self._replay = MetadataReplay(image)
        self._metadata.publish(image, difference(self._metadata.image, image))

    def replay(self, batch: LogBatch) -> None:
        self._snapshots.appended(len(batch.data))
        batch.replay_into(self._replay)

    def replayed(self) -> None:
        for image, delta in self._replay.take():
            self._metadata.publish(image, delta)
        self._snapshots.take_if_due()

    def became_leader(self, epoch: int) -> None:
        raise AssertionError(f"an observer leads in epoch {epoch}")

    def lost_leadership(self, epoch: int) -> None:
        raise AssertionError(f"an observer led in epoch {epoch}")

    def appended_control(self, batch: LogBatch) -> None:
        raise AssertionError(f"an observer has appended {batch}")

    def committed(self, high_watermark: int) -> None:
        raise AssertionError(f"an observer has appended below {high_watermark}")

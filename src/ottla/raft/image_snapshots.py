"""Snapshots of the image that the log has made: when one is due, how it is written, what goes.

Controllers and brokers alike take their own; none waits for the others.
"""

from ottla.common.environment import Scheduler
from ottla.common.promise import Promise, fulfilled
from ottla.config.broker import BrokerConfig
from ottla.metadata.image import ImageSource
from ottla.metadata.records import encode_record
from ottla.metadata.snapshot import container, image_to_records
from ottla.observability.logging import logger
from ottla.raft.driver import RaftDriver
from ottla.raft.snapshots import SnapshotId, SnapshotRetention, SnapshotSchedule
from ottla.storage.directories import LogDirFailed

log = logger(__name__)


class ImageSnapshots:
    """``committed`` has the image that is written: nothing else may be in a snapshot."""

    def __init__(
        self,
        config: BrokerConfig,
        raft: RaftDriver,
        committed: ImageSource,
        scheduler: Scheduler,
    ) -> None:
        self._raft = raft
        self._committed = committed
        self._scheduler = scheduler
        self._schedule = SnapshotSchedule(
            config.metadata_log_max_record_bytes_between_snapshots,
            config.metadata_log_max_snapshot_interval_ms,
            scheduler.monotonic(),
        )
        self._retention = SnapshotRetention(
            config.metadata_max_retention_bytes, config.metadata_max_retention_ms
        )
        self._under_way = False

    def appended(self, size: int) -> None:
        """The log has grown by so many bytes."""
        self._schedule.appended(size)

    def take_if_due(self) -> None:
        if self._schedule.is_due(self._scheduler.monotonic()):
            self.take()

    def take(self) -> Promise[None]:
        """Write what is committed as a snapshot, in the background, and drop what is too old."""
        image = self._committed.image
        latest = self._raft.snapshots.latest()
        if self._under_way or (latest is not None and latest.end_offset > image.offset):
            return fulfilled(self._scheduler.turn, None)
        self._under_way = True
        self._schedule.taken(self._scheduler.monotonic())
        version = image.features.metadata_version
        values = (encode_record(record, version) for record in image_to_records(image))
        quorum = self._raft.control.at(image.offset + 1)
        batches = container(
            values,
            epoch=image.epoch,
            now_ms=self._scheduler.wall_ms(),
            last_contained_log_timestamp=image.timestamp_ms,
            voters=quorum.voters.to_record() if quorum.kraft_version > 0 else None,
            kraft_version=quorum.kraft_version,
        )
        written = self._raft.write_snapshot(SnapshotId(image.offset + 1, image.epoch), batches)
        written.when_done(self._written)
        return written

    def _written(self, written: Promise[None]) -> None:
        self._under_way = False
        try:
            written.result()
            self._raft.clean(self._retention)
        except (OSError, LogDirFailed) as error:
            # The log still has everything; the next snapshot may succeed.
            log.warning("snapshot not written", reason=str(error))
        else:
            log.info("snapshot written", latest=self._raft.snapshots.latest())

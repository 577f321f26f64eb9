"""What the quorum needs of a log, and the metadata log as that.

The metadata log is a log like any other on disk. The leader writes batches whose offsets and epoch
it has already set. Syncing is split in three: ``prepare_sync`` takes, on the loop, what there is to
sync, and returns the work, which may run in the background while more is appended; ``synced`` then
tells, on the loop again, how far the log is safe.
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, Protocol

from ottla.common.errors import CorruptMessage
from ottla.common.identifiers import METADATA_TOPIC, METADATA_TOPIC_ID
from ottla.common.topic_partition import TopicPartition
from ottla.config.broker import BrokerConfig
from ottla.config.topic import TopicConfig
from ottla.metadata.records import MetadataRecord, decode_record
from ottla.metadata.replay import MetadataReplay
from ottla.records.batch import BatchHeader, batches, read_header
from ottla.records.record import Record, iterate
from ottla.records.rules import AppendOrigin
from ottla.storage.files import Filesystem
from ottla.storage.flush import Flush
from ottla.storage.log import Log
from ottla.storage.opening import open_log

READ_BYTES: Final = 4 * 1024 * 1024
BATCH_BYTES_MAX: Final = 8 * 1024 * 1024
METADATA_PARTITION: Final = TopicPartition(METADATA_TOPIC, 0)


class OffsetAndEpoch(NamedTuple):
    offset: int
    epoch: int


class LogBatch:
    """One batch of the metadata log."""

    __slots__ = ("data", "header")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.header: BatchHeader = read_header(data)

    @property
    def base_offset(self) -> int:
        return self.header.base_offset

    @property
    def last_offset(self) -> int:
        return self.header.last_offset

    @property
    def epoch(self) -> int:
        return self.header.partition_leader_epoch

    @property
    def timestamp_ms(self) -> int:
        return self.header.max_timestamp

    @property
    def is_control(self) -> bool:
        return self.header.is_control

    def records(self) -> list[Record]:
        return iterate(self.data)

    def metadata_records(self) -> list[MetadataRecord]:
        assert not self.is_control
        return [decode_record(record.value or b"") for record in iterate(self.data)]

    def replay_into(self, replay: MetadataReplay) -> None:
        """Control records change no image, but the offset that it stands for."""
        records = [] if self.is_control else self.metadata_records()
        replay.replay_batch(
            records,
            base_offset=self.last_offset + 1 - len(records),
            epoch=self.epoch,
            timestamp_ms=self.timestamp_ms,
        )


class RaftLog(Protocol):
    @property
    def start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    @property
    def last_epoch(self) -> int:
        """The epoch of the last batch, or of the snapshot before it; 0 when there is none."""
        ...

    @property
    def size(self) -> int:
        """Bytes on disk."""
        ...

    def append(self, batch: bytearray, now_ms: int) -> None:
        """Write a batch that begins at ``end_offset``."""
        ...

    def append_fetched(self, data: bytes, leader_epoch: int, now_ms: int) -> None:
        """Write batches of a leader that begin at ``end_offset``; CorruptMessage if they do not."""
        ...

    def end_of_epoch(self, epoch: int) -> OffsetAndEpoch | None:
        """Where ``epoch``, or the largest one below it, ends; None when it is not in the log."""
        ...

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Whole batches, the first of which contains ``offset``; at least one when there is any."""
        ...

    def prepare_sync(self) -> Callable[[], None]:
        """The work that syncs all that is written now."""
        ...

    def synced(self, now_ms: int, error: OSError | None = None) -> int:
        """The work was done; return the offset up to which the log is on disk."""
        ...

    def committed(self, offset: int) -> None:
        """What lies below ``offset`` stays."""
        ...

    def truncate_to(self, offset: int, now_ms: int) -> None: ...

    def restart_at(self, offset: int, epoch: int, now_ms: int) -> None:
        """Forget everything and go on at ``offset``, where a snapshot of ``epoch`` ends."""
        ...

    def begins_after(self, epoch: int) -> None:
        """Of this epoch is what lies before the log: the last record of a snapshot."""
        ...

    def delete_before(self, offset: int, now_ms: int) -> None:
        """What lies before ``offset`` is no longer needed."""
        ...

    def close(self, now_ms: int) -> None: ...


class MetadataLog:
    """``__cluster_metadata-0`` in a log directory."""

    __slots__ = ("_flush", "_log", "_snapshot_epoch")

    def __init__(self, log: Log) -> None:
        self._log = log
        self._flush: Flush | None = None
        self._snapshot_epoch = 0

    @staticmethod
    def open(
        filesystem: Filesystem, log_dir: str, config: BrokerConfig, now_ms: int
    ) -> "MetadataLog":
        """Open the log, checking all of it: what it says decides what the cluster is."""
        log = open_log(
            filesystem,
            metadata_directory(log_dir),
            topic_partition=METADATA_PARTITION,
            topic_id=METADATA_TOPIC_ID,
            config=metadata_log_config(config),
            now_ms=now_ms,
            recovery_point=0,
            log_start_offset=0,
            clean_shutdown=False,
        )
        return MetadataLog(log)

    @property
    def log(self) -> Log:
        """What it stands on."""
        return self._log

    @property
    def start_offset(self) -> int:
        return self._log.log_start_offset

    @property
    def end_offset(self) -> int:
        return self._log.log_end_offset

    @property
    def last_epoch(self) -> int:
        latest = self._log.latest_epoch
        return self._snapshot_epoch if latest < 0 else latest

    @property
    def size(self) -> int:
        return self._log.size()

    def append(self, batch: bytearray, now_ms: int) -> None:
        self._log.append_as_leader(
            batch,
            0,
            len(batch),
            leader_epoch=read_header(batch).partition_leader_epoch,
            now_ms=now_ms,
            origin=AppendOrigin.RAFT_LEADER,
        )

    def append_fetched(self, data: bytes, leader_epoch: int, now_ms: int) -> None:
        expected = self.end_offset
        for position, _ in batches(data):
            header = read_header(data, position)
            if header.base_offset != expected:
                raise CorruptMessage(f"offset {header.base_offset} in the place of {expected}")
            expected = header.last_offset + 1
        self._log.append_as_follower(data, now_ms=now_ms, leader_epoch=leader_epoch)

    def end_of_epoch(self, epoch: int) -> OffsetAndEpoch | None:
        if self._log.latest_epoch < 0 and epoch == self._snapshot_epoch:
            return OffsetAndEpoch(self.end_offset, epoch)
        found = self._log.end_offset_for_epoch(epoch)
        return None if found.epoch < 0 else OffsetAndEpoch(found.end_offset, found.epoch)

    def read(self, offset: int, max_bytes: int) -> bytes:
        return self._log.read_bytes(offset, max_bytes)

    def prepare_sync(self) -> Callable[[], None]:
        assert self._flush is None
        self._flush = self._log.prepare_flush()
        return _nothing if self._flush is None else self._flush.run

    def synced(self, now_ms: int, error: OSError | None = None) -> int:
        flush, self._flush = self._flush, None
        if flush is not None:
            self._log.flushed(flush, now_ms, error)
        return self._log.recovery_point

    def committed(self, offset: int) -> None:
        self._log.set_high_watermark(offset)

    def truncate_to(self, offset: int, now_ms: int) -> None:
        self._log.truncate_to(offset, now_ms)

    def restart_at(self, offset: int, epoch: int, now_ms: int) -> None:
        self._log.truncate_fully_and_start_at(offset, now_ms)
        self.begins_after(epoch)

    def begins_after(self, epoch: int) -> None:
        self._snapshot_epoch = epoch

    def delete_before(self, offset: int, now_ms: int) -> None:
        self._log.delete_records_before(offset)
        self._log.delete_old_segments(now_ms)

    def close(self, now_ms: int) -> None:
        self._log.close(now_ms)


def metadata_directory(log_dir: str) -> str:
    return f"{log_dir}/{METADATA_PARTITION}"


def metadata_log_config(config: BrokerConfig) -> TopicConfig:
    """Segments go only when a snapshot makes them superfluous, never by age or size."""
    segment_bytes = config.internal_metadata_log_segment_bytes or config.metadata_log_segment_bytes
    return TopicConfig(
        {
            "internal.segment.bytes": str(segment_bytes),
            "segment.ms": str(config.metadata_log_segment_ms),
            "max.message.bytes": str(BATCH_BYTES_MAX),
            "retention.ms": "-1",
            "retention.bytes": "-1",
        }
    )


def _nothing() -> None:
    """All is synced."""


def read_batches(log: RaftLog, start: int, end: int) -> Iterator[LogBatch]:
    """The batches from offset ``start`` on that begin before ``end``."""
    while start < end:
        data = log.read(start, READ_BYTES)
        if not data:
            return
        for position, size in batches(data):
            batch = LogBatch(data[position : position + size])
            if batch.base_offset >= end:
                return
            if batch.last_offset >= start:
                yield batch
                start = batch.last_offset + 1

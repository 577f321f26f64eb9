"""Partitions of several segments, written by hand, and copies of them in a remote store."""

from pathlib import Path
from struct import pack

from ottla.common.topic_partition import TopicPartition
from ottla.records.builder import build_batch
from ottla.records.record import Record
from ottla.storage.checkpoints import (
    CLEANER_OFFSETS,
    encode_epochs,
    encode_offsets,
    encode_partition_metadata,
)
from ottla.storage.files import OsFilesystem
from ottla.storage.leader_epochs import EpochEntry
from ottla.storage.producer_snapshots import encode_snapshot
from ottla.tiered.copier import SegmentFiles, upload
from ottla.tiered.segments import EpochStart, RemoteLogSegment, TopicIdPartition
from ottla.tiered.store import RemoteStore

TOPIC_ID = bytes(15) + b"\x09"
TIME = 1_700_000_000_000


def name(offset: int, suffix: str = ".log") -> str:
    return f"{offset:020d}{suffix}"


class HandMade:
    """``t-0``: a batch for each number of records; even offsets are tombstones of key ``k``."""

    def __init__(self, log_dir: Path, topic: str = "t") -> None:
        self.topic = topic
        self.log_dir = log_dir
        self.directory = log_dir / f"{topic}-0"
        self.directory.mkdir(parents=True)
        self.epochs = [EpochEntry(4, 0)]
        self.end = 0
        self.write_epochs()
        (self.directory / "partition.metadata").write_bytes(encode_partition_metadata(TOPIC_ID))

    def path(self, offset: int, suffix: str = ".log") -> Path:
        return self.directory / name(offset, suffix)

    def write_epochs(self) -> None:
        (self.directory / "leader-epoch-checkpoint").write_bytes(encode_epochs(self.epochs))

    def segment(self, *counts: int, base_offset: int | None = None) -> int:
        """Write a closed segment; its base offset."""
        base = offset = self.end if base_offset is None else base_offset
        data, index, times = b"", b"", b""
        for count in counts:
            records = [
                Record(
                    key=b"k",
                    value=None if (offset + each) % 2 == 0 else b"v%d" % each,
                    timestamp=TIME + offset + each,
                )
                for each in range(count)
            ]
            if data:
                index += pack(">ii", offset + count - 1 - base, len(data))
            times += pack(">qi", TIME + offset + count - 1, offset + count - 1 - base)
            data += bytes(build_batch(records, base_offset=offset, leader_epoch=4))
            offset += count
        self.path(base).write_bytes(data)
        self.path(base, ".index").write_bytes(index)
        self.path(base, ".timeindex").write_bytes(times)
        self.path(offset, ".snapshot").write_bytes(encode_snapshot([]))
        self.end = offset
        return base

    def cleaned_to(self, offset: int) -> None:
        checkpoint = encode_offsets({TopicPartition(self.topic, 0): offset})
        (self.log_dir / CLEANER_OFFSETS).write_bytes(checkpoint)

    def upload(self, store: RemoteStore, base: int, end: int) -> RemoteLogSegment:
        """Copy the segment from ``base`` on, which ends before ``end``."""
        segment = RemoteLogSegment(
            partition=TopicIdPartition(TOPIC_ID, self.topic, 0),
            segment_id=base.to_bytes(16, "big"),
            start_offset=base,
            end_offset=end - 1,
            max_timestamp_ms=TIME + end - 1,
            broker_id=1,
            event_timestamp_ms=TIME + base,
            size_in_bytes=self.path(base).stat().st_size,
            leader_epochs=(EpochStart(4, base),),
            transaction_index_empty=True,
        )
        files = SegmentFiles(
            OsFilesystem(),
            str(self.path(base)),
            str(self.path(base, ".index")),
            str(self.path(base, ".timeindex")),
            None,
            str(self.path(end, ".snapshot")),
            encode_epochs([EpochEntry(4, 0)]),
        )
        upload(store, segment, files)
        return segment

    def forget(self, base: int) -> None:
        """Take a segment from this disk."""
        for suffix in (".log", ".index", ".timeindex"):
            self.path(base, suffix).unlink()

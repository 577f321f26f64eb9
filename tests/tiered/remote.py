"""Logs whose closed segments have been copied to a store, and a reader of that."""

from collections.abc import Callable
from typing import NamedTuple

from tests.storage import logs

from ottla.storage.checkpoints import LEADER_EPOCHS
from ottla.storage.files import Filesystem
from ottla.storage.log import Log
from ottla.storage.segment import SNAPSHOT_SUFFIX, Segment, file_name
from ottla.testing.files import MemoryFilesystem
from ottla.testing.remote_store import MemoryStore
from ottla.tiered.chunks import Windows
from ottla.tiered.copier import SegmentFiles, upload
from ottla.tiered.index_cache import NO_TTL, IndexCache
from ottla.tiered.manifests import Manifests
from ottla.tiered.reader import RemoteReader
from ottla.tiered.segments import EpochStart, RemoteLogSegment, TopicIdPartition
from ottla.tiered.store import RemoteStore

PARTITION = TopicIdPartition(logs.TOPIC_ID, "topic", 0)
CHUNK = 4096
"""So small that segments have several."""


class ManualClock:
    def __init__(self) -> None:
        self.now = 100.0

    def wall_ms(self) -> int:
        return int(self.now * 1000)

    def monotonic(self) -> float:
        return self.now


def describe(log: Log, segment: Segment, number: int) -> RemoteLogSegment:
    """What the metadata topic would know of a closed segment."""
    following = log.segments.higher(segment.base_offset)
    assert following is not None, "the active segment is not copied"
    end_offset = following.base_offset - 1
    epochs = [entry for entry in log.epochs.entries if entry.start_offset <= end_offset]
    kept = [entry for entry in epochs if entry.start_offset >= segment.base_offset]
    first = log.epoch_for_offset(segment.base_offset)
    if first >= 0 and (not kept or kept[0].start_offset > segment.base_offset):
        kept.insert(0, type(epochs[0])(first, segment.base_offset))
    return RemoteLogSegment(
        partition=PARTITION,
        segment_id=number.to_bytes(16, "big"),
        start_offset=segment.base_offset,
        end_offset=end_offset,
        max_timestamp_ms=segment.largest_timestamp(),
        broker_id=1,
        event_timestamp_ms=logs.NOW,
        size_in_bytes=segment.size,
        leader_epochs=tuple(EpochStart(*entry) for entry in kept),
        transaction_index_empty=not segment.transaction_index.entries,
    )


def files_of(filesystem: Filesystem, log: Log, segment: Segment) -> SegmentFiles:
    following = log.segments.higher(segment.base_offset)
    assert following is not None
    snapshot = f"{log.directory}/{file_name(following.base_offset, SNAPSHOT_SUFFIX)}"
    epochs = f"{log.directory}/{LEADER_EPOCHS}"
    return SegmentFiles(
        filesystem,
        log=segment.path,
        offset_index=segment.offset_index.path,
        time_index=segment.time_index.path,
        transaction_index=(
            segment.transaction_index.path if segment.transaction_index.entries else None
        ),
        producer_snapshot=snapshot if filesystem.exists(snapshot) else None,
        leader_epochs=filesystem.read(epochs) if filesystem.exists(epochs) else b"0\n0\n",
    )


def tier(
    log: Log, filesystem: Filesystem, store: RemoteStore, *, chunk_size: int = CHUNK
) -> list[RemoteLogSegment]:
    """Copy all closed segments."""
    log.flush(logs.NOW)
    copied = []
    for number, segment in enumerate(log.segments):
        if segment is not log.segments.active:
            described = describe(log, segment, number + 1000)
            upload(store, described, files_of(filesystem, log, segment), chunk_size=chunk_size)
            copied.append(described)
    return copied


class Tier(NamedTuple):
    """A log, its remote segments, and all it takes to read them."""

    filesystem: MemoryFilesystem
    log: Log
    store: MemoryStore
    segments: list[RemoteLogSegment]
    manifests: Manifests
    indexes: IndexCache
    reader: RemoteReader
    clock: ManualClock

    def again(self) -> "Tier":
        """With nothing in memory, as after a restart."""
        return reading(self.filesystem, self.log, self.store, self.segments, self.clock)


def reading(
    filesystem: MemoryFilesystem,
    log: Log,
    store: MemoryStore,
    segments: list[RemoteLogSegment],
    clock: ManualClock,
) -> Tier:
    manifests = Manifests(store)
    indexes = IndexCache(
        filesystem, logs.ROOT, store, manifests, clock=clock, size_max=1 << 30, ttl_ms=NO_TTL
    )
    indexes.start()
    reader = RemoteReader(manifests, indexes, Windows(store))
    return Tier(filesystem, log, store, segments, manifests, indexes, reader, clock)


def tiered(fill: Callable[[Log], None], **settings: object) -> Tier:
    """A log that was filled, rolled and copied."""
    filesystem = logs.filesystem()
    log = logs.open_log(filesystem, logs.settings(**settings))
    fill(log)
    log.roll(logs.NOW)
    store = MemoryStore(filesystem)
    segments = tier(log, filesystem, store)
    return reading(filesystem, log, store, segments, ManualClock())


def fill(log: Log, *, batches: int = 60, value: bytes = b"v" * 200) -> None:
    """Batches of one to three records, a millisecond apart, some under another leader."""
    for number in range(batches):
        values = [value + str(number).encode()] * (1 + number % 3)
        logs.append(log, *values, epoch=number // 20, timestamp=logs.NOW + number)

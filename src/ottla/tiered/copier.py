"""Copies of closed segments: made, listed, removed, and brought back.

Rules:

1. The manifest is put last and removed first: where there is one, all objects are whole. Whatever
   fails or crashes in between leaves objects without a manifest, which :func:`list_segments` shows
   and :func:`remove` cleans up. Both may be repeated.
2. Nothing damaged is copied: every batch is checked before, and the sizes in the store after.

All of it blocks. Trouble with the store is a RemoteStoreError, with local files an OSError; local
files that are damaged are a CorruptMessage.
"""

from collections.abc import Iterator
from typing import NamedTuple

from ottla.common.checksum import crc32c
from ottla.common.errors import CorruptMessage
from ottla.storage.checkpoints import LEADER_EPOCHS
from ottla.storage.files import Filesystem
from ottla.storage.segment import (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    file_name,
)
from ottla.tiered.batches import check_batches
from ottla.tiered.layout import (
    DATA_SUFFIXES,
    LEADER_EPOCHS_SUFFIX,
    MANIFEST_SUFFIX,
    SegmentName,
    object_key,
    parse_key,
    partition_prefix,
    segment_prefix,
)
from ottla.tiered.manifest import (
    CHUNK_SIZE,
    Manifest,
    ObjectSum,
    checksums,
    encode_manifest,
)
from ottla.tiered.manifests import read_manifest
from ottla.tiered.segments import RemoteLogSegment, TopicIdPartition
from ottla.tiered.store import Progress, RemoteStore, RemoteStoreError, unhindered


class SegmentFiles(NamedTuple):
    """Where the files of a closed segment lie, and its leader epochs as a checkpoint has them."""

    filesystem: Filesystem
    log: str
    offset_index: str
    time_index: str
    transaction_index: str | None
    producer_snapshot: str | None
    """As it was at the end of the segment."""
    leader_epochs: bytes

    def paths(self) -> dict[str, str]:
        """By suffix; not of what is not there."""
        found = {
            LOG_SUFFIX: self.log,
            OFFSET_INDEX_SUFFIX: self.offset_index,
            TIME_INDEX_SUFFIX: self.time_index,
            TRANSACTION_INDEX_SUFFIX: self.transaction_index,
            SNAPSHOT_SUFFIX: self.producer_snapshot,
        }
        return {suffix: path for suffix, path in found.items() if path is not None}


class StoredSegment(NamedTuple):
    """What the store has of a segment."""

    partition: TopicIdPartition
    start_offset: int
    segment_id: bytes
    sizes: dict[str, int]
    """Of its objects, by suffix."""

    @property
    def is_whole(self) -> bool:
        return MANIFEST_SUFFIX in self.sizes


def upload(
    store: RemoteStore,
    segment: RemoteLogSegment,
    files: SegmentFiles,
    progress: Progress = unhindered,
    *,
    chunk_size: int = CHUNK_SIZE,
) -> None:
    """Copy a segment; ``progress`` is told of its bytes and may slow it down or cancel it."""
    _check_batches(segment, files)
    paths = files.paths()
    objects = {suffix: _sum(files.filesystem, path, chunk_size) for suffix, path in paths.items()}
    objects[LEADER_EPOCHS_SUFFIX] = ObjectSum(
        len(files.leader_epochs), checksums(files.leader_epochs, chunk_size)
    )
    for suffix in DATA_SUFFIXES:
        key = object_key(segment, suffix)
        if suffix in paths:
            store.put_file(key, paths[suffix], objects[suffix].size, progress)
        elif suffix == LEADER_EPOCHS_SUFFIX:
            store.put(key, files.leader_epochs)
    _check_sizes(store, segment, objects)
    manifest = encode_manifest(Manifest(segment, chunk_size, objects))
    store.put(object_key(segment, MANIFEST_SUFFIX), manifest)


def _check_batches(segment: RemoteLogSegment, files: SegmentFiles) -> None:
    """The file has the batches that the segment is said to have, and all of them are sound."""
    file = files.filesystem.open(files.log)
    try:
        size = file.size()
        if size != segment.size_in_bytes or size == 0:
            raise CorruptMessage(f"{files.log} has {size} bytes and not {segment.size_in_bytes}")
        position, offset, piece = 0, segment.start_offset, CHUNK_SIZE
        while position < size:
            data = file.read_at(position, piece)
            end, offset = check_batches(data, offset, segment.end_offset)
            position += end
            if end == 0 and piece >= size - position:
                raise CorruptMessage(f"{files.log} is cut within a batch at position {position}")
            # A batch that is larger than a piece is tried again with a larger one.
            piece = CHUNK_SIZE if end else 2 * piece
    finally:
        file.close()


def _sum(filesystem: Filesystem, path: str, chunk_size: int) -> ObjectSum:
    file = filesystem.open(path)
    try:
        size = file.size()
        starts = range(0, size, chunk_size)
        return ObjectSum(size, tuple(crc32c(file.read_at(start, chunk_size)) for start in starts))
    finally:
        file.close()


def _check_sizes(
    store: RemoteStore, segment: RemoteLogSegment, objects: dict[str, ObjectSum]
) -> None:
    stored = {each.key: each.size for each in store.list(segment_prefix(segment))}
    for suffix, each in objects.items():
        key = object_key(segment, suffix)
        if stored.get(key) != each.size:
            raise RemoteStoreError(f"{key} has {stored.get(key)} bytes and not {each.size}")


def remove(store: RemoteStore, segment: SegmentName) -> None:
    """Remove all that there may be of a segment."""
    for suffix in (MANIFEST_SUFFIX, *DATA_SUFFIXES):
        store.delete(object_key(segment, suffix))


def list_segments(store: RemoteStore, partition: TopicIdPartition) -> Iterator[StoredSegment]:
    """What the store has of a partition, by start offset; keys of other people are passed over."""
    current: StoredSegment | None = None
    for key, size in store.list(partition_prefix(partition)):
        parsed = parse_key(key)
        if parsed is None:
            continue
        if current is None or current.segment_id != parsed.segment_id:
            if current is not None:
                yield current
            current = StoredSegment(partition, parsed.start_offset, parsed.segment_id, {})
        current.sizes[parsed.suffix] = size
    if current is not None:
        yield current


def download(
    store: RemoteStore,
    segment: SegmentName,
    filesystem: Filesystem,
    directory: str,
    progress: Progress = unhindered,
) -> Manifest:
    """Bring a segment back into ``directory``, under the names that Kafka gives its files.

    ``progress`` is told of the bytes that have come.
    """
    manifest = read_manifest(store, segment)
    found = manifest.segment
    names = {suffix: file_name(found.start_offset, suffix) for suffix in DATA_SUFFIXES}
    names[SNAPSHOT_SUFFIX] = file_name(found.end_offset + 1, SNAPSHOT_SUFFIX)
    names[LEADER_EPOCHS_SUFFIX] = LEADER_EPOCHS
    filesystem.make_directory(directory)
    for suffix, known in manifest.objects.items():
        key = object_key(segment, suffix)
        path = f"{directory}/{names[suffix]}"
        filesystem.write(path, b"")
        file = filesystem.open(path)
        try:
            for number, start in enumerate(range(0, known.size, manifest.chunk_size)):
                data = store.get_range(key, start, min(manifest.chunk_size, known.size - start))
                if not manifest.verify_chunk(suffix, number, data):
                    raise CorruptMessage(f"{key} is damaged at position {start} or behind")
                file.write_at(start, data)
                progress(len(data))
            file.sync()
        finally:
            file.close()
    filesystem.sync_directory(directory)
    return manifest

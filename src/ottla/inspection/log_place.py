"""A log, by its partition and the directory that has its local files; nothing is changed.

What the checkpoints of the log directory say of it is read along; one that is damaged says nothing.
"""

import posixpath
from collections.abc import Mapping
from typing import NamedTuple

from ottla.common.topic_partition import TopicPartition
from ottla.inspection.read_only import FILES
from ottla.inspection.segment import SegmentFiles
from ottla.storage.checkpoints import (
    CLEANER_OFFSETS,
    LEADER_EPOCHS,
    LOG_START_OFFSETS,
    PARTITION_METADATA,
    CorruptCheckpoint,
    decode_partition_metadata,
    read_epochs,
    read_offsets,
)
from ottla.storage.directories import DirectoryKind, parse_directory_name
from ottla.storage.leader_epochs import EpochEntry
from ottla.storage.segment import LOG_SUFFIX, offset_of_file
from ottla.tiered.segments import TopicIdPartition


class Place(NamedTuple):
    """None stands for what is not known."""

    topic: str
    partition: int | None
    """None for a directory that is not called like a partition."""
    directory: str | None = None
    topic_id: bytes | None = None
    start_offset: int | None = None
    local_start_offset: int | None = None
    end_offset: int | None = None
    clean_offset: int | None = None
    """Up to where the cleaner has been."""
    compacted: bool | None = None
    local_size: int | None = None
    live: bool = False
    """Whether a broker is at work on it."""

    @property
    def name(self) -> str:
        return self.topic if self.partition is None else f"{self.topic}-{self.partition}"

    @property
    def id_partition(self) -> TopicIdPartition | None:
        if self.topic_id is None or self.partition is None:
            return None
        return TopicIdPartition(self.topic_id, self.topic, self.partition)

    def segments(self) -> list[SegmentFiles]:
        """Those on this disk, in order."""
        if self.directory is None:
            return []
        names = FILES.list_directory(self.directory)
        offsets = [offset_of_file(name) for name in names if name.endswith(LOG_SUFFIX)]
        return [
            SegmentFiles.local(self.directory, offset) for offset in offsets if offset is not None
        ]

    def epochs(self) -> list[EpochEntry]:
        """As the checkpoint has them; none when it is damaged or not there."""
        try:
            return read_epochs(FILES, f"{self.directory}/{LEADER_EPOCHS}")
        except (OSError, CorruptCheckpoint):
            return []


def has_segments(directory: str) -> bool:
    return any(name.endswith(LOG_SUFFIX) for name in FILES.list_directory(directory))


class Checkpoints:
    """Those of log directories, each read once: they tell of all partitions there."""

    def __init__(self) -> None:
        self._read: dict[str, Mapping[TopicPartition, int]] = {}

    def offset(self, log_dir: str, name: str, partition: TopicPartition) -> int | None:
        path = f"{log_dir}/{name}"
        offsets = self._read.get(path)
        if offsets is None:
            offsets = self._read[path] = _checkpoint(path)
        return offsets.get(partition)


def place_of(directory: str, checkpoints: Checkpoints | None = None) -> Place:
    """What a directory of a partition, and the log directory around it, tell of a log.

    A caller that asks for many gives the same ``checkpoints`` for all of them.
    """
    checkpoints = checkpoints or Checkpoints()
    directory = posixpath.normpath(directory)
    name = posixpath.basename(posixpath.abspath(directory))
    parsed = parse_directory_name(name)
    if parsed is None:
        return Place(name, None, directory)
    topic, partition = found = parsed.topic_partition
    above = posixpath.dirname(posixpath.abspath(directory))
    return Place(
        topic,
        partition,
        directory,
        topic_id=_topic_id(directory),
        start_offset=checkpoints.offset(above, LOG_START_OFFSETS, found),
        clean_offset=checkpoints.offset(above, CLEANER_OFFSETS, found),
    )


def _topic_id(directory: str) -> bytes | None:
    try:
        return decode_partition_metadata(FILES.read(f"{directory}/{PARTITION_METADATA}"))
    except (OSError, CorruptCheckpoint):
        return None


def _checkpoint(path: str) -> Mapping[TopicPartition, int]:
    try:
        return read_offsets(FILES, path)
    except (OSError, CorruptCheckpoint):
        return {}


def places_below(log_dir: str) -> list[Place]:
    """The current logs of a log directory."""
    found = []
    checkpoints = Checkpoints()
    for name in FILES.list_directory(log_dir):
        parsed = parse_directory_name(name)
        path = posixpath.join(log_dir, name)
        if parsed is not None and parsed.kind is DirectoryKind.CURRENT and FILES.is_directory(path):
            found.append(place_of(path, checkpoints))
    return sorted(found, key=lambda place: (place.topic, place.partition))
